"""The columns of an `nvidia-smi --query-gpu=... --format=csv` log: what each is called, and in which unit.

The header has the unit in brackets, `power.draw [W]`; with `nounits` the values lack it and the header keeps
it. Without a header (`noheader`) the columns must be declared as they were asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ingest.errors import PayloadError

_NAME = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?:\[([^\]]*)\])?\s*")
_ALIASES = {"gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "gpu_name": "name"}

# In order of trust; the first that a row has counts. (column, whether it is the instant reading)
GPU_POWER = (("power.draw.instant", True), ("power.draw", False), ("power.draw.average", False))
MODULE_POWER = (("module.power.draw.instant", True), ("module.power.draw.average", False))
LIMITS = ("enforced.power.limit", "power.limit")
ABOUT = ("name", "driver_version", "pci.bus_id", "mig.mode.current")
IDENTITY = ("uuid", "pci.bus_id", "index")
_POWER = tuple(name for name, _ in (*GPU_POWER, *MODULE_POWER))
_WATTS = frozenset((*_POWER, *LIMITS))


@dataclass(frozen=True)
class Layout:
    """Column names in the order of the file, without units and under one name each."""

    names: tuple[str, ...]

    def has(self, name: str) -> bool:
        return name in self.names

    @property
    def wanted(self) -> list[str]:
        """The columns that mean something here, in order; the last one of the file always, to count fields."""
        known = {"timestamp", *IDENTITY, *ABOUT, *_WATTS}
        return [name for name in self.names if name in known or name == self.names[-1]]


def layout_of(line: str, *, source_id: str) -> Layout:
    """The layout that a header line, or the option `columns`, tells.

    Raises PayloadError where it is no header, names a column twice, lacks timestamp or power, or has power in
    anything but W.
    """
    names: list[str] = []
    for cell in line.split(","):
        match = _NAME.fullmatch(cell)
        if match is None:
            raise PayloadError(
                f"{cell.strip()[:40]!r} is no column of nvidia-smi",
                fix="log with a header (--format=csv), or declare --option columns=timestamp,uuid,power.draw",
                source_id=source_id,
                field="columns",
            )
        name, unit = _ALIASES.get(match[1], match[1]), match[2]
        if unit not in (None, "W") and name in _WATTS:
            raise PayloadError(
                f"{name} is in {unit!r}, not in W", fix="log it as nvidia-smi does", source_id=source_id, field=name
            )
        names.append(name)
    layout = Layout(tuple(names))
    problem = ""
    if len(set(names)) < len(names):
        problem = "a column is named twice"
    elif not layout.has("timestamp"):
        problem = "there is no timestamp"
    elif not any(layout.has(n) for n in _POWER):
        problem = f"there is no power; it takes one of {', '.join(_POWER)}"
    if problem:
        raise PayloadError(
            f"the log has the columns {', '.join(names)[:200]}: {problem}",
            fix="log with --query-gpu=timestamp,uuid,power.draw --format=csv",
            source_id=source_id,
            field="columns",
        )
    return layout


def is_header(line: bytes) -> bool:
    """Whether a line names columns: it has `timestamp` as one of its cells."""
    return any(cell.strip() == b"timestamp" for cell in line.split(b","))
