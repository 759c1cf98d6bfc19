"""One figure of grid intensity as a row: checked for range, sorted out from its repeats, counted once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import LARGEST_INTENSITY, Refused, Row, number
from warehouse.tables import frame

TABLE = "core.grid_intensity"


@dataclass
class Readings:
    """Figures of one payload by (zone, start, forecast or not); the first of a repeat is kept."""

    rows: dict[tuple[str, datetime, bool], dict[str, Any]] = field(default_factory=dict)
    page_of: dict[tuple[str, datetime, bool], int] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    rows_in: int = 0
    nulls: int = 0

    def add(self, row: Row, name: str, value: Any, found: dict[str, Any], *, page: int = 0, scale: Any = 1) -> None:
        """Take `value` (x `scale` g/kWh) of the field `name` as the intensity of `found`.

        A null is no reading: neither a row nor a refusal, but counted and told in a note. A figure below 0 or
        above LARGEST_INTENSITY is refused, because as a row it would hide the last good one. The same figure
        again on another page, where two windows meet, is not counted; any other repeat is refused.
        """
        if value is None:
            self.nulls += 1
            return
        key = (found["zone"], found["start_at"], found["is_forecast"])
        try:
            told = number(value, low=-(10**9), high=10**9)
            assert told is not None
            intensity = number(told * scale, low=0, high=LARGEST_INTENSITY)
        except Refused as refused:
            self.refuse(row, name, value, str(refused))
            return
        assert intensity is not None
        full = {**found, "intensity_g_per_kwh": float(intensity)}
        known = self.rows.get(key)
        if known is None:
            self.rows[key], self.page_of[key] = full, page
            self.rows_in += 1
        elif known != full or self.page_of[key] == page:
            kept = f"{known['intensity_g_per_kwh']:g} until {known['end_at']:%Y-%m-%dT%H:%MZ}"
            how = "again" if known == full else f"again with another value; {kept} came first and was kept"
            self.refuse(row, name, value, f"tells the interval {how}")

    def refuse(self, row: Row, name: str | None, value: Any, reason: str) -> None:
        """Refuse the row, which then counts as one."""
        row.refuse(name, value, reason, whole_row=True)
        self.rejects += row.rejects
        row.rejects.clear()
        self.rows_in += 1

    def parsed(self, payload: Payload, *, notes: tuple[str, ...] = ()) -> Parsed:
        """All of it; `data_at` is the end of the newest interval with an actual figure."""
        ended = [r["end_at"] for r in self.rows.values() if not r["is_forecast"]]
        if self.nulls:
            notes = (*notes, f"{self.nulls} interval{'s' * (self.nulls > 1)} without a value yet: not known, not 0")
        return Parsed(
            primary=TABLE,
            tables={TABLE: frame(TABLE, self.rows.values())},
            rows_in=self.rows_in,
            rejects=tuple(self.rejects),
            data_at=max(ended, default=None),
            notes=notes,
        )


def span(row: Row, start: Any, end: Any, names: tuple[str, str] = ("from", "to")) -> tuple[datetime, datetime] | None:
    """The half-open interval between two ISO 8601 times with a zone; None where they tell none."""
    start_at, end_at = (row.time(name, value) for name, value in zip(names, (start, end), strict=True))
    row.rejects.clear()  # the caller refuses the row once, not each of its ends
    return (start_at, end_at) if start_at is not None and end_at is not None and start_at < end_at else None
