"""LiteLLM's price map: exact decimals, tiers over the whole request, service tiers apart, 0 and nothing apart."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing.pricing import request_cost
from ingest.catalog.litellm_prices import parse
from ingest.errors import PayloadError
from tests.ingest.log_samples import litellm_entry, litellm_prices
from tests.ingest.samples import NOW, counts_add_up, payload, rows


def parsed(options: dict[str, str] | None = None, **entries: Any) -> Parsed:
    result = parse(payload(litellm_prices(**entries), "litellm-prices", options=options))
    assert counts_add_up(result)
    return result


def prices(**changes: Any) -> list[dict[str, Any]]:
    return rows(parsed(m=litellm_entry(**changes)), "core.price")


def price(name: str, tier: int = 0, **changes: Any) -> dict[str, Any]:
    (row,) = [r for r in prices(**changes) if (r["component"], r["min_prompt_tokens"]) == (name, tier)]
    return row


def test_the_prose_entry_is_no_model() -> None:
    result = parsed(m=litellm_entry())
    assert (result.rows_in, [r["offer_id"] for r in rows(result)], result.complete) == (1, ["m"], True)


def test_an_offer_carries_what_the_map_says() -> None:
    (offer,) = rows(parsed(**{"acme/one": litellm_entry(supports_vision=True)}))
    assert (offer["provider"], offer["offer_id"], offer["base_model"]) == ("litellm", "acme/one", "one")
    assert (offer["context_tokens"], offer["max_output_tokens"], offer["lifecycle"]) == (200_000, 8192, "active")
    attributes = json.loads(offer["attributes"])
    assert (attributes["litellm_provider"], attributes["mode"], attributes["supports_vision"]) == ("acme", "chat", True)


def test_the_legacy_limit_means_two_things_and_is_not_read() -> None:
    (offer,) = rows(parsed(m=litellm_entry(max_input_tokens=None, max_output_tokens=None)))
    assert (offer["context_tokens"], offer["max_output_tokens"]) == (None, None)


@pytest.mark.parametrize("literal", ["1.5e-07", "0.00000015", "1.50E-7", "15e-8"])
def test_a_price_is_the_decimal_that_the_file_writes(literal: str) -> None:
    body = json.dumps(litellm_prices(m=litellm_entry(input_cost_per_token=1234.5))).replace("1234.5", literal)
    found = {r["component"]: r["price_usd_per_unit"] for r in rows(parse(payload(body)), "core.price")}
    assert found["prompt"] == Decimal("0.00000015")


@given(st.decimals(min_value="1e-12", max_value=1, places=12))
def test_every_price_is_kept_exactly(usd: Decimal) -> None:
    body = json.dumps(litellm_prices(m=litellm_entry(input_cost_per_token=1234.5))).replace("1234.5", str(usd))
    found = {r["component"]: r["price_usd_per_unit"] for r in rows(parse(payload(body)), "core.price")}
    assert found["prompt"] == usd


def test_t05_free_is_zero_and_missing_is_unknown() -> None:
    assert (price("prompt", input_cost_per_token=0.0)["price_kind"]) == "free"
    unknown = price("prompt", input_cost_per_token=None)
    assert (unknown["price_kind"], unknown["price_usd_per_unit"]) == ("unknown", None)


class TestTiers:
    ENTRY: ClassVar[dict[str, float]] = {
        "input_cost_per_token_above_200k_tokens": 4e-06,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "input_cost_per_token_above_200k_tokens_priority": 9e-06,
    }

    def test_t09_a_tier_prices_the_whole_request(self) -> None:
        listed = prices(**self.ENTRY)
        assert request_cost(listed, 300_000, 1000).usd == Decimal("1.215")
        assert request_cost(listed, 200_000, 1000).usd == Decimal("0.41")  # above means more than
        assert request_cost(listed, 200_001, 0).usd == Decimal("0.800004")

    def test_a_tier_keeps_what_it_does_not_restate(self) -> None:
        assert request_cost(prices(**self.ENTRY), 300_000, 0, 100_000).usd == Decimal("0.8") + Decimal("0.02")

    def test_a_tier_of_another_service_tier_stays_with_it(self) -> None:
        assert price("prompt_priority", 200_001, **self.ENTRY)["price_usd_per_unit"] == Decimal("0.000009")


@pytest.mark.parametrize(
    ("field", "component", "tier"),
    [
        ("input_cost_per_token_batches", "prompt_batch", 0),
        ("output_cost_per_token_flex", "completion_flex", 0),
        ("cache_read_input_token_cost_priority", "cache_read_priority", 0),
        ("output_cost_per_reasoning_token", "internal_reasoning", 0),
        ("cache_creation_input_token_cost", "cache_write", 0),
        ("cache_creation_input_token_cost_above_1hr", "cache_write_1h", 0),
        ("cache_creation_input_token_cost_above_1hr_above_272k_tokens", "cache_write_1h", 272_001),
        ("input_cost_per_audio_token", "audio", 0),
    ],
)
def test_every_field_has_its_component(field: str, component: str, tier: int) -> None:
    row = price(component, tier, **{field: 3e-06})
    assert (row["price_usd_per_unit"], row["unit"], row["price_kind"]) == (Decimal("0.000003"), "token", "fixed")


@pytest.mark.parametrize(
    ("field", "unit"),
    [
        ("input_cost_per_image", "image"), ("input_cost_per_character", "character"),
        ("input_cost_per_second", "second"),
        ("input_cost_per_request", "request"), ("input_cost_per_pixel", "pixel"), ("ocr_cost_per_page", "page"),
        ("input_cost_per_query", "query"),
    ],
)  # fmt: skip
def test_a_price_of_something_else_than_tokens_has_its_own_unit(field: str, unit: str) -> None:
    assert [r["unit"] for r in prices(**{field: 0.001}) if r["unit"] != "token"] == [unit]


def test_the_older_name_of_cached_input_counts_only_alone() -> None:
    both = [
        r["price_usd_per_unit"] for r in prices(input_cost_per_token_cache_hit=9e-07) if r["component"] == "cache_read"
    ]
    assert both == [Decimal("0.0000002")]
    alone = price("cache_read", cache_read_input_token_cost=None, input_cost_per_token_cache_hit=9e-07)
    assert alone["price_usd_per_unit"] == Decimal("0.0000009")


@pytest.mark.parametrize(
    "field", ["output_cost_per_second_1080p", "input_cost_per_video_per_second_above_8s_interval", "cost_of_living"]
)
def test_a_price_of_unknown_unit_or_condition_is_left_out_and_told(field: str) -> None:
    result = parsed(m=litellm_entry(**{field: 0.5}))
    assert [(r.field, r.whole_row) for r in result.rejects] == [(field, False)]
    assert {r["component"] for r in rows(result, "core.price")} == {"prompt", "completion", "cache_read"}


@pytest.mark.parametrize(
    "field", ["input_dbu_cost_per_token", "output_db_cost_per_token", "search_context_cost_per_query"]
)
def test_what_is_no_price_in_usd_stays_an_attribute(field: str) -> None:
    result = parsed(m=litellm_entry(**{field: 0.5}))
    assert result.rejects == ()
    assert json.loads(rows(result)[0]["attributes"])[field] == 0.5


def test_a_table_that_may_price_a_part_only_is_not_guessed() -> None:
    entry = {
        "litellm_provider": "dashscope",
        "mode": "chat",
        "tiered_pricing": [{"range": [0, 32000], "input_cost_per_token": 1e-6}],
    }
    result = parsed(m=entry)
    assert [r.field for r in result.rejects] == ["tiered_pricing"]
    assert {r["price_kind"] for r in rows(result, "core.price")} == {"unknown"}


@pytest.mark.parametrize("told", ["1e-6", True, -1e-6, 2, float("nan"), 1e-15, []])
def test_an_implausible_price_is_refused_alone_and_unknown(told: Any) -> None:
    result = parsed(m=litellm_entry(input_cost_per_token=told))
    found = {r["component"]: (r["price_kind"], r["price_usd_per_unit"]) for r in rows(result, "core.price")}
    assert found["prompt"] == ("unknown", None)
    assert found["completion"][0] == "fixed"
    assert [(r.field, r.whole_row) for r in result.rejects] == [("input_cost_per_token", False)]


@pytest.mark.parametrize(
    ("date", "lifecycle"), [("2026-05-15", "deprecated"), ("2026-05-16", "active"), ("2025-10-01", "deprecated")]
)
def test_a_deprecation_date_is_the_first_instant_without_the_offer(date: str, lifecycle: str) -> None:
    (offer,) = rows(parsed(m=litellm_entry(deprecation_date=date)))
    assert (offer["expires_at"], offer["lifecycle"]) == (datetime.fromisoformat(date), lifecycle)
    assert datetime(2026, 5, 15, 12) == NOW


class TestModes:
    ENTRIES: ClassVar[dict[str, Any]] = {
        "a": litellm_entry(),
        "b": litellm_entry(mode="embedding"),
        "c": litellm_entry(mode=None),
    }

    def test_what_writes_no_text_is_left_out_and_counted(self) -> None:
        result = parsed(**self.ENTRIES)
        assert [r["offer_id"] for r in rows(result)] == ["a", "c"]
        assert result.notes == ("1 entries that write no text were left out; take them with the option modes=all",)

    def test_all_are_taken_where_a_person_says_so(self) -> None:
        result = parsed({"modes": "all"}, **self.ENTRIES)
        assert [r["offer_id"] for r in rows(result)] == ["a", "b", "c"]
        assert result.notes == ()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "a list"),
        ({}, "nothing"),
        ({"data": []}, "litellm_provider"),
        ({"a": 5}, "litellm_provider"),
        (None, "null"),
    ],
)
def test_another_document_is_refused_whole(body: Any, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        parse(payload(body))


def test_an_entry_that_is_no_object_goes_alone() -> None:
    result = parsed(a=litellm_entry(), b=5)
    assert [r["offer_id"] for r in rows(result)] == ["a"]
    assert [r.whole_row for r in result.rejects] == [True]
