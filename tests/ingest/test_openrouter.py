"""OpenRouter: prices are exact text in USD per token; free, dynamic and unknown are three different things."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing.pricing import request_cost, rollup
from ingest.catalog.openrouter import parse
from ingest.errors import PayloadError
from tests.ingest.samples import NOW, counts_add_up, openrouter_doc, openrouter_model, payload, rows


def parsed(*models: Any, **extra: Any) -> Parsed:
    result = parse(payload({**openrouter_doc(*models), **extra}, "openrouter"))
    assert counts_add_up(result)
    return result


def price(pricing: Any, component: str = "prompt", tier: int = 0) -> dict[str, Any]:
    found = [
        r
        for r in rows(parsed(openrouter_model(pricing=pricing)), "core.price")
        if (r["component"], r["min_prompt_tokens"]) == (component, tier)
    ]
    assert len(found) == 1
    return found[0]


def test_an_offer_carries_what_the_catalog_says() -> None:
    offer = rows(parsed(openrouter_model()))[0]
    assert (offer["provider"], offer["offer_id"], offer["valid_from"]) == ("openrouter", "acme/one", NOW)
    assert offer["base_model"] == "acme/one"
    assert offer["lifecycle"] == "active"
    assert offer["alias_of"] is None
    assert offer["tier"] is None
    assert offer["residency"] is None
    assert '"temperature":0.7' in offer["attributes"]
    assert "pricing" not in offer["attributes"]


def test_t17_both_context_windows_are_kept() -> None:
    # goose#11530: top level 1,000,000 against 262,144 of the top endpoint
    offer = rows(parsed(openrouter_model()))[0]
    assert (offer["context_tokens"], offer["endpoint_context_tokens"]) == (1_000_000, 262_144)


def test_t19_an_expiration_date_is_the_first_instant_without_the_offer() -> None:
    offer = rows(parsed(openrouter_model(expiration_date="2026-05-15")))[0]
    assert offer["expires_at"] == datetime(2026, 5, 15)
    assert datetime(2026, 5, 14, 23, 59) < offer["expires_at"] <= datetime(2026, 5, 15)


@pytest.mark.parametrize("date", ["soon", "2026-13-01", "2026-05-15T00:00:00", 20260515])
def test_an_unreadable_expiration_date_is_refused_and_the_offer_loads(date: Any) -> None:
    result = parsed(openrouter_model(expiration_date=date))
    assert rows(result)[0]["expires_at"] is None
    assert [(r.field, r.whole_row, r.natural_key) for r in result.rejects] == [("expiration_date", False, "acme/one")]


def test_t03_minus_one_is_dynamic_and_never_a_cost() -> None:
    # pi#8875, ccusage#1514: "-1" became -1 USD per token
    row = price({"prompt": "-1", "completion": "-1"})
    assert (row["price_kind"], row["price_usd_per_unit"]) == ("dynamic", None)
    prices = rows(parsed(openrouter_model(pricing={"prompt": "-1", "completion": "-1"})), "core.price")
    cost = request_cost(prices, 2_000, 392)
    assert cost.usd is None
    assert cost.reason == "the prompt price is dynamic"


def test_t05_free_is_zero_and_missing_is_unknown() -> None:
    # qwen-code#7784, litellm#37294
    free = rows(parsed(openrouter_model(pricing={"prompt": "0", "completion": "0"})), "core.price")
    missing = rows(parsed(openrouter_model(pricing={})), "core.price")
    assert [(r["component"], r["price_kind"], r["price_usd_per_unit"]) for r in free] == [
        ("prompt", "free", 0),
        ("completion", "free", 0),
    ]
    assert [(r["component"], r["price_kind"], r["price_usd_per_unit"]) for r in missing] == [
        ("prompt", "unknown", None),
        ("completion", "unknown", None),
    ]
    assert request_cost(free, 1000, 10).usd == 0
    assert request_cost(missing, 1000, 10).usd is None
    total = rollup([Decimal("0.02"), request_cost(free, 1000, 10).usd, request_cost(missing, 1000, 10).usd])
    assert total.total_usd == Decimal("0.02")
    assert total.note == "lower bound, 1 of 3 unpriced"


def test_long_prices_are_kept_at_a_trillionth_of_a_dollar() -> None:
    row = price({"prompt": "0.00000008333333333333334", "completion": "1e-7"})
    assert row["price_usd_per_unit"] == Decimal("0.000000083333")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("NaN", "not a finite number"),
        ("Infinity", "not a finite number"),
        ("sNaN", "not a finite number"),
        ("-0.000001", "negative"),
        ("-2", "negative"),
        ("1.01", "not plausible"),
        ("1e30", "not plausible"),
        ("1e-15", "below 1e-12"),
        ("free", "not a finite number"),
        ("0,000001", "not a finite number"),
        ("1_0", "not a finite number"),
        ("", "not a finite number"),
        (0.000001, "prices as text"),
        (True, "prices as text"),
        ([], "prices as text"),
    ],
)
def test_an_implausible_price_is_refused_alone_and_unknown(told: Any, said: str) -> None:
    result = parsed(openrouter_model(pricing={"prompt": told, "completion": "0.00001"}))
    by_component = {r["component"]: r for r in rows(result, "core.price")}
    assert (by_component["prompt"]["price_kind"], by_component["prompt"]["price_usd_per_unit"]) == ("unknown", None)
    assert by_component["completion"]["price_usd_per_unit"] == Decimal("0.00001")
    (reject,) = result.rejects
    assert (reject.field, reject.whole_row, reject.row_no, reject.natural_key) == (
        "pricing.prompt",
        False,
        0,
        "acme/one",
    )
    assert said in reject.reason
    assert reject.raw is not None


def test_a_literal_nan_spoils_its_field_and_nothing_else() -> None:
    body = '{"data": [{"id": "a/b", "context_length": NaN, "pricing": {"prompt": NaN, "completion": "0"}}]}'
    result = parse(payload(body))
    assert rows(result)[0]["context_tokens"] is None
    assert {r.field for r in result.rejects} == {"context_length", "pricing.prompt"}


def test_every_component_has_its_unit() -> None:
    pricing = {
        "prompt": "0.000001", "completion": "0.000002", "input_cache_read": "0.0000001",
        "input_cache_write": "0.000003", "request": "0.005", "image": "0.001", "web_search": "0.01",
        "audio": "0.000004", "internal_reasoning": "0.000002",
    }  # fmt: skip
    found = {r["component"]: r["unit"] for r in rows(parsed(openrouter_model(pricing=pricing)), "core.price")}
    assert found == {
        "prompt": "token", "completion": "token", "cache_read": "token", "cache_write": "token", "request": "request",
        "image": "image", "web_search": "search", "audio": "token", "internal_reasoning": "token",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["video_second", "discount"])
def test_a_price_of_unknown_unit_is_left_out_and_told(name: str) -> None:
    result = parsed(openrouter_model(pricing={"prompt": "0", "completion": "0", name: 0.5}))
    assert [r["component"] for r in rows(result, "core.price")] == ["prompt", "completion"]
    assert [r.field for r in result.rejects] == [f"pricing.{name}"]


class TestTiers:
    PRICING: ClassVar[dict[str, Any]] = {
        "prompt": "0.000002",
        "completion": "0.00001",
        "overrides": [{"min_prompt_tokens": 272_000, "prompt": "0.000004", "completion": "0.000015"}],
    }

    def prices(self) -> list[dict[str, Any]]:
        return rows(parsed(openrouter_model(pricing=self.PRICING)), "core.price")

    def test_t09_a_tier_prices_the_whole_request(self) -> None:
        # hermes#109976
        assert request_cost(self.prices(), 300_000, 1_000).usd == Decimal("1.215")
        assert request_cost(self.prices(), 271_999, 1_000).usd == Decimal("0.553998")
        assert request_cost(self.prices(), 272_000, 0).usd == Decimal("1.088")

    def test_an_override_restates_only_what_it_names(self) -> None:
        pricing = {**self.PRICING, "overrides": [{"min_prompt_tokens": 1000, "prompt": "0.000004"}]}
        prices = rows(parsed(openrouter_model(pricing=pricing)), "core.price")
        assert request_cost(prices, 1000, 100).usd == Decimal("0.004") + Decimal("0.001")

    @pytest.mark.parametrize(
        ("override", "said"),
        [
            ({"prompt": "0.1"}, "no min_prompt_tokens"),
            ({"min_prompt_tokens": 5, "hours": "22-06", "prompt": "0.1"}, "hours"),
            ({"min_prompt_tokens": -5, "prompt": "0.1"}, "below 1"),
            ({"min_prompt_tokens": 1.5, "prompt": "0.1"}, "not a whole number"),
            ("cheap", "is text"),
        ],
    )
    def test_a_tier_that_cannot_be_placed_is_refused(self, override: Any, said: str) -> None:
        result = parsed(openrouter_model(pricing={**self.PRICING, "overrides": [override]}))
        assert {r["min_prompt_tokens"] for r in rows(result, "core.price")} == {0}
        assert len(result.rejects) == 1
        assert said in result.rejects[0].reason


class TestIdentity:
    def test_a_moving_name_says_what_it_stands_for(self) -> None:
        model = openrouter_model("~acme/one-latest", canonical_slug="acme/one-20260507")
        assert rows(parsed(model))[0]["alias_of"] == "acme/one-20260507"

    @pytest.mark.parametrize(
        ("offer_id", "base"),
        [("a/b:free", "a/b"), ("a/b:nitro", "a/b"), ("a/b:thinking", "a/b:thinking"), ("a/b-fast", "a/b-fast")],
    )
    def test_a_variant_that_answers_alike_shares_its_base_model(self, offer_id: str, base: str) -> None:
        offer = rows(parsed(openrouter_model(offer_id)))[0]
        assert (offer["base_model"], offer["reasoning_mode"], offer["latency_class"]) == (
            base,
            "standard",
            "interactive",
        )

    def test_of_repeated_ids_the_first_is_kept(self) -> None:
        result = parsed(openrouter_model(), openrouter_model(), openrouter_model(name="Other"))
        assert [r["display_name"] for r in rows(result)] == ["Acme: One"]
        assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True), (2, True)]
        assert "identical" in result.rejects[0].reason
        assert "other values" in result.rejects[1].reason

    @pytest.mark.parametrize("row", [None, 5, "x", [], {}, {"id": ""}, {"id": None}, {"id": 7}])
    def test_a_row_without_identity_goes_alone(self, row: Any) -> None:
        result = parsed(openrouter_model(), row)
        assert len(rows(result)) == 1
        assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True)]


class TestCompleteness:
    def test_a_listing_is_complete(self) -> None:
        assert parsed(openrouter_model()).complete

    def test_a_first_page_is_not(self) -> None:
        result = parsed(openrouter_model(), links={"next": "/api/v1/models?offset=500"}, total_count=700)
        assert not result.complete
        assert result.notes

    def test_an_empty_listing_is_told_apart_from_an_error(self) -> None:
        result = parse(payload({"data": []}))
        assert (result.rows_in, len(rows(result)), result.complete) == (0, 0, True)

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"error": {"code": 502, "message": "upstream"}}, "upstream"),
            ({"models": []}, "no 'data'"),
            ({"data": {}}, "not a list"),
            ([], "not an object"),
            (None, "null"),
        ],
    )
    def test_another_document_is_refused_whole(self, body: Any, said: str) -> None:
        with pytest.raises(PayloadError, match=said):
            parse(payload(body))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(openrouter_model())), _json)
def test_any_value_in_any_field_spoils_at_most_its_row(field: str, value: Any) -> None:
    result = parsed(openrouter_model(), openrouter_model("acme/two", **{field: value}))
    assert "acme/one" in {r["offer_id"] for r in rows(result)}


@given(st.decimals(min_value="1e-12", max_value=1, places=12))
def test_t03_every_listed_price_is_kept_exactly(usd: Decimal) -> None:
    row = price({"prompt": format(usd, "f"), "completion": "0"})
    assert (row["price_kind"], row["price_usd_per_unit"]) == ("fixed", usd)


@given(st.text(max_size=12) | st.floats() | st.integers())
def test_t03_no_price_is_ever_negative_and_only_fixed_and_free_have_one(told: Any) -> None:
    row = price({"prompt": told, "completion": "0"})
    assert (row["price_usd_per_unit"] is not None) == (row["price_kind"] in {"fixed", "free"})
    assert row["price_usd_per_unit"] is None or 0 <= row["price_usd_per_unit"] <= 1
