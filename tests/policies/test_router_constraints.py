"""The router's hard constraints: who is out, and every reason why."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from policies.errors import ParametersInvalid, RequestInvalid
from policies.router import (
    Basis,
    Parameters,
    Request,
    Weights,
    rank,
)
from tests.policies.world import World, model, offer, order, price, reasons

ASK = Request("general_chat", 1, 1000)
DEFAULT = Parameters()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"category": "poetry"}, "coding_general"),
        ({"tier": 4}, "1, 2 or 3"),
        ({"tier": True}, "1, 2 or 3"),
        ({"required_context_tokens": -1}, "0 or more"),
        ({"required_context_tokens": 1.5}, "whole number"),
        ({"latency": "soon"}, "interactive, batch"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_the_allowed_values(changes: dict, named: str) -> None:
    with pytest.raises(RequestInvalid, match=named):
        replace(ASK, **changes)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Weights(0.5, 0.5, 0.5),
        lambda: Weights(-0.1, 0.7, 0.4),
        lambda: Weights(float("nan"), 0.5, 0.5),
        lambda: Parameters(context_factor=0.0),
        lambda: Parameters(context_factors={"m": 1.5}),
        lambda: Parameters(tiers={"m": 9}),
        lambda: Parameters(evidence_max_age=timedelta(0)),
        lambda: Parameters(self_eval_min_n=0),
        lambda: Parameters(basis="guess"),  # type: ignore[arg-type]
    ],
)
def test_parameters_that_make_no_sense_are_refused(build) -> None:
    with pytest.raises(ParametersInvalid, match="Fix:"):
        build()


def test_the_policy_id_changes_with_every_parameter_and_with_nothing_else() -> None:
    variants = [
        DEFAULT,
        Parameters(name="other"),
        Parameters(basis=Basis.LIST_PRICE),
        Parameters(weights=Weights(0.4, 0.2, 0.4)),
        Parameters(context_factor=0.8),
        Parameters(context_factors={"m": 0.9}),
        Parameters(reserved_output_tokens=1),
        Parameters(self_eval_min_n=20),
        Parameters(leaderboard_share=0.5),
        Parameters(evidence_max_age=timedelta(days=1)),
        Parameters(neutral_score=0.4),
        Parameters(reference_prompt_tokens=19),
        Parameters(reference_completion_tokens=193),
        Parameters(tiers={"m": 1}),
        Parameters(tags={"m": frozenset({"EU"})}),
        Parameters(seed=1),
    ]
    assert len({p.policy_id() for p in variants}) == len(variants)
    assert Parameters(tiers={"a": 1, "b": 2}).policy_id() == Parameters(tiers={"b": 2, "a": 1}).policy_id()


def test_a_candidate_gets_all_its_reasons_in_the_order_of_the_filters(world: World) -> None:
    model(world, "good", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert(
        "core.offer",
        [
            offer(
                "bad",
                lifecycle="deprecated",
                access_level="gated",
                latency_class="flex",
                context_tokens=2000,
                tier=None,
            )
        ],
    )
    ranking = rank(
        world.snapshot(), replace(ASK, residency=frozenset({"EU"})), Parameters(tags={"good": frozenset({"EU"})})
    )
    found = reasons(ranking, "bad")
    assert list(found) == ["lifecycle", "access", "latency", "context", "tier", "tags", "unpriced", "evidence"]
    assert found["lifecycle"] == "deprecated by the provider"
    assert "gated is not authorized" in found["access"]
    assert (
        found["context"] == "effective context is 2000 x 0.75 - 4096 reserved = -2596 tokens, below the 1000 required"
    )
    assert found["tags"] == "does not declare EU; declares nothing"
    assert next(e for e in ranking.excluded if e.offer_id == "bad").first_reason.code == "lifecycle"
    assert order(ranking) == ["good"]


def test_an_expiring_offer_warns_before_and_is_out_from_its_day_on(world: World) -> None:  # T19
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001, expires_at=datetime(2026, 8, 15))
    before = rank(world.snapshot(datetime(2026, 8, 14, 23)), ASK, DEFAULT)
    assert before.eligible[0].warnings == ("expires on 2026-08-15",)
    on_the_day = rank(world.snapshot(datetime(2026, 8, 15)), ASK, DEFAULT)
    assert reasons(on_the_day, "m")["lifecycle"] == "expired on 2026-08-15"


def test_batch_admits_what_interactive_may_not_use(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "m-flex", usd="0.00005", energy_j=20.0, carbon_g=0.0005, latency_class="flex")
    assert order(rank(world.snapshot(), ASK, DEFAULT)) == ["m"]
    assert order(rank(world.snapshot(), replace(ASK, latency="batch"), DEFAULT)) == ["m-flex", "m"]


def test_access_beyond_open_needs_authorization(world: World) -> None:
    model(world, "preview", usd="0.0001", energy_j=45.0, carbon_g=0.001, access_level="gated")
    assert "access" in reasons(rank(world.snapshot(), ASK, DEFAULT), "preview")
    held = replace(ASK, authorized_access=frozenset({"open", "gated"}))
    assert order(rank(world.snapshot(), held, DEFAULT)) == ["preview"]


def test_the_endpoint_limits_the_context_and_both_numbers_are_told(world: World) -> None:  # T17
    model(
        world, "wide", usd="0.0001", energy_j=45.0, carbon_g=0.001,
        context_tokens=1_000_000, endpoint_context_tokens=262_144,
    )  # fmt: skip
    out = rank(world.snapshot(), replace(ASK, required_context_tokens=400_000), DEFAULT)
    assert "1000000" in reasons(out, "wide")["context"]
    assert "262144" in reasons(out, "wide")["context"]
    # 262144 * 0.75 - 4096 = 192512
    assert order(rank(world.snapshot(), replace(ASK, required_context_tokens=192_512), DEFAULT)) == ["wide"]
    assert not rank(world.snapshot(), replace(ASK, required_context_tokens=192_513), DEFAULT).eligible


def test_the_context_factor_can_be_set_per_model(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001, context_tokens=100_000)
    ask = replace(ASK, required_context_tokens=80_000)
    assert not rank(world.snapshot(), ask, DEFAULT).eligible
    assert order(rank(world.snapshot(), ask, Parameters(context_factors={"m": 0.9}))) == ["m"]


def test_an_unknown_context_window_is_not_assumed_to_be_wide(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001, context_tokens=None)
    assert "unknown" in reasons(rank(world.snapshot(), ASK, DEFAULT), "m")["context"]


def test_tier_is_a_floor_that_no_price_buys_back(world: World) -> None:
    model(world, "weak", usd="0.0000001", energy_j=1.0, carbon_g=0.00001, tier=1)
    model(world, "strong", usd="1", energy_j=9e5, carbon_g=9.0, tier=3)
    assert order(rank(world.snapshot(), replace(ASK, tier=2), DEFAULT)) == ["strong"]


def test_a_configured_tier_overrides_the_catalog(world: World) -> None:
    model(world, "m", usd="0.0001", energy_j=45.0, carbon_g=0.001, tier=1)
    assert order(rank(world.snapshot(), replace(ASK, tier=3), Parameters(tiers={"m": 3}))) == ["m"]


def test_tags_may_come_from_the_catalog_or_from_configuration(world: World) -> None:
    model(world, "a", usd="0.0001", energy_j=45.0, carbon_g=0.001, residency="EU, no-training")
    model(world, "b", usd="0.0001", energy_j=45.0, carbon_g=0.001, residency="EU")
    ask = replace(ASK, residency=frozenset({"EU", "no-training"}))
    out = rank(world.snapshot(), ask, DEFAULT)
    assert order(out) == ["a"]
    assert reasons(out, "b")["tags"] == "does not declare no-training; declares EU"
    assert order(rank(world.snapshot(), ask, Parameters(tags={"b": frozenset({"no-training"})}))) == ["a", "b"]


def test_an_unpriced_offer_is_listed_and_never_free(world: World) -> None:  # T03
    model(world, "billed", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    model(world, "unbilled", usd=None, energy_j=1.0, carbon_g=0.00001)
    out = rank(world.snapshot(), ASK, DEFAULT)
    assert order(out) == ["billed"]
    assert reasons(out, "unbilled")["unpriced"].startswith("unpriced")

    world.insert("core.offer", [offer("auto")])
    world.insert("core.price", [price("auto", "prompt", None), price("auto", "completion", None)])
    listed = rank(world.snapshot(), ASK, Parameters(basis=Basis.LIST_PRICE))
    assert "auto" not in order(listed)
    assert "unknown is not free" in reasons(listed, "auto")["unpriced"]


def test_a_free_offer_is_priced_and_cheapest(world: World) -> None:  # T05
    model(world, "paid", usd="0.0001", energy_j=45.0, carbon_g=0.001)
    world.insert("core.offer", [offer("gratis")])
    world.insert("core.price", [price("gratis", c, "0", price_kind="free") for c in ("prompt", "completion")])
    out = rank(world.snapshot(), ASK, Parameters(basis=Basis.LIST_PRICE))
    assert order(out) == ["gratis", "paid"]
    assert [s.parts.cost for s in out.eligible] == [1.0, 0.0]
    assert out.eligible[0].figures.cost_usd == Decimal(0)


def test_a_price_tier_reprices_the_whole_request(world: World) -> None:  # T09
    world.insert("core.offer", [offer("t", context_tokens=1_000_000)])
    world.insert("core.price", [price("t", "prompt", "2"), price("t", "completion", "10")])
    world.insert(
        "core.price",
        [
            price("t", "prompt", "4", min_prompt_tokens=272_000),
            price("t", "completion", "15", min_prompt_tokens=272_000),
        ],
    )
    for prompt, expected in [(300_000, Decimal("1.215")), (271_999, Decimal("0.553998"))]:
        shape = Parameters(basis=Basis.LIST_PRICE, reference_prompt_tokens=prompt, reference_completion_tokens=1000)
        out = rank(world.snapshot(), replace(ASK, required_context_tokens=prompt), shape)
        assert out.eligible[0].figures.list_cost_usd == expected
