"""OpenAI-compatible endpoints: what is served and its context; prices are unknown, never 0."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.base import Parsed
from ingest.catalog.openai_models import parse
from ingest.errors import PayloadError
from tests.ingest.log_samples import openai_model
from tests.ingest.samples import counts_add_up, payload, rows


def parsed(*models: Any, **options: str) -> Parsed:
    result = parse(payload({"object": "list", "data": list(models)}, "openai-models", options=options))
    assert counts_add_up(result)
    return result


def test_no_price_is_told_so_all_are_unknown() -> None:
    found = rows(parsed(openai_model()), "core.price")
    assert [(r["component"], r["price_kind"], r["price_usd_per_unit"]) for r in found] == [
        ("prompt", "unknown", None),
        ("completion", "unknown", None),
    ]


def test_the_four_fields_of_openai_tell_no_context() -> None:
    (offer,) = rows(parsed({"id": "gpt-4o-mini", "object": "model", "created": 1_721_172_741, "owned_by": "system"}))
    assert (offer["offer_id"], offer["context_tokens"], offer["alias_of"]) == ("gpt-4o-mini", None, None)
    assert json.loads(offer["attributes"]) == {"created": 1_721_172_741, "owned_by": "system"}


def test_vllm_tells_the_context_that_is_served() -> None:
    (offer,) = rows(parsed(openai_model()))
    assert offer["context_tokens"] == 40_960


@pytest.mark.parametrize(
    ("changes", "base", "alias"),
    [
        ({"root": "Qwen/Qwen3-8B"}, "Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ({"root": "my-model"}, "my-model", None),
        ({"root": "/models/qwen"}, "my-model", None),
        ({"root": "C:\\models"}, "my-model", None),
        ({"root": None}, "my-model", None),
        ({"root": "/adapters/sql", "parent": "Qwen/Qwen3-8B"}, "my-model", None),
        ({"root": "org/sql-lora", "parent": "Qwen/Qwen3-8B"}, "my-model", None),
    ],
)
def test_a_served_name_says_what_it_stands_for(changes: Any, base: str, alias: str | None) -> None:
    (offer,) = rows(parsed(openai_model(**changes)))
    assert (offer["base_model"], offer["alias_of"]) == (base, alias)


def test_an_endpoint_is_named_by_its_source_or_by_a_person() -> None:
    assert rows(parsed(openai_model()))[0]["provider"] == "src-openai-models"
    assert rows(parsed(openai_model(), provider="rack-7"))[0]["provider"] == "rack-7"


def test_two_endpoints_under_their_own_names_do_not_remove_each_other() -> None:
    one, two = (parsed(openai_model(), provider=name) for name in ("a", "b"))
    assert one.complete
    assert two.complete
    assert {r["provider"] for p in (one, two) for r in rows(p)} == {"a", "b"}


@pytest.mark.parametrize("told", ["many", -1, 0, 1.5, True])
def test_a_context_that_is_none_is_refused_alone(told: Any) -> None:
    result = parsed(openai_model(max_model_len=told))
    assert rows(result)[0]["context_tokens"] is None
    assert [(r.field, r.whole_row) for r in result.rejects] == [("max_model_len", False)]


@pytest.mark.parametrize("body", [[], {"object": "list"}, {"error": {"message": "no"}}, {"data": {}}])
def test_another_document_is_refused_whole(body: Any) -> None:
    with pytest.raises(PayloadError):
        parse(payload(body))
