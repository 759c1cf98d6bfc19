"""What a GPU power reading is: the types, what the sensor behind it really does, and how far to trust it.

The same NVML call means different things by architecture and driver. The classes below follow the
result matrix of Yang, Adamek and Armour, "Part-time Power Measurements" (arXiv 2312.02741): for
example an A100 or H100 looks at its power for 25 ms of every 100 ms, so a short window is noise.

Figures are GPU board power only: no host, no fans of the chassis, no PUE. A board split by MIG is
still one board; all devices of the host are read, whatever CUDA_VISIBLE_DEVICES says, because that
variable hides devices from a CUDA program and not from the power bill. One sampler per host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import polars as pl

MAX_BOARD_POWER_W = 2000.0  # above any board today; drivers have answered SUCCESS with 3,700 W garbage
LIMIT_TOLERANCE = 1.2  # a board may overshoot its enforced limit a little, not by a fifth

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}

# NVML calls both GA100 boards and the rest "Ampere", and their sensors differ: only the name tells.
_GA100 = re.compile(r"\b(A100X?|A800|A30X?|PG506\w*)\b")

# architecture -> class of (power call before driver 530, at 530, after 530, field 186 instant)
_MATRIX = {
    "Hopper": ("unknown", "unknown", "avg_1s", "inst_100ms_win25ms"),
    "Ada": ("avg_1s", "inst_100ms_win100ms", "avg_1s", "inst_100ms_win100ms"),
    "Ampere": ("avg_1s", "inst_100ms_win100ms", "avg_1s", "inst_100ms_win100ms"),
    "GA100": ("inst_100ms_win25ms",) * 4,
    "Turing": ("inst_100ms_win100ms",) * 4,
    "Volta": ("inst_20ms_win10ms",) * 4,
    "Pascal": ("inst_20ms_win10ms",) * 4,
    "Maxwell": ("log_100ms",) * 4,
    "Kepler": ("log_100ms", "unknown", "unknown", "unknown"),
    # Newer than the matrix: nobody has published what their sensors average over.
    "Blackwell": ("unknown",) * 4,
    "Rubin": ("unknown",) * 4,
}

SCOPE_GPU = "gpu"  # the board: GPU, its memory and its own losses
SCOPE_MODULE = "module"  # a superchip: CPU, GPU and memory of the module; no CPU figure may be added on top


class Reading(NamedTuple):
    """One answer of one device. What the device could not tell is None, with the reason beside it.

    Counter in mJ as the driver counts it (64 bit, exact), power in W, sensor stamp in us since 1970.
    `power_method` is instant (field 186), average (nvmlDeviceGetPowerUsage) or unavailable.
    """

    energy_counter_mj: int | None
    energy_reason: str
    power_w: float | None
    power_method: str
    power_reason: str
    sensor_at_us: int | None = None

    @property
    def energy_counter_j(self) -> float | None:
        return None if self.energy_counter_mj is None else self.energy_counter_mj / 1000


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU board, or several read as one (`boards` > 1).

    `uuid` is the only safe key: NVML indices move and are not CUDA's. `scope` says what its meter covers.
    """

    uuid: str
    pci_bus_id: str | None = None
    name: str | None = None
    gpu_arch: str | None = None
    driver_version: str | None = None
    mig_enabled: bool | None = None
    power_limit_w: float | None = None
    counter_supported: bool | None = None
    sensor_class: str = "unknown"
    power_method: str = "unavailable"
    notes: tuple[str, ...] = ()
    index: int | None = None
    scope: str = SCOPE_GPU
    boards: int = 1
    replica: str | None = None  # the name of the replica that these boards make up

    @property
    def supported(self) -> bool:
        return bool(self.counter_supported) or self.power_method != "unavailable"


class Occupancy(NamedTuple):
    """Who uses a board: number of compute processes, and the busy part of the last moments, 0..1."""

    processes: int | None
    utilization: float | None

    @property
    def state(self) -> str | None:
        """empty (no process), loaded (a process holds the board, working or not); None where it is not told."""
        return None if self.processes is None else "loaded" if self.processes else "empty"


UNTOLD = Occupancy(None, None)


class PowerBackend(Protocol):
    """What the sampler needs of a driver. `open` may be called again after `close`."""

    def open(self) -> Sequence[DeviceInfo]:
        """Start a session and list the boards, each once. Raises NoDriver, DeviceLost or DeviceError."""

    def read(self, device_uuid: str) -> Reading:
        """Read one board now. Raises DeviceLost when it is gone, NoDriver when the driver is."""

    def occupancy(self, device_uuid: str) -> Occupancy:
        """Who uses one board, as far as the driver tells; never raises."""

    def close(self) -> None:
        """End the session; never raises."""


def power_ceiling_w(power_limit_w: float | None, boards: int = 1) -> float:
    """The largest believable power of `boards` boards in W: 1.2 x their enforced limits, at most 2000 W each."""
    most_w = MAX_BOARD_POWER_W * boards
    return min(most_w, LIMIT_TOLERANCE * power_limit_w) if power_limit_w else most_w


def implausible_power(power_w: float, power_limit_w: float | None, boards: int = 1) -> str:
    """Why `power_w` cannot be the draw of running boards; empty when it can."""
    ceiling_w = power_ceiling_w(power_limit_w, boards)
    if not math.isfinite(power_w) or power_w <= 0:
        return f"implausible: {power_w:g} W, and a running board draws more than 0 W"
    if power_w > ceiling_w:
        return f"implausible: {power_w:g} W is above {ceiling_w:g} W (1.2 x the enforced limit, at most 2000 W a board)"
    return ""


def sensor_class(gpu_arch: str | None, name: str | None, driver_version: str | None, power_method: str) -> str:
    """What the power reading means: avg_1s, inst_<update>_win<window>, log_100ms or unknown.

    `power_method` is instant or average, the call that answers on this device. Source: the matrix
    named in the module docstring; boards newer than it are unknown.
    """
    arch = "GA100" if gpu_arch == "Ampere" and _GA100.search(name or "") else gpu_arch
    row = _MATRIX.get(arch or "")
    if row is None or power_method == "unavailable":
        return "unknown"
    if power_method == "instant":
        return row[3]
    major = re.match(r"\d+", driver_version or "")
    if major is None:
        return row[0] if len(set(row[:3])) == 1 else "unknown"
    return row[0] if int(major[0]) < 530 else row[1] if int(major[0]) == 530 else row[2]


# Window length in s -> rms of (board sensor energy / external meter energy - 1) over sub-windows of the
# square-wave traces published with arXiv 2312.02741: A100 (25 ms of 100 ms) and RTX 3090 (100/100 ms).
_RMS_25_OF_100 = ((0.1, 0.35), (0.5, 0.34), (1.0, 0.29), (2.0, 0.18), (5.0, 0.11), (10.0, 0.06))
_RMS_100_OF_100 = ((0.1, 0.20), (0.5, 0.20), (1.0, 0.17), (2.0, 0.13), (5.0, 0.08), (10.0, 0.06))
_TABLES = {
    "inst_100ms_win25ms": _RMS_25_OF_100,
    "inst_100ms_win100ms": _RMS_100_OF_100,
    "unknown": _RMS_25_OF_100,  # not knowing the sensor is no reason to trust it more
}
_LAG_S = {"avg_1s": 1.0, "inst_20ms_win10ms": 0.02, "log_100ms": 0.3}
_COUNTER_UPDATE_S = 0.1
_GAIN = 0.05  # shunts and their calibration: up to 5 % on the boards of the paper, whatever the window
_TWO_EDGES = math.sqrt(2 / 12)  # sd of the sum of two independent uniform edge errors of one unit
# Poll period in s -> worst relative error of the whole 10 s A100 trace when thinned to that period.
_POLLING = ((0.1, 0.011), (0.2, 0.018), (0.5, 0.043), (1.0, 0.088), (2.0, 0.25))
_FROM_ZERO = ((0.0, 0.0), *_POLLING)


def uncertainty_of_polls(sensor: str, duration_s: pl.Expr, poll_gap_s: pl.Expr) -> pl.Expr:
    """`relative_uncertainty` of integrated windows, for whole columns of one sensor class."""
    if sensor in _LAG_S:
        base = _hypot(pl.lit(_GAIN), _TWO_EDGES * _LAG_S[sensor] / duration_s)
    else:
        base = _interpolated(_TABLES.get(sensor, _RMS_25_OF_100), duration_s)
    polling = pl.when(poll_gap_s > 0).then(_interpolated(_FROM_ZERO, poll_gap_s)).otherwise(0.0)
    return pl.min_horizontal(pl.lit(1.0), _hypot(base, polling))


def _hypot(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return (a * a + b * b).sqrt()


def _interpolated(table: Sequence[tuple[float, float]], x: pl.Expr) -> pl.Expr:
    found: pl.Expr = pl.lit(table[-1][1])
    for (x0, y0), (x1, y1) in reversed([*pairwise(table)]):
        found = pl.when(x <= x1).then(y0 + (y1 - y0) * (x - x0) / (x1 - x0)).otherwise(found)
    return pl.when(x <= table[0][0]).then(pl.lit(table[0][1])).otherwise(found)


def _interpolate(table: Sequence[tuple[float, float]], x: float) -> float:
    if x <= table[0][0]:
        return table[0][1]
    for (x0, y0), (x1, y1) in pairwise(table):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return table[-1][1]


def relative_uncertainty(sensor: str, method: str, duration_s: float, poll_gap_s: float = 0.0) -> float:
    """One standard deviation / value of a window's energy, between 0.05 and 1.

    `sensor` is a sensor class, `method` counter, integrated_instant or integrated_average, `duration_s` the
    window and `poll_gap_s` the mean distance of polls (integrated methods only). Measured tables where
    traces exist, else gain error and two edges of one update period. Whether the counter of a part-time
    sensor (25 of 100 ms) accumulates full time is undocumented, so it gets the sensor's own table.
    """
    if duration_s <= 0:
        raise ValueError(f"duration_s is {duration_s}, a window must be longer than 0 s")
    if method == "counter" and sensor != "inst_100ms_win25ms":
        base = math.hypot(_GAIN, _TWO_EDGES * _COUNTER_UPDATE_S / duration_s)
    elif sensor in _LAG_S:
        base = math.hypot(_GAIN, _TWO_EDGES * _LAG_S[sensor] / duration_s)
    else:
        base = _interpolate(_TABLES.get(sensor, _RMS_25_OF_100), duration_s)
    polling = 0.0 if method == "counter" or poll_gap_s <= 0 else _interpolate(_FROM_ZERO, poll_gap_s)
    return min(1.0, math.hypot(base, polling))
