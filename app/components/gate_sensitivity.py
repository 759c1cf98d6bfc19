"""How sure the choice is: how often it flips within what is uncertain, and at which values it would."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import read
from app.components.format import MISSING, NBSP, count, percent, quantity, significant, usd
from app.components.gate import KINDS
from app.components.marks import evidence_html
from app.reads.sensitivity import Answer, Assumed, Turn
from app.reads.sureness import Sureness, sureness

_QUESTIONS = {"energy": "fewer J per success", "usd": "fewer USD per success", "carbon": "fewer gCO2e per success"}
_INPUTS = {
    "ratio": "the candidate's J per success",
    "success": "the candidate's success rate",
    "tariff": "$/kWh",
    "intensity_candidate": "grid of the candidate",
    "intensity_control": "grid of the incumbent",
    "carbon_usd_per_t": "the carbon price",
    "failure_usd": "the price of a failure",
    "fee_candidate": "the candidate's bill",
}


def value(turn: Turn, x: float) -> str:
    """A value of an input in its own unit."""
    if turn.name == "success":
        return percent(x)
    if turn.name == "ratio":
        return quantity(x, "J")
    if turn.unit.startswith("USD"):
        return f"{usd(x)}{turn.unit[3:]}"
    return f"{significant(x)}{NBSP}{turn.unit}"


def turn_text(turn: Turn) -> str:
    """`flips above 142 gCO2e/kWh (now 37.0)`, or how far it was looked for."""
    name = _INPUTS.get(turn.name, turn.name)
    if turn.at is None and math.isinf(turn.high):
        return f"{name}: no price turns it"
    if turn.at is None:
        return f"{name}: no flip between {value(turn, turn.low)} and {value(turn, turn.high)}"
    side = "above" if turn.upwards else "below"
    return f"{name}: flips {side} {value(turn, turn.at)} (now {value(turn, turn.now)})"


def flip_text(answer: Answer) -> str:
    """`below 0.04 %` or `12.3 % (11.7–13.0)`: the Monte Carlo's own interval is not hidden."""
    flip = answer.flip
    if flip.probability == 0:
        return f"below {percent(flip.high, decimals=2)}"
    return f"{percent(flip.probability)} ({percent(flip.low)[:-2]}–{percent(flip.high)})"


def table(found: Sureness) -> str:
    rows = []
    for answer in found.answers:
        look, word = ("ok", "candidate") if answer.chosen else ("warn", "incumbent")
        turns = "".join(f"<li>{escape(turn_text(t))}</li>" for t in answer.turns)
        parts = ", ".join(
            f"{_INPUTS.get(s.name, s.name)} {percent(min(1.0, s.total), decimals=0)}" for s in answer.shares
        )
        rows.append(
            (
                f"{_QUESTIONS[answer.name]} {evidence_html(answer.evidence_class)}",
                f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}</span>',
                flip_text(answer),
                f'<ul class="jb-reasons">{turns}</ul>' if turns else MISSING,
                f'<span class="jb-small">{escape(parts) or "nothing is uncertain"}</span>',
            )
        )
    heads = ("asked for", "choice", "flip probability", "break-even", "uncertainty comes from")
    return shapes.table_html(heads, rows, numeric=(2,))


def section(rec_id: str) -> None:
    """The table, and below it what nobody measures: carbon price, price of a failure, how well a grid is known."""
    st.markdown("**How sure the choice is**")
    with st.container(key=f"sureness-{rec_id}", gap="xsmall"):
        place = st.container()
        with st.expander("What if", key=f"what-if-{rec_id}", type="compact"):
            assumed = _assumed(rec_id)
        found = read(sureness, rec_id, assumed)
        with place:
            _told(found, assumed)


def _told(found: Sureness, assumed: Assumed) -> None:
    if not found.answers:
        shapes.note("Not known: " + "; ".join(found.notes))
        return
    shapes.show(table(found))
    facts = found.facts
    assert facts is not None
    basis = KINDS.get(facts.kind, facts.kind).partition(":")[0]
    tariff = f", tariff {usd(facts.tariff_usd_per_kwh)}/kWh" if facts.tariff_usd_per_kwh else ""
    grid = f"grid intensity ±{percent(assumed.intensity_sd, decimals=0)} (1 sd, assumed)"
    told = [
        f"by {basis}, n {count(facts.n)}{tariff}; sampling intervals, {grid}, 10,000 draws. Arithmetic on evidence, "
        "not a measurement; a meter's common error is not in it",
        *found.notes,
    ]
    shapes.show("".join(f'<div class="jb-small jb-muted">{escape(t)}</div>' for t in told))


def _assumed(rec_id: str) -> Assumed:
    """Prices of harm and uncertainty of the grid, as the reader sets them."""
    columns = st.columns(4)

    def asked(place: Any, label: str, name: str, value: float, top: float, step: float, help_: str) -> float:
        with place:
            found = st.number_input(
                label,
                min_value=0.0,
                max_value=top,
                value=value,
                step=step,
                format="%g",
                key=f"{name}-{rec_id}",
                help=help_,
            )
        return float(found or 0.0)

    return Assumed(
        carbon_usd_per_t=asked(columns[0], "Carbon price, USD/t", "carbon-price", 0.0, 10_000.0, 10.0,
                               "What a ton of CO2 equivalent is worth to you; 0 leaves it out of the dollars"),
        failure_usd=asked(columns[1], "Price of a failure, USD", "failure-price", 0.0, 1_000.0, 0.001,
                          "What a failed request costs you beyond its repetition"),
        intensity_sd=asked(columns[2], "Grid intensity, ±%", "grid-sd", 10.0, 100.0, 1.0,
                           "One standard deviation, relative; of either zone by itself") / 100,
        tariff_sd=asked(columns[3], "Tariff, ±%", "tariff-sd", 0.0, 100.0, 1.0,
                        "One standard deviation, relative") / 100,
    )  # fmt: skip
