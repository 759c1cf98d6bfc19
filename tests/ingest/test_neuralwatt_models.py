"""Neuralwatt catalog: prices are numbers per million tokens; class in the suffixes, access in prose."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing.pricing import request_cost
from ingest.catalog.neuralwatt import access_level, parse
from tests.ingest.samples import counts_add_up, neuralwatt_model, neuralwatt_pricing, payload, rows


def parsed(*models: Any) -> Parsed:
    result = parse(payload({"object": "list", "data": list(models)}, "neuralwatt-models"))
    assert counts_add_up(result)
    return result


def prices(result: Parsed) -> dict[str, tuple[str, Decimal | None]]:
    return {r["component"]: (r["price_kind"], r["price_usd_per_unit"]) for r in rows(result, "core.price")}


def test_prices_per_million_become_exact_prices_per_token() -> None:
    assert prices(parsed(neuralwatt_model())) == {
        "prompt": ("fixed", Decimal("0.00000145")),
        "completion": ("fixed", Decimal("0.0000045")),
        "cache_read": ("fixed", Decimal("0.000000145")),
    }


def test_t07_a_price_per_million_is_never_taken_per_token() -> None:
    # hermes#34256: 13,233 tokens became 555.17 USD
    pricing = neuralwatt_pricing(input_per_million=0.04, output_per_million=0.15, cached_input_per_million=None)
    listed = rows(parsed(neuralwatt_model(pricing=pricing)), "core.price")
    assert request_cost(listed, 12_998, 235).usd == Decimal("0.00055517")


@given(st.decimals(min_value="0.000001", max_value=1000, places=6))
def test_t07_any_price_is_its_millionth(per_million: Decimal) -> None:
    pricing = neuralwatt_pricing(input_per_million=float(per_million))
    assert prices(parsed(neuralwatt_model(pricing=pricing)))["prompt"] == ("fixed", per_million / 1_000_000)


def test_an_explicit_zero_is_free() -> None:
    # oh-my-pi PR 7146: a real price of 0 was dropped
    assert prices(parsed(neuralwatt_model(pricing=neuralwatt_pricing(input_per_million=0))))["prompt"] == ("free", 0)


def test_prices_to_be_determined_are_unknown_even_where_numbers_stand() -> None:
    result = parsed(neuralwatt_model(pricing=neuralwatt_pricing(input_per_million=0, pricing_tbd=True)))
    assert set(prices(result).values()) == {("unknown", None)}
    assert result.rejects == ()


@pytest.mark.parametrize("currency", ["CNY", "usd ", None, 5])
def test_prices_of_another_currency_are_unknown_and_told(currency: Any) -> None:
    result = parsed(neuralwatt_model(pricing=neuralwatt_pricing(currency=currency)))
    assert set(prices(result).values()) == {("unknown", None)}
    assert [(r.field, r.whole_row) for r in result.rejects] == [("metadata.pricing.currency", False)]


def test_no_pricing_at_all_is_unknown() -> None:
    result = parsed(neuralwatt_model(pricing=None))
    assert prices(result) == {"prompt": ("unknown", None), "completion": ("unknown", None)}
    assert result.rejects == ()


@pytest.mark.parametrize("told", [-1, -0.5, 1_000_001, 1e-9, "0.14", True, []])
def test_an_implausible_price_is_refused_alone(told: Any) -> None:
    result = parsed(neuralwatt_model(pricing=neuralwatt_pricing(input_per_million=told)))
    found = prices(result)
    assert found["prompt"] == ("unknown", None)
    assert found["completion"] == ("fixed", Decimal("0.0000045"))
    assert [r.field for r in result.rejects] == ["metadata.pricing.input_per_million"]


def test_the_serving_class_comes_from_the_id() -> None:
    offer = rows(parsed(neuralwatt_model("glm-5.2-short-fast-flex")))[0]
    assert (offer["base_model"], offer["latency_class"], offer["reasoning_mode"], offer["context_variant"]) == (
        "glm-5.2", "flex", "fast", "short",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("prose", "level"),
    [
        ("Private preview (grant-gated). Flex: requests may be held.", "gated"),
        ("PRIVATE  PREVIEW", "gated"),
        ("Access is grant gated", "gated"),
        ("A model (grant‑gated)", "gated"),
        ("Invite-only for now", "gated"),
        ("DeepSeek V4 Flash (0731 Canary)", "canary"),
        ("DeepSeek V4 Flash 0731 (Canary)", "canary"),
        ("(canary)", "canary"),
        ("Private preview (Canary)", "gated"),
        ("No longer in private preview.", "open"),
        ("Not a private preview", "open"),
        ("Once a private beta. Now, after leaving it, a private preview again", "gated"),
        ("Sings like a canary", "open"),
        ("A model for private data; preview images", "open"),
        ("", "open"),
        (None, "open"),
    ],
)
def test_access_comes_from_prose(prose: str | None, level: str) -> None:
    assert access_level(prose) == level
    assert rows(parsed(neuralwatt_model(description=prose)))[0]["access_level"] == level
    assert rows(parsed(neuralwatt_model(display_name=prose)))[0]["access_level"] == level


def test_both_context_windows_and_the_lifecycle_are_kept() -> None:
    model = neuralwatt_model(limits={"max_context_length": 262_144, "max_output_tokens": None}, deprecated=True)
    offer = rows(parsed(model))[0]
    assert (offer["context_tokens"], offer["endpoint_context_tokens"]) == (262_144, 199_984)
    assert offer["max_output_tokens"] is None
    assert offer["lifecycle"] == "deprecated"


def test_the_listing_is_complete_and_bad_rows_go_alone() -> None:
    result = parsed(neuralwatt_model("a"), neuralwatt_model("a"), {"object": "model"}, neuralwatt_model("b", limits=7))
    assert result.complete
    assert [r["offer_id"] for r in rows(result)] == ["a", "b"]
    assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True), (2, True), (3, False)]
