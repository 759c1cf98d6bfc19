"""dcgm-exporter's Prometheus text -> core.power_sample and core.device; one scrape, one sample per board.

Exact names only: `DCGM_FI_DEV_POWER_USAGE` (W; `_INSTANT` before it where exported) and
`DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION` (mJ since the driver was loaded, whatever its help text says). Every MIG
slice repeats the figures of its whole board: of the rows of one UUID the largest counts, once. Blank values of
DCGM are unknown, never numbers. A sample without a stamp of its own was true at the scrape.

Counters are differenced over consecutive scrapes of a source by `windows_of_source`, after each load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ingest.base import Parsed, Payload, Reject
from ingest.power.boards import arch_of_name
from ingest.power.sensors import SCOPE_GPU, implausible_power, sensor_class
from ingest.read import read_text, refuse
from warehouse.tables import frame

if TYPE_CHECKING:
    from collections.abc import Iterator

POWER, INSTANT = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
LIMIT, ENFORCED = "DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"
_FIGURES = frozenset({POWER, INSTANT, ENERGY})
_WANTED = _FIGURES | {LIMIT, ENFORCED}

# name{labels} value [stamp in ms]; labels are looked into only where the name is wanted
_LINE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+(?P<at>-?\d+))?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
# dcgm_structs.h: blank, not found, not supported, no permission; as int32, int64 and double
_BLANKS = frozenset(
    float(base + step) for base in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140_737_488_355_328) for step in range(4)
)
_UNIX = datetime(1970, 1, 1)
_LATEST_MS = 4_102_444_800_000  # 2100
_MOST_MJ = 2**63


@dataclass
class _Board:
    """What one scrape says of one board at one instant; of repeats the largest figure."""

    figures: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    series: set[str] = field(default_factory=set)
    sliced: bool = False
    refused: list[Reject] = field(default_factory=list)


def parse(payload: Payload) -> Parsed:
    """The boards of one scrape; rows are boards, and each line of a wanted metric that names none.

    Raises PayloadError where the text has none of the wanted metrics at all.
    """
    boards: dict[tuple[str, datetime], _Board] = {}
    rejects: list[Reject] = []
    host = payload.options.get("host") or ""
    for line_no, name, line in _wanted_lines(read_text(payload)):
        reason = _take(boards, name, line, line_no, payload.fetched_at, host)
        if reason and name in _FIGURES:
            rejects.append(Reject(f"the line {reason}", line_no, field=name, raw=line[:400]))
    boards = {key: board for key, board in boards.items() if board.series}
    if not boards and not rejects:
        refuse(
            payload,
            f"the text has neither {POWER} nor {ENERGY}",
            fix="check the address, and that the exporter's counters file lists these fields",
            field=POWER,
        )
    samples, devices = [], {}
    for (uuid, at), board in sorted(boards.items(), key=lambda item: item[0][::-1]):
        samples.append(_sample(uuid, at, board))
        devices[uuid] = _device(uuid, at, board, host)
        rejects += board.refused
    whole = sum(r.whole_row for r in rejects)
    return Parsed(
        primary="core.power_sample",
        tables={
            "core.power_sample": frame("core.power_sample", samples),
            "core.device": frame("core.device", devices.values()),
        },
        rows_in=len(samples) + whole,
        rejects=tuple(rejects),
        data_at=max((s["sampled_at"] for s in samples), default=None),
    )


def _wanted_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(line number from 1, metric, line) of the wanted metrics; other lines are not looked into."""
    for line_no, line in enumerate(text.split("\n"), 1):
        if line.startswith("DCGM_FI_DEV_"):
            name = line[: _end_of_name(line)]
            if name in _WANTED:
                yield line_no, name, line


def _end_of_name(line: str) -> int:
    brace, space = line.find("{"), line.find(" ")
    return min((n for n in (brace, space) if n >= 0), default=len(line))


def _take(
    boards: dict[tuple[str, datetime], _Board], name: str, line: str, line_no: int, fetched_at: datetime, host: str
) -> str:
    """Put one line where it belongs; why not, where it does not."""
    found = _LINE.fullmatch(line.rstrip("\r"))
    if found is None:
        return "is no sample: name{labels} value [stamp]"
    labels = _labels(found["labels"] or "")
    if labels is None:
        return "has labels that cannot be read"
    uuid = labels.get("UUID") or labels.get("uuid") or ""
    if uuid.startswith("MIG-"):
        return "names a slice (MIG-...), and power exists for whole boards only"
    if not uuid:
        name_host, index = labels.get("Hostname") or host, labels.get("gpu")
        if not name_host or index is None:
            return "names no board: it has neither UUID nor Hostname with gpu"
        uuid = f"{name_host}/index:{index}"
    at = fetched_at
    if found["at"] is not None:
        stamp_ms = int(found["at"])
        if not 0 < stamp_ms < _LATEST_MS:
            return f"has the stamp {stamp_ms}, which is no time in ms"
        at = _UNIX + timedelta(milliseconds=stamp_ms)
    try:
        value = float(found["value"])
    except ValueError:
        return f"has the value {found['value'][:40]!r}, which is no number"
    board = boards.setdefault((uuid, at), _Board())
    series = f"{name}{{{found['labels'] or ''}}}"
    if series in board.series:
        return "tells the same series again; the first was kept"
    if name in _FIGURES:
        board.series.add(series)
    board.labels |= {key: text for key, text in labels.items() if text}
    board.sliced = board.sliced or "GPU_I_ID" in labels
    reason = _unbelievable(name, value)
    if reason:
        board.refused.append(
            Reject(f"{name} {reason}", line_no, uuid, name, found["value"][:200], line[:400], whole_row=False)
        )
    elif value == value and value not in _BLANKS:
        board.figures[name] = max(value, board.figures.get(name, value))
    return ""


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _LABEL.match(text, position)
        if found is None:
            return None
        labels[found[1]] = _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], found[2])
        position = found.end()
    return labels


def _unbelievable(name: str, value: float) -> str:
    """Why a figure must not be believed; a blank or NaN is unknown, not wrong."""
    if value != value or value in _BLANKS:
        return ""
    if name == ENERGY:
        return "" if 0 <= value < _MOST_MJ else f"is {value:g}, no count of mJ"
    if name in (POWER, INSTANT):
        reason = implausible_power(value, None)
        return f"is {reason}" if reason else ""
    return "" if 0 < value < 1e6 else f"is {value:g}, no limit in W"


def _sample(uuid: str, at: datetime, board: _Board) -> dict[str, Any]:
    figures = board.figures
    instant = figures.get(INSTANT)
    power_w = figures.get(POWER) if instant is None else instant
    limit_w = figures.get(ENFORCED) or figures.get(LIMIT)
    refused = implausible_power(power_w, limit_w) if power_w is not None else ""
    if refused:
        shown = POWER if instant is None else INSTANT
        board.refused.append(Reject(f"{shown} is {refused}", None, uuid, shown, f"{power_w:g}", whole_row=False))
        power_w = None
    counter_mj = figures.get(ENERGY)
    return {
        "device_uuid": uuid,
        "sampled_at": at,
        "power_w": power_w,
        "energy_counter_j": None if counter_mj is None else counter_mj / 1000,
        "method": "unavailable" if power_w is None else "average" if instant is None else "instant",
        "sensor_at": None,
        "epoch": 0,  # one scrape knows of no other: resets are found where scrapes are differenced
    }


def _device(uuid: str, at: datetime, board: _Board, host: str) -> dict[str, Any]:
    labels: Mapping[str, str] = board.labels
    name = labels.get("modelName")
    driver = labels.get("DCGM_FI_DRIVER_VERSION")
    arch = arch_of_name(name)
    method = "instant" if INSTANT in board.figures else "average" if POWER in board.figures else "unavailable"
    known = board.figures.keys() & _FIGURES
    return {
        "device_uuid": uuid,
        "host": labels.get("Hostname") or host or "unknown",
        "pci_bus_id": labels.get("pci_bus_id"),
        "name": name,
        "gpu_arch": arch,
        "driver_version": driver,
        "power_limit_w": board.figures.get(ENFORCED) or board.figures.get(LIMIT),
        "mig_enabled": True if board.sliced else None,
        "counter_supported": ENERGY in board.figures or None,
        "sensor_class": sensor_class(arch, name, driver, method),
        "power_scope": SCOPE_GPU,
        "state": "ok" if known else "unsupported",
        "updated_at": at,
    }
