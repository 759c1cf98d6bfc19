"""Answers of sensitivity, sizing and power caps as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from app.components import shapes
from app.components.format import MISSING, percent, quantity, significant
from app.components.marks import evidence_html
from app.reads import fleet as reads

Row = Mapping[str, Any]


def _spoken(name: str) -> str:
    return escape(name.replace("_", " "))


def _mark(told: Row) -> str:
    return evidence_html(told["evidence_class"], None if told["presentable"] else "LOW")


# sensitivity ----------------------------------------------------------------------------------------


def verdict(told: Row) -> str:
    p = told["flip"]["probability"]
    look = "ok" if p < 0.05 else "warn" if p < 0.3 else "bad"
    text = told["verdict"][0].upper() + told["verdict"][1:]
    return f'<div class="jb-note {look}">{escape(text.replace("_", " "))}.</div>'


def tornado_words(told: Row) -> str:
    rows = [f"{t['input']} {t['low']:.4g} to {t['high']:.4g} J" for t in told["tornado"]]
    return (
        f"{told['first']} less {told['second']}: {told['difference']:.4g} J per success, {reads.words_of(told)}. "
        f"With one input one standard deviation off: {'; '.join(rows)}. At 0 the ranking flips."
    )


def sureness(told: Row) -> str:
    """Flip probability, what every policy's chance of taking least is, where the variance comes from."""
    flip = told["flip"]
    rows = [
        (
            f"{_spoken(told['first'])} less {_spoken(told['second'])}, J per success",
            f"{significant(told['difference'])} {_mark(told)}",
        ),
        ("one sd of it, all errors together", f"{significant(told['difference_sd'])}"),
        ("flip probability", f"{percent(flip['probability'])} ± {percent(flip['standard_error'], decimals=2)}"),
        ("the same, exact for normal errors", percent(flip["exact_normal"])),
        ("95 % of the draws", f"{significant(flip['difference_low'])} to {significant(flip['difference_high'])}"),
        ("all inputs off in the worst direction", _common(told["break_even_common"])),
    ]
    out = shapes.table_html(("", ""), rows, numeric=(1,))
    best = [(f"{_spoken(name)}", percent(p)) for name, p in sorted(told["best"].items(), key=lambda i: -i[1])]
    out += (
        f"<h4>Takes the least joules, of those that keep the SLO</h4>{shapes.table_html(('', ''), best, numeric=(1,))}"
    )
    sobol = [
        (escape(i["input"]), percent(i["first_order"]), percent(i["total"]), percent(i["exact"]))
        for i in told["sobol"]["indices"]
    ]
    if sobol:
        heads = ("share of the variance (Sobol)", "first order", "total", "exact")
        out += f"<h4>What the doubt comes from</h4>{shapes.table_html(heads, sobol, numeric=(1, 2, 3))}"
    return out


def _common(share: float | None) -> str:
    return MISSING if share is None else f"{percent(share)} makes them equal"


def break_even(told: Row) -> str:
    sides = {t["input"]: t for t in told["tornado"]}
    rows = []
    for b in told["break_even"]:
        t = sides.get(b["input"], {})
        truth = t.get("decided_by_truth") or {}
        flips = '<span class="jb-chip warn"><i aria-hidden="true"></i>flips</span>' if t.get("flips") else "holds"
        rows.append(
            (
                escape(b["input"]),
                f"±{percent(t.get('sd_relative'))}",
                MISSING if b["relative_error"] is None else percent(b["relative_error"], signed=True, decimals=1),
                MISSING if b["in_sd"] is None else significant(b["in_sd"]),
                flips,
                _both(t.get("low"), t.get("high")),
                _both(truth.get("low"), truth.get("high")),
                escape(b["words"]),
            )
        )
    heads = (
        "input",
        "its sd",
        "equal at",
        "in sd",
        "at one sd",
        "J, model one sd off",
        "J, if policies knew",
        "in words",
    )
    table = shapes.table_html(heads, rows, numeric=(1, 2, 3, 5, 6))
    return f"<h4>Break-even of each input alone {_mark(told)}</h4>{table}"


def _both(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{significant(low)} / {significant(high)}"


# sizes ----------------------------------------------------------------------------------------------


def sizes(told: Row) -> str:
    allowed = told["comparison"] is None or told["comparison"]["allowed"]
    rows = []
    for row in told["sizes"]:
        if row["instances"] is None:
            rows.append((escape(row["name"]), *[MISSING] * 8, escape(row["why"])))
            continue
        f, verified = row["fleet"], row["verified"]
        rows.append(
            (
                f"<b>{escape(row['name'])}</b>",
                f"{row['instances']}",
                f"{row['boards']}",
                percent(max(p["utilization"] for p in row["pools"])),
                quantity(f["ttft_worst_s"], "s"),
                quantity(f["power_w"], "W"),
                quantity(f["j_per_request"], "J"),
                quantity(f["tokens_per_j"], "tok/J") if allowed else "refused",
                quantity(f["usd_per_million_output_tokens"], "USD"),
                "not asked" if verified is None else escape(verified["words"]),
            )
        )
    heads = ("pool", "instances", "boards", "load", f"TTFT P{100 * told['quantile']:g}", "power", "J per request",
             "tokens per J", "per 1M tokens", "simulated")  # fmt: skip
    why = "" if allowed else f'<div class="jb-note warn">{escape(told["comparison"]["why"])}</div>'
    return (
        f"<h4>Fewest instances that keep the SLO {_mark(told)}</h4>{why}"
        f"{shapes.table_html(heads, rows, numeric=range(1, 9))}"
    )


def levels(told: Row) -> str:
    rows = []
    for row in told["levels"]:
        analytic = row["analytic"] or {}
        closed = analytic.get("result") or {}
        sim = row["simulated"]
        f = {} if sim is None else {k: v["value"] for k, v in sim["figures"].items()}
        slots = (
            ", ".join(map(str, row["slots"].values()))
            if row["slots"]
            else ("all" if row["slots"] is not None else MISSING)
        )
        rows.append(
            (
                percent(row["reduction"], decimals=0),
                slots,
                f"{quantity(closed.get('power_w'), 'W')} / {quantity(f.get('mean_power_w'), 'W')}",
                f"{quantity(closed.get('j_per_request'), 'J')} / {quantity(f.get('j_per_success'), 'J')}",
                f"{quantity(closed.get('ttft_s'), 's')} / {quantity(f.get('p99_ttft_s'), 's')}",
                percent(f.get("slo_attainment")),
                escape("; ".join(words for words in dict.fromkeys([analytic.get("words"), *row["words"]]) if words)),
            )
        )
    heads = (
        "given back",
        "slots",
        "power",
        "J per request / success",
        "TTFT P99",
        "within SLO, simulated",
        "what it means",
    )
    return f"<h4>Closed form / simulated {_mark(told)}</h4>{shapes.table_html(heads, rows, numeric=range(1, 6))}"
