"""How far the evidence of a gate is, and the margins it is held to, with who stored them when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from html import escape
from typing import Any

from app.components.format import age, count, instant, parse_instant, percent, points, quantity
from app.components.shapes import table_html

# name -> (words, unit, which way it holds). Units: pp, %, s, n.
MARGINS: dict[str, tuple[str, str, str]] = {
    "success_margin": ("success rate may fall by less than", "pp", "loss of success rate"),
    "slo_s": ("latency SLO", "s", "unset: no share over it is judged"),
    "over_slo_margin": ("share over the SLO may rise by less than", "pp", "only with an SLO"),
    "p95_margin": ("P95 latency may rise by less than", "%", "relative to the incumbent"),
    "p95_limit_s": ("P95 latency of the candidate below", "s", "unset: not judged"),
    "energy_gain": ("J per success must fall by more than", "%", "the required gain"),
    "usd_margin": ("USD per success may rise by less than", "%", "relative to the incumbent"),
    "carbon_margin": ("gCO2e per success may rise by less than", "%", "relative to the incumbent"),
    "violation_rate": ("sampled violations excluded above", "%", "0 in n"),
    "confidence": ("confidence of two-sided intervals", "%", "each bound alone is surer"),
    "power": ("power of the plan", "%", "where the candidate does no harm"),
    "discordance": ("pairs expected to differ", "%", "for the plan"),
    "min_coverage": ("pairs that must tell a figure", "%", "below it: inconclusive"),
}


def told(name: str, value: Any) -> str:
    """A stored margin in its unit; `not judged` where it is unset."""
    if value is None:
        return "not judged"
    unit = MARGINS.get(name, ("", "", ""))[1]
    if unit == "pp":
        return points(value, 1).lstrip("+")
    if unit == "%":
        return percent(value, decimals=0 if float(value) * 100 == round(float(value) * 100) else 1)
    return quantity(value, "s") if unit == "s" else count(value)


def meter_html(n: int, planned: int | None, *, started: datetime | None, give_up_s: float, waiting: bool) -> str:
    """`1,310 of 2,627 requests` as a bar, with the date on which an undecided shadow gives up."""
    if not planned:
        return ""
    share = min(1.0, n / planned)
    state = "complete" if n >= planned else f"{count(planned - n)} to go"
    end = ""
    if waiting and started is not None:
        at = started + timedelta(seconds=give_up_s)
        end = f' · undecided, it ends as inconclusive <span title="{instant(at)}">{age(at)}</span> ({at:%Y-%m-%d})'
    return (
        f'<span class="jb-meter" role="img" aria-label="{count(n)} of {count(planned)} planned requests">'
        f'<b style="width:{100 * share:.1f}%"></b></span> '
        f'<span class="jb-num">{count(n)} of {count(planned)}</span> '
        f'<span class="jb-muted">requests with both outcomes, {state}{end}</span>'
    )


def margins_table(margins: Mapping[str, Any], changed: Mapping[str, Any] | None = None) -> str:
    """The stored margins in words; `changed`: those configured, marked where they differ."""
    rows = []
    for name, (words, _, about) in MARGINS.items():
        if name not in margins:
            continue
        mark = ""
        if changed is not None and changed.get(name) != margins[name]:
            mark = f" (configured: {told(name, changed.get(name))})"
        rows.append(
            (
                escape(words),
                f"{told(name, margins[name])}",
                f'<span class="jb-small jb-muted">{escape(about + mark)}</span>',
            )
        )
    return table_html(("margin", "", ""), rows, numeric=(1,))


def stored_html(shadow: Mapping[str, Any]) -> str:
    """Who stored the margins when, under which hash: before any evidence that counts."""
    at = parse_instant(shadow.get("since"))
    by = shadow.get("set_by") or "the configuration of this desk"
    return (
        f'<span class="jb-small jb-muted">stored {escape(instant(at))}, {escape(age(at))} ago, by {escape(str(by))} · '
        f'sha256 <span class="jb-id">{escape(str(shadow["sha256"])[:16])}…</span> · '
        "only outcomes from after that count</span>"
    )
