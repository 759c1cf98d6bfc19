"""The log of Zeus' `ZeusMonitor(log_file=...)` -> core.energy_observation, one row per window and GPU.

`start_time` is Unix time in s, `elapsed_time` s, `gpu<i>_energy` J: the counter of the board from Volta on, else
polled power; the file does not tell which. GPU numbers are those of the program, after CUDA_VISIBLE_DEVICES, so
which board each is must be declared. What Zeus writes where it has nothing is told apart here:

- negative: the counter started anew within the window -> unknown, counter_reset (never a negative energy);
- 0, or shorter than 1 s: below what the counter resolves, or Zeus' own power x time -> unknown, below_resolution;
- more than 2000 W on average: unknown, implausible.

Windows may lie within each other (an epoch and its steps). Of those that share time with an earlier or longer one
of the same board the workload is `nested`: each is a true measurement, and none may be added to the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Row
from ingest.power.logbook import declared_devices
from ingest.power.sensors import MAX_BOARD_POWER_W, SCOPE_GPU, relative_uncertainty
from ingest.power.table import cell_number, header_and_rows, plus_seconds
from ingest.power.verdict import MIN_COUNTER_S, UNCERTAIN_LOW
from ingest.power.windows import observation_id
from ingest.read import refuse
from warehouse.evidence import EvidenceClass, Quality
from warehouse.tables import frame

METHOD = "zeus_window"
_GPU = re.compile(r"gpu(\d+)_energy")
_UNIX = datetime(1970, 1, 1)
_REQUIRED = ("start_time", "window_name", "elapsed_time")


def parse(payload: Payload) -> Parsed:
    """Windows of all GPUs of the log; rows are (line, GPU). Raises PayloadError where it is no log of Zeus."""
    header, lines = header_and_rows(payload, _REQUIRED, split="window_name")  # Zeus does not quote
    gpus = {name: match[1] for name in header if (match := _GPU.fullmatch(name))}
    if not gpus:
        refuse(payload, "the log has no gpu0_energy column", fix="monitor at least one GPU", field="gpu0_energy")
    declared = declared_devices(payload.options.get("devices"), source_id=payload.source_id)
    host = payload.options.get("host") or "unknown"
    found: dict[str, dict[str, Any]] = {}
    rejects: list[Reject] = []
    rows_in = 0
    for row, is_complete in lines:
        if is_complete:
            rows_in += _windows(row, gpus, declared, host, found)
        else:
            row.refuse(None, None, "has not the columns of the header", whole_row=True)
            rows_in += 1
        rejects += row.rejects
    if not rows_in:
        refuse(payload, "the log has no windows", fix="close the windows with end_window before the program ends")
    rows = _nested(found.values())
    return Parsed(
        primary="core.energy_observation",
        tables={"core.energy_observation": frame("core.energy_observation", rows)},
        rows_in=rows_in,
        rejects=tuple(rejects),
        data_at=max((r["window_end_at"] for r in rows), default=None),
    )


def _windows(
    row: Row, gpus: dict[str, str], declared: dict[str, str], host: str, found: dict[str, dict[str, Any]]
) -> int:
    """Add the windows of one line to `found`, by observation id; how many rows it stands for."""
    start_s = cell_number(row, "start_time", high=4 * 10**9)
    elapsed_s = cell_number(row, "elapsed_time", high=10**9)
    start_at = None if start_s is None else plus_seconds(_UNIX, start_s)
    end_at = None if start_at is None or elapsed_s is None else plus_seconds(start_at, elapsed_s)
    if start_at is None or elapsed_s is None or end_at is None or not start_at < end_at:
        row.rejects.clear()
        told = {name: row.data.get(name) for name in ("start_time", "elapsed_time")}
        row.refuse("start_time, elapsed_time", told, "are no window in Unix time and s", whole_row=True)
        return 1
    name = str(row.data["window_name"])
    for column, index in gpus.items():
        one = declared.get("") if len(gpus) == 1 else None
        uuid = declared.get(index) or one or f"{host}/index:{index}"
        row.key = f"{uuid} {name}"
        energy_j = cell_number(row, column, low=-(10**12), high=10**12)
        window = _observation(uuid, name, start_at, end_at, elapsed_s, energy_j)
        known = found.setdefault(window["observation_id"], window)
        if known is not window:
            how = "again" if known["energy_gross_j"] == window["energy_gross_j"] else "again with another energy"
            row.refuse(column, row.data[column], f"tells a window of this GPU {how}; it counts once", whole_row=True)
    return len(gpus)


def _observation(
    uuid: str, name: str, start_at: datetime, end_at: datetime, elapsed_s: Decimal, energy_j: Decimal | None
) -> dict[str, Any]:
    duration_s = float(elapsed_s)
    reason = _why_unknown(duration_s, energy_j)
    uncertainty = None if reason else relative_uncertainty("unknown", "integrated_average", duration_s)
    return {
        # The end is part of it: Zeus' windows of one board may begin together.
        "observation_id": observation_id(f"{uuid} {end_at.isoformat()}", start_at, METHOD),
        "provider": "local",
        "hardware_count": 1,
        "device_uuid": uuid,
        "meter_scope": SCOPE_GPU,
        "window_start_at": start_at,
        "window_end_at": end_at,
        "evidence_class": EvidenceClass.MEASURED.value,
        "method": METHOD,
        "quality": _quality(uncertainty).value,
        "energy_gross_j": None if reason or energy_j is None else float(energy_j),
        "relative_uncertainty": uncertainty,
        "gap_reason": reason or None,
        "workload": "device",
        "usage_key": f"zeus:{name}",
    }


def _why_unknown(duration_s: float, energy_j: Decimal | None) -> str:
    if energy_j is None:
        return "unsupported"
    if energy_j < 0:
        return "counter_reset"
    if energy_j == 0 or duration_s < MIN_COUNTER_S:
        return "below_resolution"
    return "implausible" if float(energy_j) / duration_s > MAX_BOARD_POWER_W else ""


def _quality(uncertainty: float | None) -> Quality:
    """At most FAIR: the file does not tell how the board was read."""
    if uncertainty is None or uncertainty > UNCERTAIN_LOW:
        return Quality.LOW
    return Quality.FAIR


def _nested(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the windows that share time with an earlier or longer one of the same board."""
    ordered = sorted(rows, key=lambda r: (r["device_uuid"], r["window_start_at"], _UNIX - r["window_end_at"]))
    board, covered_to = None, _UNIX
    for row in ordered:
        if row["device_uuid"] != board:
            board, covered_to = row["device_uuid"], _UNIX
        if row["window_start_at"] < covered_to:
            row["workload"] = "nested"
        covered_to = max(covered_to, row["window_end_at"])
    return ordered
