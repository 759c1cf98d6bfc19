"""The what-if form: pools, requests, limits, policies. It says what is missing before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.components import fleet_jobs, links, shapes
from app.components.access import read
from app.components.format import count, duration, literal
from app.reads import fleet as reads
from warehouse.clock import iso, utcnow

Row = Mapping[str, Any]
MOST_POOLS = 4
QUESTIONS = {
    "compare": "Which policy",
    "sensitivity": "How sure is the ranking",
    "size": "How many instances",
    "flex": "What a power cap does",
}
_ABOUT = {
    "compare": "Policies on the same requests, seed by seed: energy and service together. One policy alone is "
    "simulated by itself.",
    "sensitivity": "Whether the order of the two best survives what the power models may be wrong by.",
    "size": "The fewest instances of each pool that keep the SLO, in closed form and simulated. Numbers of instances "
    "below are not used.",
    "flex": "Power given back by a cap on concurrency, and what it does to latency and joules per request.",
}
OPERATIONS = ("fleet.simulate", "fleet.compare", "fleet.sensitivity", "fleet.size", "fleet.flex")
_FIXED = "lengths"
_NEEDS = {
    "chunk_tokens": "prompt tokens of one iteration (chunk)",
    "kv_blocks": "KV blocks of an instance",
    "block_tokens": "tokens of a KV block",
    "max_slots": "requests at once, at most",
    "W_ms": "ms of an iteration without requests (W)",
    "H_ms_per_seq": "ms more per request (H)",
    "calibration_ctx": "tokens of context that H holds for",
    "idle_loaded_w": "W of an idle, loaded instance",
}
_OF_THE_POOL = ("idle_loaded_w",)


def show() -> None:
    told, profiles = read(reads.workloads), {p["ask_for"]: p for p in read(reads.profiles)}
    question = links.segments("Question", list(QUESTIONS), "f-q", QUESTIONS.__getitem__)
    st.caption(_ABOUT[question])
    _pools(profiles, told["zones"])
    _requests(told)
    _asked(question, told)
    with st.expander("Telemetry, queues, seeds", key="f-more", type="compact"):
        _more(told)
    missing = _missing(profiles)
    running = fleet_jobs.busy()
    why = "Something runs already" if running else missing[0] if missing else _ABOUT[question]
    st.button(
        "Run", key="f-run", type="primary", disabled=running or bool(missing), help=why, on_click=_go, args=[question]
    )
    for each in missing:
        shapes.note(each, "warn")


# fields: what they hold outlives the visit of another page, which forgets its widgets ---------------


def _kept() -> dict[str, Any]:
    found: dict[str, Any] = st.session_state.setdefault("_what_if", {})
    return found


def _start(key: str, usual: Any) -> None:
    if key not in st.session_state:
        st.session_state[key] = _kept().get(key, usual)


def _number(label: str, key: str, usual: float | None, low: float, high: float | None = None, **more: Any) -> None:
    _start(key, usual)
    _kept()[key] = st.number_input(label, min_value=low, max_value=high, value=None, key=key, **more)


def _text(label: str, key: str, usual: str, **more: Any) -> None:
    _start(key, usual)
    _kept()[key] = st.text_input(label, key=key, **more)


def _select(label: str, key: str, options: Sequence[str], usual: str, word: Any = str, **more: Any) -> str:
    _start(key, usual)
    if st.session_state[key] not in options:
        st.session_state[key] = usual
    _kept()[key] = chosen = str(st.selectbox(label, options, key=key, format_func=word, **more))
    return chosen


def _many(label: str, key: str, options: Sequence[str], usual: Sequence[str], **more: Any) -> None:
    _start(key, list(usual))
    _kept()[key] = st.multiselect(label, options, key=key, format_func=spoken, **more)


def values() -> dict[str, Any]:
    """What the form says now: a click may arrive together with the last change of a field."""
    kept = _kept()
    return {key: st.session_state.get(key, value) for key, value in kept.items()}


def spoken(policy: str) -> str:
    return policy.replace("_", " ")


# parts ----------------------------------------------------------------------------------------------


def _pools(profiles: Mapping[str, Row], zones: Sequence[Row]) -> None:
    names = list(profiles)
    known = ["", *dict.fromkeys(str(z["zone"]) for z in zones)]
    for k in range(pools_asked(values())):
        row = st.columns([3, 1, 1.4, 1.4], vertical_alignment="bottom")
        label = "visible" if k == 0 else "collapsed"
        with row[0]:
            usual = names[min(k, 1)]
            name = _select(
                "Profile of the pool", f"fw-profile-{k}", names, usual, lambda i: _profile_word(profiles[i]),
                label_visibility=label,
            )  # fmt: skip
        with row[1]:
            _number("Instances", f"fw-instances-{k}", 2 if k else 4, 1, 100_000, label_visibility=label)
        with row[2]:
            _select(
                "Grid zone, for grams", f"fw-zone-{k}", known, "", lambda z: z or "none", label_visibility=label,
                disabled=len(known) == 1,
                help="No grid intensity is known; import grid-factors, or switch on a carbon source"
                if len(known) == 1 else "Grams need the grid intensity of the pool's zone",
            )  # fmt: skip
        with row[3]:
            if k == 0:
                _number("Pools", "fw-pools", 2, 1, MOST_POOLS)
            else:
                model = profiles[name]["logical_model"] or "any model"
                st.caption(literal(f"{profiles[name]['hardware_count']} boards each, {model}"))
        for need in profiles[name]["missing"]:
            _number(
                f"{_NEEDS.get(need, need)} of {profiles[name]['name']}", f"fw-need-{k}-{need}", None, 0.0,
                help="The calibration does not tell it; what you declare is stored with the run",
            )  # fmt: skip


def pools_asked(told: Mapping[str, Any]) -> int:
    return int(told.get("fw-pools") or 2)


def _profile_word(profile: Row) -> str:
    low = ", LOW" if reads.quality_of(profile) == "LOW" else ""
    return f"{profile['name']} · {profile['hardware_count']} boards · {profile['evidence_class']}{low}"


def _requests(told: Row) -> None:
    sources = [*(f"trace:{t['trace']}" for t in told["traces"]), *(f"cdf:{c['cdf']}" for c in told["cdfs"]), _FIXED]
    words = {_FIXED: "one prompt and output length, Poisson arrivals", **_source_words(told)}
    row = st.columns([3, 1.2, 1.2, 1.2], vertical_alignment="bottom")
    with row[0]:
        chosen = _select("Requests", "fw-source", sources, sources[0], words.__getitem__)
    with row[1]:
        if chosen.startswith("trace:"):
            _number("Requests/s", "fw-rate-trace", None, 0.001, format="%.4g", placeholder="as recorded")
        else:
            _number("Requests/s", "fw-rate", 5.0, 0.001, format="%.4g")
    with row[2]:
        _number("How many", "fw-n", 2000, 1, 1_000_000, help="Requests of each seed")
    with row[3]:
        _text("Loads, times the rate", "fw-loads", "1", help="Several by commas: 0.5, 1, 1.5")
    if chosen == _FIXED:
        row = st.columns([1, 1, 4])
        with row[0]:
            _number("Prompt tokens", "fw-prompt", 1000, 1, 1_000_000)
        with row[1]:
            _number("Output tokens", "fw-output", 250, 1, 1_000_000)
    if len(sources) == 1:
        shapes.note(
            "No trace is there yet: import one (request-trace, azure-trace, mooncake-trace, length-cdf), or load the "
            "sample. Until then every request has one length."
        )


def _source_words(told: Row) -> dict[str, str]:
    cdfs = {f"cdf:{c['cdf']}": f"lengths of {c['cdf']}, Poisson arrivals" for c in told["cdfs"]}
    return cdfs | {
        f"trace:{t['trace']}": f"trace {t['trace']}, {count(t['requests'])} requests over "
        f"{duration(t['duration_s'])}, loaded {str(t['newest_at'])[:10]}"
        for t in told["traces"]
    }


def _asked(question: str, told: Row) -> None:
    row = st.columns([3, 1.2, 1.2, 1.2], vertical_alignment="bottom")
    with row[0]:
        if question in ("compare", "sensitivity"):
            _many("Policies, the baseline first", "fw-policies", told["policies"], told["default_policies"])
        else:
            only = "Sizing takes least loaded" if question == "size" else None
            _select("Policy", "fw-policy", told["policies"], "least_loaded", spoken, disabled=bool(only), help=only)
    with row[1]:
        _number("TTFT at most, s", "fw-ttft", 0.5, 0.001, format="%.4g")
    with row[2]:
        _number("Kept for, %", "fw-target", 99.0, 1.0, 100.0, help="Share of the offered requests")
    with row[3]:
        _text(
            "Power given back, %", _caps_key(question), "0, 10, 20, 30" if question == "flex" else "0",
            disabled=question in ("sensitivity", "size"),
            help="A cap on power, kept by a cap on concurrency; several by commas",
        )  # fmt: skip


def _caps_key(question: str) -> str:
    return "fw-levels" if question == "flex" else "fw-caps"


def _more(told: Row) -> None:
    row = st.columns(4)
    with row[0]:
        _number("Telemetry every, s", "fw-tele", 0.0, 0.0, help="0: the balancer sees the truth")
        _number("Queue per instance", "fw-queue", None, 0, placeholder="no limit")
    with row[1]:
        _number("Telemetry valid for, s", "fw-ttl", 5.0, 0.001)
        _number("Wait at most, s", "fw-wait", None, 0.0, placeholder="no limit")
    with row[2]:
        _number("Reports lost, %", "fw-lost", 0.0, 0.0, 100.0)
        _number("Context, tokens", "fw-context", 8192, 1)
    with row[3]:
        _select(
            "Fallback", "fw-fallback", told["oblivious_policies"], "least_loaded", spoken,
            help="The policy where telemetry is stale or missing; every use is counted",
        )  # fmt: skip
        _number("Seeds", "fw-seeds", 5, 1, 30, help="Intervals are over seeds; one seed has none")


def _missing(profiles: Mapping[str, Row]) -> list[str]:
    """What nobody has told yet, one sentence per pool."""
    told, found = values(), []
    for k in range(pools_asked(told)):
        profile = profiles[told[f"fw-profile-{k}"]]
        lacks = [_NEEDS.get(n, n) for n in profile["missing"] if not told.get(f"fw-need-{k}-{n}")]
        if lacks:
            found.append(f"{profile['name']} does not tell {', '.join(lacks)}: declare it above, or take another one.")
    empty = [words for key, words in _NEVER_EMPTY.items() if key in told and told[key] is None]
    return [*found, *(f"{words} is empty." for words in empty)]


_NEVER_EMPTY = {
    "fw-n": "How many requests", "fw-ttft": "The limit of TTFT", "fw-target": "The share to be kept",
    "fw-rate": "The rate", "fw-prompt": "The prompt length", "fw-output": "The output length", "fw-seeds": "Seeds",
    "fw-ttl": "How long telemetry is valid", "fw-tele": "How often telemetry comes",
    "fw-lost": "The share of lost reports",
}  # fmt: skip


# what the form says as parameters of an operation --------------------------------------------------


def _go(question: str) -> None:
    st.session_state.pop("_fleet_said", None)
    try:
        operation, params = asked(values(), question, read(reads.profiles), read(reads.workloads))
    except ValueError as error:
        st.session_state["_fleet_said"] = str(error)
        return
    fleet_jobs.start(operation, params, QUESTIONS[question])


def said() -> None:
    """What the last click could not read."""
    if words := st.session_state.get("_fleet_said"):
        shapes.problem(words, look="warn")


def asked(state: Mapping[str, Any], question: str, profiles: Sequence[Row], told: Row) -> tuple[str, dict[str, Any]]:
    """(operation, its parameters). Raises ValueError in words for lists that are no numbers."""
    loads = numbers(state.get("fw-loads", "1"), "Loads are factors on the rate above 0", 1e-6, 1e6)
    caps = [c / 100 for c in numbers(state.get(_caps_key(question), "0"), "Caps are percents from 0 to 99", 0, 99)]
    scenario = _scenario(state, {p["ask_for"]: p for p in profiles}, told)
    if question == "flex":
        scenario["balancer"]["policy"] = state["fw-policy"]
        return "fleet.flex", {"scenario": _at(scenario, loads), "levels": caps}
    if question == "size":
        return "fleet.size", {"scenario": _at(scenario, loads)}
    policies = list(state.get("fw-policies") or [])
    if question == "sensitivity":
        return "fleet.sensitivity", {"scenario": _at(scenario, loads), "policies": policies}
    if len(policies) == 1 and caps == [0.0]:
        scenario["balancer"]["policy"] = policies[0]
        return "fleet.simulate", {"scenario": _at(scenario, loads)}
    if len(policies) == 1:  # a cap is a comparison: something must stand beside it
        policies = ["random" if policies == ["round_robin"] else "round_robin", *policies]
    return "fleet.compare", {"scenario": scenario, "policies": policies, "loads": loads, "caps": caps}


def numbers(text: str, rule: str, low: float, high: float) -> list[float]:
    """`0.5, 1; 2` as numbers."""
    try:
        found = [float(part) for part in str(text).replace(";", ",").replace("%", "").split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{rule}, by commas; told is {text!r}.") from None
    if not found or any(not low <= v <= high for v in found):
        raise ValueError(f"{rule}, by commas; told is {text!r}.")
    return list(dict.fromkeys(found))


def _at(scenario: dict[str, Any], loads: Sequence[float]) -> dict[str, Any]:
    if len(loads) > 1:
        raise ValueError("This question takes one load; several are for comparing policies.")
    return scenario | {"workload": scenario["workload"] | ({"scale": loads[0]} if loads[0] != 1 else {})}


def _scenario(state: Mapping[str, Any], profiles: Mapping[str, Row], told: Row) -> dict[str, Any]:
    pools = _pools_asked(state, profiles)
    found: dict[str, Any] = {
        "pools": pools,
        "workload": _workload(state),
        "slo": {"ttft_s": state["fw-ttft"]},
        "slo_target": state["fw-target"] / 100,
        "balancer": {"fallback": state.get("fw-fallback", "least_loaded")},
        "telemetry": {"interval_s": state.get("fw-tele", 0.0), "ttl_s": state.get("fw-ttl", 5.0),
                      "dropout": state.get("fw-lost", 0.0) / 100},
        "seeds": list(range(int(state.get("fw-seeds", 5)))),
    }  # fmt: skip
    zones = [p["zone"] for p in pools if "zone" in p]
    if zones:
        row = next(z for z in told["zones"] if z["zone"] == zones[0])
        hour = utcnow().replace(minute=0, second=0, microsecond=0)
        found["intensity"] = {"at": iso(hour), "signal": row["signal"], "basis": row["basis"]}
    return found


def _pools_asked(state: Mapping[str, Any], profiles: Mapping[str, Row]) -> list[dict[str, Any]]:
    every = {"context_tokens": state.get("fw-context"), "queue_limit": state.get("fw-queue"),
             "max_wait_s": state.get("fw-wait")}  # fmt: skip
    pools, names = [], []
    for k in range(pools_asked(state)):
        profile = profiles[state[f"fw-profile-{k}"]]
        names.append(str(profile["name"]))
        pool = {
            "name": profile["name"] if names.count(names[-1]) == 1 else f"{profile['name']} {names.count(names[-1])}",
            "profile": profile["ask_for"],
            "instances": int(state[f"fw-instances-{k}"]),
        } | {n: v for n, v in every.items() if v is not None}
        needs = {n: state.get(f"fw-need-{k}-{n}") for n in profile["missing"]}
        pool |= {n: v for n, v in needs.items() if n in _OF_THE_POOL and v}
        declared = {n: _whole(n, v) for n, v in needs.items() if n not in _OF_THE_POOL and v}
        if declared:
            pool["declared"] = declared
        if state.get(f"fw-zone-{k}"):
            pool["zone"] = state[f"fw-zone-{k}"]
        pools.append(pool)
    return pools


def _whole(name: str, value: float) -> float | int:
    return value if name.startswith(("W_", "H_")) else int(value)


def _workload(state: Mapping[str, Any]) -> dict[str, Any]:
    source, n = str(state["fw-source"]), int(state["fw-n"])
    kind, _, name = source.partition(":")
    if kind == "trace":
        rate = state.get("fw-rate-trace")
        return {"trace": name, "requests": n} | ({"requests_per_s": rate} if rate else {})
    rate = {"requests_per_s": state["fw-rate"], "requests": n}
    if kind == "cdf":
        return {"cdf": name, **rate}
    return {"prompt_tokens": int(state["fw-prompt"]), "output_tokens": int(state["fw-output"]), **rate}
