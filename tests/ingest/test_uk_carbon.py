"""Great Britain: actual and forecast readings of half hours, by their own from and to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.uk_carbon import parse
from tests.ingest.samples import counts_add_up, half_hour, payload, rows


def parsed(*halves: Any) -> Parsed:
    result = parse(payload({"data": list(halves)}, "uk-carbon"))
    assert counts_add_up(result)
    return result


def test_a_half_hour_is_one_actual_and_one_forecast_reading() -> None:
    actual, forecast = rows(parsed(half_hour()))
    assert (actual["intensity_g_per_kwh"], actual["is_forecast"], actual["evidence_class"]) == (
        176.0,
        False,
        "calibrated",
    )
    assert (forecast["intensity_g_per_kwh"], forecast["is_forecast"], forecast["evidence_class"]) == (
        181.0,
        True,
        "modeled",
    )
    for row in (actual, forecast):
        assert (row["zone"], row["signal"], row["basis"]) == ("GB", "average", "direct")
        # a half hour is what its own from and to say, whatever "now" was asked for (api-definitions#6)
        assert (row["start_at"], row["end_at"]) == (datetime(2026, 11, 29, 11, 30), datetime(2026, 11, 29, 12))
        assert row["is_estimated"]
    assert "estimated" in actual["method"]


@pytest.mark.parametrize("actual", [None, ...])
def test_a_null_actual_of_the_future_is_no_reading_and_never_zero(actual: Any) -> None:
    # carbon-aware-sdk#571: a null was stored as -1
    intensity = {"forecast": 178} if actual is ... else {"forecast": 178, "actual": None}
    (row,) = rows(parsed(half_hour(**intensity)))
    assert row["is_forecast"]


def test_a_reading_of_zero_is_zero() -> None:
    # electricitymaps-contrib: `if v` made 0 missing
    assert [r["intensity_g_per_kwh"] for r in rows(parsed(half_hour(actual=0, forecast=0)))] == [0.0, 0.0]


def test_a_half_hour_with_two_values_keeps_the_first_and_tells_of_the_other() -> None:
    # api-definitions#17: 2021-04-19 19:00Z came twice, 263 and 269
    span = ("2021-04-19T19:00Z", "2021-04-19T19:30Z")
    result = parsed(half_hour(*span, actual=263), half_hour(*span, actual=269), half_hour(*span, actual=263))
    assert [r["intensity_g_per_kwh"] for r in rows(result)] == [263.0]
    assert [(r.row_no, r.value, r.whole_row) for r in result.rejects] == [(1, "269", True), (2, "263", True)]
    assert "263 until 2021-04-19T19:30Z came first" in result.rejects[0].reason
    assert "another value" not in result.rejects[1].reason


@pytest.mark.parametrize("value", [-1, -300, 2001, "263", True, [], {}])
def test_an_implausible_reading_goes_alone(value: Any) -> None:
    result = parsed(half_hour(actual=value, forecast=181))
    assert [r["is_forecast"] for r in rows(result)] == [True]
    (reject,) = result.rejects
    assert (reject.field, reject.whole_row) == ("intensity.actual", True)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "x",
        {},
        {"from": "2026-11-29T11:30Z", "to": "2026-11-29T12:00Z"},
        {"from": "2026-11-29T11:30Z", "to": "2026-11-29T12:00Z", "intensity": 5},
        half_hour("2026-11-29T11:30", "2026-11-29T12:00"),  # naive
        half_hour("2026-11-29T12:00Z", "2026-11-29T11:30Z"),  # backwards
        half_hour("noon", "2026-11-29T11:30Z"),
    ],
)
def test_a_row_that_is_no_half_hour_goes_alone(bad: Any) -> None:
    result = parsed(half_hour(), bad)
    assert len(rows(result)) == 2
    assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True)]


def test_an_offset_is_the_same_instant() -> None:
    assert rows(parsed(half_hour("2026-07-01T13:00+01:00", "2026-07-01T13:30+01:00")))[0]["start_at"] == datetime(
        2026, 7, 1, 12
    )


def test_the_error_answer_is_refused_with_its_words() -> None:
    with pytest.raises(PayloadError, match="date range too wide"):
        parse(payload({"error": {"code": "400 Bad Request", "message": "date range too wide"}}))


def test_data_at_is_the_end_of_the_newest_actual_reading() -> None:
    later = half_hour("2026-11-29T12:00Z", "2026-11-29T12:30Z", forecast=178)
    assert parsed(half_hour(), later).data_at == datetime(2026, 11, 29, 12)
    assert parsed(later).data_at is None


@given(st.lists(st.tuples(st.integers(0, 47), st.integers(-10, 2500), st.none() | st.integers(-10, 2500)), max_size=30))
def test_no_reading_is_lost_counted_twice_or_implausible(halves: list[tuple[int, int, int | None]]) -> None:
    def at(i: int) -> str:
        return f"2026-11-{1 + i // 48:02d}T{i % 48 // 2:02d}:{i % 2 * 30:02d}Z"

    result = parsed(*(half_hour(at(i), at(i + 1), forecast=f, actual=a) for i, f, a in halves))
    assert result.rows_in == sum(1 + (a is not None) for _, _, a in halves)
    keys = [(r["start_at"], r["is_forecast"]) for r in rows(result)]
    assert len(keys) == len(set(keys))
    assert all(0 <= r["intensity_g_per_kwh"] <= 2000 for r in rows(result))
