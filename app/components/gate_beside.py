"""What stands beside a verdict and decides nothing: weaker evidence, warnings, noise between runs, the mix."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from app.components.format import MISSING, count, percent
from app.components.gate import KINDS, NAMES
from app.components.marks import evidence_html
from app.components.shapes import table_html


def beside_html(report: Mapping[str, Any]) -> str:
    """Every other kind of evidence, strongest first, with its figures or the reason why it has none."""
    rows = []
    for other in report.get("beside") or []:
        kind = KINDS.get(other["kind"], other["kind"]).partition(":")[0]
        figures = "<br>".join(_figure(f) for f in other["figures"]) or MISSING
        ess = other.get("ess")
        sure = f"effective sample size {ess:.0f} of {count(other['n'])}. " if ess is not None else ""
        rows.append((escape(kind), count(other["n"]), figures, f'<span class="jb-small">{escape(sure)}'
                     f"{escape(other['words'])}</span>"))  # fmt: skip
    return table_html(("weaker evidence", "n", "figures", "what it counts for"), rows, numeric=(1,)) if rows else ""


def _figure(figure: Mapping[str, Any]) -> str:
    name = NAMES.get(figure["name"], figure["name"]).partition(",")[0]
    if figure["estimate"] is None:
        return f"{escape(name)} {MISSING}"
    shift = 1 if figure["unit"] == "ratio" else 0
    ends = [figure[k] for k in ("low", "high")]
    span = "open" if None in ends else " … ".join(percent(e - shift, signed=True) for e in ends)
    cls = figure["evidence_class"]
    mark = evidence_html(cls) if cls in ("measured", "allocated", "calibrated", "modeled") else ""
    value = percent(figure["estimate"] - shift, signed=True)
    return f'<span class="jb-nowrap">{escape(name)} <span class="jb-num">{value}</span> ({span}) {mark}</span>'


def warnings(report: Mapping[str, Any]) -> list[str]:
    """Categories that stand out as worse, and what the pairs say against themselves. They decide nothing."""
    found = [
        f"category {w.get('category') or w.get('name')} stands out as worse (q {w['q']:.3f}, Benjamini and Hochberg)"
        for w in report.get("warnings") or []
    ]
    return [*found, *(report.get("evidence") or {}).get("warnings", [])]


def facts_html(report: Mapping[str, Any]) -> str:
    """What the pairs are: how many, repeats, clusters, sources, noise between runs, order of the arms, mix."""
    told = report.get("evidence") or {}
    rows = [
        ("pairs", f"{count(told.get('pairs'))} of {count(told.get('requests'))} requests; "
         f"{count(told.get('repeats'))} repeated runs, {count(told.get('aborted'))} broken off"),
        ("sessions or tenants", f"{count(told.get('clusters'))}: pairs of one are not independent"),
        ("sources", ", ".join(told.get("sources") or []) or MISSING),
        ("noise between runs", (told.get("run_noise") or {}).get("words") or "no request was run twice"),
        ("order of the arms", _order(told.get("order"))),
        ("reference mix", f"{len(report['mix'])} strata of {report.get('mix_basis')}" if report.get("mix") else
         "none: no traffic was logged when the margins were stored; as the pairs came"),
    ]  # fmt: skip
    return table_html(("", ""), [(escape(k), f'<span class="jb-small">{escape(v)}</span>') for k, v in rows])


def _order(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "not told, so an effect of it cannot be seen"
    effect = f"effect on the log ratio {told['effect']:+.4f}, p {told['p']:.2f}".replace("-", "−")
    return f"the candidate ran first in {told['first_share']:.0%}; {effect}"
