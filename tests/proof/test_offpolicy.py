"""Off-policy estimates on a simulated bandit whose true value is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from policies.proof import errors
from policies.proof.evidence import Evidence
from policies.proof.gate import Ruling, judge
from policies.proof.margins import Margins, OutcomeKind
from policies.proof.offpolicy import (
    Logged,
    cross_fitted,
    evaluate,
    overlap,
    ratio_off_policy,
    ready_rate,
    ready_ratio,
)

ARMS = 3
CONTEXTS = 4
# P(success | context, arm) and mean joules: the world, so that every policy's value is a sum.
SUCCESS = np.array([[0.9, 0.6, 0.3], [0.5, 0.8, 0.4], [0.3, 0.5, 0.9], [0.7, 0.7, 0.2]])
JOULES = np.array([[300.0, 120.0, 40.0]] * CONTEXTS)
LOGGING = np.array([[0.5, 0.3, 0.2]] * CONTEXTS)
TARGET = np.array([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1]])

Frame = dict[str, Any]


def draw(n: int, seed: int, logging: np.ndarray = LOGGING) -> Frame:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    x = rng.integers(0, CONTEXTS, n)
    p = logging[x]
    a = (rng.uniform(size=n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=ARMS - 1)
    return {
        "x": x,
        "a": a,
        "success": (rng.uniform(size=n) < SUCCESS[x, a]).astype(float),
        "energy": JOULES[x, a] * rng.lognormal(-0.02, 0.2, n),
        "logged": Logged(a, p[np.arange(n), a], TARGET[x], p),
    }


TRUTH = float((TARGET * SUCCESS).sum(axis=1).mean())
RATIO = float(
    ((TARGET * JOULES).sum() / (TARGET * SUCCESS).sum()) / ((LOGGING * JOULES).sum() / (LOGGING * SUCCESS).sum())
)


def test_every_estimator_finds_the_known_value() -> None:
    d = draw(20_000, 0)
    q = cross_fitted(d["a"], d["success"], d["x"], ARMS)
    found = evaluate(d["logged"], d["success"], q)
    assert [e.method for e in found.estimates] == ["ips", "snips", "dr", "switch-dr"]
    for e in found.estimates:
        assert e.low < TRUTH < e.high, e
        assert e.value == pytest.approx(TRUTH, abs=0.02)
        assert e.gain == pytest.approx(TRUTH - float((LOGGING * SUCCESS).sum(axis=1).mean()), abs=0.03)
    assert found.overlap.identifiable and not found.overlap.why and not found.sensitive


def test_intervals_cover_the_known_value_and_the_model_narrows_them() -> None:
    hits = dict.fromkeys(("ips", "snips", "dr", "switch-dr"), 0)
    widths = dict.fromkeys(hits, 0.0)
    runs = 200
    for seed in range(runs):
        d = draw(1_000, seed)
        q = cross_fitted(d["a"], d["success"], d["x"], ARMS, seed=seed)
        for e in evaluate(d["logged"], d["success"], q, clips=()).estimates:
            hits[e.method] += e.low <= TRUTH <= e.high
            widths[e.method] += (e.high - e.low) / runs
    assert all(k / runs > 0.90 for k in hits.values()), hits
    assert widths["dr"] < widths["snips"] < widths["ips"]


def test_a_wrong_model_leaves_dr_unbiased() -> None:
    d = draw(20_000, 3)
    found = evaluate(d["logged"], d["success"], np.full((20_000, ARMS), 7.0)).estimate("dr")
    assert found is not None and found.low < TRUTH < found.high


def test_the_ratio_of_joules_per_success() -> None:
    d = draw(20_000, 1)
    value, (low, high), found = ratio_off_policy(d["logged"], d["energy"], d["success"])
    assert found.identifiable and value is not None
    assert value == pytest.approx(RATIO, rel=0.05) and low < RATIO < high


def test_a_policy_judged_on_its_own_log_earns_what_it_earned() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, ARMS, 300)
    p = np.full((300, ARMS), 1 / ARMS)
    reward = rng.uniform(size=300)
    found = evaluate(Logged(a, p[np.arange(300), a], p, p), reward)
    for e in found.estimates:
        assert e.value == pytest.approx(reward.mean()) and e.gain == pytest.approx(0, abs=1e-12)


# what a log cannot answer ----------------------------------------------------------------------------


def test_a_deterministic_log_says_nothing_about_other_arms() -> None:
    n = 5_000
    logged = Logged(np.zeros(n, dtype=int), np.ones(n), np.tile([0.5, 0.5, 0.0], (n, 1)))
    found = evaluate(logged, np.ones(n))
    assert not found.overlap.identifiable and found.estimates == () and found.clipping == ()
    assert "not identifiable" in found.overlap.why and "deterministic" in found.overlap.why
    assert "explore with at least 1%" in found.overlap.why
    assert ratio_off_policy(logged, np.ones(n), np.ones(n))[:2] == (None, (0.0, math.inf))


def test_a_deterministic_log_answers_for_its_own_policy() -> None:
    n = 200
    same = Logged(np.zeros(n, dtype=int), np.ones(n), np.tile([1.0, 0.0], (n, 1)))
    assert overlap(same).identifiable


def test_arms_that_the_log_could_not_take_are_told_with_their_share() -> None:
    logging = np.array([[0.6, 0.4, 0.0]] * CONTEXTS)
    found = overlap(draw(5_000, 0, logging)["logged"])
    assert not found.identifiable
    assert found.unsupported == pytest.approx(TARGET[:, 2].mean(), abs=0.02)
    assert "arms that the log could not take" in found.why


def test_missing_arms_show_in_the_weights_where_only_propensities_are_logged() -> None:
    d = draw(5_000, 0, np.array([[0.6, 0.4, 0.0]] * CONTEXTS))
    alone = Logged(d["logged"].action, d["logged"].propensity, d["logged"].target)
    found = overlap(alone)
    assert found.unsupported is None and not found.identifiable
    assert "the weights average" in found.why


@pytest.mark.parametrize(("n", "rare"), [(90, 0.5), (20_000, 0.0005)])
def test_a_small_effective_sample_is_not_enough(n: int, rare: float) -> None:
    """Below 100, or below 5 % of n: the target always takes an arm that the log took rarely."""
    rng = np.random.default_rng(1)
    a = (rng.uniform(size=n) < rare).astype(int)
    a[0] = 1
    p = np.where(a == 1, rare, 1 - rare)
    found = overlap(Logged(a, p, np.tile([0.0, 1.0], (n, 1))))
    assert not found.identifiable and "effective sample size" in found.why
    assert found.ess == pytest.approx(a.sum()) and found.ess_share == pytest.approx(a.mean())


def test_clipping_that_moves_the_value_is_told() -> None:
    """Rewards only on the rare arm: every cap on its large weights takes value away."""
    rng = np.random.default_rng(2)
    n = 60_000
    a = (rng.uniform(size=n) < 0.01).astype(int)
    p = np.where(a == 1, 0.01, 0.99)
    target = np.tile([0.6, 0.4], (n, 1))
    found = evaluate(Logged(a, p, target), (a == 1) * 1.0)
    assert found.overlap.identifiable, found.overlap.why
    by_cap = {cap: value for cap, name, value in found.clipping if name == "ips"}
    assert by_cap[2.0] < by_cap[10.0] < by_cap[20.0] < by_cap[50.0]
    assert by_cap[50.0] == pytest.approx(0.4, abs=0.05)
    assert found.sensitive


def test_the_gate_takes_what_is_identifiable_and_nothing_else() -> None:
    d = draw(20_000, 0)
    logged, amounts = d["logged"], (d["energy"], d["success"])
    rate, ratio = ready_rate(evaluate(logged, d["success"])), ready_ratio(logged, *amounts, "allocated")
    ready = {"success": rate, "energy": ratio, "usd": ratio, "carbon": ratio}
    assert rate.identifiable and ratio.identifiable and ratio.evidence_class == "allocated"
    margins = Margins(planned_n=10_000, weakest_kind=OutcomeKind.OFF_POLICY, constraints=())
    verdict = judge(Evidence("off_policy", ready=ready), margins)
    assert verdict.verdict is Ruling.PASS, verdict.words
    n = 5_000
    fixed = Logged(np.zeros(n, dtype=int), np.ones(n), np.tile([0.5, 0.5], (n, 1)))
    blind = ready_rate(evaluate(fixed, np.ones(n))), ready_ratio(fixed, np.ones(n), np.ones(n), "allocated")
    assert [r.identifiable for r in blind] == [False, False]
    verdict = judge(Evidence("off_policy", ready=ready | {"success": blind[0]}), margins)
    assert verdict.verdict is Ruling.INCONCLUSIVE and "deterministic" in verdict.words
    assert not ready_rate(evaluate(logged, d["success"]), "dr").identifiable


def test_a_prediction_never_uses_its_own_row() -> None:
    a, g = np.zeros(40, dtype=int), ["only"] * 40
    reward = np.zeros(40)
    reward[5] = 1_000.0
    q = cross_fitted(a, reward, g, 2)
    assert q.shape == (40, 2)
    assert q[5, 0] == pytest.approx(0.0) and (np.delete(q[:, 0], 5) >= 0).all() and q[:, 0].max() > 1
    assert np.isfinite(q[:, 1]).all(), "an arm without data has the mean of all"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: Logged(np.array([0]), [0.0], [[1.0]]), errors.ValuesInvalid),
        (lambda: Logged(np.array([0]), [1.1], [[1.0]]), errors.ValuesInvalid),
        (lambda: Logged(np.array([2]), [0.5], [[0.5, 0.5]]), errors.ValuesInvalid),
        (lambda: Logged(np.array([0.5]), [0.5], [[0.5, 0.5]]), errors.ValuesInvalid),
        (lambda: Logged(np.array([0]), [0.5], [[0.5, 0.4]]), errors.ValuesInvalid),
        (lambda: Logged(np.array([0]), [0.5], [0.5, 0.5]), errors.ValuesInvalid),
        (lambda: Logged(np.array([0, 1]), [0.5], [[0.5, 0.5]]), errors.LengthsDiffer),
        (lambda: Logged(np.array([0]), [0.5], [[0.5, 0.5]], [[0.3, 0.7]]), errors.ValuesInvalid),
        (lambda: Logged(np.array([0]), [1.0], [[0.5, 0.5]], [[1.0]]), errors.LengthsDiffer),
        (lambda: Logged(np.array([], dtype=int), [], np.empty((0, 2))), errors.NoData),
        (lambda: evaluate(draw(10, 0)["logged"], [1.0]), errors.LengthsDiffer),
        (lambda: evaluate(draw(10, 0)["logged"], [math.nan] * 10), errors.ValuesInvalid),
        (lambda: evaluate(draw(10, 0)["logged"], [1.0] * 10, np.ones((10, 2))), errors.LengthsDiffer),
        (lambda: evaluate(draw(10, 0)["logged"], [1.0] * 10, np.full((10, 3), math.nan)), errors.ValuesInvalid),
    ],
)
def test_logs_that_contradict_themselves_are_refused(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
