"""What the Pareto page reads of replay runs and publications, against figures computed by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from app.desk import Desk
from app.reads import published, replay, replay_pairs
from app.reads.pareto import Point, front
from app.reads.replay_pairs import Asked
from tests.console.replayed import replayed as replayed
from tests.console.replayed import replayed_file as replayed_file
from warehouse.clock import parse_utc

NOW = datetime(2026, 11, 29, 12)


def block(desk: Desk, at: int = 0) -> tuple[replay.Run, replay.Report]:
    run = replay.runs(desk.warehouse, "ours")[0]
    return run, replay.report(desk.warehouse, run.blocks[at].replay_run_id)


def asked(desk: Desk, a: str, b: str, benchmark: str = "") -> Asked:
    run, told = block(desk)
    as_of = parse_utc(told["as_of"], what="as_of")
    rates, cls = replay_pairs.rates_of(told), told["evidence_class"]
    return Asked("ours", run.blocks[0].replay_run_id, a, b, as_of, cls, rates, benchmark)


def point(name: str, x: float, y: float, role: str = "fixed") -> Point:
    return Point(name, x, None, None, y, None, None, "measured", 10, NOW, "s", role=role)


# data sets, runs, points ----------------------------------------------------------------------------


def test_a_data_set_tells_whether_it_was_ever_replayed(replayed: Desk) -> None:
    sets = {d.name: d for d in replay.data_sets(replayed.warehouse)}
    assert sets["ours"].ran_at is not None
    assert sets["untouched"].ran_at is None
    assert sets["ours"].arms == 3


def test_a_run_lists_its_conditions_in_words(replayed: Desk) -> None:
    run, _ = block(replayed)
    assert [b.words for b in run.blocks] == ["FI, 2026-11-29T12:00Z", "PL, 2026-11-29T12:00Z"]
    assert (run.n_train, run.n_test) == (80, 40)


def test_points_carry_interval_class_n_and_role(replayed: Desk) -> None:
    _, told = block(replayed)
    points, unplotted = replay.points(told, "energy_j_per_query", "accuracy", "", NOW)
    by = {p.name: p for p in points}
    assert {p.role for p in points} == {"fixed", "policy", "bound"}
    assert by["oracle"].role == "bound"
    assert {p.evidence_class for p in points} == {"measured"}
    assert all(p.n == 40 and p.x_low is not None and p.x_low < p.x for p in points)
    assert by["always-small"].label == "small · smallest"
    assert unplotted == []


def test_the_accuracy_of_a_point_is_that_of_the_recorded_answers(replayed: Desk) -> None:
    _, told = block(replayed)
    points, _ = replay.points(told, "energy_j_per_query", "accuracy", "hard", NOW)
    found = next(p for p in points if p.name == "always-large")
    right, joules, n = replayed.warehouse.query(
        "SELECT avg(correct), avg(energy_j), count(*) FROM core.outcome o JOIN core.query q USING (dataset, query_id) "
        "WHERE dataset = 'ours' AND o.arm = 'large' AND q.split = 'test' AND q.benchmark = 'hard'"
    ).row(0)
    assert (found.y, found.x, found.n) == (pytest.approx(right), pytest.approx(joules), n)
    assert found.x_low is None  # of one benchmark joules have no interval
    assert found.y_low is not None and found.y_low < right < (found.y_high or 0)


def test_grams_have_the_class_of_the_weaker_factor_and_follow_the_zone(replayed: Desk) -> None:
    each = [replay.points(block(replayed, i)[1], "gco2_per_query", "accuracy", "", NOW)[0] for i in (0, 1)]
    assert {p.evidence_class for points in each for p in points} == {"modeled"}
    assert each[1][0].x / each[0][0].x == pytest.approx(650 / 37)


def test_a_figure_that_is_not_known_keeps_its_policy_off_the_chart_with_the_reason(replayed: Desk) -> None:
    _, told = block(replayed)
    told["policies"][0]["figures"]["usd_per_query"] = None
    _, unplotted = replay.points(told, "usd_per_query", "accuracy", "", NOW)
    assert [(u.name, u.reason) for u in unplotted] == [(told["policies"][0]["name"], "Cost per query: not recorded")]


def test_missing_cells_are_the_reason_where_they_are(replayed: Desk) -> None:
    _, told = block(replayed)
    told["policies"][0]["figures"] |= {"accuracy": None, "missing": 3.0}
    _, unplotted = replay.points(told, "energy_j_per_query", "accuracy", "", NOW)
    assert "3 of the 40 cells it picks are not recorded" in unplotted[0].reason


def test_curves_of_one_policy_come_once_and_the_hulls_not_at_all(replayed: Desk) -> None:
    run, _ = block(replayed)
    lines = replay.curves(replayed.warehouse, run.blocks[0].replay_run_id)
    assert [line.policy for line in lines] == ["benchmark"]
    assert len(set(map(len, lines[0].columns.values()))) == 1
    grams, joules = lines[0].columns["gco2"][0], lines[0].columns["energy_j"][0]
    assert grams == pytest.approx((joules or 0) / 3.6e6 * 37)


# front and hull -------------------------------------------------------------------------------------


def test_a_bound_is_never_on_the_front_and_dominates_nobody() -> None:
    found = front([point("oracle", 1, 0.9, "bound"), point("a", 2, 0.5), point("b", 3, 0.8)])
    assert [p.name for p in found.points if p.on_front] == ["a", "b"]


def test_the_hull_is_that_of_the_fixed_arms_alone() -> None:
    found = front([point("a", 1, 0.2), point("b", 3, 0.6), point("router", 1.5, 0.6, "policy")])
    assert [p.name for p in found.hull] == ["a", "b"]


def test_mixing_is_straight_in_joules_per_query() -> None:
    xs, ys = replay.mixing_line([point("a", 10, 0.2), point("b", 100, 0.8)], "energy_j_per_query", "accuracy")
    assert np.allclose(ys, 0.2 + (np.array(xs) - 10) / 90 * 0.6)


def test_mixing_of_joules_per_correct_answer_is_a_ratio_of_two_means() -> None:
    """Half of each arm: 55 J and 0.5 right per query, so 110 J per right answer, not the mean of 50 and 125."""
    arms = [point("a", 10 / 0.2, 0.2), point("b", 100 / 0.8, 0.8)]
    xs, ys = replay.mixing_line(arms, "energy_j_per_correct", "accuracy")
    assert np.interp(0.5, ys, xs) == pytest.approx(110, rel=2e-3)


@pytest.mark.parametrize(("x", "y"), [("latency_p95_s", "accuracy"), ("energy_j_per_query", "margin_over_hull")])
def test_where_mixing_has_no_line_none_is_drawn(x: str, y: str) -> None:
    assert replay.mixing_line([point("a", 1, 0.2), point("b", 2, 0.8)], x, y) == ([], [])


# published ------------------------------------------------------------------------------------------


def test_the_front_of_the_published_points(sample: Desk) -> None:
    """arXiv 2609.23085, Table 2: RouteLLM and always_large are dominated by always_medium."""
    told = [t for t in published.points(sample.warehouse, "published") if not t.added]
    points, _ = published.plotted(told, "energy_j", "accuracy", "", "")
    found = front(points)
    out = {p.name for p in found.points if not p.on_front}
    assert len(points) == 13
    assert {"RouteLLM", "always_large", "SFT (λe=0.5)"} <= out
    assert not {"always_smallest", "K-NN", "always_medium"} & out
    assert {p.evidence_class for p in points} == {"modeled"}


def test_the_fixed_arm_told_elsewhere_stands_beside_the_published_points(sample: Desk) -> None:
    told = published.points(sample.warehouse, "published")
    assert [t.point.policy for t in told if t.added] == ["Always-Qwen2.5-7B"]
    points, _ = published.plotted(told, "energy_j", "accuracy", "", "")
    off = {p.name for p in front(points).points if not p.on_front}
    assert {"UniRoute", "Smoothie", "SFT (λe=0.5)"} <= off


def test_published_points_are_there_without_any_data(desk: Desk) -> None:
    assert published.names(desk.warehouse) == ["published"]
    assert len(published.points(desk.warehouse, "published")) == 14
    assert not published.in_warehouse(desk.warehouse)


def test_rewards_of_other_weights_stay_off_the_chart_with_the_reason(desk: Desk) -> None:
    told = published.points(desk.warehouse, "published")
    assert published.weights(told)[0] == "0.4"  # of three policies
    assert set(published.weights(told)) == {"0.3", "0.4", "0.5"}
    points, unplotted = published.plotted(told, "energy_j", "reward", "", "0.4")
    assert points
    assert all("λe=0.4" in p.name for p in points)
    assert "its reward has λe 0.5: another measure" in {u.reason for u in unplotted}


# query by query -------------------------------------------------------------------------------------


def test_two_policies_query_by_query_add_up_and_agree_with_the_report(replayed: Desk) -> None:
    _, told = block(replayed)
    figures = {p["name"]: p["figures"] for p in told["policies"]}
    found = replay_pairs.pair(replayed.warehouse, asked(replayed, "always-large", "always-small"))
    assert found.n == found.both + found.only_a + found.only_b + found.neither == 40
    assert found.only_b == 0  # a stronger arm is right wherever a weaker one is
    assert found.a.accuracy == pytest.approx(figures["always-large"]["accuracy"])
    assert found.b.energy_j == pytest.approx(figures["always-small"]["energy_j_per_query"])
    assert found.same_choice == 0
    against = next(p for p in told["policies"] if p["name"] == "always-small")["against"]["best_fixed_arm"]
    low, high = against["accuracy_difference_tango"]  # of small against large: the other way round
    assert found.tango == pytest.approx((-high, -low))


def test_a_policy_that_mixes_counts_with_its_expectation(replayed: Desk) -> None:
    _, told = block(replayed)
    mixed = next(p for p in told["policies"] if p["name"] == "random")
    found = replay_pairs.pair(replayed.warehouse, asked(replayed, "random", "always-small"))
    assert found.a.accuracy == pytest.approx(mixed["figures"]["accuracy"])
    assert found.a.energy_j == pytest.approx(mixed["figures"]["energy_j_per_query"])
    assert found.graded > 0
    assert found.tango is None  # of answers that are right or wrong alone


def test_a_missing_cell_leaves_the_means_unknown_and_is_counted(replayed: Desk) -> None:
    with replayed.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.outcome SET correct = NULL WHERE dataset = 'ours' AND arm = 'large' AND query_id = 'q0000'"
        )
    found = replay_pairs.pair(replayed.warehouse, asked(replayed, "always-large", "always-small"))
    assert (found.unknown, found.a.missing, found.b.missing) == (1, 1, 0)
    assert found.a.accuracy is None
    assert found.b.accuracy is not None
    assert found.difference is None
    assert found.tango is None


def test_outcomes_that_were_corrected_after_the_run_are_counted(replayed: Desk) -> None:
    later = parse_utc(block(replayed)[1]["as_of"], what="as_of") + timedelta(seconds=1)
    with replayed.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.outcome SET known_from = $at WHERE dataset = 'ours' AND query_id = 'q0003'", {"at": later}
        )
    assert replay_pairs.pair(replayed.warehouse, asked(replayed, "always-large", "always-small")).restated == 1


def test_the_list_begins_with_the_answers_that_differ_and_the_most_joules(replayed: Desk) -> None:
    ask = asked(replayed, "always-large", "always-small")
    rows = replay_pairs.queries(replayed.warehouse, ask, "differ", 0, 100)
    apart = (rows["a_correct"] - rows["b_correct"]).abs()
    assert apart.to_list() == sorted(apart, reverse=True)
    joules = (rows["a_j"] - rows["b_j"]).abs().filter(apart == 1)
    assert joules.to_list() == sorted(joules, reverse=True)
    assert set(rows["a_arm"]) == {"large"}
    assert rows["text"].str.contains("question number").all()


def test_pages_of_the_list_neither_repeat_nor_lose_a_query(replayed: Desk) -> None:
    ask = asked(replayed, "always-large", "always-small")
    pages = [replay_pairs.queries(replayed.warehouse, ask, "all", at, 15)["query_id"].to_list() for at in (0, 15, 30)]
    assert [len(p) for p in pages] == [15, 15, 10]
    assert len({q for p in pages for q in p}) == 40


def test_one_benchmark_alone_is_compared(replayed: Desk) -> None:
    ask = asked(replayed, "always-large", "always-small", "hard")
    found = replay_pairs.pair(replayed.warehouse, ask)
    assert found.n == 20
    assert set(replay_pairs.queries(replayed.warehouse, ask, "all", 0, 50)["benchmark"]) == {"hard"}


def test_joules_under_a_gpu_and_a_batch_are_tokens_times_the_rates_of_the_report(replayed: Desk) -> None:
    ask = replace(asked(replayed, "always-large", "always-small"), rates=(("large", 2.0), ("small", 0.5)))
    found = replay_pairs.pair(replayed.warehouse, ask)
    tokens = replayed.warehouse.query(
        "SELECT arm, avg(output_tokens) FROM core.outcome o JOIN core.query q USING (dataset, query_id) "
        "WHERE dataset = 'ours' AND q.split = 'test' GROUP BY arm"
    )
    mean = dict(tokens.iter_rows())
    assert found.a.energy_j == pytest.approx(2.0 * mean["large"])
    assert found.b.energy_j == pytest.approx(0.5 * mean["small"])
