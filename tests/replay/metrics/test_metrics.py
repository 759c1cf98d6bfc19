"""Figures of a policy: sums by hand, missing cells, handed back queries, mixtures, collapse, slices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.replay.account import break_even, with_router
from policies.replay.errors import ArmUnknown, ReplayError
from policies.replay.metrics import UNITS, Figures, collapsed, entropy, evaluate
from policies.replay.policy import HAND_BACK
from policies.replay.reward import Weights
from policies.replay.stream import evaluate_chunks
from policies.replay.table import Condition, OutcomeTable
from tests.replay.metrics.tables import always, arms, mixing, random_table, table
from warehouse.evidence import EvidenceClass

NAN = float("nan")


def test_the_figures_of_three_queries_by_hand() -> None:
    made = table(
        [[0, 1], [1, 1], [0, 1]],
        [[10.0, 40.0], [20.0, 50.0], [30.0, 90.0]],
        latency_s=np.array([[1.0, 2.0], [1.0, 5.0], [2.0, 10.0]]),
        power_w=np.array([[10.0, 20.0], [20.0, 10.0], [15.0, 9.0]]),
        cost_usd=np.array([[0.001, 0.003]] * 3),
        condition=Condition(intensity_g_per_kwh=360.0, carbon_class=EvidenceClass.MODELED),
        evidence_class=EvidenceClass.MEASURED,
    )
    found = evaluate(made, [arms(1, 0, 1)])[0]
    assert found.accuracy == found.accuracy_low == found.accuracy_high == 1.0
    assert found.energy_j_per_query == pytest.approx(150 / 3)
    assert found.energy_j_per_correct == pytest.approx(150 / 3)
    assert found.power_w_per_call == pytest.approx((20 + 20 + 9) / 3)
    assert found.energy_over_time_w == pytest.approx(150 / 13), "not the mean of the power of the calls"
    assert found.latency_mean_s == pytest.approx(13 / 3)
    assert found.latency_p95_s == 10.0
    assert found.usd_per_query == pytest.approx(0.007 / 3)
    assert found.gco2_per_query == pytest.approx(50 / 3.6e6 * 360)
    assert found.reward == pytest.approx((1.6 + 2.0 + 1.6) / 3)
    assert found.mix.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert found.entropy_nats == pytest.approx(math.log(3) - 2 / 3 * math.log(2))
    assert (found.n, found.missing, found.handed_back, found.collapsed) == (3, 0, 0, False)
    assert (found.evidence_class, found.carbon_class) == (EvidenceClass.MEASURED, EvidenceClass.MODELED)


def test_joules_per_correct_answer_count_the_joules_of_wrong_answers() -> None:
    found = evaluate(table([[1], [0], [0], [1]], [[10.0], [20.0], [30.0], [40.0]]), [always(0, 4)])[0]
    assert found.energy_j_per_correct == 50.0


def test_without_a_correct_answer_there_are_no_joules_per_correct_answer() -> None:
    found = evaluate(table([[0], [0]]), [always(0, 2)])[0]
    assert (found.accuracy, found.energy_j_per_correct) == (0.0, None)


def test_a_picked_missing_cell_takes_away_the_sum_and_leaves_bounds() -> None:
    made = table([[1, 1], [NAN, 1], [0, 1]], [[10.0, 1.0], [NAN, 1.0], [10.0, 1.0]])
    found = evaluate(made, [always(0, 3), always(1, 3)])
    assert (found[0].accuracy, found[0].energy_j_per_query, found[0].energy_j_per_correct) == (None, None, None)
    assert (found[0].accuracy_low, found[0].accuracy_high) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found[0].missing == 1
    assert found[0].reward is None
    assert (found[1].accuracy, found[1].missing) == (1.0, 0), "a policy that does not pick it is not touched"


def test_a_measure_that_misses_takes_only_what_needs_it() -> None:
    made = table([[1], [0]], [[10.0], [NAN]])
    found = evaluate(made, [always(0, 2)])[0]
    assert (found.accuracy, found.energy_j_per_query, found.energy_over_time_w) == (0.5, None, None)
    assert (found.missing, found.missing_by["energy_j"], found.missing_by["correct"]) == (1, 1, 0)
    assert found.power_w_per_call is None


def test_a_query_handed_back_is_no_answer_and_no_call() -> None:
    made = table([[1], [1], [1], [NAN]], [[10.0], [10.0], [10.0], [NAN]])
    found = evaluate(made, [arms(0, 0, HAND_BACK, HAND_BACK)])[0]
    assert (found.accuracy, found.energy_j_per_query, found.handed_back) == (0.5, 5.0, 2)
    assert found.latency_mean_s == 1.0, "per call made"
    assert found.reward == pytest.approx((2 + 2 - 1 - 1) / 4)
    assert found.mix.sum() + found.handed_back / found.n == 1.0
    assert found.missing == 0, "a cell that is not picked does not miss"


def test_a_mixture_is_its_expectation() -> None:
    made = table([[1, 0], [0, 1]], [[10.0, 30.0], [10.0, 30.0]])
    found = evaluate(made, [mixing([[0.75, 0.25], [0.75, 0.25]])])[0]
    assert found.accuracy == pytest.approx(0.5)
    assert found.energy_j_per_query == pytest.approx(15.0)
    assert found.mix.tolist() == [0.75, 0.25]
    assert found.latency_p95_s == 3.0
    assert evaluate(made, [mixing([[0.96, 0.04]] * 2)])[0].latency_p95_s == 1.0, "96 % of the calls take 1 s"


def test_a_mixture_that_may_pick_a_missing_cell_is_bounded_by_its_probability() -> None:
    found = evaluate(table([[1, NAN], [1, NAN]]), [mixing([[0.75, 0.25], [1.0, 0.0]])])[0]
    assert (found.accuracy, found.missing) == (None, 0.25)
    assert (found.accuracy_low, found.accuracy_high) == (0.875, 1.0)


def test_probabilities_that_leave_a_rest_hand_it_back() -> None:
    assert evaluate(table([[1, 1]]), [mixing([[0.5, 0.25]])])[0].handed_back == pytest.approx(0.25)


def test_slices_by_benchmark_add_up() -> None:
    made = table([[1], [0], [1]], [[10.0], [20.0], [60.0]], benchmarks=["gsm8k", "math", "math"])
    found = evaluate(made, [always(0, 3)])[0]
    assert {name: (f.n, f.accuracy, f.energy_j_per_query) for name, f in found.by_benchmark.items()} == {
        "gsm8k": (1, 1.0, 10.0),
        "math": (2, 0.5, 40.0),
    }


def test_the_held_out_counts_of_the_paper_reproduce_always_smallest() -> None:
    # 2609.23085: counts per benchmark follow from Table 3's percentages; 173 of 913 right (Table 2: 0.1895).
    counts = {"MMLU": 149, "GSM8K": 144, "BBH": 145, "ARC": 147, "HellaSwag": 147, "MATH-500": 122, "HumanEval": 59}
    assert sum(counts.values()) == 913
    names = [name for name, n in counts.items() for _ in range(n)]
    right = np.zeros((913, 1))
    right[:173] = 1
    found = evaluate(table(right, np.full((913, 1), 91.8), benchmarks=names), [always(0, 913)], fixed=[True])[0]
    assert found.accuracy == pytest.approx(0.1895, abs=5e-5)
    assert found.energy_j_per_query == pytest.approx(91.8)
    assert {name: each.n for name, each in found.by_benchmark.items()} == counts
    weighted = sum(each.n * (each.accuracy or 0.0) for each in found.by_benchmark.values())
    assert weighted == pytest.approx(173)


def test_a_policy_that_sends_all_to_one_arm_has_collapsed_unless_it_is_that_arm() -> None:
    made = table(np.ones((200, 3)))
    nearly = np.zeros(200, np.int32)
    nearly[0] = 1
    some = np.zeros(200, np.int32)
    some[:20] = 2
    found = evaluate(
        made, [always(0, 200), always(0, 200), arms(*nearly), arms(*some)], fixed=[True, False, False, False]
    )
    assert [each.collapsed for each in found] == [False, True, True, False]
    assert found[1].entropy_nats == 0.0


def test_the_collapse_rule() -> None:
    assert collapsed([0.99, 0.01])
    assert not collapsed([0.98, 0.02])
    spread = np.r_[0.97, np.full(99, 0.03 / 99)]
    assert not collapsed(spread), "below 99 %, and an entropy above 5 % of ln 100"
    assert collapsed([0.496, 0.004, 0.0]), "shares among the queries that were routed"
    assert not collapsed([1.0]), "a single arm is no choice"
    assert not collapsed([0.0, 0.0])
    two_of_many = np.r_[0.987, 0.013, np.zeros(998)]
    assert entropy(two_of_many) < 0.05 * math.log(1000)
    assert collapsed(two_of_many)


@pytest.mark.parametrize(
    ("bad", "error", "told"),
    [
        (arms(0, 2), ArmUnknown, "Arm 2"),
        (arms(0, -2), ArmUnknown, "Arm -2"),
        (arms(0), ReplayError, "2 queries"),
        (mixing([[0.5, 0.6], [1, 0]]), ReplayError, "query 0"),
        (mixing([[1, 0], [1.5, -0.5]]), ReplayError, "query 1"),
        (mixing([[1, 0], [NAN, 0.5]]), ReplayError, "query 1"),
        (mixing([[1, 0]]), ReplayError, "shape"),
    ],
)
def test_choices_that_do_not_fit_are_refused(bad: object, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        evaluate(table([[1, 0], [0, 1]]), [bad])  # type: ignore[list-item]


def test_every_metric_with_a_unit_is_a_figure() -> None:
    assert set(UNITS) <= set(Figures.__dataclass_fields__)


def test_an_empty_table_has_no_figures_and_does_not_fail() -> None:
    found = evaluate(table(np.empty((0, 2))), [always(0, 0)])[0]
    assert (found.n, found.accuracy, found.latency_p95_s, found.collapsed) == (0, None, None, False)


def test_the_routers_own_joules_and_seconds_are_added_to_every_query() -> None:
    made = table([[1], [0]], [[10.0], [30.0]], condition=Condition(intensity_g_per_kwh=100.0))
    plain = evaluate(made, [always(0, 2)])[0]
    found = with_router(plain, 300.0, 0.5)
    assert found.energy_j_per_query == 320.0
    assert found.energy_j_per_correct == 640.0
    assert found.latency_mean_s == 2.5
    assert found.latency_p95_s == 3.5
    assert found.energy_over_time_w == pytest.approx(640 / 5)
    assert found.gco2_per_query == pytest.approx(320 / 3.6e6 * 100)
    assert found.by_benchmark["b"].energy_j_per_query == 320.0
    assert with_router(plain, None, 0.5).energy_j_per_query is None, "unknown, not free"


def test_training_pays_for_itself_after_its_joules_over_the_saving() -> None:
    # The paper: 0.40 kWh of training at a claimed saving of 500 J per query.
    assert break_even(0.40 * 3.6e6, 500.0) == pytest.approx(2880)
    assert break_even(1e6, 0.0) is None
    assert break_even(1e6, -1.0) is None
    assert break_even(None, 10.0) is None


def naive(made: OutcomeTable, chosen: list[int]) -> tuple[float | None, float | None, float | None]:
    right, joules, known = 0.0, 0.0, True
    for n, k in enumerate(chosen):
        if k == HAND_BACK:
            continue
        if math.isnan(made.correct[n, k]):
            known = False
        else:
            right += made.correct[n, k]
            joules += made.energy_j[n, k]
    size = len(chosen)
    return (right / size, joules / size, joules / right if right else None) if known else (None, None, None)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 5), st.sampled_from([0.0, 0.05]))
def test_the_figures_equal_a_loop_over_the_queries(seed: int, n: int, k: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    made = random_table(rng, n, k, missing=missing)
    chosen = rng.integers(-1, k, n)
    found = evaluate(made, [arms(*chosen)])[0]
    assert (found.accuracy, found.energy_j_per_query, found.energy_j_per_correct) == pytest.approx(
        naive(made, chosen.tolist())
    )
    one_hot = (chosen[:, None] == np.arange(k)).astype(float)
    same = evaluate(made, [mixing(one_hot)])[0]
    assert (same.accuracy, same.energy_j_per_query, same.reward, same.latency_p95_s) == pytest.approx(
        (found.accuracy, found.energy_j_per_query, found.reward, found.latency_p95_s)
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 20))
def test_chunks_give_what_the_whole_table_gives(seed: int, n: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    made = random_table(rng, n, 3, missing=0.02)
    policies = [arms(*rng.integers(-1, 3, n)), mixing(rng.dirichlet(np.ones(3), n))]
    parts = [slice(first, first + rows) for first in range(0, n, rows)]

    def cut(at: slice) -> list:
        a, p = policies[0].arms, policies[1].probability
        assert a is not None and p is not None
        return [arms(*a[at]), mixing(p[at])]

    whole = evaluate(made, policies, weights=Weights(0.5))
    streamed = evaluate_chunks(((made.take(np.arange(n)[at]), cut(at)) for at in parts), weights=Weights(0.5))
    for one, other in zip(whole, streamed, strict=True):
        for name in UNITS:
            expected, got = getattr(one, name), getattr(other, name)
            if expected is None:
                assert got is None, name
            else:
                assert got == pytest.approx(expected, rel=0.006 if name == "latency_p95_s" else 1e-9), name
        assert list(other.by_benchmark) == list(one.by_benchmark)


def test_chunks_of_different_tables_are_refused() -> None:
    made = table([[1, 0]])
    other = replace(made, condition=Condition(batch=8.0))
    with pytest.raises(ReplayError, match="differs"):
        evaluate_chunks([(made, [arms(0)]), (other, [arms(0)])])
    assert evaluate_chunks([]) == []
