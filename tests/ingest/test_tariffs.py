"""Tariffs: the rule behind the bill, from daily costs and energies."""

from __future__ import annotations

import contextlib
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Payload
from ingest.billing.derive import restated
from ingest.billing.neuralwatt_usage import parse
from ingest.billing.tariffs import reconstruct
from ingest.kinds import kind
from ingest.pipeline import refresh
from tests.ingest.samples import payload, usage_export
from warehouse.engine import Warehouse


def usage(*exports: dict[str, Any]) -> pl.DataFrame:
    return pl.concat([parse(payload(e, "neuralwatt-usage")).tables["core.usage"] for e in exports])


def rules(*exports: dict[str, Any]) -> list[dict[str, Any]]:
    return reconstruct(usage(*exports)).frame.to_dicts()


def test_days_of_the_same_rate_are_one_rule_and_a_change_begins_another() -> None:
    first, second = rules(usage_export())
    assert (first["usd_per_kwh"], first["valid_from"], first["valid_to"]) == (
        Decimal(5), datetime(2026, 7, 13, 4), datetime(2026, 7, 15, 4),
    )  # fmt: skip
    assert (second["usd_per_kwh"], second["valid_from"], second["valid_to"]) == (
        Decimal(10), datetime(2026, 7, 16, 4), None,
    )  # fmt: skip
    assert [(r["n"], r["basis"], r["evidence_class"], r["flex_multiplier"]) for r in (first, second)] == [
        (2, "reconstructed", "allocated", None),
        (1, "reconstructed", "allocated", None),
    ]


def test_t15_flex_traffic_tells_its_multiplier_and_the_same_rate() -> None:
    (rule,) = rules(usage_export("m-flex", days={"2026-07-09": (0.870879403, 5.0)}, multiplier=0.65))
    assert rule["flex_multiplier"] == 0.65
    assert rule["usd_per_kwh"] == Decimal(5)


def test_exports_of_several_models_are_one_tariff() -> None:
    found = rules(usage_export(), usage_export("n-flex", days={"2026-07-13": (0.4, 5.0)}, multiplier=0.65))
    assert [(r["usd_per_kwh"], r["n"], r["flex_multiplier"]) for r in found] == [(5, 3, 0.65), (10, 1, 0.65)]


@pytest.mark.parametrize(("second", "n_rules"), [(5.02, 1), (5.03, 2)])
def test_half_a_percent_tells_two_rates_apart(second: float, n_rules: int) -> None:
    found = rules(usage_export(days={"2026-07-13": (0.1, 5.0), "2026-07-14": (0.1, second)}))
    assert len(found) == n_rules
    assert all(r["residual_relative"] <= 0.005 for r in found)


def test_a_day_billed_at_two_rates_fits_no_rule_and_is_noted() -> None:
    told = reconstruct(usage(usage_export(), usage_export("n", days={"2026-07-13": (0.1, 7.0)})))
    assert [r["valid_from"].day for r in told.frame.to_dicts()] == [14, 16]
    assert "several rates (5, 7 USD/kWh)" in told.notes[0]


def test_without_days_the_periods_speak() -> None:
    export = usage_export()
    export["daily"] = []
    (rule,) = rules(export)
    assert rule["usd_per_kwh"] == Decimal("5.714285714")  # 2.0 USD / 0.35 kWh
    assert rule["valid_from"] == datetime(2026, 7, 3, 4)


@pytest.mark.parametrize("field", ["cost", "energy_kwh"])
def test_rows_that_do_not_tell_bill_and_energy_are_not_guessed(field: str) -> None:
    export = usage_export(days={"2026-07-13": (0.1, 5.0)})
    for row in (export["by_model"][0], export["daily"][0]):
        row[field] = None
        row.pop("energy_joules")
    assert rules(export) == []


def test_no_usage_is_no_tariff() -> None:
    assert reconstruct(usage(usage_export()).clear()).frame.height == 0


@given(
    st.lists(st.sampled_from([3.25, 5.0, 7.5, 8.0, 10.0]), min_size=1, max_size=20),
    st.sampled_from([1.0, 0.65, 0.5]),
    st.floats(1e-6, 10),
)
def test_every_day_is_billed_by_exactly_one_rule(rates: list[float], multiplier: float, kwh: float) -> None:
    days = {f"2026-07-{3 + i:02d}": (kwh, rate) for i, rate in enumerate(rates)}
    found = rules(usage_export(days=days, multiplier=multiplier))
    assert sum(r["n"] for r in found) == len(rates)
    for i, rate in enumerate(rates):
        at = datetime(2026, 7, 3 + i, 12)
        in_force = [r for r in found if r["valid_from"] <= at and (r["valid_to"] is None or at < r["valid_to"])]
        assert len(in_force) == 1
        assert float(in_force[0]["usd_per_kwh"]) == pytest.approx(rate, rel=2e-5)
    changes = sum(a != b for a, b in pairwise(rates))
    assert len(found) == changes + 1


class TestInTheWarehouse:
    """Tariffs follow from all usage of a source, whatever the order of its files."""

    EXPORTS = (
        usage_export("a", days={"2026-07-14": (0.1, 5.0)}),
        usage_export("b-flex", days={"2026-07-09": (0.4, 5.0), "2026-07-14": (0.1, 5.0)}, multiplier=0.65),
        usage_export("c", days={"2026-07-16": (0.1, 10.0), "2026-07-31": (0.1, 10.0)}),
    )

    def load(self, warehouse: Warehouse, export: dict[str, Any]) -> None:
        def obtain() -> Payload:
            return payload(export, "neuralwatt-usage")

        outcome = refresh(warehouse, kind("neuralwatt-usage"), "file:usage", obtain, trigger="import")
        assert outcome.state == "OK", outcome.error

    def in_force(self, warehouse: Warehouse) -> dict[int, tuple[Decimal, float | None]]:
        tariff = warehouse.query("SELECT * FROM mart.tariff ORDER BY valid_from").to_dicts()
        found = {}
        for day in (9, 14, 16, 31):
            at = datetime(2026, 7, day, 12)
            row = [r for r in tariff if r["valid_from"] <= at][-1]
            assert row["superseded_at"] is None or row["superseded_at"] > at
            found[day] = (row["usd_per_kwh"], row["flex_multiplier"])
        return found

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
    def test_any_order_ends_in_the_same_rules(self, tmp_path: Path, order: tuple[int, ...]) -> None:
        with contextlib.closing(Warehouse.open(tmp_path / "w.duckdb")) as warehouse:
            for i in order:
                self.load(warehouse, self.EXPORTS[i])
            five, ten = (Decimal(5), 0.65), (Decimal(10), 0.65)
            assert self.in_force(warehouse) == {9: five, 14: five, 16: ten, 31: ten}

    def test_loading_the_same_files_again_changes_nothing(self, warehouse: Warehouse) -> None:
        for export in self.EXPORTS:
            self.load(warehouse, export)
        before = warehouse.query("SELECT * FROM core.tariff ORDER BY ALL")
        for export in self.EXPORTS:
            self.load(warehouse, export)
        assert warehouse.query("SELECT * FROM core.tariff ORDER BY ALL").equals(before)


def test_a_rule_that_began_earlier_restates_its_former_beginning() -> None:
    frame = reconstruct(usage(usage_export())).frame
    known = pl.DataFrame(
        {
            "provider": ["neuralwatt"] * 3,
            "account": ["default"] * 3,
            "valid_from": [datetime(2026, 7, 1), datetime(2026, 7, 14, 4), datetime(2026, 7, 16, 4)],
        }
    )
    told = restated(frame, known).to_dicts()
    assert [(r["valid_from"].day, r["usd_per_kwh"]) for r in told] == [(13, 5), (14, 5), (16, 10)]
