"""Static factors: the unit stands in the column name, the year and source in the method."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.static_factors import UNITS, parse
from tests.ingest.samples import FACTORS_CSV, counts_add_up, payload, rows


def parsed(body: Any) -> Parsed:
    result = parse(payload(body, "grid-factors"))
    assert counts_add_up(result)
    return result


def factor(**changes: Any) -> dict[str, Any]:
    row = {"zone": "FI", "year": 2025, "basis": "lifecycle", "source": "Ember", "intensity_g_per_kwh": 57.2, **changes}
    return {k: v for k, v in row.items() if v is not ...}


def test_a_factor_holds_for_its_year_and_names_its_source() -> None:
    finland, britain, pjm = rows(parsed(FACTORS_CSV))
    assert (finland["zone"], finland["intensity_g_per_kwh"], finland["basis"]) == ("FI", 57.2, "lifecycle")
    assert (finland["start_at"], finland["end_at"]) == (datetime(2025, 1, 1), datetime(2026, 1, 1))
    assert (finland["signal"], finland["is_forecast"], finland["is_estimated"]) == ("average", False, False)
    assert (finland["method"], finland["evidence_class"]) == ("static factor 2025 (Ember)", "modeled")
    assert britain["intensity_g_per_kwh"] == 218.2
    assert pjm["method"] == "static factor 2024 (EPA, eGRID)"


def test_csv_and_json_say_the_same() -> None:
    listed = [
        factor(),
        factor(zone="GB", intensity_g_per_kwh=218.2),
        factor(zone="US-MIDA-PJM", year=2024, basis="direct", source="EPA, eGRID", intensity_g_per_kwh=384.4),
    ]
    assert (
        parsed(json.dumps(listed))
        .tables["core.grid_intensity"]
        .equals(parsed(FACTORS_CSV).tables["core.grid_intensity"])
    )


@pytest.mark.parametrize(
    ("column", "value", "g_per_kwh"),
    [
        ("lb_per_mwh", 1000, 453.59237),  # WattTime
        ("intensity_lb_per_mwh", 539.599, 244.758),  # eGRID 2023, Virginia
        ("kg_per_kwh", 0.05747, 57.47),  # EcoLogits, Finland
        ("g_per_kwh", 37, 37.0),
        ("kg_per_mwh", 37, 37.0),
        ("intensity_g_per_kwh", 0, 0.0),
    ],
)
def test_units_are_converted_by_the_column_name(column: str, value: float, g_per_kwh: float) -> None:
    for body in (
        json.dumps([factor(**{"intensity_g_per_kwh": ..., column: value})]),
        f"zone,year,basis,source,{column}\nFI,2025,direct,x,{value}\n",
    ):
        assert rows(parsed(body))[0]["intensity_g_per_kwh"] == pytest.approx(g_per_kwh, abs=5e-4)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("zone,year,basis,source,intensity", "'intensity' is not known"),
        ("zone,year,basis,source,oz_per_kwh", "'oz_per_kwh' is not known"),
        ("zone,year,basis,source", "no column tells an intensity"),
        ("zone,year,basis,source,g_per_kwh,kg_per_kwh", "tell it twice"),
        ("zone,year,source,g_per_kwh", "'basis' is missing"),
        ("zone,year,basis,g_per_kwh", "'source' is missing"),
        ("zone,zone,year,basis,source,g_per_kwh", "'zone' comes twice"),
        ("zone;year;basis;source;g_per_kwh", "separated by ';'"),
    ],
)
def test_columns_that_cannot_be_understood_are_refused_with_the_allowed(header: str, said: str) -> None:
    with pytest.raises(PayloadError) as caught:
        parsed(header + "\nFI,2025,direct,x,1\n")
    assert said in str(caught.value)
    if "not known" in said:
        assert "lb_per_mwh" in caught.value.fix


def test_t39_a_zone_is_declared_and_never_looked_up() -> None:
    # electricitymaps#6351: mid-Atlantic coordinates were answered with US-CAR-DUK
    with pytest.raises(PayloadError, match="coordinates"):
        parsed("lat,lon,year,basis,source,g_per_kwh\n37.24,-41.14,2025,direct,x,400\n")
    for zone in ("37.24,-41.14", "fi", "Finland", "", "US MIDA", 5, None):
        assert rows(parsed(json.dumps([factor(zone=zone)]))) == []


def test_t39_bases_of_one_zone_and_year_are_two_rows() -> None:
    found = rows(parsed(json.dumps([factor(), factor(basis="direct", intensity_g_per_kwh=31)])))
    assert [(r["basis"], r["intensity_g_per_kwh"]) for r in found] == [("lifecycle", 57.2), ("direct", 31.0)]


def test_t39_a_later_file_is_another_version_of_the_same_interval() -> None:
    key = ("zone", "signal", "basis", "start_at", "end_at", "is_forecast")
    first, revised = rows(parsed([factor()]))[0], rows(parsed([factor(intensity_g_per_kwh=66.9)]))[0]
    assert [first[k] for k in key] == [revised[k] for k in key]
    assert (first["intensity_g_per_kwh"], revised["intensity_g_per_kwh"]) == (57.2, 66.9)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"basis": "operational"}, "basis"),
        ({"basis": None}, "basis"),
        ({"signal": "spot"}, "signal"),
        ({"source": " "}, "source"),
        ({"source": ...}, "source"),
        ({"year": 1900}, "year"),
        ({"year": 2025.5}, "year"),
        ({"year": "last"}, "year"),
        ({"year": None}, "year"),
        ({"intensity_g_per_kwh": -1}, "intensity_g_per_kwh"),
        ({"intensity_g_per_kwh": 2001}, "intensity_g_per_kwh"),
        ({"intensity_g_per_kwh": None}, "intensity_g_per_kwh"),
        ({"intensity_g_per_kwh": float("nan")}, "intensity_g_per_kwh"),
        ({"intensity_g_per_kwh": ...}, "intensity"),
    ],
)
def test_a_bad_row_goes_alone_and_names_its_field(changes: dict[str, Any], field: str) -> None:
    result = parsed(json.dumps([factor(zone="SE"), factor(**changes)]))
    assert [r["zone"] for r in rows(result)] == ["SE"]
    assert [(r.row_no, r.field, r.whole_row) for r in result.rejects] == [(1, field, True)]


@pytest.mark.parametrize("cell", ['"57,2"', "57.2 g", "0x10", "", "1e9", "nan", "--"])
def test_a_cell_that_is_no_number_with_a_decimal_point_goes_alone(cell: str) -> None:
    # carbon-aware-sdk#364: a decimal comma became an error 500
    result = parsed(f"zone,year,basis,source,g_per_kwh\nFI,2025,direct,x,{cell}\nSE,2025,direct,x,27.0\n")
    assert [r["zone"] for r in rows(result)] == ["SE"]


def test_rows_of_another_width_go_alone_and_blank_lines_are_none() -> None:
    result = parsed(
        "zone,year,basis,source,g_per_kwh\n\nFI,2025,direct,x\nSE,2025,direct,x,27,9\nNO,2025,direct,x,5\n , \n"
    )
    assert [r["zone"] for r in rows(result)] == ["NO"]
    assert result.rows_in == 3


def test_a_repeated_factor_keeps_the_first() -> None:
    result = parsed(json.dumps([factor(), factor(), factor(intensity_g_per_kwh=79.2)]))
    assert [r["intensity_g_per_kwh"] for r in rows(result)] == [57.2]
    assert ["the same value" in r.reason for r in result.rejects] == [True, False]


def test_data_at_is_the_end_of_the_newest_finished_year() -> None:
    assert parsed(json.dumps([factor(year=2024), factor(year=2025), factor(year=2026)])).data_at == datetime(2026, 1, 1)
    assert parsed(json.dumps([factor(year=2026)])).data_at is None


def test_a_json_document_that_is_no_list_of_factors_is_refused() -> None:
    for body, said in (({"zone": "FI"}, "not a list"), ([1, 2], "no objects")):
        with pytest.raises(PayloadError, match=said):
            parsed(json.dumps(body))


@given(st.sampled_from(sorted(UNITS)), st.integers(0, 10**7))
def test_every_unit_is_linear_and_bounded(column: str, micro: int) -> None:
    value = micro / 1e6
    found = rows(parsed(json.dumps([factor(**{"intensity_g_per_kwh": ..., column: value})])))
    expected = value * float(UNITS[column])
    if expected <= 1999.99:
        assert found[0]["intensity_g_per_kwh"] == pytest.approx(expected)
    elif expected >= 2000.01:
        assert found == []
