"""Electricity Maps: the zone that was asked for, one basis, flags and versions kept, null never 0 or -1."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.electricity_maps import parse
from tests.ingest.grid_samples import em_forecast, em_point
from tests.ingest.samples import counts_add_up, payload, rows


def parsed(body: Any, **options: str) -> Parsed:
    result = parse(payload(body, "electricitymaps", options={"zone": "FI", **options}))
    assert counts_add_up(result)
    return result


def history(*points: Any, **changes: Any) -> dict[str, Any]:
    return {"zone": "FI", "history": list(points), **changes}


def test_the_latest_figure_with_its_flags_and_its_version() -> None:
    # energy.md section 3: latest of FI, estimated by TIME_SLICER_AVERAGE
    told = em_point(isEstimated=True, estimationMethod="TIME_SLICER_AVERAGE", temporalGranularity="hourly")
    (row,) = rows(parsed(told))
    assert (row["zone"], row["signal"], row["basis"], row["intensity_g_per_kwh"]) == (
        "FI",
        "average",
        "lifecycle",
        37.0,
    )
    assert (row["start_at"], row["end_at"]) == (datetime(2026, 5, 15, 10), datetime(2026, 5, 15, 11))
    assert (row["is_estimated"], row["estimation_method"]) == (True, "TIME_SLICER_AVERAGE")
    assert (row["is_forecast"], row["forecast_made_at"], row["evidence_class"]) == (False, None, "modeled")
    assert row["version"] == "2026-05-15T11:41:02.001Z"


def test_a_figure_that_is_not_estimated_is_calibrated_and_one_without_the_flag_is_taken_as_estimated() -> None:
    sure, silent = rows(parsed(history(em_point(), em_point(datetime="2026-05-15T11:00Z", isEstimated=...))))
    assert (sure["is_estimated"], sure["evidence_class"]) == (False, "calibrated")
    assert (silent["is_estimated"], silent["evidence_class"]) == (True, "modeled")


@pytest.mark.parametrize("name", ["history", "data"])
def test_lists_of_the_past_have_one_row_per_interval(name: str) -> None:
    listed = [em_point(), em_point(datetime="2026-05-15T11:00:00.000Z", carbonIntensity=0)]
    assert [r["intensity_g_per_kwh"] for r in rows(parsed({"zone": "FI", name: listed}))] == [37.0, 0.0]


def test_a_forecast_tells_when_it_was_made() -> None:
    first, second = rows(parsed(em_forecast()))
    assert (first["intensity_g_per_kwh"], second["intensity_g_per_kwh"]) == (38.0, 41.0)
    assert first["is_forecast"] and first["is_estimated"]
    assert first["forecast_made_at"] == datetime(2026, 5, 15, 12)  # an hour ahead
    assert first["evidence_class"] == "modeled"
    with pytest.raises(PayloadError, match="horizon is unknown"):
        parsed(em_forecast(updatedAt=None))


def test_a_null_is_no_reading_never_0_and_never_minus_1() -> None:
    # carbon-aware-sdk#571 stored -1
    result = parsed(history(em_point(), em_point(datetime="2026-05-15T11:00Z", carbonIntensity=None)))
    assert [r["intensity_g_per_kwh"] for r in rows(result)] == [37.0]
    assert (result.rows_in, result.rejects) == (1, ())
    assert result.notes == ("1 interval without a value yet: not known, not 0",)


class TestT39AnotherZone:
    def test_that_answers_refuses_the_whole_payload(self) -> None:
        # electricitymaps-contrib#6351: a point in the Atlantic was answered by US-CAR-DUK
        duk = em_point(zone="US-CAR-DUK", carbonIntensity=369)
        with pytest.raises(
            PayloadError, match="zone FI was asked for and 'US-CAR-DUK' answered; nothing of it is kept"
        ):
            parsed({"zone": "US-CAR-DUK", "data": [duk]})

    @pytest.mark.parametrize(
        "body",
        [
            {"zone": "FI", "history": [em_point(), em_point(zone="SE-SE3")]},
            {"zone": "SE-SE3", "history": [em_point()]},
            {"zone": "SE-SE3", "history": []},
            {"history": [em_point(zone=...)]},
            em_point(zone=None),
            em_forecast(zone="fi"),
        ],
    )
    def test_wherever_it_is_told_or_where_none_is(self, body: Any) -> None:
        with pytest.raises(PayloadError, match="was asked for"):
            parsed(body)

    def test_and_without_a_declared_zone_nothing_is_taken(self) -> None:
        with pytest.raises(PayloadError, match="no zone is declared"):
            parse(payload(em_point(), "electricitymaps", options={}))


def test_another_basis_than_the_declared_one_is_never_mixed_in() -> None:
    # carbon-intensity/methodology#4: GB 166 (direct) and 211 (lifecycle) in the same hour
    with pytest.raises(PayloadError, match="never mixed"):
        parsed(history(em_point(), em_point(datetime="2026-05-15T11:00Z", emissionFactorType="direct")))
    assert rows(parsed(em_point(emissionFactorType="direct"), basis="direct"))[0]["basis"] == "direct"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "Request unauthorized for zoneKey=FI"}, "Request unauthorized"),
        ({"error": {"message": "token expired"}}, "token expired"),
        ({"status": "error", "message": 'No recent data for zone "AX"'}, "No recent data"),
        ({"status": "error"}, "no message"),
    ],
)
def test_an_error_answer_is_refused_in_its_words(body: Any, words: str) -> None:
    with pytest.raises(PayloadError, match=words):
        parsed(body)


@pytest.mark.parametrize(
    "bad",
    [
        em_point(datetime="2026-05-15T11:00:00"),  # naive: DST would decide
        em_point(datetime=None),
        em_point(carbonIntensity=-5, datetime="2026-05-15T11:00Z"),  # home-assistant#76504
        em_point(carbonIntensity=2001, datetime="2026-05-15T11:00Z"),
        em_point(carbonIntensity="37", datetime="2026-05-15T11:00Z"),
        em_point(isEstimated="yes", datetime="2026-05-15T11:00Z"),
        em_point(temporalGranularity="daily", datetime="2026-05-15T11:00Z"),
        em_point(carbonIntensity=38),  # the hour again
    ],
)
def test_a_wrong_figure_goes_alone(bad: Any) -> None:
    result = parsed(history(em_point(), bad))
    assert [r["intensity_g_per_kwh"] for r in rows(result)] == [37.0]
    assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True)]


def test_an_offset_is_the_same_instant_and_the_interval_is_the_declared_one() -> None:
    told = em_point(datetime="2026-05-15T13:00+03:00", temporalGranularity="15_minutes")
    (row,) = rows(parsed(told, granularity="15_minutes"))
    assert (row["start_at"], row["end_at"]) == (datetime(2026, 5, 15, 10), datetime(2026, 5, 15, 10, 15))


def test_windows_that_meet_tell_an_interval_twice_and_it_counts_once() -> None:
    once, twice = history(em_point()), history(em_point(), em_point(datetime="2026-05-15T11:00Z"))
    result = parsed([once, twice])
    assert (result.rows_in, result.rejects) == (2, ())
    differing = parsed([once, history(em_point(carbonIntensity=40))])
    assert [r["intensity_g_per_kwh"] for r in rows(differing)] == [37.0]
    assert "another value" in differing.rejects[0].reason


@given(st.lists(st.tuples(st.integers(0, 23), st.none() | st.integers(-10, 2500)), max_size=30))
def test_no_figure_is_lost_counted_twice_or_implausible(points: list[tuple[int, int | None]]) -> None:
    told = [em_point(datetime=f"2026-05-14T{hour:02d}:00Z", carbonIntensity=value) for hour, value in points]
    result = parsed(history(*told))
    assert result.rows_in == sum(value is not None for _, value in points)
    starts = [r["start_at"] for r in rows(result)]
    assert len(starts) == len(set(starts))
    assert all(0 <= r["intensity_g_per_kwh"] <= 2000 for r in rows(result))
