"""What an account has left, and the provider's own totals."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing import quota, usage_energy
from ingest.billing.request_tariffs import flex_multiplier_of_totals
from ingest.errors import PayloadError
from tests.ingest.billing_samples import quota as answer
from tests.ingest.billing_samples import usage_energy as energy_report
from tests.ingest.samples import counts_add_up, payload, rows
from tests.support import shared
from warehouse.accounts import account_usable, balance
from warehouse.engine import Warehouse
from warehouse.loads import load


def parsed(document: Any) -> Parsed:
    found = quota.parse(payload(document, "neuralwatt-quota"))
    assert counts_add_up(found)
    return found


def row(document: Any) -> dict[str, Any]:
    (found,) = rows(parsed(document))
    return found


def totals(document: Any, **options: str) -> Parsed:
    found = usage_energy.parse(payload(document, "neuralwatt-usage-energy", options=options))
    assert counts_add_up(found)
    return found


class TestQuota:
    def test_kwh_become_joules_exactly(self) -> None:
        found = row(answer())
        assert (found["energy_included_j"], found["energy_used_j"], found["energy_remaining_j"]) == (
            22_500_000.0, 14_029_200.0, 8_470_800.0,
        )  # fmt: skip
        assert (found["credits_remaining_usd"], found["in_overage"], found["key_limit_usd"]) == (0, False, None)

    def test_no_subscription_is_none_not_one_of_zero(self) -> None:
        found = row(answer(subscription=None))
        assert [found[n] for n in ("energy_remaining_j", "in_overage", "plan")] == [None, None, None]

    def test_the_account_is_declared(self) -> None:
        found = quota.parse(payload(answer(), "neuralwatt-quota", options={"account": "team-a"}))
        assert rows(found)[0]["account"] == "team-a"

    def test_an_answer_without_an_instant_is_none(self) -> None:
        found = parsed(answer(snapshot_at=None))
        assert (found.rows_quarantined, found.rejects[0].field) == (1, "snapshot_at")

    @pytest.mark.parametrize("document", [{"totals": {}}, {"error": {"message": "no key"}}, [], {"balance": 5}])
    def test_another_answer_is_refused_whole(self, document: Any) -> None:
        with pytest.raises(PayloadError):
            parsed(document)

    def test_the_fixture(self) -> None:
        found = row(shared("data/fixtures/neuralwatt_quota.json").read_bytes())
        assert (found["credits_remaining_usd"], found["energy_remaining_j"]) == (Decimal("64.55"), 8_262_360.0)
        assert account_usable(found).usable is True


class TestUsable:
    def test_t23_no_dollar_but_energy_left_is_usable(self) -> None:
        # plexus#898: $0 and 2.353 kWh were taken for an empty account
        told = account_usable(row(answer()))
        assert (told.usable, told.reason) == (True, "2.353 kWh of included energy left")

    @pytest.mark.parametrize(
        ("changes", "usable", "why"),
        [
            ({"energy_remaining_j": 0.0}, False, "$0.00 of credits and no included energy left"),
            ({"energy_remaining_j": None}, False, "$0.00 of credits and no included energy left"),
            ({"energy_remaining_j": 0.0, "credits_remaining_usd": Decimal("0.01")}, True, "$0.01 of credits left"),
            ({"credits_remaining_usd": None}, True, "2.353 kWh of included energy left"),
            ({"credits_remaining_usd": None, "energy_remaining_j": None}, None, "tells neither"),
            ({"subscription_status": "canceled"}, False, "the subscription is canceled"),
            ({"key_blocked": True, "credits_remaining_usd": Decimal(50)}, False, "the API key is blocked"),
            ({"key_remaining_usd": Decimal(0), "credits_remaining_usd": Decimal(50)}, False, "allowance"),
            ({"energy_remaining_j": 0.0, "in_overage": True, "overage_limit_usd": Decimal(5)}, None, "overage"),
            ({"energy_remaining_j": 0.0, "in_overage": True}, False, "no included energy"),
        ],
    )
    def test_every_reason_is_told(self, changes: dict[str, Any], usable: bool | None, why: str) -> None:
        told = account_usable({**row(answer()), **changes})
        assert told.usable is usable
        assert why in told.reason

    def test_energy_of_a_period_that_has_ended_says_nothing(self) -> None:
        assert account_usable(row(answer()), datetime(2026, 5, 31)).usable is True
        told = account_usable(row(answer()), datetime(2026, 6, 2))
        assert (told.usable, "ended at 2026-06-01 04:15 UTC" in told.reason) == (None, True)

    @given(st.decimals(0, 100, places=2), st.floats(0, 1e7), st.booleans())
    def test_t23_whatever_is_left_of_either_is_enough(self, usd: Decimal, joules: float, active: bool) -> None:
        told = account_usable(
            {
                "credits_remaining_usd": usd,
                "energy_remaining_j": joules,
                "subscription_status": "active" if active else "canceled",
            }
        )
        assert told.usable is (usd > 0 or (joules > 0 and active))

    def test_the_newest_balance_as_known_then(self, warehouse: Warehouse) -> None:
        for day, usd in ((13, 5.0), (14, 0.5)):
            document = answer(snapshot_at=f"2026-05-{day}T00:00:00Z")
            document["balance"]["credits_remaining_usd"] = usd
            with warehouse.transaction() as tx:
                load(tx, "core.account_balance", parsed(document).tables["core.account_balance"], source_id="q",
                     run_id="r", known_from=datetime(2026, 5, day))  # fmt: skip
        newest = balance(warehouse, "neuralwatt", "default")
        assert newest is not None
        assert newest["credits_remaining_usd"] == Decimal("0.5")
        then = balance(warehouse, "neuralwatt", "default", datetime(2026, 5, 13, 12))
        assert then is not None
        assert then["credits_remaining_usd"] == 5
        assert balance(warehouse, "neuralwatt", "other") is None


class TestUsageTotals:
    def test_the_energy_report(self) -> None:
        whole, newest, oldest = rows(totals(energy_report()))
        assert (whole["grain"], whole["energy_j"], whole["requests_with_energy"]) == ("period", 10_800.0, 10)
        assert (whole["period_start_at"], whole["period_end_at"]) == (datetime(2026, 5, 1), datetime(2026, 5, 3))
        assert [(d["grain"], d["energy_j"]) for d in (newest, oldest)] == [("day", 3600.0), ("day", 7200.0)]
        assert oldest["period_end_at"] == newest["period_start_at"] == datetime(2026, 5, 2)
        assert {d["evidence_class"] for d in (whole, newest, oldest)} == {"allocated"}

    @pytest.mark.parametrize("nested", [True, False])
    def test_both_variants_of_the_summary(self, nested: bool) -> None:
        figures = {"energy_kwh_consumed": 0.002, "energy_kwh_charged": 0.0013, "total_cost_usd": 0.0104}
        period = {"start": "2026-05-01T00:00:00Z", "end": "2026-05-02T00:00:00Z"}
        document = {"accounting_method": "energy", **({"totals": figures, "period": period} if nested else figures)}
        options = {} if nested else {"period_start": period["start"], "period_end": period["end"]}
        (found,) = rows(totals(document, **options))
        assert (found["energy_j"], found["energy_charged_j"], found["billed_cost_usd"]) == (
            7200.0, 4680.0, Decimal("0.0104"),
        )  # fmt: skip
        assert (found["accounting_method"], found["period_end_at"]) == ("energy", datetime(2026, 5, 2))

    def test_an_answer_without_a_period_says_nothing_until_it_is_declared(self) -> None:
        with pytest.raises(PayloadError, match="no start of its period"):
            totals({"energy_kwh_consumed": 0.001, "energy_kwh_charged": 0.001, "total_cost_usd": 0.0001})

    def test_the_series_of_a_summary_are_its_days(self) -> None:
        document = {
            "period": {"start": "2026-05-01T16:55:33.347633+00:00", "end": "2026-05-03T16:55:33.347633+00:00"},
            "totals": {"requests": 3, "total_cost_usd": 2.5, "energy_kwh_consumed": 0.1},
            "time_series": [{"date": "2026-05-02", "requests": 3, "cost_usd": 2.5, "total_tokens": 70}],
        }
        whole, day = rows(totals(document))
        assert (day["grain"], day["billed_cost_usd"], day["total_tokens"]) == ("day", Decimal("2.5"), 70)
        assert whole["period_end_at"] == datetime(2026, 5, 3, 16, 55, 33, 347633)

    @pytest.mark.parametrize(("name", "model"), [("products", "requested_model"), ("models", "model")])
    def test_both_variants_by_model(self, name: str, model: str) -> None:
        listed = [{model: "m-flex", "energy_kwh": 0.5, "requests": 2}, {model: "m", "energy_kwh": 1}, {"energy_kwh": 1}]
        found = totals({"period": {"start": "2026-05-01", "end": "2026-05-01"}, name: listed})
        assert [(r["offer_id"], r["energy_j"]) for r in rows(found)] == [("m-flex", 1.8e6), ("m", 3.6e6)]
        assert found.rows_quarantined == 1

    def test_dates_are_days_of_the_declared_zone(self) -> None:
        found = rows(totals(energy_report(), timezone="America/New_York"))
        assert found[0]["period_start_at"] == datetime(2026, 5, 1, 4)

    def test_a_day_told_twice_is_counted_once(self) -> None:
        document = energy_report()
        document["daily"].append(dict(document["daily"][0]))
        assert totals(document).rows_quarantined == 1

    def test_a_contradiction_of_joules_and_kwh_is_unknown(self) -> None:
        document = energy_report()
        document["totals"]["energy_joules"] = 99
        found = totals(document)
        assert rows(found)[0]["energy_j"] is None
        assert [(r.field, r.whole_row) for r in found.rejects] == [("energy_kwh", False)]

    @pytest.mark.parametrize("document", [[], {}, {"balance": {}}, {"error": "no key"}, {"period": {}, "products": []}])
    def test_other_answers_are_refused_whole(self, document: Any) -> None:
        with pytest.raises(PayloadError):
            totals(document)

    def test_the_fixture(self) -> None:
        found = totals(shared("data/fixtures/neuralwatt_usage_energy.json").read_bytes())
        assert (found.rows_in, found.rejects) == (2, ())
        whole, day = rows(found)
        assert (whole["energy_j"], whole["requests_with_energy"]) == (1_400_400.0, 1950)
        assert day["energy_j"] == pytest.approx(12_466.8)

    def test_t15_the_multiplier_from_totals_alone(self) -> None:
        # charged = standard + M x flex: 9.3 = 8 + M x 2
        assert flex_multiplier_of_totals(Decimal(10), Decimal("9.3"), Decimal(2)) == Decimal("0.65")
        assert flex_multiplier_of_totals(Decimal(10), Decimal(10), Decimal(0)) is None
