"""The gate: passes only what is shown, fails only shown harm, and says INCONCLUSIVE to everything else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.proof import errors
from policies.proof.evidence import Amounts, Both, Constraint, Evidence, Ready
from policies.proof.gate import Check, Mode, Ruling, judge, judge_best
from policies.proof.margins import HARD_CONSTRAINTS, Margins, OutcomeKind, one_kind
from policies.proof.rates import Pairs
from tests.support import shared

N = 1_200
MARGINS = Margins(planned_n=1_000, slo_s=8.0, resamples=400)
PROVED = tuple(Constraint(name, N, 0) for name in HARD_CONSTRAINTS)


def amounts(
    candidate: Any, control: Any, cls: str = "measured", meter: str = "nvml", systematic: float = 0.0
) -> Amounts:
    return Amounts(candidate, control, cls, cls, meter, meter, systematic)


def world(
    gain: float = 0.2, loss: float = 0.0, slower: float = 1.0, n: int = N, seed: int = 1, **more: Any
) -> Evidence:
    """Paired replays: the candidate needs `gain` less energy, succeeds `loss` less often, is `slower` times as slow."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(0.0, 0.5, n)
    s0 = (rng.uniform(size=n) < 0.95).astype(float)
    flip = rng.uniform(size=n)
    s1 = np.where(flip < 0.01, 1 - s0, s0)
    s1 = np.where((flip > 1 - loss) & (s1 == 1), 0.0, s1)
    e0 = 200 * size * rng.lognormal(0, 0.1, n)
    e1 = (1 - gain) * 200 * size * rng.lognormal(0, 0.1, n)
    t0 = 2 * size * rng.lognormal(0, 0.1, n)
    t1 = slower * 2 * size * rng.lognormal(0, 0.1, n)
    told: dict[str, Any] = {
        "kind": "paired_replay",
        "success": Both(s1, s0),
        "latency_s": Both(t1, t0),
        "energy_j": amounts(e1, e0),
        "usd": amounts(e1 * 1e-5, e0 * 1e-5, "measured", "bill"),
        "carbon_g": amounts(e1 * 1e-4, e0 * 1e-4, "calibrated", "nvml x GB"),
        "constraints": PROVED,
    }
    return Evidence(**(told | more))


def check(evidence: Evidence, name: str, margins: Margins = MARGINS, **how: Any) -> Check:
    found = judge(evidence, margins, **how).check(name)
    assert found is not None, name
    return found


# the three verdicts ----------------------------------------------------------------------------


def test_a_candidate_that_saves_and_harms_nothing_passes() -> None:
    verdict = judge(world(), MARGINS)
    assert verdict.verdict is Ruling.PASS, verdict.words
    assert {c.name for c in verdict.checks} == {
        *(f"constraint:{name}" for name in HARD_CONSTRAINTS), "success", "over_slo", "p95", "energy", "usd", "carbon"
    }  # fmt: skip
    assert all(c.verdict is Ruling.PASS for c in verdict.checks)
    assert (verdict.n, verdict.planned_n, verdict.stop) == (N, 1_000, False)


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        ({"loss": 0.10}, "success"),
        ({"slower": 2.5}, "over_slo"),
        ({"slower": 1.5}, "p95"),
        ({"gain": -0.3}, "energy"),
        ({"gain": -0.3}, "usd"),
        ({"gain": -0.3}, "carbon"),
        ({"gain": 0.02}, "energy"),  # less than the gain of 5 % that was promised
    ],
)
def test_shown_harm_fails(harm: dict[str, float], name: str) -> None:
    verdict = judge(world(**harm), MARGINS)
    assert verdict.verdict is Ruling.FAIL
    failed = verdict.check(name)
    assert failed and failed.verdict is Ruling.FAIL, failed
    assert verdict.words


def test_a_difference_that_is_not_significant_neither_passes_nor_fails() -> None:
    margins = replace(MARGINS, planned_n=60)
    found = check(world(n=60), "success", margins)
    assert found.low is not None and found.high is not None
    assert found.low < -0.02 < 0 < found.high
    assert found.verdict is Ruling.INCONCLUSIVE


def test_a_loss_within_the_margin_passes_although_it_is_significant() -> None:
    table = Pairs(a=19_500, b=20, c=100, d=380)
    found = check(world(success=table), "success")
    assert found.high is not None and found.high < 0
    assert found.verdict is Ruling.PASS


@pytest.mark.parametrize(
    ("interval", "margin", "below", "ruling"),
    [
        ((-0.019, 0.01), -0.02, False, Ruling.PASS),
        ((-0.021, 0.01), -0.02, False, Ruling.INCONCLUSIVE),
        ((-0.02, 0.01), -0.02, False, Ruling.INCONCLUSIVE),
        ((-0.08, -0.021), -0.02, False, Ruling.FAIL),
        ((0.8, 0.94), 0.95, True, Ruling.PASS),
        ((0.8, 0.96), 0.95, True, Ruling.INCONCLUSIVE),
        ((0.96, 1.2), 0.95, True, Ruling.FAIL),
        ((0.0, math.inf), 0.95, True, Ruling.INCONCLUSIVE),
        ((math.nan, 0.9), 0.95, True, Ruling.INCONCLUSIVE),
        ((0.9, math.nan), 0.95, True, Ruling.INCONCLUSIVE),
    ],
)
def test_an_interval_settles_only_with_its_whole_length(
    interval: tuple[float, float], margin: float, below: bool, ruling: Ruling
) -> None:
    from policies.proof.checks import settle

    assert settle(interval, margin, below=below) is ruling


def test_the_reference_pairs_with_the_reference_bounds() -> None:
    rows = np.loadtxt(shared("data/stats_reference/pairs400.csv"), delimiter=",", skiprows=1)
    evidence = world(success=Both(rows[:, 4], rows[:, 2]), energy_j=amounts(rows[:, 3], rows[:, 1]))
    found = check(evidence, "energy", replace(MARGINS, planned_n=400))
    assert (found.low, found.high) == (pytest.approx(0.820963, abs=5e-7), pytest.approx(0.893160, abs=5e-7))
    assert found.verdict is Ruling.PASS and found.margin == 0.95
    assert found.second_low == pytest.approx(0.821, abs=0.006) and found.second_high == pytest.approx(0.8935, abs=0.006)


# nothing is concluded from nothing (argo#1905, v1.8.2 #3873) ---------------------------------------


def with_nan(evidence: Evidence) -> Evidence:
    assert evidence.energy_j is not None
    energy = np.array(evidence.energy_j.candidate)
    energy[7] = math.nan
    return replace(evidence, energy_j=amounts(energy, evidence.energy_j.control))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda e: replace(e, success=Both([], [])), "no request"),
        (lambda e: replace(e, success=Pairs(0, 0, 0, 0)), "no request"),
        (lambda e: replace(e, success=None), "not told"),
        (lambda e: replace(e, success=Both([math.nan] * N, [1.0] * N)), "no request"),
        (with_nan, "99.9% of the requests tell it"),
        (lambda e: replace(e, energy_j=None), "not told"),
        (lambda e: replace(e, energy_j=amounts([math.inf] * N, [1.0] * N)), "inf"),
        (lambda e: replace(e, energy_j=amounts([0.0] * N, [1.0] * N)), "a total is 0"),
        (lambda e: replace(e, latency_s=None), "not told"),
        (lambda e: replace(e, constraints=()), "was not checked"),
        (lambda e: replace(e, constraints=PROVED[1:]), "authorization was not checked"),
        (lambda e: replace(e, constraints=(replace(PROVED[0], n=0), *PROVED[1:])), "was not checked"),
        (lambda e: replace(e, constraints=(replace(PROVED[0], violations=None), *PROVED[1:])), "was not checked"),
        (lambda e: replace(e, aborted="the mirror was cut off"), "aborted: the mirror was cut off"),
        (lambda e: replace(e, aborted=""), "aborted"),
        (lambda e: replace(e, kind=[]), "missing"),
        (lambda e: replace(e, kind="guess"), "guess"),
        (lambda e: replace(e, kind=["paired_replay", "mirrored"]), "mixes mirrored, paired_replay"),
        (lambda e: replace(e, kind="off_policy"), "weaker evidence"),
    ],
)
def test_missing_evidence_is_inconclusive_and_says_why(spoil: Callable[[Evidence], Evidence], words: str) -> None:
    verdict = judge(spoil(world()), MARGINS)
    assert verdict.verdict is Ruling.INCONCLUSIVE
    assert words in verdict.words
    assert not verdict.stop


def test_an_aborted_shadow_settles_nothing_however_clear_it_looks() -> None:
    for harm in ({}, {"loss": 0.3}, {"gain": -1.0}):
        verdict = judge(replace(world(**harm), aborted="owner stopped it"), MARGINS)
        assert verdict.verdict is Ruling.INCONCLUSIVE
        assert Ruling.FAIL not in {c.verdict for c in verdict.checks}


def test_too_few_requests_settle_nothing() -> None:
    for harm in ({}, {"loss": 0.3}):
        verdict = judge(world(n=999, **harm), MARGINS)
        assert verdict.verdict is Ruling.INCONCLUSIVE
        assert "999 of 1000 planned" in verdict.words or "999 of 1000 planned" in str(verdict.checks)


def test_unknown_figures_may_be_allowed_by_a_margin_stored_before() -> None:
    found = check(with_nan(world()), "energy", replace(MARGINS, min_coverage=0.95))
    assert found.verdict is Ruling.PASS and found.n == N - 1
    assert found.coverage == pytest.approx(1 - 1 / N)


def test_aborted_streams_count_in_neither_total() -> None:
    """pi-neuralwatt: 10 requests, 8 with energy (800 J), 7 of those succeeded: 114.2857 J per success, 80 % told."""
    energy = [100.0] * 8 + [math.nan] * 2
    success = [1.0] * 7 + [0.0, 1.0, 1.0]
    evidence = world(n=10, success=Both(success, [1.0] * 10), energy_j=amounts(energy, [50.0] * 10))
    found = check(evidence, "energy", replace(MARGINS, planned_n=5, min_coverage=0.5))
    assert found.estimate == pytest.approx(114.2857 / 50, abs=1e-5)
    assert found.coverage == 0.8 and found.n == 8


# evidence is not mixed (T34) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        {"candidate_meter": "nvml", "control_meter": "rack PDU"},
        {"candidate_meter": ["nvml", "rack PDU"] * (N // 2)},
        {"candidate_meter": None},
        {"control_meter": ["nvml"] * (N - 1) + [None]},
        {"candidate_class": "allocated"},
        {"control_class": ["measured"] * (N - 1) + ["modeled"]},
        {"candidate_class": []},
    ],
)
def test_joules_of_different_meters_or_classes_are_never_compared(spoil: dict[str, Any]) -> None:
    evidence = world()
    assert evidence.energy_j is not None
    verdict = judge(replace(evidence, energy_j=replace(evidence.energy_j, **spoil)), MARGINS)
    energy = verdict.check("energy")
    assert energy and (energy.verdict, energy.estimate) == (Ruling.INCONCLUSIVE, None)
    assert verdict.verdict is Ruling.INCONCLUSIVE


def test_each_check_tells_the_class_of_its_figure() -> None:
    verdict = judge(world(), MARGINS)
    told = {c.name: c.evidence_class for c in verdict.checks if not c.name.startswith("constraint")}
    assert told == {
        "success": "paired_replay", "over_slo": "paired_replay", "p95": "paired_replay",
        "energy": "measured", "usd": "measured", "carbon": "calibrated",
    }  # fmt: skip


def test_outcome_evidence_is_ranked_and_never_mixed() -> None:
    ranked = sorted(OutcomeKind, key=lambda kind: -kind.strength)
    assert ranked == ["paired_replay", "mirrored", "reference_workload", "off_policy"]
    with pytest.raises(errors.EvidenceMixed):
        one_kind(["mirrored", "off_policy"])
    with pytest.raises(errors.CountsInvalid):
        one_kind("hearsay")
    assert one_kind(["mirrored"] * 3) is OutcomeKind.MIRRORED


def test_stronger_evidence_may_be_asked_for() -> None:
    margins = replace(MARGINS, weakest_kind=OutcomeKind.PAIRED_REPLAY)
    assert judge(replace(world(), kind="mirrored"), margins).verdict is Ruling.INCONCLUSIVE
    assert judge(replace(world(), kind="paired_replay"), margins).verdict is Ruling.PASS


# hard constraints ----------------------------------------------------------------------------------


def test_one_proved_violation_fails_whatever_else_is_missing() -> None:
    broken = (replace(PROVED[0], violations=1), *PROVED[1:])
    for evidence in (
        world(),
        world(n=5),
        replace(world(), aborted="x"),
        replace(world(), kind=["mirrored", "off_policy"]),
    ):
        verdict = judge(replace(evidence, constraints=broken), MARGINS)
        assert verdict.verdict is Ruling.FAIL and "authorization" in verdict.words


@pytest.mark.parametrize(
    ("n", "violations", "ruling"),
    [(299, 0, Ruling.PASS), (298, 0, Ruling.INCONCLUSIVE), (5_000, 1, Ruling.FAIL), (10, 0, Ruling.INCONCLUSIVE)],
)
def test_sampled_constraints_need_299_clean_requests_for_1_percent(n: int, violations: int, ruling: Ruling) -> None:
    sampled = (*PROVED, Constraint("refusal", n, violations, proved=False))
    found = check(replace(world(), constraints=sampled), "constraint:refusal")
    assert found.verdict is ruling and found.words
    if violations == 0:
        assert found.high == pytest.approx(1 - 0.05 ** (1 / n))


def test_contradicting_counts_prove_nothing() -> None:
    broken = (Constraint("authorization", 3, 4), *PROVED[1:])
    assert check(replace(world(), constraints=broken), "constraint:authorization").verdict is Ruling.INCONCLUSIVE


# methods ---------------------------------------------------------------------------------------------


def test_newcombe_tells_where_it_disagrees_but_does_not_decide() -> None:
    table = Pairs(a=930, b=9, c=17, d=44)  # Tango's lower bound and Newcombe's lie on two sides of this margin
    tango, newcombe = table.tango()[0], table.newcombe()[0]
    margin = -(tango + newcombe) / 2
    found = check(world(success=table), "success", replace(MARGINS, success_margin=margin))
    assert found.verdict is (Ruling.PASS if tango > newcombe else Ruling.INCONCLUSIVE)
    assert "Newcombe's interval says" in found.words


def test_few_successes_are_judged_by_fieller() -> None:
    rng = np.random.default_rng(3)
    s = (rng.uniform(size=N) < 0.015).astype(float)
    found = check(world(success=Both(s, s)), "energy")
    assert found.method == "Fieller"


def test_without_enough_successes_the_ratio_has_no_upper_end() -> None:
    s1, s0 = np.zeros(N), np.ones(N)
    s1[0] = 1
    found = check(world(success=Both(s1, s0)), "energy")
    assert found.high == math.inf and found.verdict is Ruling.INCONCLUSIVE
    assert found.to_dict()["high"] is None


def test_clusters_widen_every_interval() -> None:
    rng = np.random.default_rng(5)
    tenant = np.repeat(np.arange(40), 30)
    lift = rng.lognormal(0, 0.3, 40)[tenant]
    plain = world()
    assert plain.energy_j is not None
    evidence = replace(plain, energy_j=amounts(np.asarray(plain.energy_j.candidate) * lift, plain.energy_j.control))
    alone, together = check(evidence, "energy"), check(replace(evidence, clusters=tenant), "energy")
    assert "clustered" in together.method
    assert together.high is not None and alone.high is not None and together.low is not None and alone.low is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert together.second_high == pytest.approx(together.high, rel=0.05)
    few = check(replace(evidence, clusters=tenant // 10), "energy")
    assert few.verdict is Ruling.INCONCLUSIVE and "4 clusters are too few" in few.words


def test_systematic_uncertainty_does_not_shrink_with_n() -> None:
    plain = world()
    assert plain.energy_j is not None
    sure = check(plain, "energy")
    unsure = check(replace(plain, energy_j=replace(plain.energy_j, systematic=0.10)), "energy")
    assert sure.verdict is Ruling.PASS and unsure.verdict is Ruling.INCONCLUSIVE
    assert unsure.high == pytest.approx((unsure.estimate or 0) * math.exp(1.96 * 0.10), rel=0.01)
    assert "systematic 10.0% added" in unsure.words


def test_a_reference_mix_undoes_simpsons_paradox() -> None:
    """The candidate is 20 % worse on each stratum, but saw its requests while sizes shifted: weights decide."""
    rng = np.random.default_rng(2)
    big = rng.uniform(size=N) < 0.1
    e0 = np.where(big, 1_000.0, 50.0) * rng.lognormal(0, 0.05, N)
    e1 = e0 * np.where(big, 0.5, 1.2)  # saves on big requests, wastes on small ones
    evidence = world(success=Both(np.ones(N), np.ones(N)), energy_j=amounts(e1, e0))
    sample = check(evidence, "energy")
    mixed = replace(evidence, strata=np.where(big, "big", "small").tolist(), mix={"big": 0.005, "small": 0.995})
    standard = check(mixed, "energy")
    assert sample.verdict is Ruling.PASS and standard.verdict is Ruling.FAIL
    expected = (0.005 * 500 + 0.995 * 60) / (0.005 * 1000 + 0.995 * 50)
    assert standard.estimate == pytest.approx(expected, rel=0.02)
    assert "unstandardised" in standard.words
    assert check(mixed, "success").method == "Tango per stratum, joined by MOVER"
    assert (standard.method, standard.second_method) == ("delta at the reference mix", "the bootstrap")
    assert (standard.second_low, standard.second_high) == pytest.approx((standard.low, standard.high), rel=0.01)
    p95 = check(mixed, "p95")
    assert "of the requests as they came: at a reference mix there is no interval of a P95" in p95.words
    limit = check(mixed, "p95_limit", replace(MARGINS, p95_limit_s=8.0))
    assert "of the requests as they came: at a reference mix there is no interval of a P95" in limit.words


def test_monitoring_at_a_mix_stops_for_harm_at_the_mix_and_not_for_that_of_the_sample() -> None:
    big = np.arange(N) % 10 == 0
    e0 = np.where(big, 1_000.0, 50.0) * np.random.default_rng(2).lognormal(0, 0.05, N)
    shared = {"success": Both(np.ones(N), np.ones(N)), "strata": np.where(big, "big", "small").tolist()}
    wastes = world(energy_j=amounts(e0 * np.where(big, 0.5, 1.2), e0), mix={"big": 0.005, "small": 0.995}, **shared)
    saves = world(energy_j=amounts(e0 * np.where(big, 1.4, 0.5), e0), mix={"big": 0.005, "small": 0.995}, **shared)
    for evidence, ruling, plain in ((wastes, Ruling.FAIL, Ruling.PASS), (saves, Ruling.PASS, Ruling.FAIL)):
        energy = check(evidence, "energy", mode=Mode.MONITOR)
        assert energy.method == "confidence sequence of the log ratio at the reference mix"
        assert energy.verdict is ruling and "unstandardised" in energy.words
        assert check(replace(evidence, mix=None), "energy", mode=Mode.MONITOR).verdict is plain
        assert check(evidence, "success", mode=Mode.MONITOR).method == "confidence sequence at the reference mix"


def test_few_successes_at_a_mix_are_judged_by_fieller() -> None:
    success = (np.arange(N) % 50 == 0).astype(float)
    told = world(success=Both(success, success), strata=["a", "b"] * (N // 2), mix={"a": 0.5, "b": 0.5})
    found = check(told, "energy")
    assert found.method == "Fieller at the reference mix"
    assert found.low is not None and found.estimate is not None and found.low < found.estimate
    clustered = check(replace(told, clusters=np.arange(N) // 10), "energy")
    assert clustered.verdict is Ruling.INCONCLUSIVE and "the ratio has no upper end" in clustered.words


def test_a_stratum_without_a_request_is_told_and_settles_nothing() -> None:
    evidence = world(strata=["a"] * N, mix={"a": 0.7, "b": 0.3})
    for name in ("success", "energy"):
        found = check(evidence, name)
        assert found.verdict is Ruling.INCONCLUSIVE and found.estimate is None
        assert "no request in b: 70% of the mix is covered" in found.words


def test_a_reference_workload_is_judged_as_independent_samples() -> None:
    rng = np.random.default_rng(4)
    evidence = world(
        kind="reference_workload",
        success=Both(np.ones(1_300), np.ones(1_100)),
        latency_s=Both(rng.lognormal(0, 0.2, 1_300), rng.lognormal(0, 0.2, 1_100)),
        energy_j=amounts(rng.lognormal(4, 0.4, 1_300), rng.lognormal(4.4, 0.4, 1_100)),
        usd=amounts(rng.lognormal(4, 0.4, 1_300), rng.lognormal(4.4, 0.4, 1_100)),
        carbon_g=amounts(rng.lognormal(4, 0.4, 1_300), rng.lognormal(4.4, 0.4, 1_100)),
    )
    verdict = judge(evidence, MARGINS)
    assert verdict.verdict is Ruling.PASS, verdict.words
    assert "independent" in (verdict.check("energy") or verdict.checks[0]).method


def test_off_policy_evidence_passes_only_where_the_margins_allow_it() -> None:
    ready = {name: Ready(0.8, 0.7, 0.9, 5_000, "snips", "allocated") for name in ("energy", "usd", "carbon")}
    ready |= {name: Ready(0.0, -0.01, 0.01, 5_000, "dr", "off_policy") for name in ("success", "over_slo")}
    evidence = Evidence("off_policy", constraints=PROVED, ready=ready)
    assert judge(evidence, MARGINS).verdict is Ruling.INCONCLUSIVE
    allowed = replace(MARGINS, weakest_kind=OutcomeKind.OFF_POLICY)
    assert judge(evidence, allowed).verdict is Ruling.PASS
    lost = replace(ready["success"], identifiable=False, why="the logging policy was deterministic")
    verdict = judge(replace(evidence, ready=ready | {"success": lost}), allowed)
    assert verdict.verdict is Ruling.INCONCLUSIVE and "deterministic" in verdict.words


def test_requests_that_never_answered_are_over_the_slo() -> None:
    evidence = world()
    assert evidence.latency_s is not None
    late = np.array(evidence.latency_s.candidate)
    late[:200] = math.inf
    stuck = replace(evidence, latency_s=Both(late, evidence.latency_s.control))
    assert check(stuck, "over_slo").verdict is Ruling.FAIL
    assert check(stuck, "p95").verdict is not Ruling.PASS


def test_p95_in_seconds_by_order_statistics() -> None:
    evidence, limit = world(), replace(MARGINS, p95_limit_s=8.0)
    found = check(evidence, "p95_limit", limit)
    assert found.verdict is Ruling.PASS and found.method == "order statistics" and found.unit == "s"
    assert check(evidence, "p95_limit", replace(MARGINS, p95_limit_s=3.0)).verdict is Ruling.FAIL


def test_graded_success_is_judged_by_its_mean() -> None:
    rng = np.random.default_rng(8)
    score = rng.uniform(0.5, 1.0, N)
    found = check(world(success=Both(score, score - 0.01 * rng.uniform(size=N))), "success")
    assert found.verdict is Ruling.PASS and "graded" in found.method
    assert check(world(success=Both(score * 3, score)), "success").verdict is Ruling.INCONCLUSIVE


def test_a_figure_without_a_margin_is_not_judged() -> None:
    margins = Margins(
        planned_n=10, energy_gain=None, energy_margin=None, usd_margin=None, carbon_margin=None, p95_margin=None,
        constraints=(),
    )  # fmt: skip
    verdict = judge(Evidence("mirrored", success=Pairs(1_000, 0, 0, 0)), margins)
    assert [c.name for c in verdict.checks] == ["success"] and verdict.verdict is Ruling.PASS


def test_categories_that_stand_out_warn_without_deciding() -> None:
    evidence = world()
    assert isinstance(evidence.success, Both)
    category = np.array(["code", "prose", "maths", "chat"])[np.arange(N) % 4]
    s1 = np.array(evidence.success.candidate)
    s1[np.flatnonzero(category == "maths")[:20]] = 0
    verdict = judge(replace(evidence, success=Both(s1, evidence.success.control), category=category.tolist()), MARGINS)
    assert [w.category for w in verdict.warnings] == ["maths"]
    assert verdict.warnings[0].q < 0.05


# monitoring ---------------------------------------------------------------------------------------


def test_monitoring_stops_early_for_harm_and_only_for_harm() -> None:
    harm, good = world(n=400, loss=0.2), world(n=400)
    verdict = judge(harm, MARGINS, mode=Mode.MONITOR)
    assert verdict.stop and verdict.verdict is Ruling.FAIL
    assert judge(harm, MARGINS).verdict is Ruling.INCONCLUSIVE, "the fixed gate waits for its planned n"
    early = judge(good, MARGINS, mode=Mode.MONITOR)
    assert early.verdict is Ruling.INCONCLUSIVE and not early.stop
    assert early.check("p95") is None, "a quantile has no sequence here"


def test_a_monitored_interval_is_wider_than_that_of_one_look() -> None:
    once, always = check(world(), "energy"), check(world(), "energy", mode=Mode.MONITOR)
    assert once.low and once.high and always.low and always.high
    width = math.log(always.high / always.low) / math.log(once.high / once.low)
    assert width == pytest.approx(1.55, abs=0.03)


# the best of several -------------------------------------------------------------------------------


def several(k: int, gain: float, n: int = N) -> dict[str, Evidence]:
    rng = np.random.default_rng(11)
    base = world(gain=0.0, n=n)
    assert base.energy_j is not None
    control = np.asarray(base.energy_j.control)
    out = {}
    for i in range(k):
        energy = amounts(control * (1 - gain * (i == 2)) * rng.lognormal(0, 0.3, n), control)
        out[f"arm{i}"] = replace(base, energy_j=energy, usd=energy, carbon_g=energy)
    return out


def test_the_best_of_k_is_judged_at_the_confidence_of_k_looks() -> None:
    found = judge_best(several(5, 0.3), replace(MARGINS, success_margin=0.03))
    assert found.name == "arm2" and found.verdict.verdict is Ruling.PASS, found.verdict.words
    assert found.verdict.comparisons == 5 and found.verdict.confidence == pytest.approx(0.99)
    single = check(several(5, 0.3)["arm2"], "energy")
    corrected = found.verdict.check("energy")
    assert corrected and corrected.high and single.high and corrected.high > single.high
    assert found.best.held_out_gain == pytest.approx(0.27, abs=0.05)
    assert found.best.p_holm < 0.01 and found.best.p_max_t < 0.01


def test_candidates_of_different_requests_cannot_be_ranked() -> None:
    pool = several(2, 0.3) | {"other": world(n=N - 1)}
    with pytest.raises(errors.EvidenceMixed):
        judge_best(pool, MARGINS)
    with pytest.raises(errors.EvidenceMixed):
        judge_best({"a": world(), "b": world(seed=9)}, MARGINS)
    with pytest.raises(errors.EvidenceMixed):
        judge_best({"a": replace(world(), kind="reference_workload")}, MARGINS)
    with pytest.raises(errors.NoData):
        judge_best({}, MARGINS)
    with pytest.raises(errors.NoData):
        judge_best({"a": replace(world(), energy_j=None)}, MARGINS)


# margins ---------------------------------------------------------------------------------------------


def test_the_plan_follows_from_the_margins() -> None:
    assert Margins().n == 2_627  # 2 pp, 10 % discordance, one-sided 2.5 %, 90 % power
    assert Margins(success_margin=0.01).n == 10_508
    assert Margins(planned_n=50).n == 50
    assert Margins().energy_limit == 0.95
    assert Margins(energy_gain=None, energy_margin=0.03).energy_limit == 1.03


@pytest.mark.parametrize(
    "wrong",
    [
        {"success_margin": 0.0}, {"success_margin": -0.1}, {"success_margin": math.nan}, {"planned_n": 0},
        {"planned_n": 2.5}, {"planned_n": True}, {"energy_gain": 1.0}, {"usd_margin": -0.1}, {"slo_s": 0.0},
        {"min_coverage": 0.0}, {"slo_s": math.inf}, {"resamples": 0},
    ],
)  # fmt: skip
def test_margins_that_judge_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.MarginsInvalid):
        Margins(**wrong)


def test_margins_survive_storage_and_unknown_names_are_refused() -> None:
    margins = Margins(slo_s=3.0, weakest_kind=OutcomeKind.MIRRORED, constraints=("residency",))
    assert Margins.from_dict(json.loads(json.dumps(margins.to_dict()))) == margins
    with pytest.raises(errors.MarginsInvalid):
        Margins.from_dict({"succes_margin": 0.02})
    with pytest.raises(errors.MarginsInvalid):
        Margins.from_dict({"success_margin": "much"})


def test_a_verdict_is_plain_json() -> None:
    told = json.loads(json.dumps(judge(world(), MARGINS).to_dict(), allow_nan=False))
    assert told["verdict"] == "PASS" and told["kind"] == "paired_replay"
    assert {"name", "estimate", "low", "high", "margin", "verdict", "n", "method", "evidence_class", "words"} <= set(
        told["checks"][0]
    )
    unbounded = world(success=Both([0.0] * N, [1.0] * N))
    json.dumps(judge(unbounded, MARGINS).to_dict(), allow_nan=False)


def test_the_same_evidence_gives_the_same_verdict() -> None:
    assert judge(world(), MARGINS) == judge(world(), MARGINS)


cells = st.one_of(st.sampled_from([0.0, 1.0]), st.just(math.nan))
joules = st.one_of(st.floats(0, 1e6), st.just(math.nan))


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 25), st.sampled_from(list(Mode)), st.sampled_from(list(OutcomeKind)))
def test_small_or_broken_samples_never_pass_and_never_raise(
    data: st.DataObject, n: int, mode: Mode, kind: OutcomeKind
) -> None:
    def column(of: st.SearchStrategy[float]) -> list[float]:
        return data.draw(st.lists(of, min_size=n, max_size=n))

    energy = amounts(column(joules), column(joules))
    evidence = Evidence(
        kind, Both(column(cells), column(cells)), Both(column(joules), column(joules)), energy, energy, energy,
        PROVED, clusters=data.draw(st.none() | st.just(list(range(n)))),
    )  # fmt: skip
    margins = Margins(planned_n=1, slo_s=1.0, resamples=50, min_clusters=1)
    verdict = judge(evidence, margins, mode=mode)
    json.dumps(verdict.to_dict(), allow_nan=False)
    if verdict.verdict is Ruling.PASS:
        success = verdict.check("success")
        assert success and success.low is not None and success.low > -0.02
