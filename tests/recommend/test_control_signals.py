"""Test signals over days: step, square waves, noise, dropouts, clock skew, load: few flips, and none in the band.

Signals and bounds after Control in docs/recommendations.md: hysteresis 5 %, dwell 30 min, back-off 1 h doubled to 7 d.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from hypothesis import given, settings
from hypothesis import strategies as st

from app.desk import Desk
from app.operations import SYSTEM
from app.recommendations import store
from policies.recommend.guardrails import Limits
from policies.recommend.lifecycle import Command, decide
from tests.recommend.control_loop import START, Loop
from tests.recommend.desks import Driver, insert, make_desk, run_row
from warehouse.engine import Warehouse

DWELL_H = 0.5
DAYS = 24.0


def square(size: float, period_h: float = 2.0) -> Any:
    """New is `size` better, then `size` worse, half a period each."""
    return lambda h: (100.0, 100.0 * (1 - size if h % period_h < period_h / 2 else 1 + size))


def test_a_step_is_one_flip() -> None:
    loop = Loop().run(lambda h: (100.0, 100.0 if h < 12 else 70.0), 3 * DAYS)
    assert len(loop.flips) == 1 and 12 <= loop.flips[0] < 12.2


def test_a_square_wave_of_two_percent_flips_nothing() -> None:
    loop = Loop().run(square(0.02), 7 * DAYS)
    assert loop.flips == [] and any(h.startswith("gains less than 5%") for h in loop.held)


def test_a_square_wave_of_eight_percent_flips_no_more_often_than_the_dwell_allows() -> None:
    fast = Loop().run(square(0.08, period_h=0.5), 3 * DAYS)  # faster than the dwell
    assert 0 < len(fast.flips) <= 3 * DAYS / DWELL_H
    assert all(b - a >= DWELL_H - 1e-9 for a, b in itertools.pairwise(fast.flips))
    slow = Loop().run(square(0.08, period_h=4.0), 3 * DAYS)
    assert len(slow.flips) == 36, "each half period is followed once"


def test_the_budget_of_a_day_bounds_what_the_dwell_lets_through() -> None:
    limits = replace(Limits(), max_changes_per_day=4, max_changes_per_pool=3)
    loop = Loop(limits=limits).run(square(0.08, period_h=2.0), 5 * DAYS)
    for start in loop.flips:
        assert sum(start <= f < start + DAYS for f in loop.flips) <= 3
    assert any("cells moved to or from" in h for h in loop.held)


def test_noise_inside_the_band_flips_nothing_and_beyond_it_no_more_than_the_dwell_allows() -> None:
    inside = Loop(noise=0.02).run(lambda h: (100.0, 99.0), 3 * DAYS)
    assert inside.flips == []
    wild = Loop(noise=0.30).run(lambda h: (100.0, 99.0 if int(h * 6) % 2 else 101.0), 3 * DAYS)
    assert len(wild.flips) <= 3 * DAYS / DWELL_H


def test_in_a_dropout_the_last_good_table_holds() -> None:
    def signal(h: float) -> tuple[float, float] | None:
        return None if 10 <= h < 60 else (100.0, 70.0 if h < 10 else 130.0)

    loop = Loop().run(signal, 3 * DAYS)
    assert [round(f) for f in loop.flips] == [0, 60], "nothing in between, and then once"


@pytest.mark.parametrize("back_h", [0.75, 3.0, 30.0])
def test_a_clock_that_is_set_back_again_and_again_adds_no_flip(back_h: float) -> None:
    """Every 6 h the clock jumps back: waiting grows longer, never shorter."""

    def clock(h: float) -> float:
        return h - back_h * math.floor(h / 6)

    loop = Loop(clock=clock).run(square(0.08, period_h=1.0), 2 * DAYS)
    assert len(loop.flips) <= 2 * DAYS / DWELL_H
    assert all(b - a >= DWELL_H - 1e-9 for a, b in itertools.pairwise(loop.flips)), "by true time"


def test_a_tie_goes_to_the_incumbent_for_ever() -> None:
    loop = Loop(noise=0.0).run(lambda h: (100.0, 100.0), DAYS)
    assert loop.flips == [] and loop.events == []


def test_a_cell_that_keeps_going_wrong_is_tried_less_and_less() -> None:
    loop = Loop(succeed=False).run(lambda h: (100.0, 70.0), 30 * DAYS, step_h=1.0)
    tried = [(s.proposed_at - START) / timedelta(hours=1) for s in loop.states.values()]
    waits = [b - a for a, b in itertools.pairwise(tried)]
    assert waits == [min(2.0**i, 168.0) for i in range(len(waits))] and len(waits) >= 9
    assert loop.incumbent == "old"


def test_a_success_ends_the_row_of_what_went_wrong() -> None:
    loop = Loop(succeed=False).run(lambda h: (100.0, 70.0), 8.0)  # wrong at 0, 1, 3 and 7 h: the next after 15 h
    loop.succeed = True
    loop.step(lambda h: (100.0, 70.0), 14.9)
    assert loop.incumbent == "old"
    loop.step(lambda h: (100.0, 70.0), 15.0)
    assert loop.incumbent == "new"
    loop.step(lambda h: (70.0, 100.0), 15.6)
    assert loop.incumbent == "old", "the dwell is all that is left"


@pytest.mark.parametrize("congestion", [0.02, 0.045])
def test_energy_that_depends_on_the_load_makes_no_limit_cycle_inside_the_band(congestion: float) -> None:
    """Whoever has the traffic grows worse by `congestion` and the other better: the loop has a gain."""
    loop = Loop(noise=0.002)

    def signal(h: float) -> tuple[float, float]:
        loaded = loop.incumbent == "old"
        return 100.0 * (1 + congestion * loaded), 100.0 * (1 + congestion * (not loaded))

    loop.run(signal, 3 * DAYS)
    assert loop.flips == []


def test_beyond_the_band_a_limit_cycle_is_as_slow_as_the_dwell() -> None:
    loop = Loop(noise=0.002)

    def signal(h: float) -> tuple[float, float]:
        loaded = loop.incumbent == "old"
        return 100.0 * (1 + 0.12 * loaded), 100.0 * (1 + 0.12 * (not loaded))

    loop.run(signal, 2 * DAYS)
    assert 0 < len(loop.flips) <= 2 * DAYS / DWELL_H


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-0.5, 0.5)), min_size=5, max_size=60),
    st.sampled_from([0.0, 0.01, 0.05]),
)
def test_no_signal_flips_inside_the_band_or_faster_than_the_dwell(levels: list[float | None], noise: float) -> None:
    def signal(h: float) -> tuple[float, float] | None:
        level = levels[min(int(h * 6), len(levels) - 1)]
        return None if level is None else (100.0, 100.0 * (1 + level))

    loop = Loop(noise=noise).run(signal, len(levels) / 6)
    assert all(b - a >= DWELL_H - 1e-9 for a, b in itertools.pairwise(loop.flips))
    if noise == 0.0:
        assert all(abs(signal(f)[1] / 100.0 - 1) > 0.0475 for f in loop.flips)  # type: ignore[index]


# the desk itself, started anew at every step --------------------------------------------------------------------

CONFIG = """[policy]
tiers = {old = 1, new = 1}
evidence_max_age = "50 min"
[weights]
cost = 1
eco = 0
prof = 0
"""
CELL = {"category": "debugging", "tier": 1, "offer_id": "old"}


class Restarted:
    """A desk whose warehouse is closed and opened between two steps, and whose operator approves whatever is open."""

    def __init__(self, home: Path) -> None:
        self.desk = make_desk(home, CONFIG)
        self.driver = Driver(self.desk)
        version = self.driver.call("routing.table")["version"]
        self.driver.call("routing.declare", {"cells": [CELL], "version": version})
        self.flips: list[Any] = []

    def restart(self) -> None:
        path = self.desk.warehouse.path
        self.desk.close()
        self.desk = self.driver.desk = Desk(self.desk.settings, Warehouse.open(path))

    def step(self, at: Any, energies: dict[str, float] | None) -> None:
        before = self.driver.call("routing.table")["routes"]["debugging/1/interactive"]
        for offer, joules in (energies or {}).items():
            changes = {"period_start_at": at - timedelta(minutes=2), "period_end_at": at - timedelta(minutes=1),
                       "known_from": at - timedelta(minutes=1)}  # fmt: skip
            rows = [run_row(offer, i, joules * (1 + 0.002 * i), "acme", changes) for i in range(5)]
            insert(self.desk, "core.usage", rows)
        self.driver.refresh()
        for told in self.driver.call("recommend.list", {"state": "PROPOSED"})["recommendations"]:
            self.driver.observe(told["id"])
            with self.desk.warehouse.transaction() as tx:
                state, _ = store.one(tx, told["id"])
                data = {"verdict": "SUCCEEDED", "why": "-"}
                store.append(tx, SYSTEM, told["id"], decide(state, Command("measure", data=data), now=at))
        after = self.driver.call("routing.table")["routes"]["debugging/1/interactive"]
        if after != before:
            self.flips.append(at)


def test_a_desk_that_is_started_anew_at_every_step_keeps_dwell_band_and_table(own_home: Path) -> None:
    with time_machine.travel(START, tick=False) as clock:
        made = Restarted(own_home)
        better, worse = {"old": 100.0, "new": 70.0}, {"old": 100.0, "new": 300.0}
        signal: list[dict[str, float] | None] = [
            {"old": 100.0, "new": 98.0}, {"old": 100.0, "new": 102.0}, {"old": 100.0, "new": 98.0}, None,  # in the band
            better,  # a step: one flip, at 50 min
            worse, None, None,  # back at once: it dwells until 80 min
            None, None, None, None,  # a dropout, longer than the evidence lasts
            worse,
        ]  # fmt: skip
        for i, energies in enumerate(signal):
            # The clock is set back by 5 min now and then.
            at = START + timedelta(minutes=10 * (i + 1) - (5 if i % 3 == 2 else 0))
            clock.move_to(at)
            made.restart()
            made.step(at, energies)
        made.desk.close()
    assert [(at - START) / timedelta(minutes=1) for at in made.flips] == [50, 80]
