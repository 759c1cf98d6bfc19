"""An experiment from what was asked to the stored report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from app.desk import Desk
from app.fleet import store
from app.fleet.asked import scenario_of
from app.operations import Actor
from app.operations.plain import plain
from app.replay.progress import Progress
from policies.fleet.experiments import Resolved, Step, read, resolve
from warehouse.clock import utcnow
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.operations.fleet import ScenarioParams

Experiment = Callable[[Resolved, Step], dict[str, Any]]


def run(desk: Desk, actor: Actor, params: ScenarioParams, progress: Progress, experiment: Experiment) -> dict[str, Any]:
    """The report, as `fleet.report` tells it; stored unless `keep` is False. Raises FleetError and AppError."""
    started = utcnow()
    progress.step("reading")
    scenario = read(scenario_of(params))
    with snapshot(desk.warehouse) as snap:
        found, as_of = resolve(snap, scenario), snap.as_of
    report = experiment(found, progress.step)
    finished = utcnow()
    told = {**report, "started_at": started, "finished_at": finished, "as_of": as_of, "actor": actor.name}
    if not params.keep:
        return plain_report({**told, "id": None, "is_sample": store.source_of(desk.warehouse, report) != store.SOURCE})
    progress.step("storing")
    run_id = store.write(desk.warehouse, report, actor=actor, started_at=started, finished_at=finished, as_of=as_of)
    return plain_report(store.report(desk.warehouse, run_id))


def plain_report(told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plain(told)
    return found
