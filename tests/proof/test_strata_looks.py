"""Figures at a mix at every look, and their bootstrap: by hand, and equal to the plain ones in one stratum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from policies.proof import errors
from policies.proof.ratios import ratio_bootstrap
from policies.proof.sequences import difference_sequence, half_width, log_ratio_sequence
from policies.proof.strata import difference_standardised, ratio_standardised
from policies.proof.strata_looks import (
    difference_sequence_standardised,
    log_ratio_sequence_standardised,
    ratio_bootstrap_standardised,
)

N = 400
MIX = {"a": 0.3, "b": 0.7}
LABEL = ["b" if i % 4 == 0 else "a" for i in range(N)]
TENANT = np.arange(N) // 8


def arms(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    e0 = rng.lognormal(0, 0.5, N)
    s1, s0 = ((rng.uniform(size=N) < p).astype(float) for p in (0.85, 0.9))
    return e0 * rng.lognormal(-0.2, 0.2, N), s1, e0, s0


def test_in_one_stratum_every_figure_is_the_plain_one() -> None:
    e1, s1, e0, s0 = arms()
    one: tuple[list[str], dict[str, float]] = ["all"] * N, {"all": 1.0}
    ratio = log_ratio_sequence_standardised(e1, s1, e0, s0, *one, N)
    assert (ratio.low, ratio.high) == pytest.approx(log_ratio_sequence(e1, s1, e0, s0, N), rel=1e-12)
    rate = difference_sequence_standardised(s1, s0, *one, N)
    assert (rate.low, rate.high) == pytest.approx(difference_sequence(s1, s0, N), rel=1e-12)
    boot = ratio_bootstrap_standardised(e1, s1, e0, s0, *one, seed=3)
    assert boot == pytest.approx(ratio_bootstrap(e1, s1, e0, s0, seed=3), rel=1e-12)


def test_a_difference_of_two_strata_by_hand() -> None:
    # a: 30 pairs of which 3 only the control; b: 10 of which 1 only the candidate. 0.3 (-0.1) + 0.7 (+0.1) = 0.04
    one = np.array([0.0] * 3 + [1.0] * 27 + [1.0] * 10)
    zero = np.array([1.0] * 30 + [0.0] + [1.0] * 9)
    found = difference_sequence_standardised(one, zero, ["a"] * 30 + ["b"] * 10, MIX, 40)
    assert found.estimate == pytest.approx(0.04)
    # with a discordant pair more on each side: (3 + 2) / 32 - (3 / 32)^2 and (1 + 2) / 12 - (1 / 12)^2
    variance = 0.09 * (5 / 32 - 9 / 1024) / 30 + 0.49 * (3 / 12 - 1 / 144) / 10
    half = float(half_width(40, math.sqrt(40 * variance), 40))
    assert (found.low, found.high) == pytest.approx((0.04 - half, 0.04 + half))


@pytest.mark.parametrize("clusters", [None, TENANT])
def test_the_bootstrap_and_the_delta_method_agree_at_a_mix(clusters: Any) -> None:
    delta = ratio_standardised(*arms(), LABEL, MIX, clusters=clusters)
    assert delta.low > 0
    boot = ratio_bootstrap_standardised(*arms(), LABEL, MIX, clusters=clusters)
    assert boot == pytest.approx((delta.low, delta.high), rel=0.02)
    assert boot == ratio_bootstrap_standardised(*arms(), LABEL, MIX, clusters=clusters), "the same seed"


def test_fieller_at_a_mix_agrees_where_successes_are_many() -> None:
    delta = ratio_standardised(*arms(), LABEL, MIX)
    fieller = ratio_standardised(*arms(), LABEL, MIX, fieller=True)
    assert (fieller.low, fieller.high) == pytest.approx((delta.low, delta.high), rel=0.002)
    assert fieller.estimate == delta.estimate and 0 < delta.g < 0.01


def test_copies_of_a_request_are_one_cluster_at_every_look() -> None:
    e1, s1, e0, s0 = (np.repeat(x[:40], 10) for x in arms())
    labels, clusters = np.repeat(LABEL[:40], 10).tolist(), np.repeat(np.arange(40), 10)
    alone = log_ratio_sequence_standardised(e1, s1, e0, s0, labels, MIX, N)
    together = log_ratio_sequence_standardised(e1, s1, e0, s0, labels, MIX, N, clusters=clusters)
    assert math.log(together.high / together.low) > 2.9 * math.log(alone.high / alone.low)  # about the root of 10
    boot = ratio_bootstrap_standardised(e1, s1, e0, s0, labels, MIX, clusters=clusters)
    delta = ratio_standardised(e1, s1, e0, s0, labels, MIX, clusters=clusters)
    assert boot == pytest.approx((delta.low, delta.high), rel=0.1)


def test_without_discordance_each_cluster_counts_as_one_pair() -> None:
    same = np.ones(200)
    labels, clusters = ["a"] * 100 + ["b"] * 100, np.arange(200) // 10
    plain = difference_standardised(same, same, labels, MIX)
    clustered = difference_standardised(same, same, labels, MIX, clusters=clusters)
    assert clustered.high == pytest.approx(plain.high * math.sqrt(10))
    early = difference_sequence_standardised(same, same, labels, MIX, 200)
    late = difference_sequence_standardised(same, same, labels, MIX, 200, clusters=clusters)
    assert late.high == pytest.approx(early.high * math.sqrt(10))


def test_what_is_missing_thin_or_too_early_bounds_nothing() -> None:
    e1, s1, e0, s0 = arms()
    absent = {**MIX, "c": 0.1}
    assert log_ratio_sequence_standardised(e1, s1, e0, s0, LABEL, absent, N).estimate is None
    assert difference_sequence_standardised(s1, s0, LABEL, absent, N).missing == ("c",)
    assert ratio_bootstrap_standardised(e1, s1, e0, s0, LABEL, absent) == (0.0, math.inf)
    lone = [*LABEL[:-1], "c"]
    thin = log_ratio_sequence_standardised(e1, s1, e0, s0, lone, absent, N)
    assert (thin.low, thin.high, thin.thin) == (0.0, math.inf, ("c",))
    assert ratio_bootstrap_standardised(e1, s1, e0, s0, lone, absent) == (0.0, math.inf)
    few = slice(0, 29)
    early = log_ratio_sequence_standardised(e1[few], s1[few], e0[few], s0[few], LABEL[few], MIX, N)
    assert (early.low, early.high) == (0.0, math.inf)
    rate = difference_sequence_standardised(s1[few], s0[few], LABEL[few], MIX, N)
    assert (rate.low, rate.high) == (-1.0, 1.0)
    with pytest.raises(errors.CountsInvalid):
        difference_sequence_standardised(s1[few], s0[few], LABEL[few], MIX, 0)


def test_looking_often_is_not_cheating_at_a_mix() -> None:
    """Five per cent at most over all looks; a fixed interval at the same looks would be wrong far more often."""
    wrong = fixed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        e0 = rng.lognormal(0, 0.2, N)
        e1 = e0 * rng.lognormal(-0.045, 0.3, N)  # of the same mean
        ones = np.ones(N)
        looks = [(e1[:n], ones[:n], e0[:n], ones[:n], LABEL[:n], MIX) for n in range(40, N + 1, 40)]
        sequences = [log_ratio_sequence_standardised(*look, N) for look in looks]
        wrong += any(not s.low <= 1 <= s.high for s in sequences)
        fixed += any(not s.low <= 1 <= s.high for s in (ratio_standardised(*look) for look in looks))
    assert wrong <= 5 < 12 <= fixed
