"""The router's evidence and score: what steers a decision, and how much."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from policies.router import (
    CATEGORIES,
    Parameters,
    Request,
    Weights,
    rank,
    routing_table,
)
from policies.router.score import blend, lognormal_mean_interval, t_975
from tests.policies.world import NOW, World, model, offer, order, price, reasons, run, score

ASK = Request("general_chat", 1, 1000)
DEFAULT = Parameters()


def test_stale_evidence_is_excluded_with_its_age_and_absent_evidence_says_so(world: World) -> None:
    model(world, "fresh", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    old = NOW - timedelta(days=20)
    world.insert("core.offer", [offer("old"), offer("new")])
    world.insert("core.price", [price(m, c, "1") for m in ("old", "new") for c in ("prompt", "completion")])
    world.insert("core.usage", [run("old", "1", "0.00001", 4.5, 0.0001, period_end_at=old, known_from=old)])
    out = rank(world.snapshot(), ASK, DEFAULT)
    assert order(out) == ["fresh"]
    assert not out.fallback
    assert reasons(out, "old") == {"evidence": "newest reference-workload observation is 20.0 d old, older than 14 d"}
    assert reasons(out, "new") == {"evidence": "no reference-workload observation is known"}


def test_without_fresh_evidence_it_falls_back_to_list_price_and_says_so(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert("core.offer", [offer("b")])
    world.insert("core.price", [price("b", "prompt", "0.5"), price("b", "completion", "0.5")])
    later = rank(world.snapshot(NOW + timedelta(days=60)), ASK, DEFAULT)
    assert later.fallback
    assert later.basis == "list_price"
    assert later.fallback_reason is not None
    assert "61.0 d old" in later.fallback_reason
    assert order(later) == ["b", "a"]
    assert {s.parts.eco for s in later.eligible} == {DEFAULT.neutral_score}, "the fallback is oblivious to energy"


def test_the_fallback_is_decided_by_who_could_serve_the_request(world: World) -> None:
    model(world, "weak", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert("core.offer", [offer("strong", tier=3)])
    world.insert("core.price", [price("strong", "prompt", "3"), price("strong", "completion", "15")])
    assert not rank(world.snapshot(), ASK, DEFAULT).fallback
    tier_3 = rank(world.snapshot(), replace(ASK, tier=3), DEFAULT)
    assert tier_3.fallback
    assert tier_3.chosen_offer_id == "strong"


def test_organic_traffic_never_steers(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "b", usd="0.0002", energy_j=90.0, carbon_g=0.002)
    before = rank(world.snapshot(), ASK, DEFAULT)
    world.insert("core.usage", [run("b", f"o{i}", "0", 0.001, 0.0, workload="organic") for i in range(50)])
    assert rank(world.snapshot(), ASK, DEFAULT) == before


def test_what_was_not_known_yet_does_not_count(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "b", usd="0.0002", energy_j=90.0, carbon_g=0.002)
    before = rank(world.snapshot(), ASK, DEFAULT)
    tomorrow = NOW + timedelta(days=1)
    world.insert("core.usage", [run("b", "late", "0.000001", 0.01, 0.0, known_from=tomorrow)])
    world.insert("core.offer", [offer("a", lifecycle="removed", valid_from=tomorrow, known_from=tomorrow)])
    assert rank(world.snapshot(), ASK, DEFAULT) == before
    assert order(rank(world.snapshot(tomorrow), ASK, DEFAULT)) == ["b"]


def test_a_restated_bill_replaces_the_first_one(world: World) -> None:
    world.insert("core.offer", [offer("a")])
    world.insert("core.usage", [run("a", "1", "0.0009", 45.0, 0.001, known_from=NOW - timedelta(days=2))])
    world.insert("core.usage", [run("a", "1", "0.0001", 45.0, 0.001)])
    figures = rank(world.snapshot(), ASK, DEFAULT).eligible[0].figures
    assert (figures.n, figures.cost_usd) == (1, Decimal("0.0001"))


def test_a_mean_inherits_the_weakest_evidence_class(world: World) -> None:
    world.insert("core.offer", [offer("a")])
    world.insert(
        "core.usage", [run("a", c, "0.0001", 45.0, 0.001, evidence_class=c) for c in ("measured", "calibrated")]
    )
    assert rank(world.snapshot(), ASK, DEFAULT).eligible[0].figures.evidence_class == "calibrated"


def test_grams_of_several_classes_are_no_figure_but_neutral_and_a_warning(world: World) -> None:
    world.insert("core.offer", [offer("mixed")])
    world.insert(
        "core.usage",
        [run("mixed", c, "0.0001", 45.0, 0.0005, carbon_evidence_class=c) for c in ("modeled", "calibrated")],
    )
    model(world, "pure", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    out = {s.offer_id: s for s in rank(world.snapshot(), ASK, DEFAULT).eligible}
    mixed, pure = out["mixed"], out["pure"]
    assert (mixed.figures.carbon_g, mixed.figures.carbon_evidence_class, mixed.figures.carbon_interval_g) == (
        None, None, None,
    )  # fmt: skip
    assert (mixed.parts.eco, pure.parts.eco) == (DEFAULT.neutral_score, 1.0)
    assert mixed.warnings == (
        "gCO2e mixes evidence classes calibrated, modeled: no carbon figure, its carbon part is neutral",
    )
    assert (mixed.figures.evidence_class, mixed.figures.energy_j) == ("allocated", 45.0)  # the joules are one class
    assert (pure.figures.carbon_g, pure.figures.carbon_evidence_class, pure.warnings) == (0.001, "calibrated", ())


def test_a_run_without_grams_does_not_make_the_others_mixed(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert("core.usage", [run("a", "without", "0.0001", 45.0, None)])
    figures = rank(world.snapshot(), ASK, DEFAULT).eligible[0].figures
    assert (figures.carbon_g, figures.carbon_evidence_class, figures.n) == (0.001, "calibrated", 3)


def test_weaker_grams_that_are_scored_beside_stronger_ones_say_so(world: World) -> None:
    model(world, "live", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert("core.offer", [offer("fallback")])
    world.insert("core.usage", [run("fallback", "1", "0.0001", 45.0, 0.001, carbon_evidence_class="modeled")])
    out = {s.offer_id: s.warnings for s in rank(world.snapshot(), ASK, DEFAULT).eligible}
    assert out == {"live": (), "fallback": ("gCO2e is modeled, scored beside calibrated figures of other offers",)}


def test_a_run_counts_for_the_offer_that_served_it(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert("core.offer", [offer("m-flex", latency_class="flex")])
    world.insert("core.usage", [run("m-flex", "1", "0.0003", 45.0, 0.001, served_offer="m")])
    out = rank(world.snapshot(), replace(ASK, latency="batch"), DEFAULT)
    assert out.eligible[0].figures.n == 3
    assert "evidence" in reasons(out, "m-flex")


def test_the_score_is_the_weighted_sum_of_its_parts(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.004)
    model(world, "b", usd="0.0004", energy_j=180.0, carbon_g=0.001)
    world.insert("core.score", [score("b", "general_chat", "leaderboard", 0.9)])
    out = rank(world.snapshot(), ASK, Parameters(weights=Weights(0.5, 0.2, 0.3)))
    parts = {s.offer_id: (s.parts.cost, s.parts.eco, s.parts.prof, s.score) for s in out.eligible}
    assert parts["a"] == (1.0, 0.25, 0.5, pytest.approx(0.5 + 0.05 + 0.15))
    assert parts["b"] == (0.25, 1.0, 0.9, pytest.approx(0.125 + 0.2 + 0.27))


def test_missing_carbon_is_neutral(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=None)
    model(world, "b", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    out = {s.offer_id: s.parts.eco for s in rank(world.snapshot(), ASK, DEFAULT).eligible}
    assert out == {"a": 0.5, "b": 1.0}


@pytest.mark.parametrize(
    ("leaderboard", "self_eval", "n", "expected"),
    [
        (0.5, 1.0, 10, 0.3 * 0.5 + 0.7 * 1.0),  # the blend starts at ten own evaluations
        (0.5, 1.0, 9, 0.5),
        (0.5, 1.0, None, 0.5),  # an unknown n is not enough
        (0.5, None, None, 0.5),
        (None, 0.8, 10, 0.8),
        (None, 0.8, 9, None),
        (None, None, None, None),
    ],
)
def test_the_blend_of_leaderboard_and_own_evaluation(leaderboard, self_eval, n, expected) -> None:
    assert blend(leaderboard=leaderboard, self_eval=self_eval, self_eval_n=n, parameters=DEFAULT) == expected


def test_an_offer_s_own_score_goes_before_its_base_model_s(world: World) -> None:
    model(world, "m-fast", usd="0.0001", energy_j=45.0, carbon_g=0.001, base_model="m")
    world.insert("core.score", [score("m", "debugging", "leaderboard", 0.9)])
    ask = replace(ASK, category="debugging")
    assert rank(world.snapshot(), ask, DEFAULT).eligible[0].figures.proficiency == 0.9
    world.insert("core.score", [score("m-fast", "debugging", "leaderboard", 0.6)])
    assert rank(world.snapshot(), ask, DEFAULT).eligible[0].figures.proficiency == 0.6


def test_only_the_category_s_own_proficiency_counts(world: World) -> None:
    model(world, "cheap", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "apt", usd="0.00012", energy_j=54.0, carbon_g=0.0012)
    world.insert("core.score", [score("apt", "debugging", "leaderboard", 0.9)])
    table = routing_table(world.snapshot(), DEFAULT, tiers=[1]).cells
    assert {c for (c, _), chosen in table.items() if chosen == "apt"} == {"debugging"}


def test_ties_go_to_the_incumbent_and_then_by_id(world: World) -> None:
    for name in ("b", "c", "a"):
        model(world, name, usd="0.0001", energy_j=45.0, carbon_g=0.001)
    assert order(rank(world.snapshot(), ASK, DEFAULT)) == ["a", "b", "c"]
    assert order(rank(world.snapshot(), ASK, DEFAULT, incumbent="c")) == ["c", "a", "b"]


def test_an_incumbent_that_is_not_tied_gets_no_favour(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "b", usd="0.00011", energy_j=45.0, carbon_g=0.001)
    assert rank(world.snapshot(), ASK, DEFAULT, incumbent="b").chosen_offer_id == "a"


def test_t_quantiles_and_the_cox_interval() -> None:
    # Student's t, 97.5 %: standard tables (4 df 2.776, 60 df 2.000, 120 df 1.980).
    assert t_975(4) == pytest.approx(2.776445)
    assert t_975(60) == pytest.approx(2.00030, abs=2e-5)
    assert t_975(120) == pytest.approx(1.97993, abs=2e-5)
    # Olsson 2005, worked example: n = 40, mean of logs 5.127, variance 1.010, t = 2.02: 188.0 to 414.7.
    interval = lognormal_mean_interval(40, 5.127, 1.010**0.5)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(188.0, rel=1e-3), pytest.approx(414.7, rel=1e-3))
    assert lognormal_mean_interval(1, 5.0, None) is None


def test_one_reference_run_gives_a_mean_without_an_interval(world: World) -> None:
    world.insert("core.offer", [offer("a")])
    world.insert("core.usage", [run("a", "1", "0.0001", 45.0, 0.001)])
    figures = rank(world.snapshot(), ASK, DEFAULT).eligible[0].figures
    assert figures.n == 1
    assert figures.cost_interval_usd is None
    world.insert("core.usage", [run("a", "2", "0.0003", 55.0, 0.002)])
    figures = rank(world.snapshot(), ASK, DEFAULT).eligible[0].figures
    interval = figures.cost_interval_usd
    assert interval is not None
    assert figures.cost_usd is not None
    assert interval.low < float(figures.cost_usd) < interval.high


def test_excluded_candidates_show_their_proficiency_too(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "gone", usd="0.0001", energy_j=45.0, carbon_g=0.001, lifecycle="removed")
    world.insert("core.score", [score("gone", "debugging", "leaderboard", 0.9)])
    table = routing_table(world.snapshot(), DEFAULT, tiers=[1])
    shown = {category: d.excluded[0].figures.proficiency for (category, _), d in table.decisions.items()}
    assert shown == {c: 0.9 if c == "debugging" else None for c in CATEGORIES}
