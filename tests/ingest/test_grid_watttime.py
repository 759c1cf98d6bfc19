"""WattTime: pounds per megawatt hour become grams per kilowatt hour, marginal stays marginal, regions stay theirs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.watttime import parse
from tests.ingest.grid_samples import watttime
from tests.ingest.samples import counts_add_up, payload, rows


def parsed(body: Any, **options: str) -> Parsed:
    result = parse(payload(body, "watttime", options={"region": "PJM_DC", **options}))
    assert counts_add_up(result)
    return result


def test_1000_pounds_per_megawatt_hour_are_453_59237_grams_per_kilowatt_hour() -> None:
    first, second = rows(parsed(watttime()))
    assert first["intensity_g_per_kwh"] == 453.59237  # energy.md section 7, exactly
    assert second["intensity_g_per_kwh"] == 0.0
    assert (first["zone"], first["signal"], first["basis"]) == ("PJM_DC", "marginal", "direct")
    assert (first["start_at"], first["end_at"]) == (datetime(2026, 5, 15, 11, 50), datetime(2026, 5, 15, 11, 55))
    assert (first["version"], first["is_estimated"], first["evidence_class"]) == ("2026-03-01", True, "modeled")
    assert not first["is_forecast"]


def test_the_average_rate_is_another_signal() -> None:
    (row, _) = rows(parsed(watttime(signal_type="co2_aoer"), signal="co2_aoer"))
    assert row["signal"] == "average"


def test_a_forecast_keeps_when_it_was_made() -> None:
    told = watttime(("2026-05-15T12:00:00+00:00", 900), ("2026-05-16T12:00:00+00:00", 800))
    now, ahead = rows(parsed(told, series="forecast"))
    assert now["is_forecast"] and ahead["is_forecast"]
    assert ahead["start_at"] - ahead["forecast_made_at"] == datetime(2026, 5, 16, 12) - datetime(2026, 5, 15, 12)
    with pytest.raises(PayloadError, match="horizon is unknown"):
        parsed(watttime(generated_at=...), series="forecast")


def test_a_forecast_that_is_declared_as_history_is_found_out() -> None:
    with pytest.raises(PayloadError, match="this is a forecast"):
        parsed(watttime(("2026-05-15T13:00:00+00:00", 900)))


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({"region": "CAISO_NORTH"}, "meta.region"),
        ({"signal_type": "co2_aoer"}, "meta.signal_type"),
        ({"signal_type": "health_damage", "units": "usd_per_mwh"}, "meta.signal_type"),
        ({"units": "kg_co2_per_mwh"}, "meta.units"),
        ({"units": None}, "meta.units"),
        ({"data_point_period_seconds": 0}, "meta.data_point_period_seconds"),
        ({"data_point_period_seconds": True}, "meta.data_point_period_seconds"),
        ({"generated_at": "2026-05-15T12:00:00"}, "meta.generated_at"),
    ],
)
def test_what_is_not_what_was_asked_for_is_refused_whole(meta: dict[str, Any], field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        parsed(watttime(**meta))
    assert caught.value.field == field


def test_past_forecasts_are_refused_because_one_interval_has_several() -> None:
    body = {**watttime(), "data": [{"generated_at": "2026-05-15T10:00Z", "forecast": []}]}
    with pytest.raises(PayloadError, match="past forecasts"):
        parsed(body)


@pytest.mark.parametrize("value", [-1, -300.5, 1e6, "1000", True, []])
def test_a_rate_that_is_negative_or_implausible_goes_alone(value: Any) -> None:
    result = parsed(watttime(("2026-05-15T11:50:00+00:00", 1000.0), ("2026-05-15T11:55:00+00:00", value)))
    assert [r["intensity_g_per_kwh"] for r in rows(result)] == [453.59237]
    assert [(r.row_no, r.field, r.whole_row) for r in result.rejects] == [(1, "value", True)]


def test_a_naive_time_goes_alone_and_a_null_is_no_rate() -> None:
    result = parsed(watttime(("2026-05-15T11:50:00", 1000.0), ("2026-05-15T11:55:00+00:00", None)))
    assert (rows(result), [r.field for r in result.rejects]) == ([], ["point_time"])
    assert "not 0" in result.notes[0]


def test_imputed_input_is_said() -> None:
    body = watttime(("2026-05-15T11:50:00+00:00", 1000.0))
    body["data"][0]["imputed_data_used"] = True
    assert rows(parsed(body))[0]["estimation_method"] == "model of 2026-03-01, input imputed"


def test_the_refusal_of_the_service_is_told() -> None:
    with pytest.raises(PayloadError, match="Subscription"):
        parsed({"error": "Subscription does not cover region PJM_DC"})


@given(st.integers(0, 4000))
def test_the_factor_is_that_of_the_pound(pounds: int) -> None:
    (row,) = rows(parsed(watttime(("2026-05-15T11:50:00+00:00", pounds))))
    assert row["intensity_g_per_kwh"] == float(pounds) * 45359237 / 10**8
