"""The report of a run: what it claims it can prove, what it cannot prove it says, and portions change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.operations.plain import plain
from policies.replay.errors import ArmUnknown
from policies.replay.metrics import UNITS
from policies.replay.policy import About, Choices, Tradeoff
from policies.replay.report import Asked, affordable, assemble, block
from policies.replay.report_draws import draw, interval, normal_draws
from policies.replay.report_policy import Entry, Training
from policies.replay.report_rows import metric_rows
from policies.replay.report_stream import Gatherer, Train
from policies.replay.reward import Weights
from policies.replay.table import Arm, OutcomeTable, Queries, strings
from warehouse.evidence import EvidenceClass

N, K = 900, 3
JOULES = np.array([10.0, 50.0, 250.0])
SECOND = 0.02  # per joule
ASKED = Asked(replicates=500)


def make_table(seed: int = 0) -> tuple[OutcomeTable, np.ndarray]:
    """(table, hardness): arm k is right where hardness is below (k + 1) / 4; 30 % held out."""
    rng = np.random.default_rng(seed)
    hard = rng.random(N)
    correct = (hard[:, None] < np.array([0.3, 0.6, 0.9])).astype(float)
    energy = JOULES * rng.lognormal(0, 0.1, (N, K))
    queries = Queries(strings([f"q{i:04d}" for i in range(N)]), strings(["ab"[i % 2] for i in range(N)]))
    arms = tuple(Arm(name, name) for name in ("small", "medium", "large"))
    table = OutcomeTable(
        "made", arms, queries, np.arange(N) % 10 < 3, correct, energy, energy * SECOND, energy * 1e-6,
        np.full((N, K), 1 / SECOND), energy, EvidenceClass.MEASURED, "made", sha256="0" * 64,
    )  # fmt: skip
    return table, hard


def fixed(table: OutcomeTable) -> list[Entry]:
    n = int(table.held_out.sum())
    return [
        entry(f"always-{name}", Choices(arms=np.full(n, k, np.int32)), family="fixed", fixed_arm=name)
        for k, name in enumerate(table.names)
    ]


def entry(name: str, choices: Choices, family: str = "made", **more: Any) -> Entry:
    return Entry(About(name, family), choices, choices.sha256, f"id of {name}", **more)


def knowing(table: OutcomeTable, hard: np.ndarray, *, told: bool = True) -> Entry:
    """A router that predicts each arm's error and joules; without `told` its guesses have nothing to do with them."""
    n = int(table.held_out.sum())
    at = hard[table.held_out] if told else np.random.default_rng(5).random(n)
    error = 1 / (1 + np.exp(-12 * (at[:, None] - np.array([0.3, 0.6, 0.9]))))
    swept = Tradeoff(error, np.tile(JOULES, (n, 1)))
    arms = (error + 0.002 * swept.energy_j).argmin(axis=1).astype(np.int32)
    return entry("knowing" if told else "guessing", Choices(arms=arms), swept=swept)


@pytest.fixture(scope="module")
def world() -> tuple[OutcomeTable, np.ndarray]:
    return make_table()


@pytest.fixture(scope="module")
def told(world: tuple[OutcomeTable, np.ndarray]) -> dict[str, Any]:
    table, hard = world
    good = replace(
        knowing(table, hard), routing_s=1e-3, routing_j=0.5, training=Training(1000.0, EvidenceClass.MODELED, 2.0)
    )
    return block(table, [*fixed(table), good], replace(ASKED, budget_j=60.0, incumbent="large"))


def words(told: dict[str, Any]) -> str:
    return " ".join(told["statements"])


# verdicts ------------------------------------------------------------------------------------------------


def test_a_router_that_knows_the_queries_is_proved_to_beat_the_hull(told: dict[str, Any]) -> None:
    assert "knowing beats the mixing hull of the fixed arms between" in words(told)
    hull = told["margins"]["knowing"]["over_hull"]
    assert hull["proved"]
    for point in hull["points"]:
        assert point["low_all"] <= point["low"] + 1e-9 <= point["margin"] + 1e-9
        assert point["margin"] <= point["high"] + 1e-9 <= point["high_all"] + 2e-9
    low, high = told["choice_span_j"]
    assert all(low <= p["energy_j"] <= high for p in hull["points"])


def test_a_router_that_guesses_is_said_to_beat_nothing(world: tuple[OutcomeTable, np.ndarray]) -> None:
    table, hard = world
    said = words(block(table, [*fixed(table), knowing(table, hard, told=False)], ASKED))
    assert "No deployable policy beats the mixing hull of the fixed arms" in said
    assert "guessing beats the mixing hull" not in said


def test_without_a_curve_no_range_is_claimed(world: tuple[OutcomeTable, np.ndarray]) -> None:
    assert "No policy of this report has a curve" in words(block(world[0], fixed(world[0]), ASKED))


def test_without_joules_there_is_no_front_and_words_say_what_to_do(world: tuple[OutcomeTable, np.ndarray]) -> None:
    table = replace(world[0], energy_j=np.full((N, K), np.nan), evidence_class=None)
    told = block(table, fixed(table), ASKED)
    assert told["hypervolume"] is told["reference_point"] is None
    assert (told["front"], told["curves"]) == ([], {})
    assert told["policies"][0]["figures"]["accuracy"] == pytest.approx(0.3, abs=0.08)
    assert "No joules are known for made" in words(told)


def test_a_collapse_is_told_for_routers_and_not_for_fixed_arms(world: tuple[OutcomeTable, np.ndarray]) -> None:
    table = world[0]
    stuck = entry("stuck", Choices(arms=np.full(int(table.held_out.sum()), 2, np.int32)))
    said = words(block(table, [*fixed(table), stuck], ASKED))
    assert "Collapse: stuck sends 100.0% of the queries to large." in said
    assert "Collapse: always" not in said


def test_a_dominated_policy_is_named_with_how_often_the_draws_agree(world: tuple[OutcomeTable, np.ndarray]) -> None:
    table = world[0]
    n = int(table.held_out.sum())
    worse = entry("worse", Choices(arms=np.where(np.arange(n) % 3, 0, 2).astype(np.int32)))  # 0.5 at 90 J
    told = block(table, [*fixed(table), worse], ASKED)
    policy = told["policies"][-1]
    (by,) = policy["domination"]["dominated_by"]
    assert (by["arm"], by["confidence"] > 0.9) == ("medium", True)
    assert policy["domination"]["margin_over_hull"]["high"] < 0
    assert "worse" not in told["front"]
    assert "The fixed arm medium dominates worse (in" in words(told)


# figures -------------------------------------------------------------------------------------------------


def test_the_front_the_budget_and_the_best_fixed_arm(told: dict[str, Any]) -> None:
    assert told["best_fixed_arm"] == told["incumbent"] == "always-large"
    assert told["reference_point"]["energy_j"] == 260.0, "1.02 x about 251 J, rounded up to two digits"
    assert told["hypervolume"] > told["hypervolume_fixed_arms"] > 0
    assert [c["policy"] for c in told["hull"]] == ["always-small", "always-medium", "always-large"]
    budget = told["budget"]
    assert budget["fixed_arm"]["policy"] == "always-medium"
    assert budget["mixture"]["accuracy"] >= budget["fixed_arm"]["accuracy"]
    assert budget["curve"]["policy"] == "knowing"
    assert budget["curve"]["accuracy"] > budget["mixture"]["accuracy"]
    assert budget["curve"]["energy_j"] <= 60


def test_the_account_of_a_router(told: dict[str, Any]) -> None:
    policy = told["policies"][-1]
    router, figures = policy["router"], policy["figures"]
    assert router["with_router"]["energy_j_per_query"] == pytest.approx(figures["energy_j_per_query"] + 0.5)
    saved = told["policies"][2]["figures"]["energy_j_per_query"] - figures["energy_j_per_query"] - 0.5
    assert router["break_even_queries"] == pytest.approx(1000 / saved)
    predicted = policy["energy_predicted"]
    assert predicted["actual_j"] == pytest.approx(figures["energy_j_per_query"])
    assert predicted["per_query_j"] == pytest.approx(predicted["per_model_j"], rel=0.02)


def test_two_kinds_of_power_are_told_apart(world: tuple[OutcomeTable, np.ndarray]) -> None:
    table = replace(world[0], power_w=np.tile([20.0, 60.0, 120.0], (N, 1)))
    figures = block(table, fixed(table), ASKED)["policies"][0]["figures"]
    assert figures["power_w_per_call"] == pytest.approx(20)
    assert figures["energy_over_time_w"] == pytest.approx(1 / SECOND)


def test_metric_rows_are_unique_and_carry_unit_class_and_n(told: dict[str, Any]) -> None:
    rows = metric_rows(told)
    keys = [(r["policy"], r["benchmark"], r["metric"]) for r in rows]
    assert len(set(keys)) == len(keys)
    assert all(r["unit"] and r["n"] for r in rows)
    by = dict(zip(keys, rows, strict=True))
    assert by["always-small", "", "energy_j_per_query"]["evidence_class"] == "measured"
    assert by["always-small", "", "accuracy"]["evidence_class"] is None
    assert by["always-small", "", "gco2_per_query"]["value"] is None
    assert {m for _, _, m in keys} >= {*UNITS, "margin_over_hull", "energy_ratio:best_fixed_arm", "share:small"}


def test_a_report_is_plain_json(told: dict[str, Any]) -> None:
    assert json.loads(json.dumps(plain(told), allow_nan=False))["n_test"] == told["n_test"]


def test_an_incumbent_that_nobody_knows_is_refused(world: tuple[OutcomeTable, np.ndarray]) -> None:
    with pytest.raises(ArmUnknown, match="'huge' is neither an arm of made nor a policy"):
        block(world[0], fixed(world[0]), replace(ASKED, incumbent="huge"))


# draws and portions --------------------------------------------------------------------------------------


def test_the_normal_limit_agrees_with_the_bootstrap(world: tuple[OutcomeTable, np.ndarray]) -> None:
    test = world[0].test()
    choices = [e.choices for e in fixed(world[0])]
    exact = draw(test, choices, seed=1, replicates=2000)
    columns = np.column_stack([test.correct, test.energy_j])
    limit = normal_draws(columns.mean(axis=0), np.cov(columns, rowvar=False, bias=True), len(test), 2000, 1)
    for found, other in zip([*exact.accuracies.T, *exact.energies_j.T], limit.T, strict=True):
        low, high = interval(found)
        assert low is not None
        assert high is not None
        assert interval(other) == pytest.approx((low, high), abs=0.15 * (high - low))


def test_a_policy_with_a_missing_pick_has_no_interval_and_spoils_no_other(
    world: tuple[OutcomeTable, np.ndarray],
) -> None:
    energy = world[0].energy_j.copy()
    energy[np.flatnonzero(world[0].held_out)[0], 2] = np.nan
    told = block(replace(world[0], energy_j=energy), fixed(world[0]), ASKED)
    small, _, large = told["policies"]
    assert large["intervals"]["energy_j_per_query"] == [None, None]
    assert large["figures"]["energy_j_per_query"] is None
    assert None not in small["intervals"]["energy_j_per_query"]


@pytest.mark.parametrize("size", [1, 77, N])
def test_portions_give_the_parts_of_the_whole(world: tuple[OutcomeTable, np.ndarray], size: int) -> None:
    table = world[0]
    entries = fixed(table)
    whole = block(table, entries, ASKED)
    gather, train = Gatherer(K, len(entries), Weights(), [True] * K), Train(K)
    for start in range(0, N, size):
        part = table.take(np.arange(start, min(start + size, N)))
        train.add(part)
        gather.add(part.test(), [Choices(arms=np.full(int(part.held_out.sum()), k, np.int32)) for k in range(K)])
    parts = gather.parts(train, seed=0, replicates=500)
    assert parts is not None
    told = assemble(table, entries, ASKED, train.with_reference(parts, table))
    assert told["reference_point"] == whole["reference_point"]
    assert told["hypervolume"] == pytest.approx(whole["hypervolume"])
    assert (told["n_train"], told["n_test"], told["queries"]) == (whole["n_train"], whole["n_test"], whole["queries"])
    for one, other in zip(told["policies"], whole["policies"], strict=True):
        for name in ("accuracy", "energy_j_per_query", "energy_over_time_w", "reward", "usd_per_query"):
            assert one["figures"][name] == pytest.approx(other["figures"][name])
        assert one["domination"]["dominates"] == other["domination"]["dominates"]
        for name, (low, high) in one["intervals"].items():
            wide = other["intervals"][name][1] - other["intervals"][name][0]
            assert (low, high) == pytest.approx(tuple(other["intervals"][name]), abs=0.25 * wide)


def test_no_held_out_query_makes_no_parts() -> None:
    assert Gatherer(K, 1, Weights(), [True]).parts(Train(K), seed=0) is None


def test_replicates_shrink_where_they_would_take_too_long() -> None:
    assert affordable(1000, 40, 2000) == 2000
    assert affordable(1_000_000, 40, 2000) == 200


def test_splits_of_a_handful_of_queries_are_told() -> None:
    table, _ = make_table()
    assert "certainty" not in words(block(table, fixed(table), ASKED))
    queries = replace(table.queries, benchmarks=strings(["rare" if i in (0, 1, 10) else "a" for i in range(N)]))
    told = block(replace(table, queries=queries), fixed(table), ASKED)
    assert "Benchmarks of fewer than 30 held-out queries, told with little certainty: rare (3)." in words(told)
    few = table.take(np.arange(60))
    told = block(few, fixed(few), ASKED)
    assert "Only 18 held-out queries: intervals are rough below 30." in words(told)
    assert "training queries" not in words(told)
