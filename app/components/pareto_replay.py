"""A replay run on the Pareto page: choose run, condition and axes; the chart, the chosen policy, the words, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.components import links, replay_card, replay_compare, replay_jobs, replay_words, shapes
from app.components.access import read
from app.components.format import count
from app.components.links import select
from app.components.pareto_reference import Columns
from app.components.plot_theme import chart
from app.components.replay_chart import Panel, View, draw, text_of
from app.reads import replay as reads
from app.reads.pareto import Point, Unplotted, front
from warehouse.errors import IncomparableObservations

CHART = "r-chart"
_MIXING = ("hull", "random")  # they mix fixed arms and route nothing
KEYS = ("r-run", "r-at", "r-beside", "r-bench", "r-budget", "r-policy", "r-with", "r-which", "r-page")


def forget() -> None:
    """Another data set has other runs, policies and benchmarks: what was chosen for the last one does not apply."""
    links.forget(KEYS)


@dataclass(frozen=True)
class Chosen:
    """What the reader asks for. `beside`: a second condition, drawn beside the first."""

    run: reads.Run
    block: reads.Block
    beside: reads.Block | None
    x: str
    y: str
    benchmark: str
    log_x: bool
    budget_j: float | None


def show(data_set: reads.DataSet, top: Columns) -> None:
    replay_jobs.news(data_set.name)
    found = read(reads.runs, data_set.name)
    if not found:
        _nothing(data_set)
        return
    with top[3], st.popover("Replay…", key="r-replay", width="stretch"):
        replay_jobs.form(data_set)
    replay_jobs.running(data_set.name)
    run, block, beside = _run(found, top)
    told = read(reads.report, block.replay_run_id)
    chosen = _axes(told, run, block, beside)
    replay_words.verdict(told)
    left, right = st.columns([2, 1], gap="large")
    with right:
        policy = _policy(told)
    view = _view(told, chosen, policy)
    with left:
        drawn, unplotted = _chart(told, chosen, view)
    with right:
        replay_card.show(told, _named(told, policy), chosen.benchmark, run.finished_at)
    with left:
        if drawn and view.budget_j is not None:
            curves = () if chosen.benchmark else read(reads.curves, block.replay_run_id)
            replay_words.budget(view.budget_j, drawn, curves)
        replay_words.about(told, run, unplotted, read(reads.newest_outcome, run.dataset))
        replay_compare.show(told, run, block, policy, chosen.benchmark)
    if drawn:
        replay_words.numbers(told, drawn, view, block.words)


def _nothing(data_set: reads.DataSet) -> None:
    replay_jobs.running(data_set.name)
    shapes.empty(
        "What every routing policy would have cost and how well it would have answered, against the fixed arms and "
        "their mixing hull",
        f"No replay of {data_set.name} is stored yet. Its {count(data_set.arms)} arms are recorded: replay them now.",
    )
    replay_jobs.form(data_set)


def _run(found: list[reads.Run], top: Columns) -> tuple[reads.Run, reads.Block, reads.Block | None]:
    runs = {r.run_id: r for r in found}
    with top[0]:
        id_ = select(
            "Run", list(runs), "r-run", lambda i: f"{runs[i].finished_at:%Y-%m-%d %H:%M} UTC · {i[-8:]}", always=True
        )
    run = runs[id_]
    blocks = {b.replay_run_id: b for b in run.blocks}
    only = len(blocks) == 1
    short = _short_words(blocks)
    with top[1]:
        first = select(
            "Condition", list(blocks), "r-at", lambda i: short[i], disabled=only,
            help="This run has one condition. Replay with several batches, zones or hours to compare them." if only
            else "The same choices, evaluated under another load, zone or hour",
        )  # fmt: skip
    with top[2]:
        others = ["", *(i for i in blocks if i != first)]
        beside = select(
            "Beside it", others, "r-beside", lambda i: short[i] if i else "nothing", disabled=only
        )  # fmt: skip
    return run, blocks[first], blocks.get(beside)


def _short_words(blocks: dict[str, reads.Block]) -> dict[str, str]:
    """What tells a condition from the others of its run."""
    parts = {i: b.words.split(", ") for i, b in blocks.items()}
    common = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    return {i: ", ".join(p for p in each if p not in common) or blocks[i].words for i, each in parts.items()}


def _axes(told: reads.Report, run: reads.Run, block: reads.Block, beside: reads.Block | None) -> Chosen:
    row = st.columns([1.5, 1.6, 1.35, 1.0, 0.8], vertical_alignment="bottom")
    with row[0]:
        x = select("Across: less", list(reads.X), "r-x", lambda k: f"{reads.X[k].title}, {reads.X[k].unit}")
    with row[1]:
        y = select("Up: more", list(reads.Y), "r-y", lambda k: _y_words(told, k))
    with row[2]:
        names = reads.benchmarks(told)
        bench = select("Benchmark", ["", *names], "r-bench", lambda b: b or "all together", disabled=not names)
    with row[3]:
        asked = x == "energy_j_per_query" and y == "accuracy"
        budget = links.number(
            "Budget, J/query",
            "r-budget",
            usual=_usual_budget(told),
            low=0.0,
            format="%.4g",
            disabled=not asked,
            help="The most accurate policy within this many joules" if asked else "Needs J per query against accuracy",
        )  # fmt: skip
    with row[4]:
        log_x = links.toggle("Log axis", "r-log", usual=True)
    return Chosen(run, block, beside, x, y, bench, bool(log_x), budget if asked and budget else None)


def _y_words(told: reads.Report, key: str) -> str:
    words = reads.Y[key].title
    return f"{words}, {replay_card.weights_words(told)}" if key == "reward" else words


def _usual_budget(told: reads.Report) -> float | None:
    """That of the run, else half the joules of the most accurate fixed arm."""
    if told["budget"] is not None:
        return float(told["budget"]["budget_j"])
    fixed = [p["figures"] for p in told["policies"] if p["fixed_arm"] is not None]
    both = [(f["accuracy"], f["energy_j_per_query"]) for f in fixed]
    known = [(right, -joules) for right, joules in both if None not in (right, joules)]
    return float(f"{-max(known)[1] / 2:.3g}") if known else None


def _policy(told: reads.Report) -> str:
    names = [p["name"] for p in told["policies"]]
    marks = {p["name"]: _standing_words(p) for p in told["policies"]}
    start = names.index(_first_seen(told))
    return select("Policy, or click a point", names, "r-policy", lambda n: f"{n}{marks[n]}", usual=start)


def _standing_words(policy: dict[str, Any]) -> str:
    if not policy["deployable"]:
        return " · bound"
    return " · front" if policy["on_front"] else ""


def _first_seen(told: reads.Report) -> str:
    """The deployable router that stands highest above the hull; without any, the first policy."""
    tried = [
        (p["domination"]["margin_over_hull"]["estimate"], p["name"])
        for p in told["policies"]
        if p["deployable"]
        and p["fixed_arm"] is None
        and p["family"] not in _MIXING
        and p["domination"]["margin_over_hull"]["estimate"] is not None
    ]
    return max(tried)[1] if tried else str(told["policies"][0]["name"])


def _named(told: reads.Report, name: str) -> dict[str, Any]:
    return next(p for p in told["policies"] if p["name"] == name)


def _clicked() -> None:
    """A click on a point chooses its policy; the chart's own selection is of no further use."""
    event = st.session_state.get(CHART) or {}
    hit = event.get("selection", {}).get("points", [])
    names = [data[0] for p in hit if (data := p.get("customdata"))]
    if names:
        st.session_state["r-policy"] = str(names[0])


def _view(told: reads.Report, chosen: Chosen, policy: str) -> View:
    words = _y_words(told, chosen.y)
    return View(reads.X[chosen.x], reads.Y[chosen.y], words, chosen.log_x, policy, chosen.budget_j)


def _chart(told: reads.Report, chosen: Chosen, view: View) -> tuple[list[Point], list[Unplotted]]:
    """The chart; what it draws of the first condition, and what has no place on it."""
    blocks = [chosen.block, *([chosen.beside] if chosen.beside else [])]
    reports = [told, *([read(reads.report, chosen.beside.replay_run_id)] if chosen.beside else [])]
    each = [reads.points(r, chosen.x, chosen.y, chosen.benchmark, chosen.run.finished_at) for r in reports]
    points, unplotted = each[0]
    if not points:
        why = unplotted[0].reason if unplotted else "no policy was run"
        shapes.empty(
            f"{view.y_words} against {view.x.title} of every policy, with the front",
            f"Nothing to draw: {why}. Choose other axes, or replay under a condition that tells it.",
        )
        return [], unplotted
    try:
        fronts = [front(ps) for ps, _ in each]
        front([p for ps, _ in each for p in ps])  # beside each other they share an axis, so also a class
    except IncomparableObservations as mixed:
        shapes.problem(mixed.message, mixed.fix, look="warn")
        return [], unplotted
    names = _short_words({b.replay_run_id: b for b in chosen.run.blocks})
    curves = not chosen.benchmark and chosen.y == "accuracy" and reads.X[chosen.x].curve
    panels = [
        Panel(
            names[b.replay_run_id],
            f,
            reads.mixing_line(f.points, chosen.x, chosen.y),
            read(reads.curves, b.replay_run_id) if curves else (),
        )
        for b, f in zip(blocks, fronts, strict=True)
    ]
    chart(draw(panels, view), key=CHART, height=520, alt=_alt(panels, view), on_point=_clicked)
    return fronts[0].points, unplotted


def _alt(panels: Sequence[Panel], view: View) -> str:
    said = []
    for panel in panels:
        points = panel.front.points
        on = [p for p in points if p.on_front]
        best = min(on, key=lambda p: p.x)
        said.append(
            f"{panel.title}: {view.y_words} against {view.x.title}, {len(points)} policies, {len(on)} on the front; "
            f"least: {best.name} at {text_of(best.x, view.x)}."
        )
    return " ".join([*said, "The table below has the same numbers."])
