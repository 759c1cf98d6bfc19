"""Catalogs and usage logs on the shared samples, with exact counts. Skipped where the shared inputs are absent."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal

import polars as pl
import pytest

from ingest.base import Parsed
from ingest.billing.repricing import reprice
from ingest.catalog.crosscheck import compare, crosscheck
from ingest.kinds import kind
from ingest.read import read_file
from tests.ingest.samples import NOW, counts_add_up, rows
from tests.support import shared


def parse(name: str, path: str, **options: str) -> Parsed:
    from dataclasses import replace

    found = kind(name)
    told = read_file(shared(f"data/{path}"), source_id=f"file:{name}", kind=name, max_bytes=found.max_bytes, now=NOW)
    parsed = found.parse(replace(told, options=options))
    assert counts_add_up(parsed)
    return parsed


class TestCatalogs:
    def test_the_openai_sample(self) -> None:
        parsed = parse("openai-models", "openai_v1_models/sample.json")
        offers = rows(parsed)
        assert (parsed.rows_in, parsed.rejects, parsed.complete) == (2, (), True)
        assert [(o["provider"], o["offer_id"], o["context_tokens"]) for o in offers] == [
            ("openai-models", "gpt-4o-mini", None),
            ("openai-models", "Qwen/Qwen3-8B", 40_960),
        ]
        assert set(parsed.tables["core.price"]["price_kind"]) == {"unknown"}

    def test_the_litellm_price_map(self) -> None:
        parsed = parse("litellm-prices", "litellm_prices/model_prices_sample.json")
        offer, price = parsed.tables["core.offer"], parsed.tables["core.price"]
        assert (parsed.rows_in, offer.height, price.height, parsed.rejects) == (29, 29, 135, ())
        assert Counter(price.filter(pl.col("component").is_in(["prompt", "completion"]))["price_kind"]) == {
            "fixed": 60, "free": 8,
        }  # fmt: skip
        assert Counter(price["min_prompt_tokens"]) == {0: 105, 128_001: 28, 200_001: 2}
        assert offer["expires_at"].count() == 6
        assert set(price["origin"]) == {"cached"}

    def test_the_litellm_price_map_with_every_mode(self) -> None:
        parsed = parse("litellm-prices", "litellm_prices/model_prices_sample.json", modes="all")
        assert (parsed.rows_in, parsed.tables["core.price"].height, parsed.rejects) == (30, 139, ())

    def test_the_models_dev_file(self) -> None:
        parsed = parse("models-dev", "models_dev/api_like.json")
        price = parsed.tables["core.price"]
        assert (parsed.rows_in, price.height, parsed.rejects) == (27, 75, ())
        unknown = price.filter(pl.col("price_kind") == "unknown")["offer_id"].unique().sort().to_list()
        assert unknown == [f"openrouter/openrouter/{m}" for m in ("auto", "bodybuilder", "fusion", "pareto-code")]
        free = price.filter(pl.col("price_kind") == "free")["offer_id"].unique().to_list()
        assert free == ["openrouter/openrouter/free"]

    def test_models_dev_and_neuralwatt_tell_one_price_in_two_units(self) -> None:
        dev = parse("models-dev", "models_dev/api_like.json").tables["core.price"]
        own = parse("neuralwatt-models", "neuralwatt_models/v1_models_REBUILT.json").tables["core.price"]
        both = dev.with_columns(pl.col("offer_id").str.strip_prefix("neuralwatt/")).join(
            own, on=["offer_id", "component", "min_prompt_tokens"]
        )
        told = both.filter(pl.col("component") == "prompt", pl.col("offer_id") == "glm-5.2")
        assert set(told["price_usd_per_unit"]) == {Decimal("0.00000145")}

    def test_a_second_opinion_on_the_price_map(self) -> None:
        # genai-prices 0.2.3; the 1/16 price of gemini-1.5-pro-preview-0514 in the map is a known mistake
        price = parse("litellm-prices", "litellm_prices/model_prices_sample.json").tables["core.price"]
        told = compare(price, datetime(2026, 11, 20))
        assert Counter(told["status"]) == {"agrees": 50, "differs": 11, "not_comparable": 24}
        warned = crosscheck(price, datetime(2026, 11, 20))
        assert "gemini-1.5-pro-preview-0514" in set(warned["offer_id"])


class TestLogs:
    def test_the_spend_logs(self) -> None:
        parsed = parse("litellm-spendlogs", "litellm_spendlogs/spendlogs_sample.jsonl")
        assert (parsed.rows_in, parsed.rejects) == (4, ())
        found = {r["usage_key"]: r for r in rows(parsed)}
        assert found["chatcmpl-a1"]["cached_tokens"] == 257_955
        assert (found["resp_1"]["list_cost_usd"], found["resp_2"]["list_cost_usd"]) == (0, 0)  # T25
        assert found["chatcmpl-213"]["list_cost_usd"] is None  # spend 0: no price, or free
        assert found["resp_1"]["period_start_at"] == datetime(2025, 12, 10, 12, 47, 35, 248_000)

    def test_t01_the_logged_spend_is_four_times_the_list_price(self) -> None:
        usage = parse("litellm-spendlogs", "litellm_spendlogs/spendlogs_sample.jsonl").tables["core.usage"]
        price = parse("litellm-prices", "litellm_prices/model_prices_sample.json").tables["core.price"]
        named = price.with_columns(pl.col("offer_id").str.strip_prefix("gemini/"))
        # the map's own rates: above 200,000 tokens 2.50 and 15 per million; cached input has no dearer tier
        told = reprice(usage, named).filter(pl.col("usage_key") == "chatcmpl-a1").to_dicts()[0]
        assert told["told_usd"] == Decimal("0.7642")
        assert told["repriced_usd"] == Decimal(5_005) * Decimal("2.5e-6") + Decimal(257_955) * Decimal(
            "3.125e-7"
        ) + Decimal(1_744) * Decimal("1.5e-5")

    def test_the_answer_of_the_spend_api(self) -> None:
        (row,) = rows(parse("litellm-spendlogs", "fixtures/litellm_spend_logs.json"))
        assert (row["list_cost_usd"], row["duration_s"], row["successes"]) == (Decimal("0.0000423"), 90.0, 1)

    def test_the_usage_chunk_of_openrouter(self) -> None:
        parsed = parse("openrouter-usage", "fixtures/openrouter_usage_chunk.json")
        (row,) = rows(parsed)
        assert (row["billed_cost_usd"], row["upstream_cost_usd"], row["cached_tokens"]) == (Decimal("0.95"), 19, 0)
        assert row["period_start_at"] == NOW
        assert len(parsed.notes) == 1

    def test_the_observations_of_langfuse(self) -> None:
        parsed = parse("langfuse", "langfuse_export/observations_v2_sample.jsonl")
        (row,) = rows(parsed)
        assert (parsed.rows_in, parsed.rejects, len(parsed.notes)) == (1, (), 1)
        assert (row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"]) == (1000, 800, 200)
        assert (row["list_cost_usd"], row["duration_s"]) == (Decimal("0.001306"), 2.5)

    def test_the_requests_of_helicone(self) -> None:
        parsed = parse("helicone", "helicone_export/export_sample.csv")
        ok, failed = rows(parsed)
        assert (parsed.rows_in, parsed.rejects) == (2, ())
        assert (ok["list_cost_usd"], ok["successes"], ok["duration_s"]) == (Decimal("0.00027"), 1, 2.5)
        assert (failed["list_cost_usd"], failed["prompt_tokens"], failed["successes"]) == (None, None, 0)


@pytest.mark.parametrize(
    "path", ["openrouter_models/models_full_2026-05-15.json.gz", "openrouter_models/models_sample.json"]
)
def test_a_real_listing_is_one_complete_page(path: str) -> None:
    parsed = parse("openrouter", path)
    assert (parsed.complete, parsed.notes, set(parsed.tables["core.price"]["origin"])) == (True, (), {"cached"})
