"""Joules per successful request over comparable observations; what may not be compared is refused by name."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import AwareDatetime, Field

from app.desk import Desk
from app.errors import Conflict, NotFound
from app.operations import Actor, Params, operation
from app.operations.plain import plain
from warehouse.clock import to_utc, utcnow
from warehouse.errors import IncomparableObservations
from warehouse.observations import energy_per_success


class EnergyParams(Params):
    offer_id: str = Field(max_length=200)
    workload: str = Field("organic", max_length=40)
    provider: str | None = Field(None, max_length=100)
    since: AwareDatetime | None = None


@operation("energy.per_success", scope="read", params=EnergyParams)
def per_success(desk: Desk, actor: Actor, params: EnergyParams) -> dict[str, Any]:
    """Tell joules per successful request of one offer, over observations that may be compared."""
    since: datetime | None = to_utc(params.since, what="since") if params.since else None
    found = desk.warehouse.query(
        "SELECT * FROM core.energy_observation WHERE offer_id = $offer AND workload = $workload "
        "AND ($provider IS NULL OR provider = $provider) AND ($since IS NULL OR window_start_at >= $since) "
        "ORDER BY window_start_at, observation_id",
        {"offer": params.offer_id, "workload": params.workload, "provider": params.provider, "since": since},
    )
    if found.is_empty():
        raise NotFound(
            f"There is no observation of {params.offer_id!r} with the workload {params.workload!r}.",
            fix="see core.energy_observation for the offers and workloads there are",
        )
    try:
        figure = energy_per_success(found)
    except IncomparableObservations as error:
        raise Conflict(f"IncomparableObservations: {error.message}", fix=error.fix) from error
    now = utcnow()
    told: dict[str, Any] = plain(asdict(figure))
    return {**told, "as_of": plain(now), "age_s": (now - figure.newest_at).total_seconds()}
