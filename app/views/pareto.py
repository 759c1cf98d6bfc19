"""Pareto: quality against joules, dollars or grams; what is dominated, and how sure each point is."""

from __future__ import annotations

import streamlit as st

from app.components import links, pareto_published, pareto_reference, pareto_replay
from app.components.access import in_words, read
from app.reads import pareto as reads
from app.reads import published, replay


def options() -> list[str]:
    """The reference workload, published sets, recorded outcomes."""
    return [reads.REFERENCE, *read(published.names), *(d.name for d in read(replay.data_sets))]


def first(names: list[str]) -> int:
    """What says most at first sight: the newest replay, else published points while nothing here has a score."""
    ran = [d for d in read(replay.data_sets) if d.ran_at is not None]
    if ran:
        return names.index(max(ran, key=lambda d: (d.ran_at, d.name)).name)
    return 1 if not read(reads.has_scores) and read(published.in_warehouse) else 0


def word(name: str) -> str:
    if name == reads.REFERENCE:
        return "Reference workload, this warehouse"
    if name in read(published.names):
        return "Published points" if name == "published" else f"Published: {name}"
    return f"Replay: {name}"


def forget() -> None:
    pareto_replay.forget()
    pareto_published.forget()


def choose() -> str:
    names = options()
    return links.select("Data set", names, "dataset", word, usual=first(names), always=True, on_change=forget)


def show() -> None:
    # The box stands in the first row of whatever page the choice leads to.
    row = st.columns([1.25, 1.6, 1.35, 1.35, 0.8], vertical_alignment="bottom")
    with row[0]:
        name = choose()
    sets = {d.name: d for d in read(replay.data_sets)}
    if name == reads.REFERENCE:
        pareto_reference.show(row[1:])
    elif name in sets:
        pareto_replay.show(sets[name], row[1:])
    else:
        pareto_published.show(name, row[1:])


with in_words():
    show()
