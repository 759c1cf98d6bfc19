"""models.dev: USD per million, tiers above a size, and never in the place of a provider's own catalog."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from ingest.base import Parsed
from ingest.billing.pricing import request_cost, rollup
from ingest.catalog.models_dev import parse
from ingest.errors import PayloadError
from tests.ingest.log_samples import models_dev, models_dev_model
from tests.ingest.samples import counts_add_up, payload, rows


def parsed(document: Any) -> Parsed:
    result = parse(payload(document, "models-dev"))
    assert counts_add_up(result)
    return result


def prices(cost: Any) -> list[dict[str, Any]]:
    return rows(parsed(models_dev(m=models_dev_model(cost=cost))), "core.price")


def test_offers_are_named_by_their_provider_and_belong_to_models_dev() -> None:
    document = {**models_dev("a", one=models_dev_model()), **models_dev("b", one=models_dev_model())}
    found = rows(parsed(document))
    assert [(r["provider"], r["offer_id"], r["base_model"]) for r in found] == [
        ("models.dev", "a/one", "one"),
        ("models.dev", "b/one", "one"),
    ]
    assert (found[0]["context_tokens"], found[0]["max_output_tokens"]) == (131_072, 8192)
    assert json.loads(found[0]["attributes"])["release_date"] == "2026-05-01"


def test_t07_a_price_per_million_is_never_one_per_token() -> None:
    # hermes#34256: 13,233 tokens cost 0.00055517 USD, not 555.17
    cost = request_cost(prices({"input": 0.04, "output": 0.15}), 12_998, 235)
    assert cost.usd == Decimal("0.00055517")


def test_t05_free_and_unknown_are_two_things() -> None:
    free = prices({"input": 0, "output": 0})
    unknown = rows(parsed(models_dev(router={"name": "Auto"})), "core.price")
    assert {(r["component"], r["price_kind"]) for r in free} == {("prompt", "free"), ("completion", "free")}
    assert {(r["component"], r["price_kind"]) for r in unknown} == {("prompt", "unknown"), ("completion", "unknown")}
    costs = [Decimal("0.02"), request_cost(free, 10, 10).usd, request_cost(unknown, 10, 10).usd]
    assert rollup(costs).note == "lower bound, 1 of 3 unpriced"


class TestTiers:
    COST: ClassVar[dict[str, Any]] = {
        "input": 2,
        "output": 10,
        "tiers": [{"input": 4, "output": 15, "tier": {"type": "context", "size": 272_000}}],
        "context_over_200k": {"input": 99, "output": 99},
    }

    def test_t09_a_tier_prices_the_whole_request(self) -> None:
        assert request_cost(prices(self.COST), 300_000, 1000).usd == Decimal("1.215")
        assert request_cost(prices(self.COST), 272_000, 1000).usd == Decimal("0.554")

    def test_the_older_form_counts_where_there_are_no_tiers(self) -> None:
        cost = {"input": 2, "output": 10, "context_over_200k": {"input": 4, "output": 15}}
        assert request_cost(prices(cost), 200_000, 0).usd == Decimal("0.4")
        assert request_cost(prices(cost), 200_001, 0).usd == Decimal("0.800004")

    @pytest.mark.parametrize(
        "tier",
        [
            {"input": 4}, {"input": 4, "tier": {"type": "throughput", "size": 5}},
            {"input": 4, "tier": {"type": "context"}},
            {"input": 4, "tier": {"type": "context", "size": -1}}, "cheap",
        ],
    )  # fmt: skip
    def test_a_tier_that_cannot_be_placed_is_refused(self, tier: Any) -> None:
        result = parsed(models_dev(m=models_dev_model(cost={"input": 1, "output": 2, "tiers": [tier]})))
        assert len(result.rejects) == 1
        assert {r["min_prompt_tokens"] for r in rows(result, "core.price")} == {0}


def test_a_price_of_unknown_unit_is_left_out_and_told() -> None:
    result = parsed(models_dev(m=models_dev_model(cost={"input": 1, "output": 2, "video": 3})))
    assert [r.field for r in result.rejects] == ["cost.video"]


@pytest.mark.parametrize("told", ["1", True, -1, 2_000_000, []])
def test_an_implausible_price_is_refused_alone_and_unknown(told: Any) -> None:
    result = parsed(models_dev(m=models_dev_model(cost={"input": told, "output": 2})))
    assert [(r.field, r.whole_row) for r in result.rejects] == [("cost.input", False)]
    assert {r["component"]: r["price_kind"] for r in rows(result, "core.price")} == {
        "prompt": "unknown",
        "completion": "fixed",
    }


@pytest.mark.parametrize(
    ("status", "lifecycle", "access"),
    [
        (None, "active", "open"),
        ("deprecated", "deprecated", "open"),
        ("beta", "active", "canary"),
        ("alpha", "active", "canary"),
    ],
)
def test_a_status_says_where_a_model_stands(status: Any, lifecycle: str, access: str) -> None:
    (offer,) = rows(parsed(models_dev(m=models_dev_model(status=status))))
    assert (offer["lifecycle"], offer["access_level"]) == (lifecycle, access)


def test_serving_classes_are_read_from_the_ids_of_the_provider_that_writes_them() -> None:
    (mine,) = rows(parsed(models_dev("neuralwatt", **{"glm-5.2-short-flex": models_dev_model()})))
    (other,) = rows(parsed(models_dev("acme", **{"glm-5.2-short-flex": models_dev_model()})))
    assert (mine["base_model"], mine["latency_class"], mine["context_variant"]) == ("glm-5.2", "flex", "short")
    assert (other["base_model"], other["latency_class"]) == ("glm-5.2-short-flex", "interactive")


def test_an_inherited_model_is_named() -> None:
    (offer,) = rows(parsed(models_dev(m=models_dev_model(base_model="maker/m"))))
    assert offer["base_model"] == "maker/m"


def test_a_limit_of_0_is_not_told() -> None:
    (offer,) = rows(parsed(models_dev(m=models_dev_model(limit={"context": 0, "output": 0}))))
    assert (offer["context_tokens"], offer["max_output_tokens"]) == (None, None)


def test_models_that_write_no_text_are_left_out_and_counted() -> None:
    document = models_dev(a=models_dev_model(), b=models_dev_model(modalities={"output": ["image"]}))
    result = parsed(document)
    assert (len(rows(result)), result.rows_in) == (1, 1)
    assert result.notes == ("1 models that write no text were left out",)


def test_a_provider_or_model_that_is_no_object_goes_alone() -> None:
    result = parsed({**models_dev(a=models_dev_model(), b=[1]), "broken": 5, "other": {"models": []}})
    assert [r["offer_id"] for r in rows(result)] == ["acme/a"]
    assert [r.natural_key for r in result.rejects if r.whole_row] == ["acme/b", "broken", "other"]


@pytest.mark.parametrize(
    ("body", "said"),
    [([], "a list"), ({}, "nothing"), ({"error": "x"}, "error"), ({"a": {"models": []}}, "no provider")],
)
def test_another_document_is_refused_whole(body: Any, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        parse(payload(body))
