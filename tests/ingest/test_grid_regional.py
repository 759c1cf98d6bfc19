"""Regions of Great Britain: three shapes of answer, one declared table of zones, forecasts only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.uk_regional import ZONES, parse
from tests.ingest.grid_samples import region_half, regional
from tests.ingest.samples import counts_add_up, half_hour, payload, rows


def parsed(body: Any) -> Parsed:
    result = parse(payload(body, "uk-carbon-regional"))
    assert counts_add_up(result)
    return result


HALF = {"from": "2026-05-15T12:00Z", "to": "2026-05-15T12:30Z", "intensity": {"forecast": 120}}


@pytest.mark.parametrize(
    "body",
    [
        regional(region_half()),
        {"data": [{"regionid": 13, "shortname": "London", "data": [HALF]}]},
        {"data": {"regionid": 13, "shortname": "London", "data": [HALF]}},
    ],
)
def test_every_shape_says_the_same(body: Any) -> None:
    (row,) = rows(parsed(body))
    assert (row["zone"], row["basis"], row["intensity_g_per_kwh"]) == ("GB-LONDON", "direct", 120.0)
    assert (row["start_at"], row["end_at"]) == (datetime(2026, 5, 15, 12), datetime(2026, 5, 15, 12, 30))
    assert (row["is_forecast"], row["is_estimated"], row["evidence_class"]) == (True, True, "modeled")


def test_every_region_has_a_zone_of_its_own() -> None:
    result = parsed(regional(*(region_half(i, i) for i in ZONES)))
    assert [r["zone"] for r in rows(result)] == list(ZONES.values())
    assert len(set(ZONES.values())) == 18


@pytest.mark.parametrize("regionid", [0, 19, None, "13", True, 13.0])
def test_a_region_outside_the_table_is_not_guessed_from_its_name(regionid: Any) -> None:
    result = parsed(regional(region_half(16, 30), region_half(regionid, 120, shortname="London")))
    assert [r["zone"] for r in rows(result)] == ["GB-SCOTLAND"]
    assert [(r.row_no, r.field) for r in result.rejects] == [(1, "regionid")]


@pytest.mark.parametrize("bad", [region_half(13, -1), region_half(13, 2001), region_half(13, intensity=5), "x", None])
def test_a_wrong_region_goes_alone(bad: Any) -> None:
    result = parsed(regional(region_half(16, 30), bad))
    assert [r["zone"] for r in rows(result)] == ["GB-SCOTLAND"]
    assert result.rows_quarantined == 1


def test_a_half_hour_without_a_zone_of_time_is_refused() -> None:
    result = parsed(regional(region_half(), start="2026-05-15T12:00", end="2026-05-15T12:30"))
    assert (rows(result), [r.field for r in result.rejects]) == ([], ["from, to"])


def test_a_national_answer_is_told_to_be_one() -> None:
    with pytest.raises(PayloadError, match="use the kind uk-carbon"):
        parsed({"data": [half_hour()]})
