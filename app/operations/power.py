"""Power by hand: an idle baseline of every board of this host, and the energy of a meter shared out to requests."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from pydantic import Field, field_validator

from app.errors import BadRequest, NotFound
from app.operations import Actor, Params, operation
from app.operations.plain import plain
from ingest.power.attribution import Method, attribute
from ingest.power.idle import BASELINES, IdleResult, measure_idle, require_some
from ingest.power.nvml import Nvml
from warehouse import loads, runs
from warehouse.clock import parse_utc, utcnow
from warehouse.runs import SourceRow, register_source
from warehouse.tables import frame

if TYPE_CHECKING:
    from app.desk import Desk

OBSERVATION = "core.energy_observation"
_DAY_S = 86_400.0
# Sources of their own: a baseline measured by hand must not make the sampler's data look young.
IDLE = SourceRow("power:idle", "nvml", "Idle power of this host", "device", None, None, 90 * _DAY_S, 365 * _DAY_S)
SHARED = SourceRow(
    "power:attribution", "attribution", "Energy shared out to requests", "device", None, None, 30 * _DAY_S, 365 * _DAY_S
)


class IdleParams(Params):
    seconds: float = Field(30.0, ge=10, le=600)
    """How long to measure; shorter windows of a part-time sensor are noise."""
    cool_down: float = Field(10.0, ge=0, le=600)
    """Seconds to wait first, so that clocks and temperature settle."""


@operation("power.idle", scope="local", params=IdleParams)
def idle(desk: Desk, actor: Actor, params: IdleParams) -> dict[str, Any]:
    """Measure the idle power of every GPU of this host; blocks until it is done."""
    results = measure_idle(Nvml(), seconds=params.seconds, cool_down_s=params.cool_down)
    require_some(results)
    rows = frame(OBSERVATION, [r.row() for r in results if r.window is not None])
    run_id, _ = _store(desk, IDLE, rows)
    return {"run_id": run_id, "devices": [_told(r) for r in results]}


def _store(desk: Desk, source: SourceRow, rows: pl.DataFrame) -> tuple[str, loads.Loaded]:
    run = runs.start(desk.warehouse, source_id=source.source_id, kind=source.kind, trigger="manual")
    now = utcnow()
    with desk.warehouse.transaction() as tx:
        register_source(tx, source)
        done = loads.load(tx, OBSERVATION, rows, source_id=source.source_id, run_id=run.run_id, known_from=now)
        counts = {"rows_in": rows.height, "rows_loaded": done.loaded, "rows_unchanged": done.unchanged}
        runs.finish(tx, run, state="OK", rows_quarantined=0, data_at=rows["window_end_at"].max(), **counts)
    return run.run_id, done


def _told(result: IdleResult) -> dict[str, Any]:
    window = result.window
    told = {
        "device_uuid": result.device.uuid,
        "name": result.device.name,
        "device_state": result.state,
        "idle_w": result.idle_w,
        "method": window.method if window is not None else None,
        "quality": window.quality.value if window is not None else None,
        "relative_uncertainty": window.relative_uncertainty if window is not None else None,
        "evidence_class": "measured" if window is not None else None,
        "notes": list(window.notes) if window is not None else [result.reason],
    }
    return {name: plain(value) for name, value in told.items()}


class AttributeParams(Params):
    meter: str = Field(min_length=1, max_length=200)
    """A replica's name, or a GPU's UUID."""
    offer: str = Field(min_length=1, max_length=200)
    """The offer or model that it served: `requested_offer` or `served_offer` of the usage."""
    start: datetime
    end: datetime
    method: Literal["output_tokens", "time_in_system"] = "output_tokens"

    @field_validator("start", "end", mode="before")
    @classmethod
    def _utc(cls, value: Any) -> Any:
        return parse_utc(value, what="time") if isinstance(value, str) else value


_WINDOWS = """
SELECT * EXCLUDE (source_id, run_id, known_from) FROM core.energy_observation
WHERE ((workload = 'replica' AND backend_id = $meter) OR (workload = 'device' AND device_uuid = $meter))
  AND window_start_at < $end AND window_end_at > $start AND source_id = $s
ORDER BY window_start_at
"""
_METERS = """
SELECT source_id, count(*) AS n FROM core.energy_observation
WHERE ((workload = 'replica' AND backend_id = $meter) OR (workload = 'device' AND device_uuid = $meter))
  AND window_start_at < $end AND window_end_at > $start
GROUP BY source_id ORDER BY n DESC, source_id
"""
_REQUESTS = """
SELECT provider || '/' || account || '/' || usage_key AS usage_key, requested_offer AS offer_id,
       period_start_at AS start_at, period_end_at AS end_at, prompt_tokens, completion_tokens AS output_tokens,
       attempts, successes
FROM core.usage
WHERE grain = 'request' AND (requested_offer = $offer OR served_offer = $offer)
  AND period_start_at < $end AND period_end_at >= $start
"""


@operation("power.attribute", scope="operator", params=AttributeParams)
def attribute_window(desk: Desk, actor: Actor, params: AttributeParams) -> dict[str, Any]:
    """Share out the energy of one replica or GPU to the requests that it served."""
    if not params.start < params.end:
        raise BadRequest("The end is not after the start.", fix="give --start before --end")
    between = {"start": params.start, "end": params.end}
    meters = desk.warehouse.query(_METERS, {**between, "meter": params.meter})
    if meters.is_empty():
        raise NotFound(f"There is no energy of {params.meter!r} in that time.", fix="see core.energy_observation")
    source_id = str(meters["source_id"][0])  # one source: two that watch one board would count it twice
    windows = desk.warehouse.query(_WINDOWS, {**between, "meter": params.meter, "s": source_id})
    requests = desk.warehouse.query(_REQUESTS, {**between, "offer": params.offer})
    method = Method(params.method)
    rows = attribute(windows, requests, method, idle_w=_idle_w(desk, params.meter))
    _, done = _store(desk, SHARED, rows)
    shared = rows.filter(pl.col("workload") != "remainder")
    return {
        "meter": params.meter,
        "source_id": source_id,
        "method": f"allocated_{method}",
        "evidence_class": "allocated",
        "windows": windows.height,
        "windows_without_energy": windows["energy_gross_j"].null_count(),
        "requests": shared["usage_key"].n_unique(),
        "energy_j": plain(windows["energy_gross_j"].sum()),
        "shared_j": plain(shared["energy_gross_j"].sum()),
        "remainder_j": plain(rows.filter(pl.col("workload") == "remainder")["energy_gross_j"].sum()),
        "rows_loaded": done.loaded,
    }


def _idle_w(desk: Desk, meter: str) -> float | None:
    """The idle power of a GPU that holds a loaded model, where it was measured; a replica has none of its own."""
    known = desk.warehouse.query(BASELINES).filter(
        (pl.col("device_uuid") == meter) & (pl.col("device_state") == "loaded")
    )
    return float(known["idle_w"][-1]) if known.height else None
