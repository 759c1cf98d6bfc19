"""Fleet: what backends draw, how well models of them hold, and what another policy, load, cap or zone would do."""

from __future__ import annotations

import streamlit as st

from app.components import (
    chrome,
    fleet_backends,
    fleet_calibration,
    fleet_form,
    fleet_jobs,
    fleet_results,
    links,
    shapes,
)
from app.components.access import in_words, read
from app.reads import fleet as reads

SECTIONS = {"backends": "Backends", "calibration": "Calibration", "whatif": "What-if"}


def first() -> list[str]:
    """What says most at first sight comes first: live backends, else experiments."""
    names = list(SECTIONS)
    return names if read(reads.backends) or not read(reads.runs) else ["whatif", *names[:-1]]


def what_if() -> None:
    rows = read(reads.runs)
    fresh = fleet_jobs.news()
    if fresh is not None and fresh.operation in fleet_form.OPERATIONS and fresh.answer is not None:
        st.session_state["f-run-id"] = fresh.answer["id"]
    with st.expander("New what-if", expanded=not rows, key="f-new"), in_words():
        fleet_form.show()
    fleet_form.said()
    fleet_jobs.show(fleet_form.OPERATIONS)
    if not rows:
        shapes.empty(
            "Energy, joules per success, success, latency, SLO, cost, grams, capacity and rejections of a modelled "
            "fleet under each policy, with intervals over seeds",
            "No experiment is stored yet. Fill in the form above and run it. For recorded requests import a trace "
            "(request-trace, azure-trace, mooncake-trace, length-cdf) on the Sources page, or load the sample.",
        )
        chrome.load_sample_button()
        return
    run_id = fleet_results.choose(rows)
    fleet_results.stored(rows)
    fleet_results.show(run_id)


def show() -> None:
    names = first()
    section = links.segments("Section", names, "f-tab", SECTIONS.__getitem__, label_visibility="collapsed")
    if section == "backends":
        fleet_backends.show()
    elif section == "calibration":
        fleet_calibration.show()
    else:
        what_if()


with in_words():
    show()
