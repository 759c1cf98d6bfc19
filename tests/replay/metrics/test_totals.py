"""The compiled pass over many policies, whole and in chunks, against a loop."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.replay.errors import ArmUnknown, ReplayError
from policies.replay.metrics import evaluate
from policies.replay.policy import Choices
from policies.replay.stream import split_rows, total_chunks
from policies.replay.totals import totals
from tests.replay.metrics.tables import random_table, table


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 600), st.integers(1, 6), st.sampled_from([0.0, 0.01]))
def test_the_compiled_pass_equals_a_loop(seed: int, policies: int, n: int, k: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    made = random_table(rng, n, k, missing=missing)
    arms = rng.integers(-1, k, (policies, n)).astype(np.int32)
    found = totals(made, arms)
    for p in range(policies):
        right = joules = seconds = 0.0
        gaps = handed = 0
        for q in range(n):
            if arms[p, q] < 0:
                handed += 1
                continue
            right += made.correct[q, arms[p, q]]
            joules += made.energy_j[q, arms[p, q]]
            seconds += made.latency_s[q, arms[p, q]]
            gaps += math.isnan(made.correct[q, arms[p, q]])
        assert (found.correct[p], found.energy_j[p], found.latency_s[p]) == pytest.approx(
            (right, joules, seconds), nan_ok=True
        )
        assert (found.missing[p], found.handed_back[p]) == (gaps, handed)


def test_totals_and_figures_agree() -> None:
    rng = np.random.default_rng(3)
    made = random_table(rng, 1000, 5)
    arms = rng.integers(-1, 5, (3, 1000)).astype(np.int32)
    found = totals(made, arms)
    for p, each in enumerate(evaluate(made, [Choices(arms=row) for row in arms])):
        assert (found.accuracy[p], found.energy_j_per_query[p], found.latency_s_per_call[p]) == pytest.approx(
            (each.accuracy, each.energy_j_per_query, each.latency_mean_s)
        )


def test_a_missing_measure_is_nan_for_that_measure_only() -> None:
    made = replace(table([[1, 0]]), latency_s=np.array([[np.nan, 1.0]]))
    found = totals(made, [[0], [1]])
    np.testing.assert_array_equal(found.latency_s, [np.nan, 1.0])
    assert found.accuracy.tolist() == [1.0, 0.0]
    assert found.missing.tolist() == [0, 0], "missing counts cells without correctness or energy"


def test_no_query_has_no_mean() -> None:
    found = totals(table(np.empty((0, 2))), np.empty((2, 0), np.int32))
    assert np.isnan(found.accuracy).all()


@pytest.mark.parametrize(
    ("arms", "error"),
    [
        ([[0, 2]], ArmUnknown),
        ([[-2, 0]], ArmUnknown),
        ([[0]], ReplayError),
        ([[0.0, 1.0]], ReplayError),
        ([0, 1], ReplayError),
    ],
)
def test_arms_that_do_not_fit_are_refused(arms: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        totals(table([[1, 0], [0, 1]]), arms)  # type: ignore[arg-type]


def test_chunks_of_memory_maps_give_the_sums_of_the_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    made = random_table(rng, 1003, 4)
    arms = rng.integers(-1, 4, (2, 1003)).astype(np.int32)
    maps = []
    for name, matrix in (("c", made.correct), ("e", made.energy_j), ("l", made.latency_s), ("a", arms)):
        np.save(tmp_path / f"{name}.npy", matrix)
        maps.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    found = total_chunks(split_rows(*maps, rows=100))
    whole = totals(made, arms)
    assert found is not None
    assert found.n == 1003
    np.testing.assert_allclose(found.energy_j, whole.energy_j, rtol=1e-12)
    assert found.correct.tolist() == whole.correct.tolist()
    assert found.handed_back.tolist() == whole.handed_back.tolist()
    assert total_chunks([]) is None
