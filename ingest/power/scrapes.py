"""Samples that came one scrape at a time -> energy windows, once there are two of a board to difference.

After each load the samples since the end of the newest window are played through `DeviceWindows`; what is still
open waits for the next scrape. So the windows do not depend on how many scrapes a load brought. Samples older
than the newest window of their board are kept, and change no window.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from ingest.power.sensors import DeviceInfo, Reading
from ingest.power.windows import DeviceWindows, Window, observations

if TYPE_CHECKING:
    from warehouse.engine import Transaction

_UNIX = datetime(1970, 1, 1)
WINDOW_S = 10.0

# No window stays open for days, so only the last days are looked at, however long the history is.
_WAITING = """
WITH recent AS (SELECT max(updated_at) - INTERVAL 2 DAY AS since FROM core.device WHERE source_id = $s),
closed AS (
  SELECT device_uuid, max(window_end_at) AS end_at FROM core.energy_observation, recent
  WHERE source_id = $s AND workload = 'device' AND device_uuid IS NOT NULL AND window_end_at >= since
  GROUP BY device_uuid
)
SELECT p.device_uuid, p.sampled_at, p.power_w, p.energy_counter_j, p.method
FROM core.power_sample p CROSS JOIN recent LEFT JOIN closed c USING (device_uuid)
WHERE p.source_id = $s AND p.sampled_at >= recent.since AND (c.end_at IS NULL OR p.sampled_at >= c.end_at)
ORDER BY p.device_uuid, p.sampled_at
"""


def windows_of_source(tx: Transaction, source_id: str) -> Mapping[str, pl.DataFrame]:
    """core.energy_observation rows of the windows that the samples of `source_id` complete, as seen within `tx`."""
    samples = tx.query(_WAITING, {"s": source_id})
    about = {
        row["device_uuid"]: row
        for row in tx.query("SELECT * FROM core.device WHERE source_id = $s", {"s": source_id}).to_dicts()
    }
    windows: list[Window] = []
    for part in samples.partition_by("device_uuid", maintain_order=True):
        board = DeviceWindows(_info(part["device_uuid"][0], about), WINDOW_S)
        for _, at, power_w, counter_j, method in part.iter_rows():
            counter_mj = None if counter_j is None else round(counter_j * 1000)
            answer = Reading(counter_mj, "not told", power_w, method, "" if power_w is not None else "not told")
            windows += board.add(at, (at - _UNIX) // timedelta(microseconds=1) * 1000, answer)
    return {"core.energy_observation": observations(windows)}


def _info(uuid: str, about: Mapping[str, Mapping[str, object]]) -> DeviceInfo:
    told = about.get(uuid)
    if told is None:
        return DeviceInfo(uuid)
    names = ("name", "gpu_arch", "driver_version", "power_limit_w", "mig_enabled", "sensor_class")
    return DeviceInfo(uuid, **{name: told[name] for name in names})  # type: ignore[arg-type]
