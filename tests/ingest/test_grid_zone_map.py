"""Zones are declared: a table says so, or nobody does."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.base import Parsed, Payload
from ingest.errors import PayloadError
from ingest.grid.zone_map import parse
from tests.ingest.grid_samples import ZONES_LONG, ZONES_WIDE
from tests.ingest.samples import NOW, counts_add_up, payload, rows


def parsed(body: str) -> Parsed:
    result = parse(payload(body, "zone-map"))
    assert counts_add_up(result)
    return result


def mapping(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("system", "region", "zone_system", "zone", "confidence", "declared_by"))


def test_the_long_form_is_one_mapping_per_line() -> None:
    assert [mapping(r) for r in rows(parsed(ZONES_LONG))] == [
        ("gcp", "europe-north1", "electricitymaps", "FI", "high", "own table 2026"),
        ("aws", "us-west-2", "electricitymaps", "US-NW-PACW", "low", "own table 2026"),
        ("gcp", "us-east4", "eia", "EIA-PJM", "high", "own table 2026"),
    ]


def test_the_wide_form_is_one_mapping_per_zone_that_it_names() -> None:
    body = Payload("file:zone-map", "zone-map", "file:///tables/cloud%20regions.csv", NOW, ZONES_WIDE.encode())
    assert [mapping(r) for r in rows(parse(body))] == [
        ("gcp", "europe-north1", "electricitymaps", "FI", "high", "cloud regions.csv"),
        ("gcp", "europe-north1", "entsoe", "ENTSOE-FI", "high", "cloud regions.csv"),
        ("gcp", "us-east4", "electricitymaps", "US-MIDA-PJM", "high", "cloud regions.csv"),
        ("gcp", "us-east4", "eia", "EIA-PJM", "high", "cloud regions.csv"),
    ]
    assert rows(parse(body))[2]["note"] == "Ashburn, VA"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("gcp,,FI,high,x,", "region"),
        (",europe-north1,FI,high,x,", "system"),
        ("gcp,europe-north1,,high,x,", "zone"),
        ("gcp,europe-north1,60.2 24.9,high,x,", "zone"),
        ("gcp,europe-north1,FI,certain,x,", "confidence"),
        ("gcp,europe-north1,FI,high,,", "source"),
        ("gcp,europe-north1,FI,high,x,own", "zone_system"),
        ("gcp,europe-north1,FINLAND,high,x,entsoe", "entsoe_zone"),
        ("gcp,europe-north1,FI", "row"),
        ("aws,us-west-2,US-NW-BPAT,low,own table 2026,electricitymaps", "region"),
    ],
)
def test_a_line_that_does_not_declare_goes_alone(line: str, field: str) -> None:
    told = parsed(ZONES_LONG + line + "\n")
    assert len(rows(told)) == 3
    assert [(r.row_no, r.field, r.whole_row) for r in told.rejects] == [(3, field, True)]


def test_a_line_of_the_wide_form_without_any_zone_is_refused() -> None:
    told = parsed(ZONES_WIDE + "azure,eastus,USA,,,,high,\n")
    assert (len(rows(told)), [r.field for r in told.rejects]) == (4, ["zone"])


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("provider,region,lat,lon", "coordinates"),
        ("provider,region,zone,confidence", "'source' is missing"),
        ("provider,region,confidence", "no column names a zone"),
        ("provider,region,zone,confidence,source,colour", "'colour' is not known"),
        ("provider,region,zone,zone,confidence,source", "comes twice"),
        ("provider,system,region,zone,confidence,source", "comes twice"),
    ],
)
def test_columns_that_do_not_declare_are_refused_whole(header: str, words: str) -> None:
    with pytest.raises(PayloadError, match=words):
        parsed(header + "\n")
