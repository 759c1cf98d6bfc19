"""The power sampler at 200 ms x 8 devices on the stand-in driver: CPU share of one core, and missed ticks.

Floor: a bare loop that asks the same binding for counter and instant power of the 8 devices, and keeps nothing.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
import pynvml

from ingest.power.nvml import Nvml
from ingest.power.sampler import PowerSampler
from tests.bench.timing import rounded
from tests.power.standin import StandIn, build, compiler, loaded

_SECONDS = 20.0
_PERIOD_S = 0.2
_DEVICES = 8


def _floor_cpu_s(ticks: int) -> float:
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(_DEVICES)]
    started = time.thread_time()
    for _ in range(ticks):
        for handle in handles:
            pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
            pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
    spent = time.thread_time() - started
    pynvml.nvmlShutdown()
    return spent


def run() -> dict[str, Any]:
    if compiler() is None:
        return {"skipped": "no C compiler for the stand-in driver"}
    rows = 0

    def sink(samples: pl.DataFrame, observations: pl.DataFrame, devices: pl.DataFrame) -> None:
        nonlocal rows
        rows += samples.height

    with tempfile.TemporaryDirectory() as folder:
        state = StandIn(Path(folder) / "gpus.state")
        state.set(count=_DEVICES, power_mw=300_000, advance=1)
        with loaded(build(Path(folder)), state):
            sampler = PowerSampler(Nvml(), sink, period_s=_PERIOD_S)
            sampler.start()
            time.sleep(_SECONDS)
            sampler.stop()
            status = sampler.status()
            floor = _floor_cpu_s(status.ticks)
    cpu_s = status.cpu_s + status.flush_cpu_s
    return rounded(
        {
            "devices": _DEVICES,
            "period_s": _PERIOD_S,
            "ticks": status.ticks,
            "missed_ticks": status.missed_ticks,
            "rows": rows,
            "cpu_share_of_one_core": cpu_s / _SECONDS,
            "floor_bare_binding_cpu_share": floor / _SECONDS,
            "cpu_ratio_to_floor": cpu_s / floor,
        }
    )
