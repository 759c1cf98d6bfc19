"""Reference mixes, systematic uncertainty, and how sure a choice is of its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from policies.proof import errors
from policies.proof.bands import reference_mix, size_band, stratum
from policies.proof.intervals import ratio_delta, tango
from policies.proof.sensitivity import COST_INPUTS, Input, break_even, cost_margin, flip_probability, sobol, tornado
from policies.proof.strata import difference_standardised, ratio_standardised
from policies.proof.uncertainty import Systematic, Uncertain, contrast, footprint, one_arm, widened

# reference mix ----------------------------------------------------------------------------


def two_sizes(n: int = 400, seed: int = 0) -> tuple[Any, Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    label = np.where(np.arange(n) % 4 == 0, "code|8192-32767", "chat|0-511")
    base = np.where(label == "chat|0-511", 20.0, 800.0) * rng.lognormal(0, 0.2, n)
    ones = np.ones(n)
    return base * np.where(label == "chat|0-511", 0.5, 1.1), ones, base, ones, label


def test_bands_hold_their_lower_edge() -> None:
    assert [size_band(x) for x in (0, 511, 512, 2_047, 32_767, 32_768, 1e6)] == [
        "0-511", "0-511", "512-2047", "512-2047", "8192-32767", "32768+", "32768+"
    ]  # fmt: skip
    assert stratum("coding_general", 600) == "coding_general|512-2047"
    for wrong in (math.nan, -1.0, math.inf):
        with pytest.raises(errors.ValuesInvalid):
            size_band(wrong)


def test_standardising_to_the_samples_own_mix_changes_no_estimate() -> None:
    e1, s1, e0, s0, label = two_sizes()
    found = ratio_standardised(e1, s1, e0, s0, label, reference_mix(label))
    assert found.estimate == pytest.approx(e1.sum() / e0.sum())
    low, high = ratio_delta(e1, s1, e0, s0)
    assert found.estimate is not None and found.low < found.estimate < found.high
    assert math.log(found.high / found.low) < math.log(high / low), "the spread between strata is not error"
    assert (found.n, found.covered, found.missing, found.thin, found.unused) == (400, 1.0, (), (), 0)


def test_a_fixed_mix_gives_the_weighted_ratio() -> None:
    e1, s1, e0, s0, label = two_sizes()
    chat = label == "chat|0-511"
    found = ratio_standardised(e1, s1, e0, s0, label, {"chat|0-511": 9.0, "code|8192-32767": 1.0})
    expected = (0.9 * e1[chat].mean() + 0.1 * e1[~chat].mean()) / (0.9 * e0[chat].mean() + 0.1 * e0[~chat].mean())
    assert found.estimate == pytest.approx(expected)


def test_its_interval_covers() -> None:
    mix = {"chat|0-511": 0.9, "code|8192-32767": 0.1}
    truth = (0.9 * 20 * 0.5 + 0.1 * 800 * 1.1) / (0.9 * 20 + 0.1 * 800)
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(10_000 + seed)
        e1, ones, e0, _, label = two_sizes(200, seed)
        found = ratio_standardised(e1 * rng.lognormal(-0.08, 0.4, 200), ones, e0, ones, label, mix)
        hits += found.low <= truth <= found.high
    assert 0.90 <= hits / 200 <= 0.99


def test_strata_without_data_are_told_and_filled_only_when_asked() -> None:
    e1, s1, e0, s0, label = two_sizes()
    mix = {"chat|0-511": 0.5, "maths|0-511": 0.3, "none": 0.0, "code|8192-32767": 0.2}
    found = ratio_standardised(e1, s1, e0, s0, label, mix)
    assert (found.estimate, found.low, found.high) == (None, 0.0, math.inf)
    assert found.missing == ("maths|0-511",) and found.covered == pytest.approx(0.7)
    filled = ratio_standardised(e1, s1, e0, s0, label, mix, renormalise=True)
    assert filled.estimate is not None and filled.missing == ("maths|0-511",)
    rates = difference_standardised(s1, s0, label, mix)
    assert (rates.estimate, rates.low, rates.high) == (None, -1.0, 1.0)
    assert ratio_standardised(e1, s1, e0, s0, label, {"elsewhere": 1.0}, renormalise=True).estimate is None


def test_a_stratum_of_one_request_has_no_known_spread() -> None:
    found = ratio_standardised(
        [1.0, 2.0, 3.0], [1, 1, 1], [2.0, 3.0, 4.0], [1, 1, 1], ["a", "a", "b"], {"a": 1, "b": 1}
    )
    assert found.thin == ("b",) and found.estimate is not None and found.high == math.inf


def test_requests_outside_the_mix_are_counted() -> None:
    e1, s1, e0, s0, label = two_sizes()
    assert ratio_standardised(e1, s1, e0, s0, label, {"chat|0-511": 1.0}).unused == 100


def test_one_stratum_is_plain_tango() -> None:
    one, zero = np.array([1] * 180 + [0] * 20), np.array([1] * 170 + [0] * 30)
    found = difference_standardised(one, zero, ["all"] * 200, {"all": 1.0})
    assert (found.low, found.high) == pytest.approx(tango(10, 0, 200))
    clustered = difference_standardised(one, zero, ["all"] * 200, {"all": 1.0}, clusters=np.arange(200) // 10)
    assert clustered.high - clustered.low > found.high - found.low


def test_clusters_of_one_request_change_nothing_and_one_cluster_bounds_nothing() -> None:
    e1, s1, e0, s0, label = two_sizes()
    mix = reference_mix(label)
    plain = ratio_standardised(e1, s1, e0, s0, label, mix)
    single = ratio_standardised(e1, s1, e0, s0, label, mix, clusters=np.arange(400))
    assert (single.low, single.high) == pytest.approx((plain.low, plain.high), rel=1e-3)
    assert ratio_standardised(e1, s1, e0, s0, label, mix, clusters=np.zeros(400)).high == math.inf


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: reference_mix([]), errors.StratumMissing),
        (lambda: ratio_standardised([1], [1], [1], [1], ["a"], {}), errors.StratumMissing),
        (lambda: ratio_standardised([1], [1], [1], [1], ["a"], {"a": 0.0}), errors.StratumMissing),
        (lambda: ratio_standardised([1], [1], [1], [1], ["a"], {"a": -1.0, "b": 3.0}), errors.ValuesInvalid),
        (lambda: ratio_standardised([1], [1], [1], [1], ["a", "b"], {"a": 1.0}), errors.LengthsDiffer),
        (lambda: difference_standardised([0.5], [1], ["a"], {"a": 1.0}), errors.ValuesInvalid),
    ],
)
def test_wrong_mixes_are_refused(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


# systematic uncertainty ----------------------------------------------------------------------------

METER = Systematic("meter", 0.05, "nvml", correlation=1.0)


def test_parts_of_one_arm_add_in_quadrature() -> None:
    assert one_arm([METER, Systematic("pue", 0.12, "hall")]) == pytest.approx(0.13)
    assert one_arm([]) == 0.0


def test_the_same_instrument_cancels_and_the_same_class_partly() -> None:
    assert contrast([METER], [METER]) == 0.0
    partly = replace(METER, correlation=0.8)
    assert contrast([partly], [partly]) == pytest.approx(0.05 * math.sqrt(2 - 2 * 0.8))
    assert contrast([METER], []) == 0.05


def test_other_causes_do_not_cancel() -> None:
    here, there = Systematic("intensity", 0.1, "GB"), Systematic("intensity", 0.1, "DE")
    assert contrast([here], [there]) == pytest.approx(0.1 * math.sqrt(2))


def test_meters_of_different_classes_are_refused_not_widened() -> None:
    with pytest.raises(errors.EvidenceMixed):
        contrast([METER], [Systematic("meter", 0.01, "rack PDU")])


def test_widening_keeps_skew_and_open_ends() -> None:
    low, high = widened(1.0, (0.9, 1.3), 0.10)
    assert math.log(1 / low) == pytest.approx(math.hypot(math.log(1 / 0.9), 1.959964 * 0.10), abs=1e-6)
    assert math.log(high) == pytest.approx(math.hypot(math.log(1.3), 1.959964 * 0.10), abs=1e-6)
    assert widened(1.0, (0.9, 1.3), 0.0) == pytest.approx((0.9, 1.3))
    assert widened(1.0, (0.0, math.inf), 0.1) == (0.0, math.inf)
    assert widened(1.0, (0.5, math.inf), 0.1)[0] < 0.5


def test_joules_dollars_and_grams_by_monte_carlo_meet_the_linear_propagation() -> None:
    inputs = Uncertain(3.6e6, 3.6e4), Uncertain(1.2, 0.012), Uncertain(0.20, 0.01), Uncertain(400.0, 8.0)
    found = footprint(*inputs, seed=1)
    for name, centre in (("energy_j", 4.32e6), ("energy_usd", 0.24), ("carbon_g", 480.0)):
        low, high = getattr(found, name)
        sd = found.linear_sd[name]
        assert (low + high) / 2 == pytest.approx(centre, rel=0.01)
        assert (high - low) / (2 * 1.96) == pytest.approx(sd, rel=0.05)
    assert found == footprint(*inputs, seed=1)
    with pytest.raises(errors.ValuesInvalid):
        footprint(Uncertain(0.0, 1.0), *inputs[1:])


@pytest.mark.parametrize(
    "call",
    [
        lambda: Systematic("meter", -0.1, "x"),
        lambda: Systematic("meter", math.nan, "x"),
        lambda: Systematic("meter", 0.1, "x", correlation=1.1),
        lambda: contrast([METER, METER], []),
        lambda: widened(1.0, (0.9, 1.1), math.nan),
    ],
)
def test_wrong_uncertainties_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(errors.ValuesInvalid):
        call()


# how sure a choice is ----------------------------------------------------------------------------


def linear(x: Any) -> Any:
    return 3.0 + 2.0 * x["a"] + x["b"] + 0.0 * x["c"]


INPUTS = {"a": Input(0.0, 1.0), "b": Input(0.0, 1.0), "c": Input(0.0, 1.0)}


def test_the_tornado_by_hand() -> None:
    bars = tornado(linear, INPUTS)
    assert [(b.name, b.at_low, b.at_high, b.swing) for b in bars] == [("a", 1, 5, 4), ("b", 2, 4, 2), ("c", 3, 3, 0)]
    assert not any(b.flips for b in bars)
    assert tornado(linear, INPUTS | {"a": Input(-1.0, 1.0)})[0].flips


def test_the_flip_probability_of_a_normal_margin() -> None:
    found = flip_probability(linear, INPUTS, draws=200_000, seed=2)
    expected = float(stats.norm.cdf(-3 / math.sqrt(5)))
    assert found.low < expected < found.high and found.probability == pytest.approx(expected, abs=0.002)
    assert found.margin == 3.0
    assert flip_probability(linear, INPUTS, seed=2) == flip_probability(linear, INPUTS, seed=2)
    other = flip_probability(lambda x: -linear(x), INPUTS, draws=200_000, seed=2)
    assert other.probability == pytest.approx(expected, abs=0.002), "a choice against the candidate flips as well"


def test_an_undefined_margin_is_a_change() -> None:
    assert flip_probability(lambda x: np.where(x["a"] > 0, np.nan, 1.0), {"a": Input(-1e-9, 1.0)}).probability > 0.4


def test_sobol_shares_of_a_linear_margin() -> None:
    shares = {s.name: s for s in sobol(linear, INPUTS, n=1_024)}
    assert shares["a"].first == pytest.approx(0.8, abs=0.02) and shares["a"].total == pytest.approx(0.8, abs=0.02)
    assert shares["b"].first == pytest.approx(0.2, abs=0.02)
    assert shares["c"].total == pytest.approx(0.0, abs=1e-9)
    assert next(s.name for s in sobol(linear, INPUTS)) == "a"


def test_interactions_show_between_first_and_total() -> None:
    shares = {s.name: s for s in sobol(lambda x: x["a"] * x["b"], {k: INPUTS[k] for k in "ab"}, n=2_048)}
    assert shares["a"].first == pytest.approx(0.0, abs=0.05) and shares["a"].total == pytest.approx(1.0, abs=0.1)


def test_inputs_that_do_not_vary_have_no_share() -> None:
    fixed = INPUTS | {"b": Input(0.0, 0.0)}
    assert {s.name: s.total for s in sobol(linear, fixed)}["b"] == 0.0
    assert sobol(linear, {"a": Input(1.0, 0.0), "b": Input(0.0, 0.0), "c": Input(0.0, 0.0)}) == []
    assert sobol(lambda x: 0 * x["a"], {"a": Input(1.0, 1.0)}) == []


COST = {
    "energy_j_candidate": 100.0, "energy_j_control": 400.0, "fee_usd_candidate": 6e-6, "fee_usd_control": 0.0,
    "success_candidate": 0.90, "success_control": 0.95, "tariff_usd_per_kwh": 0.10, "intensity_g_per_kwh": 300.0,
    "carbon_usd_per_t": 0.0, "failure_usd": 0.0,
}  # fmt: skip


def test_the_cost_margin_by_hand() -> None:
    assert set(COST) == set(COST_INPUTS)
    margin = float(cost_margin({k: np.array([v]) for k, v in COST.items()})[0])
    expected = 400 / 3.6e6 * 0.10 / 0.95 - (100 / 3.6e6 * 0.10 + 6e-6) / 0.90
    assert margin == pytest.approx(expected)


def test_break_even_tariff_intensity_and_success_rate() -> None:
    tariff = 6e-6 / 0.90 / ((400 / 0.95 - 100 / 0.90) / 3.6e6)
    assert break_even(cost_margin, COST, "tariff_usd_per_kwh", (0.0, 1.0)) == [pytest.approx(tariff)]
    success = (100 / 3.6e6 * 0.10 + 6e-6) / (400 / 3.6e6 * 0.10 / 0.95)
    assert break_even(cost_margin, COST, "success_candidate", (0.5, 1.0)) == [pytest.approx(success)]
    priced = COST | {"tariff_usd_per_kwh": 0.0, "carbon_usd_per_t": 100.0}
    assert break_even(cost_margin, priced, "intensity_g_per_kwh", (0.0, 2_000.0)) == [pytest.approx(tariff / 100e-6)]
    assert break_even(cost_margin, COST, "carbon_usd_per_t", (0.0, 100.0)) == []


def test_every_crossing_is_found() -> None:
    roots = break_even(lambda x: (x["a"] - 1) * (x["a"] - 2) * (x["a"] - 3.5), {"a": 0.0}, "a", (0.0, 4.0))
    assert roots == pytest.approx([1.0, 2.0, 3.5])


@pytest.mark.parametrize(
    "call",
    [
        lambda: Input(math.nan, 1.0),
        lambda: Input(1.0, -1.0),
        lambda: Input(1.0, 1.0, low=2.0),
        lambda: break_even(cost_margin, COST, "moon", (0.0, 1.0)),
        lambda: break_even(cost_margin, COST, "failure_usd", (1.0, 1.0)),
        lambda: flip_probability(linear, INPUTS, draws=0),
    ],
)
def test_wrong_inputs_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(errors.ValuesInvalid):
        call()
