"""A desk with a fleet: three live backends, a calibration, and stored experiments; made once, copied for each test."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from app import desk as desks
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.settings import load_settings
from warehouse.clock import utcnow
from warehouse.tables import columns, frame

OPERATOR = local_operator("cli")
POOLS = ["H100-80GB:1", "A100-80GB:1"]
WORK = {"prompt_tokens": 300, "output_tokens": 60, "requests_per_s": 3.0, "requests": 200, "seeds": [0, 1, 2]}
_LEVELS = (1, 2, 4, 8, 16, 32, 48, 64, 1, 3, 6, 12, 24, 40, 56, 64)
_WINDOW_S = 60.0


_STAMPS = ("source_id", "run_id", "known_from", "content_sha256")


def append(desk: Desk, table: str, rows: list[dict[str, Any]]) -> None:
    """Rows as an import would leave them, each known from its own instant."""
    stamp = {"source_id": "file:fleet", "run_id": "made", "content_sha256": "0" * 64}
    types = {c.name: c.polars for c in columns(table)}
    made = frame(table, [{k: v for k, v in row.items() if k not in _STAMPS} for row in rows])
    stamps = {k: [row.get(k, stamp.get(k)) for row in rows] for k in _STAMPS if k in types}
    with desk.warehouse.transaction() as tx:
        tx.append(table, made.with_columns(*(pl.Series(k, v, dtype=types[k]) for k, v in stamps.items())))


def board_w(concurrency: float) -> float:
    """An invented board: 4 % above the published H100 curve."""
    return 1.04 * (300 + 300 / (1 + math.exp(-(math.log2(concurrency) - 4.2))))


def live(desk: Desk, now: datetime | None = None) -> None:
    """`h100-a` reports, `a10g-b` is silent for three hours, `bare-c` has telemetry and nobody said its hardware."""
    now = now or utcnow()
    declared = {"valid_from": now - timedelta(days=1), "known_from": now - timedelta(days=1), "runtime": "vllm",
                "runtime_version": "0.11.1"}  # fmt: skip
    append(
        desk, "core.backend",
        [
            {**declared, "backend_id": "h100-a", "pool": "frontier", "zone": "FI", "hardware_model": "H100-80GB",
             "hardware_count": 8, "max_concurrency": 128, "config_version": "tp8"},
            {**declared, "backend_id": "a10g-b", "pool": "small", "zone": "PL", "hardware_model": "A10G",
             "hardware_count": 1, "max_concurrency": 32, "config_version": "tp1"},
        ],
    )  # fmt: skip
    serving, metered = [], []
    for name, boards, newest in (("h100-a", 8, 30.0), ("a10g-b", 1, 3 * 3600.0), ("bare-c", 0, 45.0)):
        levels = [min(n, 28) for n in _LEVELS] if boards == 1 else list(_LEVELS)
        for k, running in enumerate(levels):
            end = now - timedelta(seconds=newest + _WINDOW_S * (len(_LEVELS) - 1 - k))
            start = end - timedelta(seconds=_WINDOW_S)
            serving.append(
                {"backend_id": name, "engine": "0", "model": "llama-3-70b", "window_start_at": start,
                 "window_end_at": end, "runtime": "vllm", "running_requests": float(running), "waiting_requests": 2.0,
                 "kv_cache_utilization": running / 128, "prompt_tokens": 9000, "output_tokens": int(500 * running),
                 "successes": 5 * running, "evidence_class": "measured", "known_from": end}
            )  # fmt: skip
            if boards:
                noise = 1 + 0.01 * math.sin(7.0 * k)  # a meter that is one percent off, now up, now down
                held = (running + (levels[k - 1] if k else running)) / 2
                metered.append(
                    {"observation_id": f"{name}-{k}", "provider": "local", "backend_id": name, "pool": "frontier",
                     "hardware_model": "H100-80GB" if boards == 8 else "A10G", "hardware_count": boards,
                     "meter_scope": "gpu", "logical_model": "llama-3-70b", "runtime": "vllm",
                     "runtime_version": "0.11.1", "config_version": f"tp{boards}", "window_start_at": start,
                     "window_end_at": end, "evidence_class": "measured", "method": "counter", "quality": "HIGH",
                     "energy_gross_j": _WINDOW_S * boards * noise * (board_w(held) if boards == 8 else 70 + held),
                     "relative_uncertainty": 0.02, "workload": "replica", "known_from": end}
                )  # fmt: skip
    append(desk, "core.serving_window", serving)
    append(desk, "core.energy_observation", metered)


def experiments(desk: Desk) -> dict[str, str]:
    """Ids of stored runs by name."""
    asked = {"pool": POOLS, **WORK}
    three = ["round_robin", "pack", "energy_aware"]
    return {
        "compare": call(desk, "fleet.compare", {**asked, "policies": three}, OPERATOR),
        "low": call(desk, "fleet.simulate", {**asked, "pool": ["A10G:2"], "policy": "least_loaded"}, OPERATOR),
        "sensitivity": call(
            desk, "fleet.sensitivity",
            {**asked, "policies": ["round_robin", "energy_aware"], "draws": 2000, "sobol_n": 64}, OPERATOR,
        ),
        "size": call(desk, "fleet.size", {**asked, "verify": False}, OPERATOR),
        "flex": call(desk, "fleet.flex", {**asked, "pool": POOLS[:1], "levels": [0.0, 0.2]}, OPERATOR),
    }  # fmt: skip


@pytest.fixture(scope="session")
def fleet_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    home = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        patch.setenv("JOULEBOOK_OFFLINE", "true")
        desk = open_desk(load_settings())
        live(desk)
        call(desk, "fleet.calibrate", {}, OPERATOR)
        ids = {name: told["id"] for name, told in experiments(desk).items()}
        desk.close()
    return home / "joulebook.duckdb", ids


@pytest.fixture
def ids(fleet_file: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return fleet_file[1]


@pytest.fixture
def fleet(own_home: Path, fleet_file: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The desk that pages find as the current one."""
    monkeypatch.setenv("JOULEBOOK_OFFLINE", "true")
    shutil.copy(fleet_file[0], own_home / "joulebook.duckdb")
    opened = open_desk(load_settings())
    desks.set_current(opened)
    yield opened
    desks.set_current(None)
    opened.close()
