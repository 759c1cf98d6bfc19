"""Policies side by side: energy, service, money, grams, capacity, rejections and fallbacks in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from app.components import shapes
from app.components.format import MISSING, percent, quantity, significant
from app.components.marks import evidence_html
from app.reads import fleet as reads

Row = Mapping[str, Any]
# metric, words, unit ("%": a share; "": a plain number); None: a heading
_ROWS: tuple[tuple[str, str, str] | str, ...] = (
    "Energy",
    ("j_per_success", "J per success", "J"),
    ("j_per_right_answer", "J per right answer", "J"),
    ("tokens_per_j", "output tokens per J", "tok/J"),
    ("energy_j", "energy of the run", "J"),
    ("active_j", "of it active", "J"),
    ("idle_j", "of it idle", "J"),
    ("warming_j", "of it warming up", "J"),
    ("wasted_j", "of it for lost work", "J"),
    ("mean_power_w", "mean power", "W"),
    "Service",
    ("success_rate", "success", "%"),
    ("slo_attainment", "within SLO", "%"),
    ("p50_ttft_s", "TTFT P50", "s"),
    ("p95_ttft_s", "TTFT P95", "s"),
    ("p99_ttft_s", "TTFT P99", "s"),
    ("p99_tpot_s", "TPOT P99", "s"),
    ("p50_e2e_s", "E2E P50", "s"),
    ("p95_e2e_s", "E2E P95", "s"),
    ("p99_e2e_s", "E2E P99", "s"),
    "Cost and grams",
    ("cost_usd", "cost of the run", "USD"),
    ("usd_per_million_output_tokens", "per million output tokens", "USD"),
    ("carbon_g", "gCO2 of the run", "g"),
    ("g_per_success", "gCO2 per success", "g"),
    "Requests",
    ("offered", "offered", ""),
    ("completed", "= completed", ""),
    ("rejected", "+ rejected", ""),
    ("in_flight", "+ in flight at the end", ""),
    ("throughput_per_s", "carried", "/s"),
    ("capacity_per_s", "capacity, all slots busy", "/s"),
    ("utilization", "slots in use", "%"),
)
_ENERGY = {"j_per_success", "j_per_right_answer", "tokens_per_j", "energy_j", "active_j", "idle_j", "warming_j",
           "wasted_j", "mean_power_w"}  # fmt: skip
_GRAMS = {"carbon_g", "g_per_success"}
_COUNTED = {"offered", "completed", "rejected", "in_flight"}
_OPTIONAL = {"j_per_right_answer", "warming_j", "wasted_j", "carbon_g", "in_flight"}  # left out where nobody has any
_ALWAYS = {"in_flight"}
_REFUSED = {"j_per_success", "tokens_per_j"}


def comparison(told: Row, cases: Sequence[Row], group: Row | None) -> str:
    """One column per case, best first; differences to the baseline on the same seeds stand below the figures."""
    heads = ["", *(_head(c, told, group) for c in cases)]
    body = []
    refused = group is not None and not group["comparison"]["allowed"]
    for row in _ROWS:
        if isinstance(row, str):
            body.append(f'<tr class="jb-rowgroup"><th scope="rowgroup" colspan="{len(heads)}">{escape(row)}</th></tr>')
            continue
        metric, words, unit = row
        figures = [c["figures"].get(metric) for c in cases]
        if metric in _OPTIONAL - _ALWAYS and not any(f and f["value"] for f in figures):
            continue
        cells = [
            "refused" if refused and metric in _REFUSED else _cell(f, metric, unit, _pair(group, c, metric))
            for f, c in zip(figures, cases, strict=True)
        ]
        body.append(_tr(f"{escape(words)} {_mark(told, metric)}", cells))
    body.append(_tr("rejected by", [_codes(c) for c in cases]))
    body.append(_tr("fallbacks", [_fallbacks(c) for c in cases]))
    body.append(_tr("runs ended", [escape(", ".join(c["ended"])) for c in cases]))
    head = "".join(f'<th scope="col" class="n">{h}</th>' if k else "<th></th>" for k, h in enumerate(heads))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="jb-scroll jb-fleet">{table}</div>{_foot(told, group)}'


def _tr(name: str, cells: Sequence[str]) -> str:
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td class=n>{c}</td>" for c in cells)}</tr>'


def _head(case: Row, told: Row, group: Row | None) -> str:
    name = str(case.get("policy") if group is not None else case["case_name"]).replace("_", " ")
    rank = next((r["rank"] for r in (group or {}).get("ranking", []) if r["policy"] == case.get("policy")), None)
    place = f"{rank}. " if rank else ""
    base = "baseline" if group is not None and case.get("policy") == told["baseline"] else ""
    look, word = ("ok", "keeps the SLO") if case["within_slo"] else ("bad", "misses the SLO")
    chip = f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}</span>'
    return f"{place}{escape(name)}<br>{chip}" + (f'<br><span class="jb-small">{base}</span>' if base else "")


def _mark(told: Row, metric: str) -> str:
    """The class of the row: one for all its cells."""
    quality = None if told["presentable"] else "LOW"
    if metric in _GRAMS:
        return evidence_html(told["carbon_evidence_class"], quality if told["carbon_evidence_class"] else None)
    if metric in _ENERGY:
        return evidence_html(told["evidence_class"], quality)
    return evidence_html("modeled", quality)


def _pair(group: Row | None, case: Row, metric: str) -> Row | None:
    return None if group is None else reads.pair_of(group, case["policy"], metric)


def _cell(figure: Row | None, metric: str, unit: str, pair: Row | None) -> str:
    if figure is None or figure["value"] is None:
        return MISSING
    half = _half(figure, unit) if metric not in _COUNTED else ""
    lines = [
        text_of(figure["value"], unit, metric) + (f' <span class="jb-small jb-muted">±{half}</span>' if half else "")
    ]
    if pair is not None:
        lines.append(f'<span class="jb-small">{difference(pair, unit)}</span>')
    return "<br>".join(lines)


def text_of(value: float, unit: str, metric: str = "") -> str:
    if unit == "%":
        return percent(value)
    if metric in _COUNTED:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return significant(value) + unit if unit in ("", "/s") else quantity(value, unit)


def _half(figure: Row, unit: str) -> str:
    """Half of the interval, which is symmetric: relative, of shares in percentage points."""
    low, high, value = figure["low"], figure["high"], figure["value"]
    if low is None or high is None:
        return ""
    half = (high - low) / 2
    if unit == "%":
        return f"{100 * half:.2g}\u00a0pp"
    return percent(half / abs(value)) if value else significant(half)


_LOOK = {"better": "better", "worse": "worse"}
_WORDS = {
    "not distinguished": "not told apart",
    "same": "the same",
    "no interval": "no interval",
    "unknown": "not known",
}


def difference(pair: Row, unit: str) -> str:
    """`−12.0 ±0.9 % better`; grey and in words where the interval does not exclude 0."""
    d, verdict = pair["difference"], str(pair["verdict"])
    if verdict == "same" or d["value"] is None:
        return f'<span class="jb-muted">{_WORDS["same" if verdict == "same" else "unknown"]}</span>'
    text = _change(pair, unit)
    word = _LOOK.get(verdict)
    if word is None:
        return f'<span class="jb-muted">{text} {_WORDS.get(verdict, escape(verdict))}</span>'
    return f'<span class="jb-{word}">{text} {word}</span>'


def _change(pair: Row, unit: str) -> str:
    """Shares in percentage points, all else relative to the baseline; absolute where that is 0."""
    d, relative = pair["difference"], pair["relative"]
    value, half = d["value"], None if d["low"] is None else (d["high"] - d["low"]) / 2
    if unit != "%" and relative is None:
        around = "" if half is None else f" ±{text_of(half, unit)}"
        return f"{'−' if value < 0 else '+'}{text_of(abs(value), unit)}{around}"
    factor = 100.0 if unit == "%" else 100.0 * abs(relative / value) if value else 100.0
    decimals = 2 if max(abs(value), half or 0.0) * factor < 0.1 else 1
    around = "" if half is None else f"\u00a0±{half * factor:.{decimals}f}"
    text = f"{value * factor:+,.{decimals}f}".replace("-", "−")
    text = text if float(f"{value * factor:.{decimals}f}") else text[1:]
    return f"{text}{around}\u00a0{'pp' if unit == '%' else '%'}"


def _codes(case: Row) -> str:
    """Rejections by code, per seed."""
    n = len(case["seeds"])
    rows = [f"{escape(code.replace('_', ' '))} {total / n:,.5g}" for code, total in case["rejections"].items() if total]
    return "<br>".join(rows) or '<span class="jb-muted">none</span>'


def _fallbacks(case: Row) -> str:
    f = case["figures"]
    known = [(name, f[f"fallback_{name}"]["value"]) for name in ("telemetry", "carbon", "slo")]
    rows = [f"{'SLO' if name == 'slo' else name} {value:,.5g}" for name, value in known if value]
    of = f["decisions"]["value"]
    tail = f'<br><span class="jb-small jb-muted">of {of:,.5g} decisions</span>' if rows and of else ""
    return ("<br>".join(rows) + tail) if rows else '<span class="jb-muted">none</span>'


def _foot(told: Row, group: Row | None) -> str:
    n = len(told["seeds"])
    words = f"{reads.words_of(told)}. Means over {n} seeds with 95 % intervals (Student's t); one seed has none."
    if group is not None:
        words += (
            f" Differences are to {told['baseline'].replace('_', ' ')} on the same seeds; grey: the interval does not "
            "exclude 0. Intervals hold for other requests, not for the error of the power model: ask “How sure is the "
            "ranking” for that."
        )
    return f'<span class="jb-small jb-muted">{escape(words)}</span>'


def pools(told: Row, cases: Sequence[Row]) -> str:
    rows = []
    for case in cases:
        for p in case["pools"]:
            f = {k: v["value"] for k, v in p["figures"].items()}
            mark = evidence_html(p["evidence_class"], "LOW" if not p["presentable"] else p["quality"])
            rows.append(
                (
                    escape(str(case.get("policy") or case["case_name"]).replace("_", " ")),
                    f"{escape(p['pool'])} {mark}" + (f" · {escape(p['zone'])}" if p["zone"] else ""),
                    f"{p['instances']}",
                    f"{p['boards']}",
                    quantity(f["energy_j"], "J"),
                    quantity(f["mean_power_w"], "W"),
                    quantity(f["j_per_success"], "J"),
                    MISSING if f["completed"] is None else f"{f['completed']:,.5g}",
                    percent(f["utilization"]),
                    quantity(f["p99_ttft_s"], "s"),
                )
            )
    heads = (
        "case",
        "pool",
        "instances",
        "boards",
        "energy",
        "power",
        "J/success",
        "served",
        "slots in use",
        "TTFT P99",
    )
    return shapes.table_html(heads, rows, numeric=range(2, 10))
