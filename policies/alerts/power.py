"""Alerts of power: a sensor that stands still, a board that is gone, energy that cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policies.alerts import words
from policies.alerts.model import AlertKind, Condition, Severity, Thresholds

ENOUGH_READINGS = 5
_FILLED = 0.8  # of the span that readings must cover
Row = Mapping[str, Any]


def frozen(rows: Iterable[Row], limits: Thresholds) -> list[Condition]:
    """One condition per device that told the same for the whole span.

    In this order: its own time stamp stands still; its energy counter stands still while it reports power; its power
    is the very same number each time, and no counter says otherwise.
    """
    found = []
    wanted_s = limits.frozen_for.total_seconds()
    for row in rows:
        if row["n"] < ENOUGH_READINGS or row["span_s"] < _FILLED * wanted_s:
            continue
        what = _frozen_part(row)
        if what is None:
            continue
        name = row["name"] or "device"
        found.append(
            Condition(
                AlertKind.SENSOR_FROZEN,
                row["device_uuid"],
                Severity.BAD,
                f"sensor of {name} {row['device_uuid'][-12:]} is frozen: {what} for {words.span(wanted_s)}",
                {
                    "after": what,
                    "limit": f"{words.span(wanted_s)}",
                    "readings": row["n"],
                    "power_w": row["power_high_w"],
                    "energy_counter_j": row["energy_counter_j"],
                    "sensor_at": row["sensor_at"],
                    "newest_at": row["newest_at"],
                    "host": row["host"],
                    "source_id": row["source_id"],
                    "evidence": "measured",
                },
            )
        )
    return found


def _frozen_part(row: Row) -> str | None:
    if row["n_stamp"] >= ENOUGH_READINGS and row["stamps"] == 1:
        return f"its own stamp stands at {words.at(row['sensor_at'])}"
    has_counter = row["n_counter"] >= ENOUGH_READINGS
    if has_counter and row["counters"] == 1 and (row["power_low_w"] or 0) > 0:
        return f"its energy counter stands at {row['energy_counter_j']:.0f} J while it reports power"
    if not has_counter and row["n_power"] >= ENOUGH_READINGS and row["powers"] == 1:
        return f"every reading is {row['power_high_w']:g} W"
    return None


def lost(rows: Iterable[Row]) -> list[Condition]:
    """One condition per board that is lost."""
    return [
        Condition(
            AlertKind.GPU_LOST,
            row["device_uuid"],
            Severity.BAD,
            f"{row['name'] or 'GPU'} {row['device_uuid'][-12:]} of {row['host']} is lost since "
            f"{words.at(row['updated_at'])}",
            {
                "before": "ok",
                "after": "lost",
                "host": row["host"],
                "pci_bus_id": row["pci_bus_id"],
                "driver_version": row["driver_version"],
                "since": row["updated_at"],
                "source_id": row["source_id"],
                "evidence": "measured",
            },
        )
        for row in rows
    ]


def implausible(rows: Iterable[Row], limits: Thresholds) -> list[Condition]:
    """One condition per device or offer with energy that was refused as impossible."""
    return [
        Condition(
            AlertKind.IMPLAUSIBLE_ENERGY,
            row["subject"],
            Severity.WARNING,
            f"energy of {row['subject']} was refused as impossible, last at {words.at(row['newest_at'])}",
            {
                "after": row["implausible"],
                "limit": 0,
                "windows": row["windows"],
                "within": words.span(limits.implausible_within.total_seconds()),
                "method": row["method"],
                "newest_at": row["newest_at"],
                "provider": row["provider"],
                "source_id": row["source_id"],
                "evidence": "refused",
            },
        )
        for row in rows
    ]
