"""One condition of a replay run as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app import cli_print as out

_MARKS = out.MARKS
_TRIVIAL = ("fixed", "hull", "random")


def block(told: Mapping[str, Any]) -> None:
    """Figures first, then what they mean, then the rest."""
    out.line("")
    out.line(f"{told['words']}: {told['n_train']} queries to learn from, {told['n_test']} held out ({told['split']})")
    energy, method = told["evidence_class"], told["energy_method"]
    out.line(f"joules {_MARKS[energy]} {energy or 'unknown'}{f': {method}' if method else ''}")
    condition = told["condition"]
    if condition["intensity_g_per_kwh"] is not None:
        cls = told["carbon_evidence_class"]
        out.line(
            f"grid {condition['zone']} at {condition['at']}: {condition['intensity_g_per_kwh']:g} g/kWh; "
            f"grams {_MARKS[cls]} {cls}"
        )
    for note in told["notes"]:
        out.line(f"△ {note}")
    _figures(told)
    for sentence in told["statements"]:
        out.line(sentence)
    _comparisons(told, "best_fixed_arm", told["best_fixed_arm"])
    if told["incumbent"] not in (None, told["best_fixed_arm"]):
        _comparisons(told, "incumbent", told["incumbent"])
    _curves(told)
    _accounts(told)
    _mix(told)
    _benchmarks(told)
    _absent(told)
    out.line(
        f"choices {told['choices_sha256'][:16]}… (taken before outcomes were joined), data "
        f"{told['dataset_sha256'][:16]}…, code {told['code_sha256'][:16]}…, seed {told['seed']}"
    )


def _figures(told: Mapping[str, Any]) -> None:
    grams = any(p["figures"]["gco2_per_query"] is not None for p in told["policies"])
    reward = f"reward λ={told['reward_weights']['energy']:g}"
    heads = ["policy", "", "accuracy", "95 %", "J/query", "95 %", "J/correct", "W calls", "W J/s", "s", "P95 s", "USD",
             *(["gCO2"] if grams else []), reward, "entropy"]  # fmt: skip
    rows = []
    for p in sorted(told["policies"], key=_by_energy):
        f, i = p["figures"], p["intervals"]
        rows.append(
            [p["name"], _standing(p), _fixed(f["accuracy"], 3), _span(i["accuracy"], 3),
             _marked(f["energy_j_per_query"], f["evidence_class"]), _span(i["energy_j_per_query"], 1),
             f["energy_j_per_correct"], f["power_w_per_call"], f["energy_over_time_w"], f["latency_mean_s"],
             f["latency_p95_s"], f["usd_per_query"],
             *([_marked(f["gco2_per_query"], f["carbon_evidence_class"])] if grams else []),
             f["reward"], _entropy(f)]
        )  # fmt: skip
    out.grid(heads, rows)


def _standing(policy: Mapping[str, Any]) -> str:
    if not policy["deployable"]:
        return "bound"
    return "front" if policy["on_front"] else ""


def _comparisons(told: Mapping[str, Any], key: str, name: str | None) -> None:
    rows = [
        [p["name"], p["against"][key]["comparator"], *_compared(p["against"][key]),
         _points(p["domination"]["margin_over_hull"])]
        for p in sorted(told["policies"], key=_by_energy)
        if p["against"][key] is not None
    ]  # fmt: skip
    if rows:
        out.line("")
        out.line(f"against {name} on the same queries, and above the mixing hull of the fixed arms:")
        heads = ["policy", "against", "accuracy, points", "Tango", "J ratio", "J/correct ratio", "over hull, points"]
        out.grid(heads, rows)


def _compared(told: Mapping[str, Any]) -> list[str]:
    tango = told["accuracy_difference_tango"]
    return [
        _points(told["accuracy_difference"]),
        "—" if tango is None else f"[{100 * tango[0]:.1f}, {100 * tango[1]:.1f}]",
        _ratio(told["energy_ratio"]),
        _ratio(told["energy_per_correct_ratio"]),
    ]


def _curves(told: Mapping[str, Any]) -> None:
    if not told["curves"]:
        return
    out.line("")
    out.grid(
        ["curve", "points", "AIQ", "arms' AIQ", "area", "area, half", "QNC", "APGR", "CPT .5"],
        [
            [name, c["points"], c["aiq"], c["aiq_fixed_arms"], c["deferral_area"], c["deferral_area_half"], c["qnc"],
             c.get("apgr"), (c.get("cpt") or {}).get("0.5")]
            for name, c in told["curves"].items()
        ],
    )  # fmt: skip


def _accounts(told: Mapping[str, Any]) -> None:
    rows = []
    for p in told["policies"]:
        router, predicted = p["router"], p["energy_predicted"] or {}
        if p["family"] in _TRIVIAL or (router["latency_s"] is None and not predicted):
            continue
        training = router["training"] or {}
        rows.append(
            [p["name"], None if router["latency_s"] is None else 1000 * router["latency_s"], router["energy_j"],
             training.get("seconds"), training.get("energy_j"), router["break_even_queries"],
             predicted.get("per_query_j"), predicted.get("per_model_j"), predicted.get("actual_j")]
        )  # fmt: skip
    if rows:
        out.line("")
        out.line("the router's own account, and joules per query as predicted per query, per model, and as they were:")
        out.grid(
            ["policy", "ms/query", "own J ○", "training s", "training J ○", "break-even", "J per query", "J per model",
             "J actual"],
            rows,
        )  # fmt: skip
        if told["router_power_w"] is None:
            out.line("own joules are unknown: declare the routing machine with --router-power-w")


def _mix(told: Mapping[str, Any]) -> None:
    routed = [p for p in told["policies"] if p["fixed_arm"] is None]
    if not routed:
        return
    out.line("")
    arms = [a["name"] for a in told["arms"]]
    out.grid(
        ["selection", *arms],
        [[p["name"], *(_share(p["figures"]["mix"].get(a)) for a in arms)] for p in routed],
    )


def _benchmarks(told: Mapping[str, Any]) -> None:
    names = sorted({b for p in told["policies"] for b in p["by_benchmark"]})
    if len(names) < 2:
        return
    out.line("")
    heads = ["accuracy · J/query", *(n or "(none)" for n in names)]
    out.grid(
        heads,
        [
            [p["name"], *(_pair(p["by_benchmark"].get(b)) for b in names)]
            for p in sorted(told["policies"], key=_by_energy)
        ],
    )


def _absent(told: Mapping[str, Any]) -> None:
    """Who did not run, one line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for absent in told["absent"]:
        reason = absent["reason"].removeprefix(absent["policy"]).lstrip(": ")
        by_reason.setdefault(reason, []).append(absent["policy"])
    for reason, names in by_reason.items():
        out.line(f"– did not run: {', '.join(names)}: {reason}")


def _pair(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "—"
    return f"{_fixed(figures['accuracy'], 3)} · {_fixed(figures['energy_j_per_query'], 1)}"


def _by_energy(policy: Mapping[str, Any]) -> tuple[bool, float, str]:
    joules = policy["figures"]["energy_j_per_query"]
    return joules is None, joules or 0.0, policy["name"]


def _fixed(value: float | None, digits: int) -> str:
    return "—" if value is None else f"{value:.{digits}f}"


def _marked(value: float | None, cls: str | None) -> str:
    return "—" if value is None else f"{value:.4g} {_MARKS[cls]}"


def _span(bounds: Sequence[float | None], digits: int) -> str:
    return "—" if bounds[0] is None else f"{bounds[0]:.{digits}f}–{bounds[1]:.{digits}f}"


def _points(told: Mapping[str, float | None]) -> str:
    """A difference of accuracies in points, with its interval."""
    if told["estimate"] is None:
        return "—"
    if told["low"] is None or told["high"] is None:
        return f"{100 * told['estimate']:+.1f}"
    return f"{100 * told['estimate']:+.1f} [{100 * told['low']:.1f}, {100 * told['high']:.1f}]"


def _ratio(told: Mapping[str, float | None]) -> str:
    if told["estimate"] is None:
        return "—"
    span = "" if told["low"] is None or told["high"] is None else f" [{told['low']:.3g}, {told['high']:.3g}]"
    return f"{told['estimate']:.3g}{span}"


def _entropy(figures: Mapping[str, Any]) -> str:
    value = figures["entropy_normalised"]
    return ("—" if value is None else f"{abs(value):.2f}") + (" COLLAPSED" if figures["collapsed"] else "")


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
