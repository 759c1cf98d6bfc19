"""A replay run from data set to stored report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.desk import Desk
from app.operations import Actor
from app.operations.plain import plain
from app.replay import publications, store
from app.replay.progress import Progress
from warehouse.clock import utcnow
from warehouse.ids import uuid7
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.operations.replay import RunParams


def run(desk: Desk, actor: Actor, params: RunParams, progress: Progress) -> dict[str, Any]:
    """Replay and store; the report as `replay.report` tells it. Raises PolicyError and AppError."""
    with snapshot(desk.warehouse) as snap:
        published = publications.is_published(snap, params.dataset)
    if published:
        return _published(desk, actor, params.dataset, progress)
    raise NotImplementedError


def whole(reports: Sequence[Mapping[str, Any]], run_id: str | None) -> dict[str, Any]:
    """The report of a run: what its blocks share, its first front at the top, and the blocks."""
    first = dict(reports[0])
    return {"id": run_id, "stored": run_id is not None, **first}


def _published(desk: Desk, actor: Actor, dataset: str, progress: Progress) -> dict[str, Any]:
    started = utcnow()
    progress.step("reading published points", 0, 2)
    with snapshot(desk.warehouse) as snap:
        told = publications.published(snap, dataset)
        as_of = snap.as_of
    finished = utcnow()
    told = plain({**told, "as_of": as_of, "started_at": started, "finished_at": finished, "actor": actor.name})
    block = publications.published_block(told, started_at=started, finished_at=finished, as_of=as_of, actor=actor.name)
    run_id = uuid7()
    progress.step("storing", 1, 2)
    store.write(
        desk.warehouse,
        run_id,
        [block],
        [],
        [],
        actor=actor,
        source_id=publications.source_of(told),
        known_from=finished,
    )
    return whole([told], run_id)
