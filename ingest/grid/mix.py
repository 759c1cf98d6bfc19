"""From generation by fuel to the intensity of an interval: sum(energy x factor) / sum(energy), or no figure.

Only generation makes the mix. Storage is left out both ways: what it gives was counted when it was generated.
Negative figures (pumping, charging, a plant's own use) are no generation and left out too. Both are said in the
notes. Fuels without a factor are left out and named, and where they give more than LARGEST_UNKNOWN_SHARE, there
is no figure. Nor is there one where a fuel of the mix is not told for the interval: leaving it out would take it
for 0. The option `incomplete` = estimate leaves it out all the same, and says so in the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.grid.fuels import CITATION, FACTORS, STORAGE, UNKNOWN
from ingest.kind import Option
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

GENERATION = "core.grid_generation"
J_PER_MWH = 3_600_000_000
LARGEST_UNKNOWN_SHARE = Decimal("0.1")
MIX_OPTIONS = (
    Option("basis", "which factors of docs/sources/grid.md", default="lifecycle", allowed=("lifecycle", "direct")),
    Option(
        "incomplete",
        "what becomes of an hour in which a fuel of the mix is not told: no figure, or one without it",
        default="refuse",
        allowed=("refuse", "estimate"),
    ),
)


@dataclass
class Mix:
    """Energy by fuel code of one zone and interval, in MWh; None where a fuel is listed and not told."""

    zone: str
    start_at: datetime
    end_at: datetime
    energy_mwh: dict[str, Decimal | None] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # fuels whose figure was refused, as the source writes them


def role_of(fuel: str, flow: str) -> str:
    """generation, or storage where it only gives back or takes."""
    return "storage" if fuel == STORAGE or flow == "consumption" else "generation"


def intensities(
    mixes: list[Mix],
    fuels: Mapping[str, str],
    options: Mapping[str, str],
    source: str,
    refused: Iterable[tuple[str, str]] = (),
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Rows for core.grid_intensity, and notes about what was left out and why.

    `mixes` hold production only. A fuel that any interval of a zone tells, or that was `refused` (zone, fuel)
    at an interval that cannot be read, belongs to the mix of the zone in all of them.
    """
    basis, estimate = options.get("basis", "lifecycle"), options.get("incomplete") == "estimate"
    expected: dict[str, set[str]] = {}
    for zone, code in refused:
        if code in fuels and fuels[code] != STORAGE:
            expected.setdefault(zone, set()).add(code)
    for mix in mixes:
        told = {code for code in mix.energy_mwh if fuels[code] != STORAGE}
        expected.setdefault(mix.zone, set()).update(told)
    rows: list[dict[str, Any]] = []
    notes: dict[str, int] = {}
    for mix in sorted(mixes, key=lambda m: (m.zone, m.start_at)):
        row, said = _intensity(mix, expected[mix.zone], fuels, basis, estimate, source)
        rows += [row] if row is not None else []
        for note in said:
            notes[note] = notes.get(note, 0) + 1
    return frame("core.grid_intensity", rows), tuple(
        f"{note} ({n} hour{'s' * (n > 1)})" for note, n in sorted(notes.items())
    )


def _intensity(
    mix: Mix, expected: set[str], fuels: Mapping[str, str], basis: str, estimate: bool, source: str
) -> tuple[dict[str, Any] | None, list[str]]:
    told = {code: value for code, value in mix.energy_mwh.items() if value is not None}
    missing = sorted({code for code in expected if code not in told} | (mix.unread - told.keys()))
    negative = sorted(code for code, value in told.items() if value < 0)
    counted = {code: value for code, value in told.items() if value >= 0 and fuels[code] != STORAGE}
    total = sum(counted.values(), Decimal(0))
    unknown = sum((value for code, value in counted.items() if fuels[code] == UNKNOWN), Decimal(0))
    known = {code: value for code, value in counted.items() if fuels[code] != UNKNOWN}
    zone = mix.zone
    said = [f"{zone}: {code} is negative: taken from the grid, no generation" for code in negative]
    said += [f"{zone}: {c} is storage, not generation" for c in told if fuels[c] == STORAGE and c not in negative]
    if missing and not estimate:
        return None, [*said, f"{zone}: no intensity, because {', '.join(missing)} is not told"]
    if total - unknown <= 0:
        return None, [*said, f"{zone}: no intensity, because no generation is told"]
    if unknown > total * LARGEST_UNKNOWN_SHARE:
        share = f"more than {LARGEST_UNKNOWN_SHARE:.0%}"
        return None, [*said, f"{zone}: no intensity, because fuels without a factor give {share}"]
    grams = sum((value * FACTORS[fuels[code]].factor(basis) for code, value in known.items()), Decimal(0))
    left_out = [f"without {code}, not told" for code in missing]
    left_out += [f"without {code}, no factor" for code, v in counted.items() if fuels[code] == UNKNOWN and v]
    row = {
        "zone": zone,
        "signal": "average",
        "basis": basis,
        "start_at": mix.start_at,
        "end_at": mix.end_at,
        "is_forecast": False,
        "is_estimated": True,
        "intensity_g_per_kwh": float(grams / sum(known.values(), Decimal(0))),
        "method": f"production average: {source} x {basis} factors ({CITATION})",
        "estimation_method": "; ".join(["generation x factors", *left_out]),
        "evidence_class": (EvidenceClass.MODELED if missing else EvidenceClass.CALIBRATED).value,
    }
    return row, said
