"""Paired replays of the sample: the same requests, sent to incumbent and candidate, in the format of `shadow-pairs`.

Log-normal around the reference means of both offers, with what real pairs have: sizes, sessions that belong together,
a request's own weight on both sides, noise of single runs, some that fail. Drawn from a fixed seed per name.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

METER = "provider attribution"
REPEATED = 120  # requests that ran twice, so that run noise can be told from requests
_SESSIONS = 150
_SIZE = {"0-511": 0.7, "512-2047": 1.0, "2048-8191": 1.6, "8192-32767": 3.0, "32768+": 6.0}
_LOG_SD = {"session": 0.12, "request": 0.40, "run": 0.15}
_FAILS, _FLIPS = 0.03, 0.012  # share that neither side answers; that only one side answers, each
_LATENCY_S, _FASTER, _LATENCY_SD = 1.6, 0.93, 0.30

_Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One offer with its means per request of the reference workload."""

    offer_id: str
    energy_j: float
    cost_usd: float
    carbon_g: float


def pairs_csv(
    name: str, control: Side, candidate: Side, start: datetime, n: int, mix: Mapping[str, float] | None
) -> str:
    """`n` pairs (and REPEATED second runs) observed 1 ms apart after `start` (naive UTC), with a header line.

    mix: share per `category|size band`; every stratum of it has its share of the requests, and at least two.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    strata = _strata(rng, mix or {"general_chat|512-2047": 1.0}, n)
    bands = [s.partition("|")[2] for s in strata]
    session = rng.integers(0, _SESSIONS, n)
    shared = np.log([_SIZE[b] for b in bands])
    shared = shared + rng.normal(0, _LOG_SD["session"], _SESSIONS)[session] + rng.normal(0, _LOG_SD["request"], n)
    again = np.arange(n + min(REPEATED, n)) % n  # which request each run is of
    runs = again.size
    answered = _answered(rng, n)
    columns: dict[str, Any] = {
        "pair_id": [f"{name}-{i:05d}-{k // n}" for k, i in enumerate(again)],
        "evidence_kind": ["paired_replay"] * runs,
        "request_id": [f"replay/{name}/{i:05d}" for i in again],
        "observed_at": [(start + timedelta(milliseconds=k + 1)).isoformat() + "Z" for k in range(runs)],
        "cluster": [f"session-{session[i]:03d}" for i in again],
        "category": [strata[i].partition("|")[0] for i in again],
        "size_band": [bands[i] for i in again],
        "first_arm": np.where(rng.random(runs) < 0.5, "control", "candidate").tolist(),
        "repeat_no": [k // n for k in range(runs)],
        "meter_class": [METER] * runs,
        "evidence_class": ["allocated"] * runs,
        "carbon_evidence_class": ["calibrated"] * runs,
    }
    for arm, side, faster in (("control", control, 1.0), ("candidate", candidate, _FASTER)):
        joules = np.exp(shared[again] + rng.normal(0, _LOG_SD["run"], runs))
        joules *= side.energy_j / joules[:n].mean()
        seconds = _LATENCY_S * faster * np.exp(0.4 * shared[again] + rng.normal(0, _LATENCY_SD, runs))
        columns |= {
            f"{arm}_offer": [side.offer_id] * runs,
            f"{arm}_energy_j": joules.round(6).tolist(),
            f"{arm}_success": answered[arm][again].tolist(),
            f"{arm}_attempts": [1] * runs,
            f"{arm}_latency_s": seconds.round(4).tolist(),
            f"{arm}_cost_usd": _per_joule(joules, side.cost_usd, side).round(12).tolist(),
            f"{arm}_carbon_g": _per_joule(joules, side.carbon_g, side).round(9).tolist(),
        }
    return pl.DataFrame(columns).write_csv(float_scientific=False)


def _strata(rng: np.random.Generator, mix: Mapping[str, float], n: int) -> list[str]:
    names = sorted(mix)
    counts = {name: max(round(mix[name] * n), 2) for name in names}
    listed = [name for name in names for _ in range(counts[name])]
    largest = max(names, key=lambda name: (mix[name], name))
    listed = (listed + [largest] * max(n - len(listed), 0))[:n] if len(listed) <= n else _shortened(listed, largest, n)
    return [listed[i] for i in rng.permutation(n)]


def _shortened(listed: list[str], largest: str, n: int) -> list[str]:
    extra = len(listed) - n
    kept = [name for name in listed if name != largest]
    return kept + [largest] * (len(listed) - len(kept) - extra)


def _answered(rng: np.random.Generator, n: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Most succeed on both sides; as many fail on the one as on the other."""
    drawn = rng.random(n)
    neither = drawn < _FAILS
    return {
        "control": ~neither & ~((drawn >= _FAILS) & (drawn < _FAILS + _FLIPS)),
        "candidate": ~neither & ~((drawn >= _FAILS + _FLIPS) & (drawn < _FAILS + 2 * _FLIPS)),
    }


def _per_joule(joules: _Array, amount: float, side: Side) -> _Array:
    """The bill and the grams follow the joules, in the ratio of the reference means."""
    return np.asarray(joules * (amount / side.energy_j))
