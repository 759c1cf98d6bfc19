"""The router's decisions: hand back, whole tables, references, purity."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import ReferenceMissing
from policies.router import (
    CATEGORIES,
    TIERS,
    Parameters,
    Request,
    load,
    rank,
    routing_table,
    validate_references,
)
from tests.policies.world import World, model, offer, order, run, score

ASK = Request("general_chat", 1, 1000)
DEFAULT = Parameters()


def test_when_nothing_is_wide_enough_it_hands_back_and_never_truncates(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    out = rank(world.snapshot(), replace(ASK, required_context_tokens=500_000), DEFAULT)
    assert out.chosen is None
    assert out.hand_back is not None
    assert "192512" in out.hand_back.message
    assert out.hand_back.counts == (("context", 1),)
    assert not out.fallback, "no other basis would fit either"


def test_an_empty_catalog_hands_back(world: World) -> None:
    out = rank(world.snapshot(), ASK, DEFAULT)
    assert out.hand_back is not None
    assert "Load a catalog" in out.hand_back.message


def test_a_routing_table_reads_the_snapshot_once_and_agrees_with_single_decisions(world: World) -> None:
    for i, tier in enumerate((1, 2, 3)):
        model(world, f"m{tier}", usd=f"0.000{i + 1}", energy_j=45.0 * (i + 1), carbon_g=0.001 * (i + 1), tier=tier)
    world.insert("core.score", [score("m2", "debugging", "leaderboard", 1.0)])
    snapshot = world.snapshot()
    incumbents: dict[tuple[str, int], str | None] = {("debugging", 1): "m1"}
    table = routing_table(snapshot, DEFAULT, incumbent_table=incumbents, required_context_tokens=1000)
    assert snapshot.queries == 3
    assert len(table.decisions) == len(CATEGORIES) * len(TIERS)
    for (category, tier), decision in table.decisions.items():
        single = rank(world.snapshot(), Request(category, tier, 1000), DEFAULT, incumbents.get((category, tier)))
        assert single == decision
    assert table.changes({**table.cells, ("debugging", 3): "m1"}) == {("debugging", 3): ("m1", "m3")}


def test_a_reference_to_a_removed_or_unknown_offer_is_refused_by_name(world: World) -> None:  # T21
    world.insert("core.offer", [offer("kept"), offer("gone", lifecycle="removed")])
    candidates = load(world.snapshot(), DEFAULT)
    validate_references(candidates, {"kept": "fallbacks"})
    with pytest.raises(
        ReferenceMissing, match=r"gone \(in fallbacks\) is removed; typo \(in fallbacks\) is in no catalog"
    ):
        validate_references(candidates, {"kept": "fallbacks", "gone": "fallbacks", "typo": "fallbacks"})


def test_a_ranking_becomes_plain_json(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    plain = json.loads(json.dumps(rank(world.snapshot(), ASK, DEFAULT).to_dict()))
    assert plain["chosen"] == "m"
    assert plain["eligible"][0]["cost_usd"] == "0.0001"


amounts = st.integers(1, 10**6).map(lambda n: Decimal(n).scaleb(-9))
samples = st.lists(st.tuples(amounts, st.floats(0.1, 1e4), st.none() | st.floats(1e-6, 1.0)), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), samples, min_size=1), st.integers(0, 1000))
def test_the_order_in_which_rows_are_stored_changes_no_bit(models: dict, seed: int) -> None:
    world = World()
    try:
        for name, rows in models.items():
            world.insert("core.offer", [offer(name)])
            world.insert("core.usage", [run(name, str(i), str(u), e, c) for i, (u, e, c) in enumerate(rows)])
        first = rank(world.snapshot(), ASK, DEFAULT)
        assert rank(world.snapshot(), ASK, DEFAULT) == first
        for table in ("core.offer", "core.price", "core.usage"):
            world.shuffle(table, seed)
        again = rank(world.snapshot(), ASK, DEFAULT)
        assert again.to_dict() == first.to_dict()
        assert again == first
    finally:
        world.close()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(amounts, st.floats(1e-6, 1.0)), min_size=2, max_size=6), st.floats(0.0, 1.0))
def test_with_no_proficiency_known_its_neutral_value_changes_no_ranking(models: list, neutral: float) -> None:
    world = World()
    try:
        for i, (usd, carbon) in enumerate(models):
            model(world, f"m{i}", usd=str(usd), energy_j=45.0, carbon_g=carbon)
        with_default = rank(world.snapshot(), ASK, DEFAULT)
        assert order(rank(world.snapshot(), ASK, Parameters(neutral_score=neutral))) == order(with_default)
    finally:
        world.close()
