"""CodeCarbon's `emissions.csv` -> core.energy_observation: a run's GPU, CPU and RAM energy, each with its own class.

Energies are kWh, `emissions` kg CO2eq, `duration` s; `timestamp` is the naive local end of the run. What CodeCarbon
adds up here stays apart, because it is of different kinds:

- `gpu_energy`: the counters of `gpu_count` boards, measured. It falls back to averaged power unmarked, so FAIR at most.
  With a PUE other than 1 the figure contains that assumption and is modeled.
- `cpu_energy`, `ram_energy`: from rated power and load on most machines (the file does not tell where RAPL was
  readable), so modeled.
- files of version 1 have the total only: modeled.

A 0 is what CodeCarbon writes for a part that it could not read: unknown, unsupported. Grams follow from a yearly
country factor, `emissions / energy_consumed`, so they are modeled. One tracker per process logs the whole machine
each time: of rows whose time overlaps on one machine the longest counts, once, whatever run it belongs to. Where
`tracking_mode` is process, that holds for the GPUs; CPU and RAM are the process's own.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.base import Parsed, Payload, Reject
from ingest.fields import J_PER_KWH, LARGEST_INTENSITY, Row
from ingest.power.boards import arch_of_name
from ingest.power.localtime import LogClock
from ingest.power.sensors import MAX_BOARD_POWER_W, SCOPE_GPU, relative_uncertainty
from ingest.power.table import cell_number, cell_text, header_and_rows, plus_seconds
from ingest.power.verdict import UNCERTAIN_LOW
from ingest.power.windows import observation_id
from ingest.read import refuse
from warehouse.clock import to_utc
from warehouse.evidence import EvidenceClass, Quality
from warehouse.tables import frame

_PARTS = {"gpu_energy": SCOPE_GPU, "cpu_energy": "cpu", "ram_energy": "ram"}
_TOTAL = "energy_consumed"
_MODEL = re.compile(r"\s*(?:(\d+)\s*x\s+)?(.+?)\s*")
_MOST_KWH = 10**9
_MOST_HOST_W = 100_000.0  # a rack; a machine that claims more is wrong
_STAMP_RESOLUTION = timedelta(seconds=1)  # so runs one after another may seem to overlap by this much
_SUM_TOLERANCE = 0.01


@dataclass(frozen=True)
class _Run:
    """One line of the file."""

    row: Row
    start_at: datetime
    end_at: datetime
    machine: str
    run_id: str

    @property
    def of_process(self) -> bool:
        return cell_text(self.row, "tracking_mode") == "process"

    @property
    def duration_s(self) -> float:
        return (self.end_at - self.start_at).total_seconds()


class _Counted:
    """Rows and refusals of one file."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.rejects: list[Reject] = []
        self.refused = 0

    def refuse(self, run: _Run, field: str | None, reason: str) -> None:
        """Refuse a row, which then counts as one."""
        run.row.refuse(field, None, reason, whole_row=True)
        self.refused += 1

    def add(self, run: _Run, part: dict[str, Any]) -> None:
        if self.rows.setdefault(part["observation_id"], part) is not part:
            self.refuse(run, None, "tells the same part of the same machine and time again; it counts once")


def parse(payload: Payload) -> Parsed:
    """The parts of all runs; rows are parts, and each line that is no run or repeats its machine.

    Raises PayloadError where the header is not CodeCarbon's, old or new, or the zone is none.
    """
    clock = LogClock.of(payload.options.get("timezone", ""), source_id=payload.source_id)
    _, lines = header_and_rows(payload, ("timestamp", "duration", "emissions", _TOTAL))
    host = payload.options.get("host") or ""
    counted = _Counted()
    runs: list[_Run] = []
    rows: list[Row] = []
    for row, is_complete in lines:
        rows.append(row)
        run = _run(row, clock, host) if is_complete else None
        if run is not None:
            runs.append(run)
            continue
        if not is_complete:
            row.refuse(None, None, "has not the columns of the header", whole_row=True)
        counted.refused += 1
    if not rows:
        refuse(payload, "the file has no runs", fix="stop the tracker, which then writes its row")
    one_machine = payload.options.get("machines", "one") == "one"
    for run, repeats in _counted_once(runs) if one_machine else ((run, "") for run in runs):
        if repeats and not run.of_process:
            counted.refuse(run, None, repeats)
            continue
        if repeats:
            run.row.refuse("gpu_energy", None, repeats)
        parts = list(_parts(run, without_gpu=bool(repeats)))
        for part in parts:
            counted.add(run, part)
        if not parts:
            counted.refuse(run, _TOTAL, "tells no energy of its own")
    kept = counted.rows.values()
    return Parsed(
        primary="core.energy_observation",
        tables={"core.energy_observation": frame("core.energy_observation", kept)},
        rows_in=len(kept) + counted.refused,
        rejects=tuple(reject for row in rows for reject in row.rejects),
        data_at=max((r["window_end_at"] for r in kept), default=None),
    )


def _run(row: Row, clock: LogClock, host: str) -> _Run | None:
    """The line as a run; None, with one whole-row reject, where it is none."""
    row.key = cell_text(row, "run_id") or cell_text(row, "experiment_id")
    duration_s = cell_number(row, "duration", high=10**9)
    end_at = _utc(cell_text(row, "timestamp") or "", clock)
    start_at = None if end_at is None or duration_s is None else plus_seconds(end_at, -duration_s)
    if end_at is None or start_at is None or not start_at < end_at:
        row.rejects.clear()
        about = {name: row.data.get(name) for name in ("timestamp", "duration")}
        row.refuse("timestamp, duration", about, "are no window in time and s", whole_row=True)
        return None
    names = ("cpu_model", "cpu_count", "gpu_model", "gpu_count", "ram_total_size", "os", "country_iso_code", "region")
    machine = host or "/".join(cell_text(row, name) or "" for name in names)
    return _Run(row, start_at, end_at, machine, row.key or "")


def _utc(text: str, clock: LogClock) -> datetime | None:
    """Naive stamps in the declared zone; a stamp that has an offset of its own is taken at its word."""
    try:
        value = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if value.tzinfo is not None:
            return to_utc(value, what="timestamp")
    except (ValueError, OverflowError):
        return None
    placed: datetime | None = clock.to_utc(pl.Series([value], dtype=pl.Datetime("us")))[0]
    return placed


def _counted_once(runs: list[_Run]) -> Iterator[tuple[_Run, str]]:
    """Each run, and why its machine is already counted then; longest first, and of one run only the last state."""
    taken: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    states: dict[str, _Run] = {}
    for run in sorted(runs, key=lambda r: (-r.duration_s, r.row.row_no)):
        if run.run_id and "run_id" in run.row.data and states.setdefault(run.run_id, run) is not run:
            yield run, f"is an earlier state of the run of row {states[run.run_id].row.row_no}"
            continue
        spans = taken[run.machine]
        place = bisect_left(spans, (run.start_at, run.end_at))
        overlap = max(
            (min(end, run.end_at) - max(start, run.start_at) for start, end in spans[max(0, place - 1) : place + 1]),
            default=timedelta(0),
        )
        if overlap > _STAMP_RESOLUTION:
            yield run, "overlaps another run that measured the same machine; its energy counts once"
            continue
        insort(spans, (run.start_at, run.end_at))
        yield run, ""


def _parts(run: _Run, *, without_gpu: bool) -> Iterator[dict[str, Any]]:
    """The observations of one run."""
    row = run.row
    total_kwh = cell_number(row, _TOTAL, high=_MOST_KWH)
    intensity = _intensity(row, total_kwh)
    if not any(name in row.data for name in _PARTS):
        if total_kwh is not None:
            yield _observation(run, "total", "host", 1, total_kwh, intensity, EvidenceClass.MODELED)
        return
    told: dict[str, Decimal] = {}
    for name, scope in _PARTS.items():
        kwh = cell_number(row, name, high=_MOST_KWH)
        count, model = _boards(row) if scope == SCOPE_GPU else (1, cell_text(row, "cpu_model"))
        if kwh is None or (scope == SCOPE_GPU and not kwh and model is None):
            continue
        told[name] = kwh
        if scope == SCOPE_GPU and without_gpu:
            continue
        measured = scope == SCOPE_GPU and (cell_number(row, "pue") or Decimal(1)) == 1
        evidence = EvidenceClass.MEASURED if measured else EvidenceClass.MODELED
        found = _observation(run, name, scope, count, kwh, intensity, evidence)
        if scope != "ram":
            found["hardware_model"] = model
        if scope == SCOPE_GPU:
            found["gpu_arch"] = arch_of_name(model)
        yield found
    parts_kwh = sum(told.values(), Decimal(0))
    if total_kwh and abs(parts_kwh - total_kwh) > total_kwh * Decimal(str(_SUM_TOLERANCE)):
        row.refuse(_TOTAL, total_kwh, f"is not the sum of its parts, {parts_kwh:g} kWh; the parts were kept")


def _boards(row: Row) -> tuple[int, str | None]:
    """(number, model) of the GPUs; `gpu_model` is such as `4 x NVIDIA A100-SXM4-40GB`."""
    model = cell_text(row, "gpu_model")
    found = _MODEL.fullmatch(model or "")
    told = cell_number(row, "gpu_count", high=10_000)
    count = int(told) if told else int(found[1]) if found is not None and found[1] else 1
    if found is None:
        return count, "GPU" if told else None
    return min(count, 10_000), found[2]


def _intensity(row: Row, total_kwh: Decimal | None) -> Decimal | None:
    """g/kWh that CodeCarbon multiplied with: its factor of the country and year."""
    kg = cell_number(row, "emissions", high=_MOST_KWH)
    if kg is None or not kg or not total_kwh:
        return None
    intensity = kg * 1000 / total_kwh
    if intensity > LARGEST_INTENSITY:
        row.refuse("emissions", kg, f"are {intensity:g} g/kWh, above {LARGEST_INTENSITY}, which is not plausible")
        return None
    return intensity


def _observation(
    run: _Run, part: str, scope: str, count: int, kwh: Decimal, intensity: Decimal | None, evidence: EvidenceClass
) -> dict[str, Any]:
    energy_j = float(kwh * J_PER_KWH)
    most_w = MAX_BOARD_POWER_W * count if scope == SCOPE_GPU else _MOST_HOST_W
    reason = "unsupported" if not kwh else "implausible" if energy_j / run.duration_s > most_w else None
    measured = evidence is EvidenceClass.MEASURED and reason is None
    uncertainty = relative_uncertainty("unknown", "integrated_average", run.duration_s) if measured else None
    own = f" {run.run_id}" if run.of_process and scope != SCOPE_GPU else ""
    grams = None if reason or intensity is None else float(kwh * intensity)
    return {
        "observation_id": observation_id(
            f"{run.machine} {part}{own} {run.end_at.isoformat()}", run.start_at, "codecarbon"
        ),
        "provider": "local",
        "hardware_count": count if scope == SCOPE_GPU else None,
        "meter_scope": scope,
        "window_start_at": run.start_at,
        "window_end_at": run.end_at,
        "evidence_class": evidence.value,
        "method": f"codecarbon_{part.removesuffix('_energy')}",
        "quality": (Quality.FAIR if measured and (uncertainty or 1) <= UNCERTAIN_LOW else Quality.LOW).value,
        "energy_gross_j": None if reason else energy_j,
        "relative_uncertainty": uncertainty,
        "gap_reason": reason,
        "carbon_g": grams,
        "carbon_evidence_class": None if grams is None else EvidenceClass.MODELED.value,
        "intensity_g_per_kwh": None if grams is None or intensity is None else float(intensity),
        "workload": "device" if scope == SCOPE_GPU else "host",
        "usage_key": f"codecarbon:{run.run_id}" if run.run_id else None,
    }
