"""Usage exports: declared UTC, half-open periods, one grain at a time, joules consumed apart from charged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing.neuralwatt_usage import parse
from ingest.errors import PayloadError
from tests.ingest.samples import counts_add_up, payload, rows, usage_export


def parsed(document: Any) -> Parsed:
    result = parse(payload(document, "neuralwatt-usage"))
    assert counts_add_up(result)
    return result


def grain(result: Parsed, name: str) -> list[dict[str, Any]]:
    return [r for r in rows(result) if r["grain"] == name]


def test_the_period_is_utc_by_declaration_and_half_open() -> None:
    (row,) = grain(parsed(usage_export()), "period")
    assert (row["period_start_at"], row["period_end_at"]) == (datetime(2026, 7, 3, 4), datetime(2026, 8, 3, 4))


def test_a_period_with_an_offset_is_the_same_instant() -> None:
    period = {"start": "2026-07-03T00:00:00-04:00", "end": "2026-08-03T04:00:00Z"}
    (row,) = grain(parsed(usage_export(period=period)), "period")
    assert (row["period_start_at"], row["period_end_at"]) == (datetime(2026, 7, 3, 4), datetime(2026, 8, 3, 4))


def test_t15_joules_are_consumed_energy_and_the_bill_charges_less() -> None:
    # real export of glm-5.2-short-flex: 0.870879403 kWh consumed, 0.56607161195 charged
    export = usage_export("glm-5.2-short-flex", days={"2026-07-09": (0.870879403, 5.0)}, multiplier=0.65)
    (row,) = grain(parsed(export), "period")
    assert row["energy_j"] == pytest.approx(0.870879403 * 3.6e6, rel=1e-12)
    assert row["energy_charged_j"] == pytest.approx(0.56607161195 * 3.6e6, rel=1e-12)
    assert row["energy_charged_j"] / row["energy_j"] == pytest.approx(0.65, rel=1e-12)
    assert row["service_tier"] == "flex"


def test_a_row_tells_bill_and_list_price_apart() -> None:
    (row,) = grain(parsed(usage_export()), "period")
    assert row["billed_cost_usd"] == Decimal("2.0")  # 0.3 kWh at 5 and 0.05 kWh at 10 USD
    assert row["list_cost_usd"] == Decimal("3.75")
    assert (row["provider"], row["account"], row["requested_offer"], row["served_offer"]) == (
        "neuralwatt", "default", "m", "m",
    )  # fmt: skip
    assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (900, 30, 15)
    assert (row["requests"], row["attempts"], row["successes"], row["requests_with_energy"]) == (30, 30, None, 30)
    assert (row["evidence_class"], row["workload"]) == ("allocated", "organic")


def test_the_intensity_is_weighted_by_energy_and_never_the_reported_mean() -> None:
    # the export of these samples reports 999; energy.md section 7 has the real pairs (161.32 against 163.06)
    for row in rows(parsed(usage_export())):
        assert row["intensity_g_per_kwh"] == pytest.approx(41.0)


def test_grams_are_modeled_because_an_export_does_not_tell_where_its_intensities_come_from() -> None:
    assert {r["carbon_evidence_class"] for r in rows(parsed(usage_export()))} == {"modeled"}
    export = usage_export()
    export["by_model"][0]["carbon_g"] = None
    (row,) = grain(parsed(export), "period")
    assert (row["carbon_g"], row["carbon_evidence_class"]) == (None, None)


def test_days_lie_at_the_midnight_of_the_period() -> None:
    days = grain(parsed(usage_export()), "day")
    assert [r["period_start_at"] for r in days] == [datetime(2026, 7, d, 4) for d in (13, 14, 16)]
    assert all(r["period_end_at"] - r["period_start_at"] == timedelta(days=1) for r in days)
    assert [r["energy_charged_j"] for r in days] == [None, None, None]  # the format does not tell it per day


@pytest.mark.parametrize(
    ("start", "first_date"),
    [
        ("2026-07-03T04:00:00", "2026-07-03"),  # New York
        ("2026-07-03T07:00:00", "2026-07-03"),  # Los Angeles
        ("2026-07-03T10:00:00", "2026-07-03"),  # Honolulu
        ("2026-07-03T00:00:00", "2026-07-03"),  # UTC
        ("2026-07-02T22:00:00", "2026-07-03"),  # Berlin
        ("2026-07-02T18:30:00", "2026-07-03"),  # Delhi
        ("2026-07-02T12:00:00", "2026-07-03"),  # Auckland
        ("2026-01-02T11:00:00", "2026-01-03"),  # Auckland in summer
    ],
)
def test_the_first_date_begins_with_the_period_in_any_zone(start: str, first_date: str) -> None:
    end = (datetime.fromisoformat(start) + timedelta(days=30)).isoformat()
    export = usage_export(days={first_date: (0.1, 5.0)}, period={"start": start, "end": end})
    (day,) = grain(parsed(export), "day")
    assert day["period_start_at"] == datetime.fromisoformat(start)


class TestClockChange:
    """2026-11-01: New York goes from -4 to -5 hours."""

    EXPORT = usage_export(
        days=dict.fromkeys(("2026-10-31", "2026-11-01", "2026-11-02"), (0.1, 5.0)),
        period={"start": "2026-10-31T04:00:00", "end": "2026-11-03T04:59:59.999999"},
    )

    def test_days_that_cannot_be_placed_are_refused_and_the_period_loads(self) -> None:
        result = parsed(self.EXPORT)
        assert len(grain(result, "period")) == 1
        assert grain(result, "day") == []
        assert result.rows_quarantined == 3
        assert "clocks changed" in result.rejects[0].reason

    def test_t27_with_a_declared_zone_each_instant_is_in_one_day(self) -> None:
        # litellm#29568: 2026-11-01T03:30Z is 31 October in New York
        days = grain(parsed({**self.EXPORT, "joulebook": {"timezone": "America/New_York"}}), "day")
        spans = [(r["period_start_at"], r["period_end_at"]) for r in days]
        assert spans == [
            (datetime(2026, 10, 31, 4), datetime(2026, 11, 1, 4)),
            (datetime(2026, 11, 1, 4), datetime(2026, 11, 2, 5)),  # 25 hours
            (datetime(2026, 11, 2, 5), datetime(2026, 11, 3, 5)),
        ]
        assert spans[0][0] <= datetime(2026, 11, 1, 3, 30) < spans[0][1]

    @given(st.sampled_from(["America/New_York", "Europe/Paris", "Asia/Kolkata", "Pacific/Auckland", "America/Havana"]),
           st.dates(datetime(2024, 1, 1).date(), datetime(2026, 12, 1).date()), st.integers(1, 20))  # fmt: skip
    def test_t27_days_add_up_to_the_period_in_any_zone(self, zone: str, first: Any, n: int) -> None:
        def midnight(day: Any) -> str:
            local = datetime.combine(day, datetime.min.time(), ZoneInfo(zone))
            return local.astimezone(UTC).replace(tzinfo=None).isoformat()

        dates = [first + timedelta(days=i) for i in range(n)]
        export = usage_export(
            days={d.isoformat(): (0.001 * (i + 1), 5.0) for i, d in enumerate(dates)},
            period={"start": midnight(first), "end": midnight(first + timedelta(days=n))},
        )
        result = parsed({**export, "joulebook": {"timezone": zone}})
        (whole,), days = grain(result, "period"), grain(result, "day")
        assert len(days) == n
        assert sum(r["billed_cost_usd"] for r in days) == whole["billed_cost_usd"]
        assert [r["period_end_at"] for r in days[:-1]] == [r["period_start_at"] for r in days[1:]]
        assert (days[0]["period_start_at"], days[-1]["period_end_at"]) == (
            whole["period_start_at"], whole["period_end_at"],
        )  # fmt: skip


def test_the_two_grains_tell_the_same_joules_under_different_names() -> None:
    result = parsed(usage_export())
    whole, days = grain(result, "period"), grain(result, "day")
    assert sum(r["energy_j"] for r in days) == pytest.approx(whole[0]["energy_j"])
    assert len({r["usage_key"] for r in rows(result)}) == 4
    assert result.notes == ()


def test_days_of_several_models_belong_to_none_and_are_left_out() -> None:
    export = usage_export()
    other = {**export["by_model"][0], "model": "other"}
    result = parsed({**export, "by_model": [*export["by_model"], other]})
    assert [r["grain"] for r in rows(result)] == ["period", "period"]
    assert [r["requests_with_energy"] for r in rows(result)] == [None, None]
    assert "left out" in result.notes[0]


def test_days_that_do_not_add_up_are_noted() -> None:
    export = usage_export()
    export["by_model"][0]["cost"] *= 2
    assert "billed_cost_usd of the days" in parsed(export).notes[0]


def test_the_account_can_be_declared() -> None:
    result = parsed(usage_export(joulebook={"account": "team-a"}))
    assert {r["account"] for r in rows(result)} == {"team-a"}


def test_the_key_of_a_day_does_not_depend_on_the_period_it_was_exported_in() -> None:
    long = grain(parsed(usage_export()), "day")
    short = grain(
        parsed(usage_export(period={"start": "2026-07-10T04:00:00", "end": "2026-07-20T03:59:59.999999"})), "day"
    )
    assert [r["usage_key"] for r in long] == [r["usage_key"] for r in short]


@pytest.mark.parametrize(
    ("field", "value", "column"),
    [
        ("energy_kwh", -1, "energy_j"),
        ("energy_kwh", "0.1", "energy_j"),
        ("energy_joules", 5, "energy_j"),
        ("carbon_g", 1e9, "carbon_g"),
        ("cost", -3, "billed_cost_usd"),
        ("cost", 1e300, "billed_cost_usd"),
        ("token_cost", True, "list_cost_usd"),
    ],
)
def test_an_implausible_figure_is_null_and_its_row_loads(field: str, value: Any, column: str) -> None:
    export = usage_export()
    export["daily"][0][field] = value
    result = parsed(export)
    assert grain(result, "day")[0][column] is None
    assert [r.whole_row for r in result.rejects] == [False]


@pytest.mark.parametrize("date", [None, "July", 5, "2026-13-01", "2025-07-13", "2026-09-01"])
def test_a_day_without_a_place_in_the_period_goes_alone(date: Any) -> None:
    export = usage_export()
    export["daily"][0]["date"] = date
    result = parsed(export)
    assert len(grain(result, "day")) == 2
    assert [(r.field, r.whole_row) for r in result.rejects] == [("date", True)]


def test_a_day_told_twice_is_counted_once() -> None:
    export = usage_export()
    export["daily"].append(dict(export["daily"][0]))
    result = parsed(export)
    assert len(grain(result, "day")) == 3
    assert result.rows_quarantined == 1


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"balance": {}, "usage": {}, "subscription": None}, "/v1/quota"),
        ({"period": {}, "totals": {}, "daily": []}, "/v1/usage/energy"),
        ({"by_model": [], "period": {"start": "yesterday", "end": "2026-08-03"}}, "period.start"),
        (
            {"by_model": [], "period": {"start": "2026-08-03T00:00:00", "end": "2026-07-03T00:00:00"}},
            "before it begins",
        ),
        ({"by_model": {}}, "not a list"),
        ({"by_model": []}, "no 'period'"),
        (usage_export(joulebook={"timezone": "Mars/Olympus"}), "time zone"),
        (usage_export(joulebook={"account": 7}), "account"),
    ],
)
def test_another_document_is_refused_by_name(document: Any, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        parsed(document)


def test_data_at_is_the_end_of_the_newest_day_with_usage() -> None:
    assert parsed(usage_export()).data_at == datetime(2026, 7, 17, 4)


def test_a_row_without_requests_goes_alone() -> None:
    export = usage_export()
    export["by_model"].append({"model": "x"})
    result = parsed(export)
    assert [r["requested_offer"] for r in rows(result)] == ["m"]
    assert result.rows_quarantined == 1
