"""AWS CUR 2.0: kinds of tokens, units per row, lines that are no usage, and months without an end."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from ingest.base import Parsed, Payload
from ingest.billing import cur2
from ingest.billing.charges import joules_per_unit, tokens_per_unit
from ingest.billing.invoice_kinds import KINDS
from ingest.billing.usage_types import UsageType, read_usage_type
from ingest.errors import PayloadError
from ingest.pipeline import refresh
from tests.ingest.billing_samples import cur as report
from tests.ingest.billing_samples import cur_line as line
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.support import shared
from warehouse.engine import Warehouse

KIND = next(k for k in KINDS if k.name == "aws-cur2")


def parse(body: str | bytes) -> Parsed:
    found = cur2.parse(payload(body, "aws-cur2"))
    assert counts_add_up(found)
    return found


def one(body: str | bytes) -> dict[str, Any]:
    (row,) = rows(parse(body))
    return row


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("USE1-MP:USE1_InputTokenCount-Units", UsageType("prompt", "regional")),
        ("USE1-MP:USE1_OutputTokenCount-Units", UsageType("completion", "regional")),
        ("USE1-MP:USE1_CacheReadInputTokenCount_Global-Units", UsageType("cache_read", "global")),
        ("USE1-MP:USE1_CacheWriteInputTokenCount-Units", UsageType("cache_write", "regional")),
        ("USW2-MP:USW2_input_tokens_global_standard-Units", UsageType("prompt", "global", "standard")),
        ("USW2-MP:USW2_output_tokens_batch-Units", UsageType("completion", "regional", "batch")),
        ("USE1-NovaLite-input-tokens", UsageType("prompt", "regional", None, "NovaLite")),
        ("USE1-Llama3-1-70B-output-tokens-batch", UsageType("completion", "regional", "batch", "Llama3-1-70B")),
        ("Input Tokens", UsageType("prompt", "regional")),
        ("USE1-BoxUsage:t3.micro", UsageType()),
        ("USE1-Guardrail-ContentPolicyUnitsConsumed", UsageType()),
    ],
)
def test_both_spellings_of_a_usage_type_tell_the_same(text: str, told: UsageType) -> None:
    assert read_usage_type(text) == told


@pytest.mark.parametrize(
    ("unit", "tokens"),
    [("1K tokens", 1000), ("1M tokens", 10**6), ("1000 Tokens", 1000), ("1,000,000 tokens", 10**6), ("Token", 1),
     ("Million Tokens", 10**6), ("Units", None), ("0 tokens", None), ("Token-Hours", None), ("", None)],
)  # fmt: skip
def test_a_unit_of_tokens_says_how_many(unit: str, tokens: int | None) -> None:
    assert tokens_per_unit(unit) == tokens


@pytest.mark.parametrize(
    ("unit", "joules"),
    [("kWh", 3_600_000), ("KWH", 3_600_000), ("Wh", 3600), ("MWh", 3_600_000_000), ("MJ", 10**6), ("J", 1),
     ("mWh", None), ("mJ", None), ("mwh", None), ("kW", None)],
)  # fmt: skip
def test_a_unit_of_energy_says_how_many_joules_and_a_milli_is_no_mega(unit: str, joules: int | None) -> None:
    assert joules_per_unit(unit) == joules


class TestLines:
    def test_a_line_of_bedrock(self) -> None:
        row = one(report())
        assert (row["tokens"], row["token_kind"], row["offer_id"]) == (1500, "prompt", "Sonata Haiku 4.5")
        assert (row["billed_cost"], row["effective_cost"]) == (Decimal("0.0045"), Decimal("0.004"))
        assert (row["provider"], row["account"], row["service"]) == ("AWS", "111122223333", "AmazonBedrock")

    def test_plain_units_say_nothing_about_tokens(self) -> None:
        found = parse(report(line(pricing_unit="Units", line_item_usage_amount="42")))
        (row,) = rows(found)
        assert (row["tokens"], row["token_kind"], row["consumed_quantity"]) == (None, "prompt", 42)
        assert "their tokens are unknown" in found.notes[0]

    @pytest.mark.parametrize(
        ("line_type", "category"),
        [("Credit", "Credit"), ("Tax", "Tax"), ("Refund", "Adjustment"), ("Fee", "Purchase"),
         ("EdpDiscount", "Adjustment"), ("SavingsPlanCoveredUsage", "Usage")],
    )  # fmt: skip
    def test_what_is_no_usage_stays_apart(self, line_type: str, category: str) -> None:
        row = one(report(line(line_item_line_item_type=line_type, line_item_unblended_cost="-1.25")))
        assert (row["charge_category"], row["billed_cost"]) == (category, Decimal("-1.25"))
        if category != "Usage":
            assert (row["tokens"], row["token_kind"], row["offer_id"]) == (None, None, None)

    def test_an_unknown_type_of_line_is_not_guessed(self) -> None:
        found = parse(report(line(), line(line_item_line_item_type="Gift")))
        assert [(r.field, r.value) for r in found.rejects] == [("line_item_line_item_type", "Gift")]

    def test_the_payer_is_the_account_where_it_is_told(self) -> None:
        row = one(report({**line(), "bill_payer_account_id": "999"}))
        assert (row["account"], row["sub_account"]) == ("999", "111122223333")

    def test_a_marketplace_line_is_a_charge_like_any_other(self) -> None:
        row = one(report({**line(line_item_product_code="b4o6r5example"), "bill_billing_entity": "AWS Marketplace",
                          "line_item_legal_entity": "VendorX, PBC"}))  # fmt: skip
        assert (row["service"], row["publisher"], row["tokens"]) == ("b4o6r5example", "VendorX, PBC", 1500)
        assert '"bill_billing_entity": "AWS Marketplace"' in row["attributes"]

    def test_the_last_second_of_a_period_is_not_its_end(self) -> None:
        row = one(report(line(line_item_usage_end_date="2026-11-03T23:59:59Z")))
        assert row["charge_period_end_at"] == datetime(2026, 11, 4)

    @pytest.mark.parametrize(
        ("start", "end"), [("2026-11-01", datetime(2026, 12, 1)), ("2026-12-01", datetime(2027, 1, 1))]
    )
    def test_without_an_end_the_billing_period_is_the_month(self, start: str, end: datetime) -> None:
        assert one(report(line(bill_billing_period_start_date=f"{start}T00:00:00Z")))["billing_period_end_at"] == end


class TestRefusals:
    @pytest.mark.parametrize("column", cur2.REQUIRED)
    def test_a_missing_column_is_named(self, column: str) -> None:
        with pytest.raises(PayloadError, match=column) as caught:
            parse(report({k: v for k, v in line().items() if k != column}))
        assert caught.value.field == column

    def test_the_first_cur_is_told_apart(self) -> None:
        with pytest.raises(PayloadError, match=r"not CUR 2\.0"):
            parse("identity/LineItemId,lineItem/UsageType\n1,2\n")


class TestInTheWarehouse:
    def load(self, warehouse: Warehouse, body: str) -> tuple[int | None, int | None]:
        def obtain() -> Payload:
            return Payload("file:aws-cur2", "aws-cur2", "file:///x", NOW, body.encode())

        outcome = refresh(warehouse, KIND, "file:aws-cur2", obtain, trigger="import")
        assert outcome.error is None
        return outcome.rows_loaded, outcome.rows_quarantined

    def billed(self, warehouse: Warehouse) -> Decimal:
        return Decimal(warehouse.scalar("SELECT sum(billed_cost) FROM mart.charge"))

    def test_t29_the_month_so_far_is_replaced_by_each_later_delivery(self, warehouse: Warehouse) -> None:
        self.load(warehouse, report(line(line_item_unblended_cost="1")))
        self.load(warehouse, report(line(line_item_unblended_cost="1"),
                                    line(identity_line_item_id="l2", line_item_unblended_cost="2")))  # fmt: skip
        assert self.billed(warehouse) == 3
        self.load(warehouse, report(line(line_item_unblended_cost="2.5", bill_invoice_id="991")))
        assert self.billed(warehouse) == Decimal("2.5")

    def test_a_line_told_twice_in_one_file_is_billed_once(self, warehouse: Warehouse) -> None:
        assert self.load(warehouse, report(line(), line())) == (1, 0)

    def test_a_line_told_twice_differently_is_quarantined(self, warehouse: Warehouse) -> None:
        assert self.load(warehouse, report(line(), line(line_item_unblended_cost="9"))) == (1, 1)


def test_the_synthetic_report() -> None:
    """Six lines: 1K and 1M tokens, cache reads, a credit, a tax, and units of nothing in particular."""
    found = parse(shared("data/aws_bedrock_cur/cur2_bedrock_SYNTHETIC.csv").read_bytes())
    assert (found.rows_in, found.rejects) == (6, ())
    charge = found.tables["core.charge"]
    assert charge["tokens"].to_list() == [1_234_567, 98_765, 5_500_000, None, None, None]
    assert charge["token_kind"].to_list() == ["prompt", "completion", "cache_read", None, None, "prompt"]
    assert charge["routing"].to_list() == ["regional", "regional", "global", None, None, "global"]
    assert charge["charge_category"].to_list() == ["Usage", "Usage", "Usage", "Credit", "Tax", "Usage"]
    by_category = charge.group_by("charge_category").agg(pl.col("billed_cost").sum())
    assert dict(by_category.iter_rows()) == {
        "Usage": Decimal("6.835376"), "Credit": Decimal("-1.25"), "Tax": Decimal("3.1"),
    }  # fmt: skip
