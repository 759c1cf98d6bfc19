"""What a request costs: cached tokens once, tiers over the whole request, unknown stays unknown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.billing.pricing import per_token, request_cost, rollup


def row(component: str, usd: str | None, kind: str = "fixed", tier: int = 0) -> dict[str, Any]:
    return {
        "component": component,
        "min_prompt_tokens": tier,
        "price_usd_per_unit": None if usd is None else Decimal(usd),
        "unit": "token",
        "price_kind": kind,
    }


T01 = [row("prompt", "0.00000125"), row("cache_read", "0.000000625"), row("completion", "0.00001")]
_tokens = st.integers(0, 10**7)


def test_t01_cached_tokens_are_charged_once() -> None:
    # litellm#14849, #6215
    assert request_cost(T01, 262_960, 1_744, 257_955).usd == Decimal("0.184918125")


@given(_tokens, _tokens, _tokens)
def test_t01_caching_never_makes_a_request_dearer(prompt: int, completion: int, cached: int) -> None:
    cached = min(cached, prompt)
    with_cache, without = request_cost(T01, prompt, completion, cached), request_cost(T01, prompt, completion)
    assert with_cache.usd is not None
    assert without.usd is not None
    assert without.usd - with_cache.usd == cached * (Decimal("0.00000125") - Decimal("0.000000625"))


def test_without_a_cache_price_cached_tokens_cost_what_the_others_cost() -> None:
    assert request_cost([T01[0], T01[2]], 1000, 0, 900).usd == Decimal("0.00125")


@pytest.mark.parametrize("kind", ["dynamic", "unknown"])
@pytest.mark.parametrize("component", ["prompt", "completion", "cache_read"])
def test_t03_a_price_that_is_not_known_makes_the_cost_unknown(kind: str, component: str) -> None:
    prices = [r for r in T01 if r["component"] != component] + [row(component, None, kind)]
    cost = request_cost(prices, 2000, 392, 100)
    assert cost.usd is None
    assert cost.reason == f"the {component} price is {kind}"


def test_an_unlisted_price_is_named() -> None:
    assert request_cost([T01[0]], 10, 10).reason == "the completion price is not listed"
    assert request_cost([], 10, 10).reason == "the prompt price is not listed"


@pytest.mark.parametrize(
    ("prompt", "completion", "cached"), [(None, 1, 0), (1, None, 0), (-1, 1, 0), (5, 1, 6), (5, -1, 0)]
)
def test_token_counts_that_do_not_hold_give_no_cost(prompt: Any, completion: Any, cached: Any) -> None:
    cost = request_cost(T01, prompt, completion, cached)
    assert cost.usd is None
    assert cost.reason is not None
    assert "token counts" in cost.reason


def test_a_fee_per_request_is_added_once() -> None:
    assert request_cost([*T01, row("request", "0.005")], 0, 0).usd == Decimal("0.005")


T09 = [
    row("prompt", "0.000002"), row("completion", "0.00001"),
    row("prompt", "0.000004", tier=272_000), row("completion", "0.000015", tier=272_000),
]  # fmt: skip


def test_t09_a_tier_prices_the_whole_request() -> None:
    # hermes#109976: 4.9 times too low without it
    dear, cheap = request_cost(T09, 300_000, 1_000), request_cost(T09, 271_999, 1_000)
    assert (dear.usd, dear.tier) == (Decimal("1.215"), 272_000)
    assert (cheap.usd, cheap.tier) == (Decimal("0.553998"), 0)


@given(st.integers(0, 600_000), st.integers(0, 10_000), st.permutations(T09))
def test_t09_whatever_the_order_one_tier_holds_for_all_tokens(
    prompt: int, completion: int, prices: list[dict[str, Any]]
) -> None:
    rates = (4, 15) if prompt >= 272_000 else (2, 10)
    assert (
        request_cost(prices, prompt, completion).usd == Decimal(prompt * rates[0] + completion * rates[1]) / 1_000_000
    )


def test_t05_a_sum_with_an_unpriced_part_is_a_lower_bound() -> None:
    total = rollup([Decimal("0.02"), Decimal(0), None])
    assert total.total_usd == Decimal("0.02")
    assert total.lower_bound
    assert total.note == "lower bound, 1 of 3 unpriced"


def test_a_sum_whose_parts_are_all_known_needs_no_note() -> None:
    total = rollup([Decimal("0.02"), Decimal(0)])
    assert (total.total_usd, total.lower_bound, total.note, total.alert) == (Decimal("0.02"), False, None, None)


def test_t11_an_unmapped_model_is_unpriced_and_raises_an_alert() -> None:
    # litellm#35914: 365 calls, 37.4 M tokens, silently 0 USD
    costs = [request_cost([], 100_000, 2_465).usd] * 365
    total = rollup(costs, [102_465] * 365)
    assert total.total_usd is None
    assert not total.lower_bound
    assert total.note == "unpriced, 365 of 365 unpriced"
    assert total.alert == "unpriced share 100 % of tokens"


@given(st.lists(st.none() | st.decimals(0, 100, places=6), max_size=20))
def test_t11_a_total_is_null_exactly_when_nothing_is_priced(costs: list[Decimal | None]) -> None:
    known = [c for c in costs if c is not None]
    total = rollup(costs, [1] * len(costs))
    assert (total.total_usd is None) == (not known)
    assert total.total_usd in {None, sum(known)}
    assert total.unpriced == len(costs) - len(known)


@pytest.mark.parametrize(
    ("unit", "expected"), [("per_token", "3"), ("1K tokens", "0.003"), ("1M", "0.000003"), ("mtok", "0.000003")]
)
def test_t07_a_declared_unit_gives_a_price_per_token(unit: str, expected: str) -> None:
    assert per_token(Decimal(3), unit) == Decimal(expected)


def test_t07_an_undeclared_unit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'bushel'"):
        per_token(Decimal(3), "bushel")
