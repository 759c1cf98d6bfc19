"""Compare drawer: two policies of a run query by query."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from app.components import links, shapes
from app.components.access import read
from app.components.format import MISSING, count, percent, points, quantity
from app.components.links import select
from app.components.marks import evidence_html
from app.reads import replay as reads
from app.reads import replay_pairs as pairs
from app.reads.replay_pairs import Asked, Pair
from warehouse.clock import parse_utc

PAGE = 10
TEXT = 180
_WHICH = {"differ": "that differ", "only_a": "only A right", "only_b": "only B right", "all": "all"}


def show(told: reads.Report, run: reads.Run, block: reads.Block, policy: str, benchmark: str) -> None:
    """The chosen policy (A) beside another one (B): who was right, what it cost, and where they differ most."""
    st.subheader("Query by query", anchor=False)
    kept = read(pairs.with_choices, run.blocks[0].replay_run_id)
    others = [name for name in kept if name != policy]
    if policy not in kept or not others:
        shapes.note(
            f"The choices of {policy} were not kept with this run." if kept else "This run kept no choices.", "warn"
        )
        return
    left, right = st.columns([1, 2], vertical_alignment="bottom", gap="large")
    with left:
        other = _other(policy, others)
    if not other:
        with right:
            shapes.note(f"Choose a policy to see where it and {policy} part: who was right, and for how many joules.")
        return
    bound = _made_elsewhere(told, run, block, policy, other)
    if bound:
        shapes.note(bound, "warn")
        return
    asked = Asked(
        run.dataset, run.blocks[0].replay_run_id, policy, other, parse_utc(told["as_of"], what="as_of"),
        told["evidence_class"], pairs.rates_of(told), benchmark,
    )  # fmt: skip
    found = read(pairs.pair, asked)
    with right:
        shapes.show(f"<b>A</b> {escape(policy)} &nbsp; <b>B</b> {escape(other)} · {escape(_where(block, benchmark))}")
    if not found.n:
        shapes.note("No query has a choice of both.", "warn")
        return
    counts, sides = st.columns([1, 1], gap="large")
    with counts:
        shapes.show(_counts(found))
    with sides:
        shapes.show(_sides(found, told))
    for note in _notes(found):
        shapes.note(note, "warn")
    _queries(asked, found, told)


def _other(policy: str, others: list[str]) -> str:
    return select(f"Compare {policy} with", ["", *others], "r-with", lambda n: n or "nothing")


def _where(block: reads.Block, benchmark: str) -> str:
    return f"{benchmark}, {block.words}" if benchmark else block.words


def _made_elsewhere(told: reads.Report, run: reads.Run, block: reads.Block, a: str, b: str) -> str:
    """A bound chooses anew under every condition; its choices are kept under the first."""
    if block.replay_run_id == run.blocks[0].replay_run_id:
        return ""
    bounds = [p["name"] for p in told["policies"] if p["name"] in (a, b) and not p["deployable"]]
    if not bounds:
        return ""
    kept = run.blocks[0].words
    return f"{bounds[0]} sees outcomes, so it chose anew under this condition; its choices are kept for {kept}."


def _counts(found: Pair) -> str:
    def row(words: str, n: int) -> tuple[str, str, str, str]:
        share = n / found.n
        bar = f'<span class="jb-share"><b style="width:{100 * share:.1f}%"></b></span>'
        return words, bar, count(n), percent(share)

    rows = [
        row("both right", found.both),
        row("only A right", found.only_a),
        row("only B right", found.only_b),
        row("neither", found.neither),
    ]
    if found.graded:
        rows.append(row("graded in between, or mixed", found.graded))
    if found.unknown:
        rows.append(row("a cell is missing", found.unknown))
    rows.append(row('<span class="jb-muted">chose the same arm</span>', found.same_choice))
    return shapes.table_html((f"of {count(found.n)} queries", "", "", ""), rows, numeric=(2, 3))


def _sides(found: Pair, told: reads.Report) -> str:
    mark = f" {evidence_html(told['evidence_class'])}" if told["evidence_class"] else ""
    a, b = found.a, found.b
    less = MISSING if not a.energy_j or b.energy_j is None or not b.energy_j else percent(
        a.energy_j / b.energy_j - 1, signed=True
    )  # fmt: skip
    rows = [
        ("accuracy", percent(a.accuracy), percent(b.accuracy), points(found.difference)),
        ("energy per query", _joules(a.energy_j, mark), _joules(b.energy_j, mark), less),
    ]
    tango = "needs answers that are right or wrong, all of them known"
    bar = ""
    if found.tango is not None and found.difference is not None:
        low, high = found.tango
        tango = f"{points(low)[:-3]} to {points(high)}"
        bar = shapes.interval_bar_html(low, found.difference, high)
    return (
        shapes.table_html(("", "A", "B", "A against B"), rows, numeric=(1, 2, 3))
        + f'<span class="jb-small jb-muted">accuracy, 95 % Tango: {escape(tango)}</span> {bar}'
    )


def _joules(value: float | None, mark: str) -> str:
    return MISSING if value is None else f"{escape(quantity(value, 'J'))}{mark}"


def _notes(found: Pair) -> list[str]:
    said = []
    for name, side in (("A", found.a), ("B", found.b)):
        if side.missing:
            said.append(
                f"{name} picks {count(side.missing)} cells without an answer or joules: its means over all "
                f"{count(found.n)} queries are not identifiable."
            )
        if side.handed_back:
            said.append(f"{name} hands {count(side.handed_back)} queries back: no answer, and no joules spent.")
    if found.restated:
        said.append(f"{count(found.restated)} of these outcomes were corrected after the run: figures may differ.")
    return said


def _queries(asked: Asked, found: Pair, told: Mapping[str, Any]) -> None:
    totals = {"differ": found.differ, "only_a": found.only_a, "only_b": found.only_b, "all": found.n}
    which = links.segments("Queries", list(_WHICH), "r-which", lambda w: f"{_WHICH[w]} {count(totals[w])}")
    pages = max(1, -(-totals[which] // PAGE))
    page = 1
    if pages > 1:
        words = f"Page of {count(pages)}, answers that differ first, then joules"
        page = int(links.number(words, "r-page", usual=1, low=1, high=pages, width=320) or 1)
    rows = read(pairs.queries, asked, which, (page - 1) * PAGE, PAGE)
    if rows.is_empty():
        shapes.note("No such query.")
        return
    mark = f" {evidence_html(told['evidence_class'])}" if told["evidence_class"] else ""
    body = [
        (
            _query(r["query_id"], r["text"]),
            escape(r["benchmark"]),
            _choice(r["a_arm"], r["a_correct"]),
            _joules(r["a_j"], mark),
            _choice(r["b_arm"], r["b_correct"]),
            _joules(r["b_j"], mark),
        )
        for r in rows.iter_rows(named=True)
    ]
    shapes.show(shapes.table_html(("query", "benchmark", "A chose", "A, J", "B chose", "B, J"), body, numeric=(3, 5)))


def _query(id_: str, text: str | None) -> str:
    head = f'<span class="jb-id">{escape(id_)}</span>'
    if text is None:
        return f'{head}<br><span class="jb-muted jb-small">no text recorded</span>'
    short = text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
    return f'{head}<br><span title="{escape(text[:2000])}">{escape(short)}</span>'


def _choice(arm: str | None, correct: float | None) -> str:
    """The arm and how it answered: a shape and a word."""
    what = escape(arm) if arm is not None else "handed back"
    if correct is None:
        told = f'<span class="jb-muted">{MISSING} not known</span>'
    elif correct in (0.0, 1.0):
        look, word = ("ok", "right") if correct else ("bad", "wrong")
        told = f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}</span>'
    else:
        told = percent(correct)
    return f"{what}<br>{told}"
