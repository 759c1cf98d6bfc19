"""Replaying from the console: under which conditions, and what came of it. One replay at a time per data set."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import read
from app.components.jobs import Job, Line
from app.reads import replay as reads
from warehouse.clock import utcnow

_LINE = Line("replay", "Cancel the replay", "r")


def job_of(dataset: str) -> Job | None:
    return _LINE.job(dataset)


def start(params: dict[str, Any]) -> None:
    """Run `replay.run` beside the page; passed over while one of the same data set runs."""
    dataset = str(params["dataset"])
    _LINE.start("replay.run", params, f"Replaying {dataset}", dataset)


def form(dataset: reads.DataSet) -> None:
    """Where the outcomes tell no joules, a GPU and batches give them; zones give grams."""
    gpus, zones = read(reads.gpus), read(reads.zones)
    if not dataset.own_energy:
        if gpus:
            st.caption("Joules come from tokens x measured J/token of a GPU at a batch; the same choices under each.")
            st.multiselect("GPU", gpus, default=_usual(gpus), key="r-run-gpu")
            st.text_input(
                "Batches (mean concurrent requests)", "128", key="r-run-batch", help="several by commas: 8, 256"
            )
        else:
            shapes.note(
                "No GPU was benchmarked yet, so joules stay unknown. Import mlenergy-v2 or mlenergy-v3.", "warn"
            )
    if zones:
        st.multiselect("Zones of the grid, for grams", zones, key="r-run-zone")
    busy = _LINE.busy(dataset.name)
    st.button(
        "Replay now",
        key="r-run-go",
        type="primary",
        disabled=busy,
        help="It runs already" if busy else "Every fixed arm, hull, oracle and router of the default roster",
        on_click=_go,
        args=[dataset],
    )


def _usual(gpus: list[str]) -> list[str]:
    return [g for g in gpus if "H100" in g][:1] or gpus[:1]


def _go(dataset: reads.DataSet) -> None:
    """What the form says now: the click may arrive together with the last change of a field."""
    state = st.session_state
    state.pop("_replay_said", None)
    params: dict[str, Any] = {"dataset": dataset.name}
    if not dataset.own_energy and state.get("r-run-gpu"):
        told = str(state.get("r-run-batch", "")).replace(";", ",")
        try:
            batches = [float(part) for part in told.split(",") if part.strip()]
        except ValueError:
            state["_replay_said"] = f"Batches are numbers by commas, such as 8, 256; told is {told!r}."
            return
        params |= {"gpu": state["r-run-gpu"], "batch": batches}
    if state.get("r-run-zone"):
        hour = utcnow().replace(minute=0, second=0, microsecond=0)
        params |= {"zone": state["r-run-zone"], "at": [f"{hour.isoformat()}Z"]}
    start(params)


def news(dataset: str) -> None:
    """Ask before reading which runs there are: what ends after that draws the page anew."""
    _LINE.news(dataset)


def running(dataset: str) -> None:
    """Progress of the replay of this data set, or what went wrong with the last one."""
    said = st.session_state.get("_replay_said")
    if said:
        shapes.problem(said, "", look="warn")
    _LINE.show(dataset)
