"""A stored experiment: verdict, energy beside service, requests and where they went, pools, words, hashes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from app.components import fleet_answers, links, shapes
from app.components.access import read
from app.components.fleet_charts import caps, policies, sweep, tornado
from app.components.fleet_table import comparison, pools
from app.components.format import MISSING, age, count, duration, interval, literal, parse_instant, percent, quantity
from app.components.marks import evidence_html
from app.components.plot_theme import chart
from app.reads import fleet as reads

Row = Mapping[str, Any]
_NAMES = {
    "simulate": "one policy",
    "compare": "policies",
    "size": "size",
    "flex": "power cap",
    "sensitivity": "how sure",
}


def choose(rows: Sequence[Row]) -> str:
    """A stored run, the newest first; a link names it by its id."""
    words = {str(r["id"]): _run_word(r) for r in rows}
    return links.select("Stored run", list(words), "f-run-id", words.__getitem__, always=True)


def _run_word(row: Row) -> str:
    """An instant, not an age: the browser answers with these words, which must not change meanwhile."""
    low = ", LOW" if row["quality"] == "LOW" else ""
    sample = ", SAMPLE" if row["is_sample"] else ""
    return (
        f"{row['finished_at']:%Y-%m-%d %H:%M} UTC · {_NAMES[row['experiment']]} · {row['title']} · "
        f"{row['evidence_class']}{low}{sample} · {row['id'][-6:]}"
    )


def stored(rows: Sequence[Row]) -> None:
    """All stored runs with their ages, each a link."""
    with st.expander(f"Stored runs: {len(rows)}", key="f-stored", type="compact"):
        cells = [
            (
                f"{age(r['finished_at'])} ago",
                escape(_NAMES[r["experiment"]]),
                f'<a href="?f-tab=whatif&f-run-id={escape(str(r["id"]))}" target="_self">{escape(r["title"])}</a>',
                evidence_html(r["evidence_class"], r["quality"], word=True),
                str(len(r["seeds"])),
                escape(r["actor"]),
                f'<span class="jb-id">{escape(r["scenario_sha256"][:12])}</span>',
            )
            for r in rows
        ]
        heads = ("age", "question", "run", "evidence", "seeds", "by", "scenario")
        shapes.show(shapes.table_html(heads, cells, numeric=(0, 4)))


def show(run_id: str) -> None:
    told = read(reads.report, run_id)
    _head(told)
    _body(told)
    _words(told)


def _head(told: Row) -> None:
    work, n = told["workload"], len(told["seeds"])
    rate = "" if work["requests_per_s"] is None else f" at {work['requests_per_s']:.4g}/s"
    finished = parse_instant(told["finished_at"])
    slo = ", ".join(f"{k.removesuffix('_s').upper()} ≤ {v:g} s" for k, v in told["slo"].items())
    mark = evidence_html(told["evidence_class"], told["quality"], word=True)
    shapes.show(
        f"<b>{escape(told['title'])}</b> {mark}<br>"
        f'<span class="jb-small jb-muted">{count(work["requests"])} requests ({escape(work["title"])}){rate}, '
        f"{work['prompt_tokens_mean']:.0f} prompt and {work['output_tokens_mean']:.0f} output tokens on average · "
        f"{n} seed{'s' if n > 1 else ''} · SLO {escape(slo) or 'none'} for {percent(told['slo_target'])} "
        f"of the offered · "
        f"computed {age(finished)} ago by {escape(told['actor'])} from data as of "
        f"{escape(str(told['as_of'])[:16].replace('T', ' '))}</span>"
    )
    low = sorted({p["name"] for p in told["profiles"] if reads.quality_of(p) == "LOW"})
    if low:
        shapes.note(
            f"{reads.words_of(told)}: {', '.join(low)} cannot be held against measurements. For simulation only, no "
            "fact about production.",
            "warn",
        )


def _body(told: Row) -> None:
    kind = told["experiment"]
    if kind == "sensitivity":
        _sensitivity(told)
    elif kind == "size":
        shapes.show(fleet_answers.sizes(told))
    elif kind == "flex":
        _flex(told)
    if told["cases"]:
        _cases(told)


def _sensitivity(told: Row) -> None:
    shapes.show(fleet_answers.verdict(told))
    left, right = st.columns([3, 2], gap="large")
    with left:
        height = 150 + 46 * len(told["tornado"])
        chart(tornado(told), key="f-tornado", height=height, alt=fleet_answers.tornado_words(told))
    with right:
        shapes.show(fleet_answers.sureness(told))
    shapes.show(fleet_answers.break_even(told))


def _flex(told: Row) -> None:
    best = told["largest_within_slo"]
    shapes.note(
        "No level keeps the SLO." if best is None else f"The SLO is kept up to {percent(best, decimals=0)} given back.",
        "ok" if best else "warn",
    )
    chart(caps(told), key="f-caps-chart", height=330, alt="Power, joules per success and P99 TTFT by share of power "
          "given back, closed form and simulated. The table below has the same numbers.")  # fmt: skip
    shapes.show(fleet_answers.levels(told))


def _cases(told: Row) -> None:
    groups = told.get("groups") or []
    group = None
    if groups:
        keys = {reads.group_key(g): g for g in groups}
        if len(keys) > 1:
            _sweeps(told)
            key = links.select("Load and cap", list(keys), "f-group", lambda k: _group_word(keys[k]))
        else:
            key = next(iter(keys))
        group = keys[key]
        look = "ok" if group["best"] else "warn"
        shapes.note(" ".join(_sentence(w) for w in group["words"]), look)
    cases = reads.cases_of(told, group)
    refused = group is not None and not group["comparison"]["allowed"]
    if told["experiment"] in ("compare", "simulate"):
        _figures(told, cases[0], refused=refused)
    if told["experiment"] == "compare" and not refused:
        chart(
            policies(cases, told, told["slo_target"], told["baseline"]),
            key="f-policies-chart", height=110 + 34 * len(cases), alt=_alt(cases, told),
        )  # fmt: skip
    if told["experiment"] != "compare" and len(cases) > 6:
        cases = cases[:12]
    shapes.show(comparison(told, cases, group))
    with st.expander("Pools of each case", key="f-pools-of", type="compact"):
        shapes.show(pools(told, cases))


def _group_word(group: Row) -> str:
    return f"load × {group['load']:g}, {percent(group['cap'], decimals=0)} of power given back"


def _sweeps(told: Row) -> None:
    joules = all(g["comparison"]["allowed"] for g in told["groups"])
    for across, values in (("load", told["loads"]), ("cap", told["caps"])):
        if len(values) > 1:
            what = "Joules per success, SLO attainment" if joules else "SLO attainment"
            alt = (
                f"{what} and TTFT P99 of {len(told['policies'])} policies by {across}; the table below has one "
                f"{across} at a time."
            )
            chart(sweep(told, across, joules=joules), key=f"f-sweep-{across}", height=320, alt=alt)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].rstrip('.')}.".replace("_", " ")


def _figures(told: Row, case: Row, *, refused: bool) -> None:
    """Savings and harm of the case that leads, side by side."""
    f, at = case["figures"], parse_instant(told["finished_at"])
    quality, cls, carbon = (
        ("LOW" if not told["presentable"] else None),
        told["evidence_class"],
        told["carbon_evidence_class"],
    )

    def one(name: str, metric: str, unit: str, mark: str | None = "modeled") -> shapes.Figure:
        value, low, high = (f[metric][k] for k in ("value", "low", "high"))
        text, span = (percent(value) if unit == "%" else quantity(value, unit)), ""
        if low is not None:  # what is counted in shares cannot leave 0 to 1, whatever Student's t says
            low, high = max(low, 0.0), min(high, 1.0) if unit == "%" else high
            span = interval(100 * low, 100 * high, unit) if unit == "%" else interval(low, high, unit)
        about = f"{metric}, mean over {f[metric]['n']} seeds, 95 % Student's t"
        why = "no zone was chosen" if metric == "g_per_success" else "not known"
        if refused and metric == "j_per_success":
            value, why = None, "refused: other models, and quality is not controlled for"
        return shapes.Figure(
            name, text, span, mark, quality, at, explain=about,
            refused="" if value is not None else why,
        )  # fmt: skip

    name = str(case.get("policy") or case["case_name"]).replace("_", " ")
    shapes.show(f"<h4>{escape(name)}</h4>")
    shapes.figures(
        [
            one("joules per success", "j_per_success", "J", cls),
            one("success", "success_rate", "%"),
            one("within SLO", "slo_attainment", "%"),
            one("TTFT P99", "p99_ttft_s", "s"),
            one("cost", "cost_usd", "USD"),
            one("gCO2 per success", "g_per_success", "g", carbon),
            one("load carried", "throughput_per_s", "/s"),
            one("capacity", "capacity_per_s", "/s"),
        ]
    )


def _alt(cases: Sequence[Row], told: Row) -> str:
    said = [
        f"{c['policy']}: {quantity(c['figures']['j_per_success']['value'], 'J')} per success, "
        f"{percent(c['figures']['slo_attainment']['value'])} within SLO, TTFT P99 "
        f"{quantity(c['figures']['p99_ttft_s']['value'], 's')}"
        for c in cases
    ]
    return f"{reads.words_of(told)}. {'; '.join(said)}. The table below has the same numbers."


def _words(told: Row) -> None:
    for note in told["notes"]:
        shapes.note(note[0].upper() + note[1:])
    if told["scenario"].get("intensity"):
        for reason in told["intensity"]["reasons"]:
            shapes.note(f"Grams: {reason}", "warn")
    with st.expander("Profiles, scenario and hashes", key="f-fine", type="compact"):
        rows = [
            (
                escape(p["name"]),
                evidence_html(p["evidence_class"], reads.quality_of(p), word=True),
                escape(f"{p['logical_model'] or 'any model'} on {p['hardware_count']} × {p['hardware_model']}"),
                f"±{percent(p['relative_uncertainty'])}" if p["relative_uncertainty"] is not None else MISSING,
                escape(p["words"]),
            )
            for p in told["profiles"]
        ]
        shapes.show(shapes.table_html(("profile", "evidence", "stands for", "uncertainty", "in words"), rows))
        took = parse_instant(told["finished_at"]), parse_instant(told["started_at"])
        ran = duration((took[0] - took[1]).total_seconds()) if took[0] and took[1] else MISSING
        hashes = [
            ("run", told["id"]), ("scenario", told["scenario_sha256"]), ("requests", told["workload"]["sha256"]),
            ("report", told["report_sha256"]), ("intensity", told["intensity"]["version"] or MISSING),
            ("seeds", ", ".join(map(str, told["seeds"]))), ("took", ran),
            ("versions", ", ".join(f"{k} {v}" for k, v in told["versions"].items())),
        ]  # fmt: skip
        shapes.show(
            shapes.table_html(
                ("", ""), [(escape(k), f'<span class="jb-id">{escape(str(v))}</span>') for k, v in hashes]
            )
        )
        st.download_button(
            "Whole report, JSON", json.dumps(dict(told), ensure_ascii=False, indent=1), key="f-json",
            file_name=f"fleet-{told['experiment']}-{str(told['id'])[-12:]}.json", mime="application/json",
        )  # fmt: skip
        st.caption(literal(f"The same scenario again: joulebook fleet {told['experiment']} --scenario FILE"))
