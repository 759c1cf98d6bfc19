"""Intensity of zone Z at time T as known at time K: the one place that answers it.

Order of preference (mart.grid_candidates): an actual figure whose interval covers T, a forecast for such an
interval, the last actual figure within `carry_s` of its end, a static factor. Signal and basis are
arguments: figures of another signal (average, marginal) or basis (lifecycle, direct) never answer, not even
where nothing else is known. Zones are declared ids. No figure is made: what is not known is None, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from warehouse.evidence import EvidenceClass

if TYPE_CHECKING:
    from warehouse.snapshots import Snapshot

Reader = Callable[[str, Mapping[str, Any]], pl.DataFrame]
"""Runs a SELECT with named parameters: `Warehouse.query`, `Transaction.query`, or `reader_of(snapshot)`."""

_E = TypeVar("_E", bound=StrEnum)

LONGEST_CARRY_S = 86_400.0
IMPLAUSIBLE_RATIO = 5.0
"""An hour of a grid lies within a fifth and five times its yearly average. A figure beyond is more often a wrong
mix than weather: France 424.584 g/kWh with a yearly average near 56, Sweden 2 g/kWh with one near 27."""


class Signal(StrEnum):
    AVERAGE = "average"
    MARGINAL = "marginal"


class Basis(StrEnum):
    LIFECYCLE = "lifecycle"
    DIRECT = "direct"


class Standing(StrEnum):
    """What a figure is with respect to the instant asked for, best first."""

    ACTUAL = "actual"
    FORECAST = "forecast"
    CARRIED = "carried"  # the last actual figure; its interval has ended
    STATIC = "static"  # a yearly factor stands in


@dataclass(frozen=True)
class Intensity:
    """A figure with all that must be shown beside it. Times are naive UTC."""

    zone: str
    signal: Signal
    basis: Basis
    intensity_g_per_kwh: float
    evidence_class: EvidenceClass
    standing: Standing
    is_estimated: bool
    estimation_method: str | None
    method: str
    source_id: str
    start_at: datetime  # half-open [start, end)
    end_at: datetime
    known_from: datetime
    version: str | None  # the source's own
    forecast_made_at: datetime | None
    horizon_s: float | None  # start of the interval minus the issue of the forecast
    age_s: float  # since the desk learned it, as of K
    behind_s: float  # how long before T the interval ended; 0 where it covers T
    warning: str | None  # implausible against the yearly average of the zone

    @property
    def is_fallback(self) -> bool:
        """Whether a yearly factor stands in for the figure of the hour."""
        return self.standing is Standing.STATIC


@dataclass(frozen=True)
class Answer:
    """Exactly one of the two is None."""

    intensity: Intensity | None
    reason: str | None


def reader_of(snapshot: Snapshot) -> Reader:
    """Reads through a snapshot, so that its digest covers what was read."""
    return lambda text, params: snapshot.sql(text, **params)


def intensity_at(
    read: Reader,
    zone: str | None,
    at: datetime,
    *,
    signal: Signal | str,
    basis: Basis | str,
    as_of: datetime,
    carry_s: float = 0.0,
    fallback: bool = True,
    forecasts: bool = True,
) -> Answer:
    """The intensity of `zone` at `at` as known at `as_of`, in g/kWh, or the reason why there is none.

    carry_s lets the last actual figure stand in for that long after its end (at most a day); fallback lets a
    static factor; forecasts False leaves projections out. Raises ValueError for another signal or basis and
    for a carry_s beyond its limits.
    """
    signal, basis = _known(Signal, signal, "signal"), _known(Basis, basis, "basis")
    if not 0 <= carry_s <= LONGEST_CARRY_S:
        raise ValueError(f"carry_s is {carry_s:g}; allowed are 0 to {LONGEST_CARRY_S:g} seconds")
    if zone is None:
        return Answer(None, "no zone is declared for this region; import a zone-map with its row")
    rows = read(
        "SELECT * FROM mart.grid_candidates($at, $as_of) "
        "WHERE zone = $zone AND signal = $signal AND basis = $basis ORDER BY place",
        {"at": at, "as_of": as_of, "zone": zone, "signal": signal.value, "basis": basis.value},
    ).to_dicts()
    allowed = {
        Standing.ACTUAL: True,
        Standing.FORECAST: forecasts,
        Standing.CARRIED: carry_s > 0,
        Standing.STATIC: fallback,
    }
    yearly = next((r for r in rows if r["standing"] == Standing.STATIC), None)
    for row in rows:
        standing = Standing(row["standing"])
        if allowed[standing] and (standing is not Standing.CARRIED or row["behind_s"] <= carry_s):
            return Answer(_intensity(row, standing, yearly), None)
    return Answer(None, _reason(read, zone, at, signal, basis, as_of, bool(rows)))


def _intensity(row: Mapping[str, Any], standing: Standing, yearly: Mapping[str, Any] | None) -> Intensity:
    kept = {n: row[n] for n in Intensity.__dataclass_fields__ if n in row}
    return Intensity(
        **{
            **kept,
            "signal": Signal(row["signal"]),
            "basis": Basis(row["basis"]),
            "evidence_class": EvidenceClass(row["evidence_class"]),
            "standing": standing,
            "warning": None if yearly is None or standing is Standing.STATIC else _implausible(row, yearly),
        }
    )


def _implausible(row: Mapping[str, Any], yearly: Mapping[str, Any]) -> str | None:
    value, mean = row["intensity_g_per_kwh"], yearly["intensity_g_per_kwh"]
    if mean / IMPLAUSIBLE_RATIO <= value <= mean * IMPLAUSIBLE_RATIO:
        return None
    return (
        f"{value:g} g/kWh is more than {IMPLAUSIBLE_RATIO:g} times away from {mean:g} g/kWh, the {yearly['method']}; "
        "check the source's zone and mix"
    )


def _reason(read: Reader, zone: str, at: datetime, signal: Signal, basis: Basis, as_of: datetime, refused: bool) -> str:
    asked = f"{signal} {basis} intensity of {zone} at {at:%Y-%m-%dT%H:%MZ}"
    if refused:
        return f"no {asked} is known but for a figure that stands in, which was not allowed"
    others = read(
        "SELECT DISTINCT signal, basis FROM core.grid_intensity "
        "WHERE zone = $zone AND known_from <= $as_of AND intensity_g_per_kwh IS NOT NULL ORDER BY signal, basis",
        {"zone": zone, "as_of": as_of},
    )
    told = [f"{s} {b}" for s, b in others.iter_rows()]
    if not told:
        return f"nothing was known about the zone {zone} by {as_of:%Y-%m-%dT%H:%MZ}"
    if f"{signal} {basis}" in told:
        return f"no {asked} was known by {as_of:%Y-%m-%dT%H:%MZ}; other times of it are"
    return f"no {asked} was known by {as_of:%Y-%m-%dT%H:%MZ}; {', '.join(told)} is, and is never mixed in"


def _known(kind: type[_E], value: str, what: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{what} is {value!r}; use one of {', '.join(kind)}") from None
