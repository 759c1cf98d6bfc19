"""List prices beside genai-prices: warnings with both values, never a correction, never a call."""

from __future__ import annotations

import socket
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client import Client
from app.desk import open_desk
from app.operations import SYSTEM, call
from app.settings import load_settings
from ingest.catalog.crosscheck import UNIT, compare, crosscheck

AT = datetime(2026, 11, 20)


def price(usd_per_million: str | None, component: str = "prompt", **changes: Any) -> dict[str, Any]:
    usd = None if usd_per_million is None else Decimal(usd_per_million) / 1_000_000
    return {
        "provider": "openai",
        "offer_id": "gpt-4o",
        "component": component,
        "min_prompt_tokens": 0,
        "price_usd_per_unit": usd,
        "unit": "token",
        "price_kind": "fixed" if usd else "unknown" if usd is None else "free",
        **changes,
    }


def frame(*prices: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(prices, schema_overrides={"price_usd_per_unit": pl.Decimal(28, 12)})


def one(*prices: dict[str, Any]) -> dict[str, Any]:
    (row,) = compare(frame(*prices), AT).to_dicts()
    return row


def test_a_price_that_agrees_is_no_warning() -> None:
    # genai-prices 0.2.3: gpt-4o 2.50 in, 10.00 out, 1.25 cached
    prices = frame(price("2.5"), price("10", "completion"), price("1.25", "cache_read"))
    assert compare(prices, AT)["status"].to_list() == ["agrees"] * 3
    assert crosscheck(prices, AT).is_empty()


def test_a_price_that_differs_is_told_with_both_values_unit_and_date() -> None:
    (row,) = crosscheck(frame(price("2.75")), AT).to_dicts()
    assert (row["our_price"], row["other_price"], row["unit"]) == (Decimal("2.75"), Decimal("2.5"), UNIT)
    assert (row["other_source"], row["other_model"], row["as_of"]) == ("genai-prices 0.2.3", "gpt-4o", AT)
    assert row["reason"] == "2.75 here, 2.5 there"
    assert row["relative_difference"] == pytest.approx(0.25 / 2.75)


def test_a_unit_taken_for_another_is_found() -> None:
    assert one(price("2500000"))["status"] == "differs"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"offer_id": "no-such-model"}, "does not list the model"),
        ({"provider": "nobody"}, "does not list the model"),
        ({"price_usd_per_unit": None, "price_kind": "dynamic"}, "our price is dynamic"),
        ({"component": "cache_write"}, "no price of this component"),
    ],
)
def test_what_cannot_be_compared_is_no_warning_and_says_why(changes: Any, reason: str) -> None:
    row = one(price("2.5", **changes))
    assert row["status"] == "not_comparable"
    assert reason in row["reason"]


def test_free_here_and_priced_there_is_a_warning() -> None:
    assert one(price("0"))["reason"] == "0 here, 2.5 there"


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "litellm", "catalog_provider": "openai"},
        {"provider": "litellm", "offer_id": "openai/gpt-4o", "catalog_provider": "openai"},
        {"provider": "models.dev", "offer_id": "openai/gpt-4o"},
        {"provider": "openrouter", "offer_id": "openai/gpt-4o"},
    ],
)
def test_a_model_is_found_by_whatever_its_catalog_calls_it(changes: Any) -> None:
    assert one(price("2.5", **changes))["status"] == "agrees"


def test_a_tier_is_compared_with_the_price_inside_it() -> None:
    # genai-prices 0.2.3: gemini-2.5-pro 1.25, above 200,000 tokens 2.50
    gemini = {"provider": "google", "offer_id": "gemini-2.5-pro"}
    assert one(price("1.25", **gemini))["status"] == "agrees"
    assert one(price("2.5", min_prompt_tokens=200_001, **gemini))["status"] == "agrees"
    assert one(price("1.25", min_prompt_tokens=200_001, **gemini))["status"] == "differs"


def test_prices_of_images_and_requests_are_not_compared() -> None:
    prices = frame(price("5", "image", unit="image"), price("5", "request", unit="request"))
    assert compare(prices, AT).is_empty()


@given(st.decimals(min_value="0.000001", max_value="1000", places=6))
def test_only_what_differs_is_a_warning(usd: Decimal) -> None:
    row = one(price(str(usd)))
    assert (row["status"] == "agrees") == (abs(usd - Decimal("2.5")) <= Decimal("0.0001") * max(usd, Decimal("2.5")))


def test_nothing_leaves_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", forbidden)
    monkeypatch.setattr(genai_prices, "UpdatePrices", forbidden)
    assert compare(frame(price("2.5")), AT).height == 1


CATALOG = (
    '{"data": [{"id": "openai/gpt-4o", "pricing": {"prompt": "0.0000025", "completion": "0.00009"}},'
    ' {"id": "acme/unheard-of", "pricing": {"prompt": "0.000001", "completion": "0.000001"}}]}'
)


def test_the_operation_counts_and_lists_the_worst_first(tmp_path: Path) -> None:
    file = tmp_path / "catalog.json"
    file.write_text(CATALOG)
    desk = open_desk(load_settings())
    try:
        assert call(desk, "import", {"kind": "openrouter", "path": str(file)}, SYSTEM)["state"] == "OK"
        told = call(desk, "prices.crosscheck", {}, SYSTEM)
        assert {k: told[k] for k in ("compared", "agree", "differ", "not_comparable")} == {
            "compared": 2, "agree": 1, "differ": 1, "not_comparable": 2,
        }  # fmt: skip
        (warning,) = told["warnings"]
        assert (warning["offer_id"], warning["component"]) == ("openai/gpt-4o", "completion")
        assert call(desk, "prices.crosscheck", {"provider": "nobody"}, SYSTEM)["compared"] == 0
    finally:
        desk.close()


def test_the_command_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from app.cli import main

    file = tmp_path / "catalog.json"
    file.write_text(CATALOG)
    with Client(load_settings()) as client:
        client.call("import", {"kind": "openrouter", "path": str(file)})
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["prices", "check", "--json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["differ"] == 1
    with pytest.raises(SystemExit):
        main(["prices", "check"])
    assert "openai/gpt-4o" in capsys.readouterr().out
