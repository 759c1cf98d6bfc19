"""The boards of one log while it is read: who they are, their open windows, and whether they were lost.

Board identity: the UUID where the log has it, else what was declared with the option `devices`, else the
host with PCI address or index. An index moves between reboots, so a log without UUIDs is better declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from ingest.errors import PayloadError
from ingest.power.boards import arch_of_name
from ingest.power.bulk import Fed, feed, rows_of
from ingest.power.sensors import SCOPE_GPU, DeviceInfo, sensor_class
from ingest.power.windows import DeviceWindows, Window
from warehouse.tables import frame

EPOCH_ZERO = datetime(2025, 1, 1)  # epochs count seconds since then, so they grow from log to log, as the sampler's do
_UUID = re.compile(r"GPU-[0-9a-zA-Z-]{4,64}")
_KEY = re.compile(r"[0-9A-Za-z.:_-]{1,64}")


def declared_devices(text: str | None, *, source_id: str) -> dict[str, str]:
    """The option `devices`: `0=GPU-...,1=GPU-...` by index or PCI address; one UUID alone stands for every row.

    Raises PayloadError naming the part that is wrong.
    """
    found: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        key, equals, uuid = (piece.strip() for piece in part.rpartition("="))
        if not _UUID.fullmatch(uuid) or (equals and not _KEY.fullmatch(key)):
            raise PayloadError(
                f"{part.strip()[:80]!r} declares no GPU",
                fix="write --option devices=0=GPU-...,1=GPU-... or devices=GPU-... where the log has one GPU",
                source_id=source_id,
                field="devices",
            )
        found[key.lower()] = uuid
    return found


@dataclass
class Board:
    """One board of a log."""

    windows: DeviceWindows
    host: str
    index: str | None = None
    last_at: datetime | None = None
    lost: bool = False
    seen_power: bool = False

    @property
    def info(self) -> DeviceInfo:
        return self.windows.device


@dataclass
class Logbook:
    """All boards of one log, by UUID."""

    host: str
    window_s: float = 10.0
    boards: dict[str, Board] = field(default_factory=dict)
    in_order: bool = True  # no board has told an instant twice, nor one before its last

    def board(self, uuid: str, first_at: datetime) -> Board:
        """The board of that UUID; a new one starts its epoch at its first reading."""
        found = self.boards.get(uuid)
        if found is None:
            epoch = max(0, int((first_at - EPOCH_ZERO).total_seconds()))
            found = Board(DeviceWindows(DeviceInfo(uuid), self.window_s, epoch=epoch), self.host)
            self.boards[uuid] = found
        return found

    def describe(self, board: Board, told: DeviceInfo) -> None:
        """Take what a log says of a board; another driver than before starts a new epoch."""
        known = board.info
        info = replace(
            known,
            name=told.name or known.name,
            driver_version=told.driver_version or known.driver_version,
            pci_bus_id=told.pci_bus_id or known.pci_bus_id,
            mig_enabled=known.mig_enabled if told.mig_enabled is None else told.mig_enabled,
            power_limit_w=told.power_limit_w or known.power_limit_w,
            power_method=known.power_method if told.power_method == "unavailable" else told.power_method,
            scope=told.scope or known.scope,
        )
        arch = arch_of_name(info.name)
        info = replace(
            info,
            gpu_arch=arch,
            counter_supported=told.counter_supported,
            sensor_class=sensor_class(arch, info.name, info.driver_version, info.power_method),
        )
        if info == known:
            return
        if known.driver_version is not None and info.driver_version != known.driver_version:
            board.windows.rebind(info)
        else:
            board.windows.device = info

    def take_all(
        self, readings: pl.DataFrame, about: pl.DataFrame, scopes: Mapping[str, str]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Feed the readings of a chunk, of all boards; rows of core.power_sample, and of core.energy_observation.

        `readings` and `about` as in smi_rows.Told; `scopes`: device_uuid -> gpu or module.
        """
        fed: list[Fed] = []
        parts: list[pl.DataFrame] = []
        told = {row["device_uuid"]: row for row in about.iter_rows(named=True)}
        for part in readings.partition_by("device_uuid", maintain_order=True):
            uuid = part["device_uuid"][0]
            board = self.board(uuid, part["at"][0])
            if uuid in told:
                self.describe(board, _info(uuid, told[uuid], scopes.get(uuid, SCOPE_GPU)))
            found = self.take(board, part)
            fed.append(found)
            epochs = set(found.epochs)
            constant = pl.lit(epochs.pop(), pl.Int32) if len(epochs) == 1 else pl.Series(found.epochs, dtype=pl.Int32)
            parts.append(part.with_columns(epoch=constant))
        return _samples(parts), rows_of(fed)

    def take(self, board: Board, readings: pl.DataFrame) -> Fed:
        """Feed `readings` of one board; see bulk.feed."""
        rows = readings.filter("is_row")["at"] if not readings["is_row"].all() else readings["at"]
        later = rows.len() == 0 or board.last_at is None or bool(rows[0] > board.last_at)
        self.in_order = self.in_order and later and bool((rows.diff() > timedelta(0)).fill_null(True).all())
        fed = feed(board.windows, readings)
        newest = readings["at"].max()
        if isinstance(newest, datetime):
            board.last_at = newest if board.last_at is None else max(newest, board.last_at)
            board.lost = bool(readings["lost"][-1])
            board.seen_power = board.seen_power or readings["power_w"].null_count() < readings.height
        return fed

    def close(self) -> list[Window]:
        """The windows that are still open, cut at the last reading."""
        return [window for board in self.boards.values() for window in board.windows.close()]

    def devices(self) -> pl.DataFrame:
        """The boards as rows of core.device."""
        return frame("core.device", [_device_row(board) for board in self.boards.values()])


def _info(uuid: str, told: Mapping[str, Any], scope: str) -> DeviceInfo:
    mig = {"enabled": True, "disabled": False}.get((told["mig.mode.current"] or "").lower())
    return DeviceInfo(
        uuid,
        pci_bus_id=told["pci.bus_id"],
        name=told["name"],
        driver_version=told["driver_version"],
        mig_enabled=mig,
        power_limit_w=told["limit_w"],
        counter_supported=None,  # nvidia-smi does not tell
        power_method="instant" if told["instant"] else "average",
        scope=scope,
    )


def _samples(parts: list[pl.DataFrame]) -> pl.DataFrame:
    if not parts:
        return frame("core.power_sample", [])
    rows = pl.concat(parts)
    if len(parts) > 1:
        rows = rows.sort("row")
    if not rows["is_row"].all():
        rows = rows.filter("is_row")
    method = pl.when(pl.col("power_w").is_null()).then(pl.lit("unavailable"))
    return rows.select(
        "device_uuid",
        sampled_at="at",
        power_w="power_w",
        energy_counter_j=pl.lit(None, pl.Float64),
        method=method.when("instant").then(pl.lit("instant")).otherwise(pl.lit("average")),
        sensor_at=pl.lit(None, pl.Datetime("us")),
        epoch="epoch",
    )


def _device_row(board: Board) -> dict[str, object]:
    info = board.info
    known = board.seen_power or bool(info.counter_supported)
    return {
        "device_uuid": info.uuid,
        "host": board.host,
        "pci_bus_id": info.pci_bus_id,
        "name": info.name,
        "gpu_arch": info.gpu_arch,
        "driver_version": info.driver_version,
        "power_limit_w": info.power_limit_w,
        "mig_enabled": info.mig_enabled,
        "counter_supported": info.counter_supported,
        "sensor_class": info.sensor_class,
        "power_scope": info.scope or SCOPE_GPU,
        "state": "lost" if board.lost else "ok" if known else "unsupported",
        "updated_at": board.last_at,
    }
