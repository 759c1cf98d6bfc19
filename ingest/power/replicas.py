"""Replicas: several boards that serve one model together, read as one meter over the same window.

The boards' counters and powers are summed reading by reading, so a replica has windows of its own that begin and
end for all members at once. One member without an answer, with a counter that started anew, or of another driver
session makes the replica's window a gap: a sum without one of its parts would be too small and look right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ingest.power.sensors import DeviceInfo, Reading
from ingest.power.windows import DeviceWindows, Window


@dataclass
class Replica:
    """One replica by its configured `members`, GPU UUIDs or NVML indices. Call `bind` at each driver session."""

    name: str
    members: tuple[str | int, ...]
    window_s: float = 10.0
    epoch: int = 0
    uuids: tuple[str, ...] = ()
    missing: tuple[str | int, ...] = ()
    _windows: DeviceWindows | None = None
    _counters_mj: dict[str, int] = field(default_factory=dict)

    def bind(self, infos: Sequence[DeviceInfo]) -> None:
        """Find the members among the boards of a new session; those that are not there are in `missing`."""
        by_key: dict[str | int, DeviceInfo] = {info.uuid: info for info in infos}
        by_key |= {info.index: info for info in infos if info.index is not None}
        found = {by_key[m].uuid: by_key[m] for m in self.members if m in by_key}
        self.missing = tuple(m for m in self.members if m not in by_key)
        self.uuids = tuple(found)
        info = _as_one(self.name, len(self.members), list(found.values()))
        self._counters_mj = {}
        if self._windows is None:
            self._windows = DeviceWindows(info, self.window_s, epoch=self.epoch)
        else:
            self._windows.rebind(info)

    def add(self, at: datetime, mono_ns: int, readings: Mapping[str, Reading]) -> list[Window]:
        """The readings of one tick, by UUID; windows that closed. `at` naive UTC, `mono_ns` monotonic."""
        if self._windows is None or not self.uuids:
            return []
        if self.missing or any(uuid not in readings for uuid in self.uuids):
            self._counters_mj = {}
            return self._windows.lost(at, mono_ns)
        own = [readings[uuid] for uuid in self.uuids]
        if self._started_anew(readings):
            self._windows.rebind(self._windows.device)
        return self._windows.add(at, mono_ns, _sum(own))

    def _started_anew(self, readings: Mapping[str, Reading]) -> bool:
        """Whether the counter of a member decreased, which a sum with busier members would hide."""
        anew = False
        for uuid in self.uuids:
            counter_mj = readings[uuid].energy_counter_mj
            if counter_mj is not None:
                anew = anew or counter_mj < self._counters_mj.get(uuid, 0)
                self._counters_mj[uuid] = counter_mj
        return anew

    def close(self) -> list[Window]:
        """End the open window, as when sampling stops."""
        return [] if self._windows is None else self._windows.close()


def _as_one(name: str, boards: int, infos: Sequence[DeviceInfo]) -> DeviceInfo:
    """The members as one device; what they do not share is unknown."""

    def shared(values: list[str | None]) -> str | None:
        return values[0] if values and len(set(values)) == 1 else None

    limits = [info.power_limit_w for info in infos]
    return DeviceInfo(
        uuid=f"replica:{name}",
        name=shared([i.name for i in infos]),
        gpu_arch=shared([i.gpu_arch for i in infos]),
        driver_version=shared([i.driver_version for i in infos]),
        power_limit_w=sum(w for w in limits if w is not None) if None not in limits and infos else None,
        counter_supported=bool(infos) and all(i.counter_supported for i in infos),
        sensor_class=shared([i.sensor_class for i in infos]) or "unknown",
        power_method=shared([i.power_method for i in infos]) or "average",
        scope=shared([i.scope for i in infos]) or "mixed",
        boards=boards,
        replica=name,
    )


def _sum(readings: Sequence[Reading]) -> Reading:
    """All members' counter in mJ and power in W; None where one of them cannot tell. The oldest stamp counts, so
    that one frozen sensor shows."""
    counters = [r.energy_counter_mj for r in readings]
    powers = [r.power_w for r in readings]
    stamps = [r.sensor_at_us for r in readings]
    counter_mj = None if None in counters else sum(c for c in counters if c is not None)
    power_w = None if None in powers else sum(p for p in powers if p is not None)
    method = "instant" if all(r.power_method == "instant" for r in readings) else "average"
    reasons = [r.power_reason for r in readings if r.power_reason]
    reason = next((r for r in reasons if r.startswith("implausible")), reasons[0] if reasons else "")
    return Reading(
        counter_mj,
        next((r.energy_reason for r in readings if r.energy_reason), ""),
        power_w,
        "unavailable" if power_w is None else method,
        reason,
        None if None in stamps else min(s for s in stamps if s is not None),
    )
