"""Ember's yearly factors as LeadGreen publishes them: unit and basis must be told, each year is a factor."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.static_factors import parse
from tests.ingest.samples import counts_add_up, payload, rows


def document(*areas: Any, **changes: Any) -> dict[str, Any]:
    finland = {"iso3": "FIN", "iso2": "FI", "years": {"2024": 66.9, "2025": 57.2}}
    told = {
        "unit": "gCO2e per kWh",
        "basis": "Lifecycle emissions intensity: made for this test.",
        "source": {"name": "Ember, Yearly electricity data", "version": "October 2026 release (file of 2026-10-06)"},
        "areas": list(areas) or [finland, {"iso3": "WLD", "iso2": None, "years": {"2025": 460.1}}],
        **changes,
    }
    return {name: value for name, value in told.items() if value is not ...}


def parsed(body: Any) -> Parsed:
    result = parse(payload(body, "grid-factors"))
    assert counts_add_up(result)
    return result


def test_every_year_of_every_area_is_a_factor_with_its_source() -> None:
    told = rows(parsed(document()))
    assert [(r["zone"], r["start_at"], r["intensity_g_per_kwh"], r["basis"]) for r in told] == [
        ("FI", datetime(2024, 1, 1), 66.9, "lifecycle"),
        ("FI", datetime(2025, 1, 1), 57.2, "lifecycle"),
        ("WLD", datetime(2025, 1, 1), 460.1, "lifecycle"),
    ]
    assert told[0]["method"] == "static factor 2024 (Ember, Yearly electricity data, October 2026 release)"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"unit": "kgCO2e per kWh"}, "unit"),
        ({"unit": ...}, "unit"),
        ({"basis": "Direct emissions"}, "basis"),
        ({"basis": ...}, "basis"),
        ({"source": {"name": " "}}, "source.name"),
        ({"source": ...}, "source"),
        ({"areas": {}}, "areas"),
    ],
)
def test_a_document_without_unit_basis_or_source_is_refused_whole(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        parsed(document(**changes))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "bad",
    [
        {"iso2": "SE", "years": {"2025": -36.4}},
        {"iso2": "SE", "years": {"2025": None}},
        {"iso2": "SE", "years": {"last": 5}},
        {"iso2": None, "iso3": None, "years": {"2025": 5}},
        {"iso2": "SE", "years": {}},
        {"iso2": "SE"},
        {"iso2": "FI", "years": {"2025": 58.0}},  # again, otherwise
        "Sweden",
    ],
)
def test_an_area_that_cannot_be_read_goes_alone(bad: Any) -> None:
    finland = {"iso2": "FI", "years": {"2025": 57.2}}
    told = parsed(document(finland, bad))
    assert [r["intensity_g_per_kwh"] for r in rows(told)] == [57.2]
    assert told.rows_quarantined == 1
