"""Who agrees with whom: incumbent by chosen as a table of counts, shaded by share, agreement marked by a tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from app.components import gate
from app.components.format import MISSING, count, percent, quantity
from app.components.marks import evidence_html, glyph
from app.components.shapes import delta_html, table_html

HANDED_BACK = "handed back"
METRICS = (
    ("energy_j", "J per success", "J"),
    ("cost_usd", "USD per success", "USD"),
    ("carbon_g", "gCO2e per success", "g"),
)


def names(matrix: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Rows and columns, most requests first; what both sides know stands in the same order."""

    def totals(side: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for cell in matrix:
            found[cell[side] or ""] = found.get(cell[side] or "", 0) + cell["n"]
        return found

    served, chosen = totals("incumbent"), totals("chosen")
    columns = sorted(chosen, key=lambda name: (name == "", -chosen[name], name))
    rows = sorted(served, key=lambda name: (name not in chosen, -served[name], name))
    return rows, columns


def matrix_html(agreement: Mapping[str, Any]) -> str:
    """The matrix. Each cell tells its count; its share of all requests is the shade, and in its title."""
    matrix, n = agreement["matrix"], agreement["n"]
    rows, columns = names(matrix)
    cells = {(c["incumbent"] or "", c["chosen"] or ""): c["n"] for c in matrix}
    most = max(cells.values(), default=1)
    head = "".join(f'<th scope="col">{escape(name or HANDED_BACK)}</th>' for name in columns)
    body = "".join(_row(name, columns, cells, n, most) for name in rows)
    return (
        '<div class="jb-scroll"><table class="jb-matrix"><thead><tr>'
        f'<th scope="col">served by ↓ · would have chosen →</th>{head}'
        f"<th scope='col'>all</th></tr></thead><tbody>{body}</tbody></table></div>"
        '<span class="jb-small jb-muted">✓ agrees with what served it · the darker, the more requests</span>'
    )


def _row(name: str, columns: Sequence[str], cells: Mapping[tuple[str, str], int], n: int, most: int) -> str:
    told = []
    for column in columns:
        here = cells.get((name, column), 0)
        if not here:
            told.append('<td class="n"><span class="jb-muted" aria-hidden="true">·</span></td>')
            continue
        agrees = name == column
        shade = 8 + round(46 * (here / most) ** 0.5)
        tick = "✓ " if agrees else ""
        title = f"{name or 'nobody'} served, {column or HANDED_BACK}: {percent(here / n)} of the requests"
        told.append(
            f'<td class="n" title="{escape(title)}" '
            f'style="background:color-mix(in srgb, var(--jb-accent) {shade}%, transparent)">{tick}{count(here)}</td>'
        )
    total = sum(v for (served, _), v in cells.items() if served == name)
    return f'<tr><th scope="row">{escape(name or "unknown")}</th>{"".join(told)}<td class="n">{count(total)}</td></tr>'


def worth_table(worth: Mapping[str, Mapping[str, Any]], harm: Sequence[Sequence[str]] = ()) -> str:
    """What the choices would be worth by the reference workload; `harm`: rows of success and latency beside."""
    rows: list[Sequence[str]] = []
    for name, words, unit in METRICS:
        told = worth[name]
        change = told["difference"]
        shown = (
            f'{MISSING}<br><span class="jb-small jb-muted">{escape(told["note"] or "not known")}</span>'
            if change is None
            else delta_html(percent(change, signed=True), change=change, better=-1) + _span(told)
        )
        levels = f"{quantity(told['incumbent'], unit)} → {quantity(told['expected'], unit)}"
        rows.append(
            (
                f'<span class="jb-nowrap">{words}</span>',
                levels if told["expected"] is not None else MISSING,
                shown,
                evidence_html(told["evidence_class"], word=True),
                f"{count(told['n'])} of {count(told['of'])}",
            )
        )
    heads = ("", "served → chosen", "difference", "evidence", "requests")
    return table_html(heads, [*rows, *harm], numeric=(1, 2, 4))


def _span(told: Mapping[str, Any]) -> str:
    """The interval below a difference, or why there is none."""
    bounds = [told["low"], told["high"]]
    words = f"no interval: {told['interval_note']}"
    if None not in bounds:
        words = " … ".join(percent(x, signed=True) for x in bounds)
    elif told["interval_note"] is None:
        return ""
    return f'<br><span class="jb-small jb-muted">{escape(words)}</span>'


def harm_rows(report: Mapping[str, Any] | None) -> list[Sequence[str]]:
    """Success and latency as the gate found them: a shadow alone knows neither."""
    if report is None:
        unknown = '<span class="jb-small jb-muted">not known without outcomes of both</span>'
        return [(name, MISSING, MISSING, unknown, "") for name in ("success rate", "P95 latency")]
    found: list[Sequence[str]] = []
    for row in gate.rows(report["checks"]):
        if row.name in (gate.NAMES["success"], gate.NAMES["p95"]):
            span = f"{gate.told(row.low, row.unit)} … {gate.told(row.high, row.unit)}"
            kind = (row.evidence or "").replace("_", " ")
            found.append(
                (
                    row.name.partition(",")[0],
                    MISSING,
                    f"{gate.told(row.estimate, row.unit)}<br><span class='jb-small jb-muted'>{span}</span>",
                    f'<span class="jb-small jb-muted">{escape(kind)}, the gate</span>',
                    count(row.n),
                )
            )
    return found


def differences_table(rows: Sequence[Mapping[str, Any]], worth: Mapping[str, Mapping[str, Any]], most: int = 15) -> str:
    """Where another offer would have been chosen, most requests first; classes as in `worth`, told in the head."""
    body = []
    for d in rows[:most]:
        pair = f"{d['incumbent'] or 'unknown'} → {d['chosen']}"
        body.append(
            (
                f'<span class="jb-id jb-nowrap">{escape(pair)}</span>',
                escape(d["category"]),
                str(d["tier"]),
                f'<span class="jb-nowrap">{escape(d["size_band"])}</span>',
                count(d["n"]),
                quantity(d["incumbent_energy_j"], "J"),
                quantity(d["expected_energy_j"], "J"),
                *(_change(d, name) for name, *_ in METRICS),
            )
        )
    marks = {name: glyph(worth[name]["evidence_class"]) for name, *_ in METRICS}
    joules = marks["energy_j"]
    heads = ("served by → chosen", "category", "tier", "tokens", "requests", f"J served {joules}", f"J chosen {joules}")
    changes = (f"J {joules}", f"USD {marks['cost_usd']}", f"gCO2e {marks['carbon_g']}")
    return table_html((*heads, *changes), body, numeric=(2, *range(4, 10)))


def _change(row: Mapping[str, Any], name: str) -> str:
    """Chosen against served, where both are estimated."""
    served, chosen = row[f"incumbent_{name}"], row[f"expected_{name}"]
    if not served or chosen is None:
        return MISSING
    return percent(float(chosen) / float(served) - 1, signed=True)
