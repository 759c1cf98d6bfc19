"""What turns a choice: values worked out by hand, and properties that hold for any evidence."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.components.gate_sensitivity import flip_text, turn_text
from app.reads.sensitivity import Assumed, Facts, Ratio, Turn, answers
from policies.proof.bills import bill_of

HALF = Ratio(level=40.0, ratio=0.5, low=0.45, high=0.5555555555)
FACTS = Facts(
    kind="paired_replay",
    n=1000,
    energy=HALF,
    usd=Ratio(40.0 * 8 / 3.6e6, 0.5, 0.45, 0.5555555555),
    carbon=Ratio(40.0 * 72 / 3.6e6, 0.25, 0.24, 0.26),
    success=(0.96, 0.96),
    energy_class="allocated",
    carbon_class="calibrated",
    tariff_usd_per_kwh=8.0,
)


def turns(name: str, facts: Facts = FACTS, assumed: Assumed = Assumed()) -> dict[str, Turn]:
    return {t.name: t for a in answers(facts, assumed) if a.name == name for t in a.turns}


def test_half_the_joules_turn_where_the_candidate_succeeds_half_as_often() -> None:
    found = turns("energy")
    assert found["success"].at == pytest.approx(0.48)  # 0.5 x 40 x 0.96 / s = 40
    assert found["ratio"].at == pytest.approx(40.0)  # as much as the incumbent takes
    assert found["ratio"].now == pytest.approx(20.0)


def test_grids_turn_where_grams_are_equal() -> None:
    found = turns("carbon")
    assert found["intensity_control"].now == pytest.approx(72.0)
    assert found["intensity_candidate"].now == pytest.approx(36.0)
    assert found["intensity_candidate"].at == pytest.approx(144.0)  # 20 J x 144 = 40 J x 72
    assert found["intensity_control"].at == pytest.approx(18.0)


def test_a_bill_made_of_joules_does_not_turn_at_any_price_of_them() -> None:
    assert turns("usd")["tariff"].at is None


def test_a_dearer_offer_that_saves_joules_turns_at_a_price_of_electricity() -> None:
    # fees 0 and 0.0001 USD beside 40 J and 20 J: equal at 0.0001 / 20 J x 3.6e6 J/kWh = 18 USD/kWh
    dearer = replace(FACTS, usd=Ratio(40 * 8 / 3.6e6, (20 * 8 / 3.6e6 + 1e-4) / (40 * 8 / 3.6e6), None, None))
    found = turns("usd", dearer)["tariff"]
    assert found.at == pytest.approx(18.0)
    assert not next(a for a in answers(dearer, Assumed()) if a.name == "usd").chosen
    assert turn_text(found) == "$/kWh: flips above $18.00/kWh (now $8.00/kWh)"


# Two runs each, 1 and 3 kWh of the control and 1 and 1 kWh of the candidate, at list prices of $1 and $1, $2 and $2,
# billed min(tariff x kWh, 3 x list price): at $1/kWh the control takes $4, the candidate $2.
CAPPED = replace(
    FACTS,
    energy=Ratio(2 * 3.6e6, 0.5, None, None),
    usd=Ratio(2.0, 0.5, None, None),
    success=(1.0, 1.0),
    tariff_usd_per_kwh=1.0,
    bills=(
        bill_of([3.6e6, 3 * 3.6e6], [3.6e6, 3 * 3.6e6], [3.0, 3.0]),
        bill_of([3.6e6, 3.6e6], [3.6e6, 3.6e6], [6.0, 6.0]),
    ),
)


def test_a_ceiling_turns_the_choice_where_it_holds_the_incumbents_bill() -> None:
    # from $1/kWh the larger run of the control stands still at $3: tariff + 3 = 2 x tariff at $3/kWh, and no sooner
    found = turns("usd", CAPPED)["tariff"]
    assert found.at == pytest.approx(3.0)
    assert turn_text(found) == "$/kWh: flips above $3.00/kWh (now $1.00/kWh)"


def test_no_price_turns_a_choice_whose_ceilings_do_not_cross() -> None:
    low = bill_of([3.6e6, 3.6e6], [3.6e6, 3.6e6], [1.5, 1.5])  # never more than $3, less than the control
    found = turns("usd", replace(CAPPED, bills=(CAPPED.bills[0], low)))["tariff"]
    assert (found.at, found.high) == (None, math.inf)
    assert turn_text(found) == "$/kWh: no price turns it"


def test_at_the_turn_both_bills_are_equal() -> None:
    at_three = replace(CAPPED, tariff_usd_per_kwh=3.0, usd=Ratio(3.0, 1.0, None, None))
    (told,) = [a for a in answers(at_three, Assumed()) if a.name == "usd"]
    assert told.flip.margin == pytest.approx(0.0, abs=1e-12)
    turned = next(t for t in told.turns if t.name == "tariff")
    assert turned.at == pytest.approx(3.0)


def test_without_a_tariff_the_bill_is_a_fee_and_no_price_of_electricity_is_asked() -> None:
    assert "tariff" not in turns("usd", replace(FACTS, tariff_usd_per_kwh=None))


def test_an_unknown_success_rate_is_no_break_even() -> None:
    assert "success" not in turns("energy", replace(FACTS, success=None))


def test_a_price_of_failure_turns_dollars_against_an_offer_that_fails_more() -> None:
    worse = replace(FACTS, success=(0.99, 0.95))
    cheap = next(a for a in answers(worse, Assumed()) if a.name == "usd")
    dear = next(a for a in answers(worse, Assumed(failure_usd=1.0)) if a.name == "usd")
    assert (cheap.chosen, dear.chosen) == (True, False)


def test_no_difference_flips_half_the_time_and_a_clear_one_never() -> None:
    even = replace(FACTS, energy=Ratio(40.0, 1.0, 0.9, 1 / 0.9))
    flip = next(a for a in answers(even, Assumed()) if a.name == "energy").flip
    assert flip.low < 0.5 < flip.high
    clear = next(a for a in answers(FACTS, Assumed()) if a.name == "energy").flip
    assert clear.probability == 0
    assert clear.high < 0.0005  # 0 of 10,000 draws


def test_one_zone_errs_alike_on_both_sides() -> None:
    same = replace(FACTS, carbon=Ratio(40.0 * 72 / 3.6e6, 0.5, 0.49, 0.51))
    told = next(a for a in answers(same, Assumed(intensity_sd=0.5)) if a.name == "carbon")
    assert told.flip.probability == 0
    assert [t.name for t in told.turns] == ["success"]


def test_whose_uncertainty_it_is_sums_to_about_one() -> None:
    told = next(a for a in answers(FACTS, Assumed(intensity_sd=0.2)) if a.name == "carbon")
    assert {s.name for s in told.shares} >= {"intensity_control"}
    assert sum(s.total for s in told.shares) == pytest.approx(1.0, abs=0.25)


def test_the_words_never_say_that_something_never_flips() -> None:
    told = answers(FACTS, Assumed())
    assert flip_text(told[0]) == "below 0.04\u00a0%"
    clear = next(t for t in told[0].turns if t.name == "success")
    assert turn_text(clear) == "the candidate's success rate: flips below 48.0\u00a0% (now 96.0\u00a0%)"


@settings(max_examples=25, deadline=None)
@given(
    level=st.floats(0.01, 1e4),
    ratio=st.floats(0.05, 3.0),
    success=st.floats(0.3, 1.0),
)
def test_the_choice_is_the_sign_of_the_difference_and_turns_exactly_where_it_is_zero(
    level: float, ratio: float, success: float
) -> None:
    facts = Facts("paired_replay", 100, Ratio(level, ratio, ratio * 0.9, ratio * 1.1), None, None, (success, success))
    (told,) = answers(facts, Assumed())
    assert told.chosen == (ratio < 1)
    turn = next(t for t in told.turns if t.name == "success")
    if turn.at is not None:
        assert math.isclose(turn.at, ratio * success, rel_tol=1e-6)
