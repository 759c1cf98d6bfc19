"""The card of the chosen policy: figures, what it chooses, by benchmark, against others, its own account, hashes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.format import MISSING, age, count, duration, interval, percent, points, quantity
from app.components.marks import evidence_html
from app.reads import replay as reads
from app.reads.intervals import wilson

_FIGURES = (  # key, words, unit, which class
    ("accuracy", "accuracy", "%", "answers"),
    ("energy_j_per_query", "energy per query", "J", "energy"),
    ("energy_j_per_correct", "energy per correct answer", "J", "energy"),
    ("latency_mean_s", "mean latency", "s", "latency"),
    ("latency_p95_s", "P95 latency", "s", "latency"),
    ("usd_per_query", "cost per query", "USD", "cost"),
    ("gco2_per_query", "gCO2 per query", "g", "carbon"),
    ("power_w_per_call", "power, mean of the calls", "W", "energy"),
    ("energy_over_time_w", "power, energy over time", "W", "energy"),
)


def show(told: reads.Report, policy: Mapping[str, Any], benchmark: str, at: datetime) -> None:
    """The card of `policy`; of one benchmark where `benchmark` names it."""
    figures = policy["by_benchmark"].get(benchmark) if benchmark else policy["figures"]
    shapes.show(_head(policy))
    if figures is None:
        shapes.note(f"No query of {benchmark} is held out.")
        return
    shapes.show(_figures(told, policy, figures, benchmark, at))
    shapes.show(_mix(told, figures))
    if not benchmark:
        shapes.show(_benchmarks(told, policy))
        for key, words in (("best_fixed_arm", "best fixed arm in training"), ("incumbent", "incumbent")):
            shapes.show(_against(policy["against"][key], words))
        shapes.show(_over_hull(policy))
    shapes.show(_account(told, policy))
    with st.expander("Notes, parameters and hashes", key="r-card-notes", type="compact"):
        shapes.show(_fine_print(told, policy))


def _head(policy: Mapping[str, Any]) -> str:
    fixed = policy["fixed_arm"] is not None
    told = [escape("fixed arm" if fixed else policy["family"])]
    if policy["parameters"].get("role"):
        told.append(escape(f"role {policy['parameters']['role']}"))
    if not policy["deployable"]:
        told.append('<span class="jb-chip warn"><i aria-hidden="true"></i>bound, not deployable</span>')
    elif policy["on_front"]:
        told.append('<span class="jb-chip ok"><i aria-hidden="true"></i>on the front</span>')
    elif policy["dominated_by"]:
        by = policy["dominated_by"]
        more = f" and {len(by) - 2} more" if len(by) > 2 else ""
        told.append(f'<span class="jb-muted">dominated by {escape(", ".join(by[:2]) + more)}</span>')
    note = f'<br><span class="jb-small jb-muted">{escape(policy["note"])}</span>' if policy["note"] else ""
    return " · ".join(told) + note


def _figures(
    told: reads.Report, policy: Mapping[str, Any], figures: Mapping[str, Any], benchmark: str, at: datetime
) -> str:
    rows = []
    for key, words, unit, of in _FIGURES:
        value = figures[key]
        if value is None and key not in ("accuracy", "energy_j_per_query", "energy_j_per_correct"):
            continue
        cls = reads.class_of(told, reads.Metric(unit, words, "", of)) if value is not None else None
        mark = f" {evidence_html(cls)}" if cls else ""
        text = percent(value) if unit == "%" else quantity(value, unit)
        rows.append((escape(words), f"{escape(text)}{mark}", escape(_span(policy, figures, key, unit, benchmark))))
    if figures["reward"] is not None:
        rows.append((escape(f"reward, {weights_words(told)}"), f"{figures['reward']:.3f}", ""))
    foot = f"n {count(figures['n'])}, computed {age(at)} ago"
    if figures["missing"]:
        foot += (
            f"; {figures['missing']:g} picked cells are not recorded: accuracy lies between "
            f"{percent(figures['accuracy_low'])} and {percent(figures['accuracy_high'])}"
        )
    if figures["handed_back"]:
        foot += f"; {figures['handed_back']:g} queries handed back"
    return (
        shapes.table_html(("figure", "value", "95 % interval"), rows, numeric=(1, 2))
        + f'<span class="jb-small jb-muted">{escape(foot)}</span>'
    )


def _span(policy: Mapping[str, Any], figures: Mapping[str, Any], key: str, unit: str, benchmark: str) -> str:
    if benchmark:
        if key != "accuracy" or figures["accuracy"] is None:
            return MISSING
        low, high = wilson(figures["accuracy"] * figures["n"], figures["n"]) or (None, None)
    else:
        low, high = policy["intervals"].get(key, (None, None))
    if low is None or high is None:
        return MISSING
    return interval(100 * low, 100 * high, "%") if unit == "%" else interval(low, high, unit)


def weights_words(told: reads.Report) -> str:
    """`λ 0.4`, and the weights of latency and power where they count."""
    w = told["reward_weights"]
    more = "".join(f", {w[k]:g} per {u}" for k, u in (("per_s", "s"), ("per_w", "W")) if w[k])
    return f"λ {w['energy']:g}{more}"


def _mix(told: reads.Report, figures: Mapping[str, Any]) -> str:
    """Shares of the queries per arm as bars, and how spread out they are."""
    mix = dict(figures["mix"])
    rest = {a["name"]: mix.get(a["name"], 0.0) for a in told["arms"]}
    rows = [
        (
            escape(arm),
            f'<span class="jb-share"><b style="width:{100 * share:.1f}%"></b></span>',
            percent(share) if share else '<span class="jb-muted">never</span>',
        )
        for arm, share in sorted(rest.items(), key=lambda item: (-item[1], item[0]))
    ]
    entropy = figures["entropy_normalised"]
    words = "" if entropy is None else f"entropy {abs(entropy):.2f} of ln K ({abs(figures['entropy_nats']):.2f} nat)"
    alarm = (
        '<span class="jb-chip bad"><i aria-hidden="true"></i>collapsed: it has all but stopped to choose</span>'
        if figures["collapsed"]
        else ""
    )
    return (
        f"<h4>What it chooses</h4>{shapes.table_html(('', '', ''), rows, numeric=(2,))}"
        f'<span class="jb-small jb-muted">{escape(words)}</span> {alarm}'
    )


def _benchmarks(told: reads.Report, policy: Mapping[str, Any]) -> str:
    names = sorted(policy["by_benchmark"])
    if len(names) < 2:
        return ""
    mark = evidence_html(told["evidence_class"]) if told["evidence_class"] else ""
    rows = []
    for name in names:
        f = policy["by_benchmark"][name]
        low, high = (wilson(f["accuracy"] * f["n"], f["n"]) or (None, None)) if f["accuracy"] is not None else (0, 0)
        top = max(f["mix"].items(), key=lambda item: float(item[1]), default=None)
        most = "" if top is None else f"mostly {top[0]}, {percent(top[1], decimals=0)}"
        rows.append(
            (
                f'{escape(name or "(none)")}<br><span class="jb-small jb-muted">{escape(most)}</span>',
                count(f["n"]),
                percent(f["accuracy"]),
                interval(100 * low, 100 * high, "%") if low is not None and high else MISSING,
                f"{escape(quantity(f['energy_j_per_query'], 'J'))} {mark}",
            )
        )
    heads = ("benchmark", "n", "accuracy", "95 % Wilson", "J/query")
    return f"<h4>By benchmark</h4>{shapes.table_html(heads, rows, numeric=(1, 2, 3, 4))}"


def _against(told: Mapping[str, Any] | None, words: str) -> str:
    if told is None:
        return ""
    rows = []
    for key, what in (("accuracy_difference", "accuracy"), ("energy_ratio", "joules"),
                      ("energy_per_correct_ratio", "J per correct")):  # fmt: skip
        each = told[key]
        value, low, high = each["estimate"], each["low"], each["high"]
        share = key == "accuracy_difference"
        if value is None:
            rows.append((what, MISSING, "", ""))
            continue
        zero = 0.0 if share else 1.0
        bar = "" if low is None or high is None else shapes.interval_bar_html(low, value, high, zero=zero)
        span = MISSING if low is None or high is None else _both(low, high, share)
        rows.append((what, _one(value, share), span, bar))
    tango = told["accuracy_difference_tango"]
    if tango is not None:
        rows.append(("accuracy, Tango", "", _both(tango[0], tango[1], share=True), ""))
    q = told["queries"]
    foot = told["method"]
    if q is not None:
        foot = (
            f"better on {count(q['better'])}, worse on {count(q['worse'])}, fewer joules on "
            f"{count(q['fewer_joules'])} of {count(told['n'])} queries; {foot}"
        )
    heads = ("difference", "", "95 % paired", "")
    return (
        f"<h4>Against {escape(told['comparator'])}, the {words}</h4>"
        f"{shapes.table_html(heads, rows, numeric=(1, 2))}"
        f'<span class="jb-small jb-muted">{escape(foot)}</span>'
    )


def _one(value: float, share: bool) -> str:
    return points(value) if share else percent(value - 1, signed=True)


def _both(low: float, high: float, share: bool) -> str:
    if share:
        return f"{points(low)[:-3]} to {points(high)}"
    return f"{percent(low - 1, signed=True)[:-2]} to {percent(high - 1, signed=True)}"


def _over_hull(policy: Mapping[str, Any]) -> str:
    if policy["fixed_arm"] is not None:
        return ""
    m = policy["domination"]["margin_over_hull"]
    if m["estimate"] is None:
        return ""
    span, bar = MISSING, ""
    if m["low"] is not None and m["high"] is not None:
        span = _both(m["low"], m["high"], share=True)
        bar = shapes.interval_bar_html(m["low"], m["estimate"], m["high"])
    row = ("accuracy", points(m["estimate"]), span, bar)
    return "<h4>Above the mixing hull at the same joules</h4>" + shapes.table_html(
        ("difference", "", "95 %", ""), [row], numeric=(1, 2)
    )


def _account(told: reads.Report, policy: Mapping[str, Any]) -> str:
    """What routing itself costs, and when training has paid for itself."""
    own = policy["router"]
    if policy["fixed_arm"] is not None or not policy["deployable"]:
        return ""
    modeled = evidence_html("modeled")
    no_power = told["router_power_w"] is None
    rows = [
        ("routing takes, per query", quantity(own["latency_s"], "s")),
        (
            "and its own energy is",
            f'<span class="jb-muted">{MISSING} (no declared power)</span>'
            if no_power
            else f"{escape(quantity(own['energy_j'], 'J'))} {modeled}",
        ),
    ]
    whole = own["with_router"]
    if whole is not None and whole["energy_j_per_query"] is not None:
        rows.append(("energy per query with it", f"{escape(quantity(whole['energy_j_per_query'], 'J'))} {modeled}"))
        if whole["latency_mean_s"] is not None:
            rows.append(("mean latency with it", escape(quantity(whole["latency_mean_s"], "s"))))
    training = own["training"]
    if training is not None:
        spent = (
            MISSING
            if training["energy_j"] is None
            else f"{escape(quantity(training['energy_j'], 'J'))} {evidence_html(training['evidence_class'])}"
        )
        rows.append(("training took", f"{escape(duration(training['seconds']))}, {spent}"))
        after = own["break_even_queries"]
        rows.append(("paid for itself after", MISSING if after is None else _queries(math.ceil(after))))
    predicted = policy["energy_predicted"]
    if predicted is not None:
        rows += [
            ("joules it predicted, per query", escape(quantity(predicted["per_query_j"], "J"))),
            ("by each arm's mean in training", escape(quantity(predicted["per_model_j"], "J"))),
            ("as they were", escape(quantity(predicted["actual_j"], "J"))),
        ]
    return "<h4>Its own account</h4>" + shapes.table_html(("", ""), rows, numeric=(1,))


def _queries(n: int) -> str:
    return "1 query" if n == 1 else f"{count(n)} queries"


def _fine_print(told: reads.Report, policy: Mapping[str, Any]) -> str:
    rows = [(escape(str(k)), escape(_plain(v))) for k, v in {**policy["parameters"], **policy["notes"]}.items()]
    hashes = {
        "choices, before outcomes were joined": policy["choices_sha256"],
        "all choices of the run": told["choices_sha256"],
        "outcomes": told["dataset_sha256"],
        "code": told["code_sha256"],
        "policy": policy["policy_id"],
    }
    rows += [(escape(k), f'<span class="jb-id">{escape(str(v))}</span>') for k, v in hashes.items()]
    rows.append(("seed", str(told["seed"])))
    return shapes.table_html(("", ""), rows)


def _plain(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 400 else f"{text[:399]}…"
