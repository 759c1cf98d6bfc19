"""FOCUS bills: what loads, what is refused, and how deliveries replace each other."""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.base import Parsed, Payload
from ingest.billing import focus
from ingest.billing.invoice_kinds import KINDS
from ingest.errors import IngestError, PayloadError
from ingest.pipeline import RunOutcome, refresh
from ingest.stream import Stream, refresh_stream
from tests.ingest.billing_samples import focus as bill
from tests.ingest.billing_samples import focus_line as line
from tests.ingest.samples import NOW, counts_add_up, rows
from tests.ingest.test_mutilation import mutilated
from tests.support import shared
from warehouse.engine import Warehouse

KIND = next(k for k in KINDS if k.name == "focus")


def parse(body: str | bytes, **options: str) -> Parsed:
    data = body.encode() if isinstance(body, str) else body
    found = focus.parse(Payload("src-focus", "focus", "https://example.test/x", NOW, data, options=options))
    assert counts_add_up(found)
    return found


def one(body: str | bytes, **options: str) -> dict[str, Any]:
    (row,) = rows(parse(body, **options))
    return row


class TestLines:
    def test_a_line_is_a_charge(self) -> None:
        row = one(bill())
        assert (row["provider"], row["account"], row["invoice_id"]) == ("Acme", "acct-1", "INV-1")
        assert (row["billed_cost"], row["effective_cost"], row["list_cost"]) == (
            Decimal("2.5"), Decimal("2.25"), Decimal(3),
        )  # fmt: skip
        assert (row["charge_period_start_at"], row["charge_period_end_at"]) == (
            datetime(2026, 4, 2, 10), datetime(2026, 4, 2, 11),
        )  # fmt: skip
        assert (row["charge_category"], row["charge_class"], row["tags"]) == ("Usage", None, '{"team": "a"}')

    @pytest.mark.parametrize(
        ("quantity", "unit", "tokens"),
        [
            ("1234.567", "1000 Tokens", 1_234_567),
            ("1234.567", "1K tokens", 1_234_567),
            ("0.098765", "1M tokens", 98_765),
            ("98765", "Token", 98_765),
            ("98765", "Tokens", 98_765),
            ("-2", "1M tokens", -2_000_000),  # a correction takes tokens back
            ("42", "Units", None),
            ("42", "Requests", None),
            ("", "Tokens", None),
            ("42", "NULL", None),
        ],
    )
    def test_tokens_are_told_by_the_unit_alone(self, quantity: str, unit: str, tokens: int | None) -> None:
        found = parse(bill(line(ConsumedQuantity=quantity, ConsumedUnit=unit)))
        assert (rows(found)[0]["tokens"], found.rejects) == (tokens, ())

    def test_a_fraction_of_a_token_is_unknown_and_said_to_be(self) -> None:
        found = parse(bill(line(ConsumedQuantity="0.0001", ConsumedUnit="1K tokens")))
        assert rows(found)[0]["tokens"] is None
        assert [(r.field, r.whole_row) for r in found.rejects] == [("ConsumedQuantity", False)]

    def test_a_purchase_of_tokens_is_a_currency_not_a_consumption(self) -> None:
        assert one(bill(line(ChargeCategory="Purchase", ConsumedUnit="Token")))["tokens"] is None

    def test_a_unit_that_is_the_pricing_currency_is_none_of_a_model(self) -> None:
        assert one(bill({**line(ConsumedUnit="Tokens"), "PricingCurrency": "Token"}))["tokens"] is None

    @pytest.mark.parametrize(
        ("unit", "joules"), [("kWh", 1_800_000.0), ("Wh", 1800.0), ("J", 0.5), ("MJ", 500_000.0), ("mJ", None)]
    )
    def test_energy_is_told_by_the_unit_and_is_a_share_of_somebody(self, unit: str, joules: float | None) -> None:
        row = one(bill(line(ConsumedQuantity="0.5", ConsumedUnit=unit)))
        assert row["energy_j"] == joules
        assert row["evidence_class"] == ("allocated" if joules is not None else None)

    def test_credits_tax_and_corrections_keep_their_names(self) -> None:
        found = parse(
            bill(
                line(ChargeCategory="Credit", BilledCost="-1.5"),
                line(ChargeCategory="Tax", BilledCost="0.3"),
                line(ChargeClass="Correction", BilledCost="-0.2"),
            )
        )
        assert [(r["charge_category"], r["charge_class"], r["billed_cost"]) for r in rows(found)] == [
            ("Credit", None, Decimal("-1.5")), ("Tax", None, Decimal("0.3")), ("Usage", "Correction", Decimal("-0.2")),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("text", "value"),
        [("2.5", "2.5"), ("2.50000000000000000", "2.5"), ("25e-1", "2.5"), ("1E-7", "0.0000001"), (" -3 ", "-3"),
         ("0.0000000000004", "0"), (".5", "0.5"), ("35.2E-7", "0.00000352"), ("999999999999", "999999999999")],
    )  # fmt: skip
    def test_amounts_are_exact_to_the_twelfth_digit(self, text: str, value: str) -> None:
        assert one(bill(line(BilledCost=text)))["billed_cost"] == Decimal(value)

    @settings(deadline=None)
    @given(st.decimals(-(10**11), 10**11, places=12))
    def test_any_amount_comes_back_as_it_was(self, amount: Decimal) -> None:
        assert one(bill(line(BilledCost=f"{amount:f}", EffectiveCost=f"{amount:e}")))["billed_cost"] == amount
        assert one(bill(line(EffectiveCost=f"{amount:e}")))["effective_cost"] == amount


class TestTimes:
    @pytest.mark.parametrize(
        "text",
        ["2026-04-02T10:00:00Z", "2026-04-02 10:00:00", "2026-04-02T10:00:00.000Z", "2026-04-02T12:00:00+02:00",
         "2026-04-02 10:00:00 UTC", "2026-04-02T10:00Z"],
    )  # fmt: skip
    def test_iso_times_are_read_in_any_dress(self, text: str) -> None:
        assert one(bill(line(ChargePeriodStart=text)))["charge_period_start_at"] == datetime(2026, 4, 2, 10)

    def test_a_time_without_a_zone_is_in_the_declared_one(self) -> None:
        row = one(bill(line(ChargePeriodStart="2026-04-02 10:00:00", ChargePeriodEnd="2026-04-02T23:00:00Z")),
                  timezone="America/New_York")  # fmt: skip
        assert row["charge_period_start_at"] == datetime(2026, 4, 2, 14)

    def test_an_hour_that_the_clocks_repeat_is_no_instant(self) -> None:
        found = parse(
            bill(line(ChargePeriodStart="2026-11-01 01:30:00", ChargePeriodEnd="2026-11-02T00:00:00Z")),
            timezone="America/New_York",
        )
        assert "skips or has twice" in found.rejects[0].reason

    def test_slash_dates_need_a_declared_order(self) -> None:
        body = bill(line(ChargePeriodStart="4/5/26", ChargePeriodEnd="6/7/26"))
        refused = parse(body)
        assert refused.rows_quarantined == 1
        assert "declare date_order" in refused.rejects[0].reason
        assert one(body, date_order="mdy")["charge_period_start_at"] == datetime(2026, 4, 5)
        assert one(body, date_order="dmy")["charge_period_start_at"] == datetime(2026, 5, 4)

    @pytest.mark.parametrize("text", ["yesterday", "0026-04-01", "2026-13-01T00:00:00Z", "4", "", "9999-12-31"])
    def test_what_is_no_time_costs_its_row(self, text: str) -> None:
        assert parse(bill(line(ChargePeriodEnd=text))).rows_quarantined == 1

    def test_a_period_that_ends_before_it_begins_costs_its_row(self) -> None:
        found = parse(bill(line(ChargePeriodEnd="2026-04-02T10:00:00Z"), line()))
        assert (len(rows(found)), found.rejects[0].reason) == (1, "the charge period ends before it begins")


class TestRefusals:
    @pytest.mark.parametrize(
        ("column", "value"),
        [("BilledCost", ""), ("BilledCost", "free"), ("BilledCost", "1e13"), ("BilledCost", "$10.00"),
         ("BilledCost", "1,000.00"), ("BilledCost", "NaN"), ("BilledCost", "inf"), ("BillingAccountId", "NULL"),
         ("BillingCurrency", "usd"), ("BillingCurrency", "$"), ("ChargeCategory", "Refund"), ("ChargeCategory", ""),
         ("ChargeClass", "Correcton"), ("ProviderName", "")],
    )  # fmt: skip
    def test_a_row_that_cannot_be_a_charge_goes_alone(self, column: str, value: str) -> None:
        found = parse(bill(line(), line(**{column: value}), line()))
        assert len(rows(found)) == 2
        assert [(r.row_no, r.field, r.whole_row) for r in found.rejects] == [(1, column, True)]

    @pytest.mark.parametrize(
        ("column", "value"),
        [("EffectiveCost", "x"), ("ListCost", "$3.00"), ("ConsumedQuantity", "1,234"),
         ("Tags", "team=a"), ("Tags", "[1]")],
    )  # fmt: skip
    def test_a_field_that_does_not_hold_is_null_and_its_row_loads(self, column: str, value: str) -> None:
        found = parse(bill(line(**{column: value})))
        assert len(rows(found)) == 1
        assert [(r.field, r.whole_row) for r in found.rejects] == [(column, False)]

    def test_a_cost_that_is_not_told_is_unknown_and_noted(self) -> None:
        found = parse(bill(line(EffectiveCost="NULL")))
        assert (rows(found)[0]["effective_cost"], found.rejects) == (None, ())
        assert found.notes == ("some lines have no EffectiveCost, which FOCUS demands: it is unknown there",)

    @pytest.mark.parametrize(
        ("text", "currency", "value"),
        [("$10,000.00 ", "USD", "10000"), ("-$1,234.5", "CAD", "-1234.5"), ("1,000", "EUR", "1000"),
         ("$10.00", "EUR", None), ("1,00", "EUR", None), ("10.000,00", "EUR", None), ("€10", "EUR", None)],
    )  # fmt: skip
    def test_us_numbers_are_read_only_where_declared(self, text: str, currency: str, value: str | None) -> None:
        body = bill(line(BilledCost=text, BillingCurrency=currency))
        assert parse(body).rows_quarantined == 1
        found = [r["billed_cost"] for r in rows(parse(body, number_format="us"))]
        assert found == ([Decimal(value)] if value else [])

    @pytest.mark.parametrize("column", focus.REQUIRED)
    def test_a_missing_mandatory_column_is_named(self, column: str) -> None:
        body = bill({k: v for k, v in line().items() if k != column})
        with pytest.raises(PayloadError, match=rf"FOCUS demands: {column}") as caught:
            parse(body)
        assert caught.value.field == column

    def test_the_one_column_that_the_specifications_samples_leave_out_is_noted(self) -> None:
        found = parse(bill({k: v for k, v in line().items() if k != "ServiceCategory"}))
        assert found.notes == ("the file has no column ServiceCategory, which FOCUS demands",)

    @pytest.mark.parametrize(
        ("body", "said"),
        [(b"", "empty"), (b"<html></html>", "markup"), (b"a;b\n1;2\n", "';'"), (b"[]", "JSON"),
         (bill().encode("utf-16"), "UTF-16"), (b"a,a\n1,2\n", "twice"),
         ((bill().splitlines()[0] + "\n").encode(), "no rows"),
         (gzip.compress(bill().encode(), mtime=0)[:-20], "cannot be read"), (b"PAR1 nonsense", "cannot be read")],
    )  # fmt: skip
    def test_what_is_no_table_is_refused_whole(self, body: bytes, said: str) -> None:
        with pytest.raises(PayloadError, match=said):
            parse(body)

    def test_a_cut_file_is_refused_whole_because_it_would_replace_a_whole_one(self) -> None:
        with pytest.raises(PayloadError, match="the file is cut"):
            parse(bill(line(), line())[:-60])

    def test_a_short_row_in_the_middle_goes_alone(self) -> None:
        head, first, second = bill(line(), line(SkuId="b")).splitlines()
        found = parse("\n".join([head, first, "1,2,3", second]))
        assert [r["sku_id"] for r in rows(found)] == ["sku-1", "b"]
        assert [(r.row_no, r.reason) for r in found.rejects] == [(1, f"the row has 3 fields, the header {len(line())}")]

    def test_bytes_that_are_no_utf8_cost_their_row(self) -> None:
        body = bill(line(), line(ChargeDescription="caf\u00e9")).encode("latin-1")
        assert parse(body).rows_quarantined == 1


class TestDress:
    """The same line in every dress is the same charge."""

    PLAIN = bill(line(ChargeDescription='two\nlines, "quoted"'))

    def parquet(self) -> bytes:
        frame = pl.read_csv(self.PLAIN.encode(), infer_schema=False).with_columns(
            pl.col("BilledCost").cast(pl.Decimal(18, 6)),
            pl.col("ListCost").cast(pl.Float64),
            pl.col("ChargePeriodStart").str.to_datetime(time_zone="UTC"),
            pl.col("BillingPeriodStart").str.to_datetime("%Y-%m-%dT%H:%M:%SZ"),
            pl.lit(None).cast(pl.String).alias("ChargeClass"),
        )
        out = io.BytesIO()
        frame.write_parquet(out)
        return out.getvalue()

    def test_bom_crlf_gzip_and_parquet(self) -> None:
        told = one(self.PLAIN)
        for body in (
            b"\xef\xbb\xbf" + self.PLAIN.encode(),
            gzip.compress(self.PLAIN.encode(), mtime=0),
            self.parquet(),
        ):
            row = one(body)
            assert {**row, "delivery_id": "", "line_key": ""} == {**told, "delivery_id": "", "line_key": ""}

    def test_parquet_text_that_is_no_utf8_is_refused_whole(self) -> None:
        out = io.BytesIO()
        pl.read_csv(bill().encode(), infer_schema=False).write_parquet(out, compression="uncompressed")
        with pytest.raises(PayloadError, match="cannot be read"):
            parse(out.getvalue().replace(b"Inference", b"Infer\xff\xfe\xff\xfe"))

    @settings(max_examples=200, deadline=None)
    @given(data=st.data())
    def test_damage_of_packed_files_never_escapes(self, data: st.DataObject) -> None:
        packed = data.draw(st.sampled_from([self.parquet(), gzip.compress(self.PLAIN.encode(), mtime=0)]))
        try:
            parse(data.draw(mutilated(packed)))
        except IngestError as error:
            told = error.message
        else:
            told = "parsed"
        assert told

    def test_columns_may_stand_in_any_order_and_further_ones_are_kept(self) -> None:
        row = one(bill({"x_GridZone": "FI", **dict(reversed(line().items())), "Id": "7"}))
        assert row["billed_cost"] == Decimal("2.5")
        assert "x_GridZone" in row["attributes"]


@contextlib.contextmanager
def fresh() -> Iterator[Warehouse]:
    """A warehouse for one example of a property."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Warehouse.open(Path(folder) / "w.duckdb")) as opened,
    ):
        yield opened


FEW = settings(max_examples=12, deadline=None)


def load(warehouse: Warehouse, body: str, *, at: datetime = NOW, **options: str) -> RunOutcome:
    def obtain() -> Payload:
        return Payload("file:focus", "focus", "file:///x", at, body.encode(), options=options)

    outcome = refresh(warehouse, KIND, "file:focus", obtain, trigger="import")
    assert outcome.state in ("OK", "PARTIAL"), outcome.error
    return outcome


def in_force(warehouse: Warehouse) -> list[tuple[str | None, Decimal]]:
    return warehouse.query("SELECT invoice_id, billed_cost FROM mart.charge ORDER BY ALL").rows()


MARCH = {"BillingPeriodStart": "2026-03-01T00:00:00Z", "BillingPeriodEnd": "2026-04-01T00:00:00Z"}
MAY = {"BillingPeriodStart": "2026-05-01T00:00:00Z", "BillingPeriodEnd": "2026-06-01T00:00:00Z"}


class TestRestatement:
    def test_t29_a_restated_invoice_replaces_and_does_not_double(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="10"), line(BilledCost="20")))
        load(warehouse, bill(line(BilledCost="10"), line(BilledCost="21")))
        assert in_force(warehouse) == [("INV-1", Decimal(10)), ("INV-1", Decimal(21))]

    def test_t29_a_correction_in_a_later_period_adds_there(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="10")))
        load(warehouse, bill(line(BilledCost="-1", ChargeClass="Correction", InvoiceId="INV-2", **MAY)))
        totals = warehouse.query(
            "SELECT billing_period_start_at, charge_class, billed_cost FROM mart.charge_total ORDER BY ALL"
        ).rows()
        assert totals == [
            (datetime(2026, 4, 1), None, Decimal(10)),
            (datetime(2026, 5, 1), "Correction", Decimal(-1)),
        ]

    def test_a_line_that_the_newer_delivery_lacks_is_no_longer_billed(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="10"), line(BilledCost="20")))
        load(warehouse, bill(line(BilledCost="10")))
        assert in_force(warehouse) == [("INV-1", Decimal(10))]

    def test_the_older_delivery_stays_readable_as_it_was_known(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="10"), line(BilledCost="20")))
        then = warehouse.scalar("SELECT max(known_from) FROM core.charge_delivery")
        load(warehouse, bill(line(BilledCost="10")))
        told = warehouse.query("SELECT billed_cost FROM mart.charge_at($at) ORDER BY ALL", {"at": then}).rows()
        assert told == [(Decimal(10),), (Decimal(20),)]

    def test_the_same_file_twice_changes_nothing(self, warehouse: Warehouse) -> None:
        body = bill(line(), line())  # two equal lines are two lines
        assert load(warehouse, body).rows_loaded == 2
        again = load(warehouse, body)
        assert (again.rows_loaded, again.rows_unchanged) == (0, 2)
        assert warehouse.scalar("SELECT count(*) FROM core.charge_delivery") == 1
        assert len(in_force(warehouse)) == 2

    def test_going_back_to_an_earlier_statement_is_a_restatement(self, warehouse: Warehouse) -> None:
        for cost in ("10", "20", "10"):
            load(warehouse, bill(line(BilledCost=cost)))
        assert in_force(warehouse) == [("INV-1", Decimal(10))]

    def test_an_older_file_that_is_found_later_does_not_replace(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="20")), at=datetime(2026, 5, 10))
        load(warehouse, bill(line(BilledCost="10")), at=datetime(2026, 5, 9))
        assert in_force(warehouse) == [("INV-1", Decimal(20))]

    def test_other_invoices_periods_and_accounts_stay(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(InvoiceId="A"), line(InvoiceId="B"), line(InvoiceId="C", **MARCH)))
        load(warehouse, bill(line(InvoiceId="A", BilledCost="7"), line(InvoiceId="A", BillingAccountId="acct-2")))
        found = [(i, float(c)) for i, c in in_force(warehouse)]
        assert found == [("A", 2.5), ("A", 7.0), ("B", 2.5), ("C", 2.5)]

    def test_lines_without_an_invoice_give_way_to_the_invoice(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(InvoiceId="", BilledCost="9")))
        load(warehouse, bill(line(InvoiceId="INV-1", BilledCost="10")))
        assert in_force(warehouse) == [("INV-1", Decimal(10))]

    def test_late_lines_without_an_invoice_stand_beside_it(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="10")))
        load(warehouse, bill(line(InvoiceId="", BilledCost="1")))
        assert in_force(warehouse) == [("INV-1", Decimal(10)), (None, Decimal(1))]

    def test_a_format_without_invoices_speaks_of_the_whole_period(self, warehouse: Warehouse) -> None:
        whole = bill({k: v for k, v in line(BilledCost="11").items() if k != "InvoiceId"})
        load(warehouse, bill(line(InvoiceId="A"), line(InvoiceId="B")))
        load(warehouse, whole)
        assert in_force(warehouse) == [(None, Decimal(11))]

    def test_the_parts_of_a_delivery_add_up_and_its_restatement_has_another_name(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(BilledCost="1")), delivery="november-1")
        load(warehouse, bill(line(BilledCost="2")), delivery="november-1")
        assert in_force(warehouse) == [("INV-1", Decimal(1)), ("INV-1", Decimal(2))]
        load(warehouse, bill(line(BilledCost="3")), delivery="november-2")
        assert in_force(warehouse) == [("INV-1", Decimal(3))]

    @FEW
    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from(["A", "B", "C"]), st.lists(st.integers(-5, 5), min_size=1, max_size=4), min_size=1
            ),
            min_size=1,
            max_size=4,
        )
    )
    def test_t29_in_force_is_always_the_newest_delivery_of_each_invoice(
        self, deliveries: list[dict[str, list[int]]]
    ) -> None:
        with fresh() as warehouse:
            expected: dict[str, list[int]] = {}
            for delivery in deliveries:
                load(warehouse, bill(*(line(InvoiceId=i, BilledCost=str(c)) for i, cs in delivery.items() for c in cs)))
                expected |= delivery
            found = [(i, int(c)) for i, c in in_force(warehouse)]
            assert found == sorted((i, c) for i, cs in expected.items() for c in cs)


class TestDays:
    """T27: the days of any zone add up to the range."""

    def test_t27_an_instant_is_in_the_day_of_the_zone(self, warehouse: Warehouse) -> None:
        load(warehouse, bill(line(ChargePeriodStart="2026-11-01T03:30:00Z", ChargePeriodEnd="2026-11-01T04:30:00Z")))
        (day,) = warehouse.query("SELECT day FROM mart.charge_by_day('America/New_York')")["day"]
        assert f"{day}" == "2026-10-31"

    @FEW
    @given(
        st.lists(st.datetimes(datetime(2026, 10, 25), datetime(2026, 11, 8)), min_size=1, max_size=12),
        st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Europe/Berlin"]),
    )
    def test_t27_days_add_up_to_the_range_in_any_zone(self, starts: list[datetime], zone: str) -> None:
        lines = [
            line(ChargePeriodStart=f"{s:%Y-%m-%dT%H:%M:%SZ}", ChargePeriodEnd="2026-12-01T00:00:00Z", BilledCost="0.1")
            for s in starts
        ]
        with fresh() as warehouse:
            load(warehouse, bill(*lines))
            days = warehouse.query("SELECT sum(billed_cost) FROM mart.charge_by_day($zone)", {"zone": zone}).item()
            assert days == Decimal("0.1") * len(starts)


class TestStream:
    def load(self, warehouse: Warehouse, path: Path) -> RunOutcome:
        return refresh_stream(warehouse, KIND, Stream("file:focus", "focus", path, NOW, {}), trigger="import")

    @pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
    def test_a_file_streams_to_the_same_charges(self, warehouse: Warehouse, tmp_path: Path, suffix: str) -> None:
        body = bill(*(line(BilledCost=f"{n}.25") for n in range(300)))
        data = body.encode()
        if suffix == ".parquet":
            out = io.BytesIO()
            pl.read_csv(data, infer_schema=False).write_parquet(out)
            data = out.getvalue()
        path = tmp_path / f"bill{suffix}"
        path.write_bytes(gzip.compress(data, mtime=0) if suffix.endswith("gz") else data)
        outcome = self.load(warehouse, path)
        assert (outcome.state, outcome.rows_in, outcome.rows_loaded) == ("OK", 300, 300), outcome.error
        assert warehouse.scalar("SELECT sum(billed_cost) FROM mart.charge") == Decimal(300 * 299 // 2 + 75)
        again = self.load(warehouse, path)
        assert (again.rows_loaded, again.rows_unchanged) == (0, 300)

    def test_chunks_add_up_and_rejects_keep_their_row_numbers(
        self, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ingest.billing.sheets.BLOCK_BYTES", 20_000)
        lines = [line(BilledCost="x" if n in (7, 900) else "1") for n in range(1000)]
        text = bill(*lines).splitlines()
        text.insert(501, "short,row")
        path = tmp_path / "bill.csv"
        path.write_text("\n".join(text) + "\n")
        outcome = self.load(warehouse, path)
        assert (outcome.rows_in, outcome.rows_loaded, outcome.rows_quarantined) == (1001, 998, 3)
        found = warehouse.query("SELECT row_no FROM ops.quarantine ORDER BY row_no")["row_no"].to_list()
        assert found == [7, 500, 901]

    def test_a_cut_file_leaves_the_last_delivery_in_force(self, warehouse: Warehouse, tmp_path: Path) -> None:
        path = tmp_path / "bill.csv"
        path.write_text(bill(line(BilledCost="1"), line(BilledCost="2")))
        self.load(warehouse, path)
        path.write_text(bill(line(BilledCost="1"), line(BilledCost="3"))[:-60])
        outcome = self.load(warehouse, path)
        assert (outcome.state, outcome.error_class) == ("FAILED", "PayloadError")
        assert in_force(warehouse) == [("INV-1", Decimal(1)), ("INV-1", Decimal(2))]


class TestRealFiles:
    def read(self, name: str, **options: str) -> Parsed:
        return parse(shared(f"data/{name}").read_bytes(), **options)

    def test_the_sample_of_focus_1_0(self) -> None:
        """73 rows of three clouds; text NULL, times without Z, a column that the specification does not have."""
        found = self.read("focus_billing/focus_1_0_sample.csv")
        assert (found.rows_in, found.rejects) == (73, ())
        charge = found.tables["core.charge"]
        assert sorted(charge["provider"].unique()) == ["AWS", "Microsoft", "Oracle"]
        assert set(charge["currency"]) == {"USD"}
        assert charge["charge_class"].null_count() == 73
        assert found.tables["core.charge_delivery"]["scope"].unique().to_list() == ["period"]

    @pytest.mark.parametrize(
        ("name", "cost", "options"),
        [("simple_saas_agreements_a1", "10000", {"date_order": "mdy", "number_format": "us"}),
         ("virtual_currency_pricing_model_a1", "200000", {"date_order": "mdy"}),
         ("virtual_currency_pricing_model_b1", "100000", {"date_order": "mdy"})],
    )  # fmt: skip
    def test_the_specifications_own_samples_need_declarations(
        self, name: str, cost: str, options: dict[str, str]
    ) -> None:
        undeclared = self.read(f"focus/{name}.csv")
        assert (undeclared.rows_in, undeclared.rows_quarantined) == (1, 1)
        (row,) = rows(self.read(f"focus/{name}.csv", **options))
        assert row["billed_cost"] == Decimal(cost)
        assert (row["billing_period_start_at"], row["billing_period_end_at"]) == (
            datetime(2025, 4, 1), datetime(2025, 5, 1),
        )  # fmt: skip
        assert row["tokens"] is None
