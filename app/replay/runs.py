"""A replay run from data set to stored report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from app.desk import Desk
from app.errors import BadRequest
from app.operations import Actor
from app.operations.plain import plain
from app.replay import publications, store, streamed
from app.replay.conditions import common_arms, conditions, load_options
from app.replay.described import Head, condition_words, entry, finished, source_of, version
from app.replay.embedded import embedded
from app.replay.progress import Progress
from app.replay.reports import whole
from app.replay.stored_policies import stored
from policies.replay.decide import Decided, decide, diagnose, hash_of
from policies.replay.load import LoadNotes, load_table
from policies.replay.policy import Diagnostic, Policy
from policies.replay.report import block, incumbent_unknown
from policies.replay.report_policy import Entry
from policies.replay.routers.registry import roster
from policies.replay.table import Condition, OutcomeTable
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.ids import content_hash, uuid7
from warehouse.snapshots import Snapshot, snapshot
from warehouse.staging import Staging

if TYPE_CHECKING:
    from app.operations.replay import RunParams

STEPS_PER_BLOCK = 4
DEFAULT = "default"
LEARNED = "learned"
_NAN = float("nan")
_SEEING = (False, True)  # whether a policy sees outcomes


@dataclass(frozen=True)
class _Made:
    """A run that waits to be stored: its choices as frames, or in staging tables."""

    blocks: list[store.Block]
    versions: list[store.Version]
    source_id: str
    frames: Iterable[pl.DataFrame] = ()
    staging: Staging | None = None


def run(desk: Desk, actor: Actor, params: RunParams, progress: Progress) -> dict[str, Any]:
    """Replay and store; the report as `replay.report` tells it. Raises PolicyError and AppError."""
    run_id = uuid7()
    with snapshot(desk.warehouse) as snap:
        if publications.is_published(snap, params.dataset):
            made = _published(snap, actor, params.dataset, progress)
        elif streamed.wanted(snap, params):
            made = _in_portions(desk, snap, actor, params, progress, run_id)
        else:
            made = _in_memory(desk, snap, actor, params, progress)
    try:
        progress.step("storing")
        store.write(
            desk.warehouse,
            run_id,
            made.blocks,
            made.frames,
            made.versions,
            actor=actor,
            source_id=made.source_id,
            known_from=utcnow(),
            staging=made.staging,
        )
    except BaseException:  # an interrupt, too: what waits in staging would outlive it
        _drop(desk, made.staging)
        raise
    return whole([b.run["report"] for b in made.blocks], run_id)


def _published(snap: Snapshot, actor: Actor, dataset: str, progress: Progress) -> _Made:
    started = utcnow()
    progress.step("reading published points", 0, 1)
    told = publications.published(snap, dataset)
    ended = utcnow()
    told = plain({**told, "as_of": snap.as_of, "started_at": started, "finished_at": ended, "actor": actor.name})
    made = publications.published_block(told, started_at=started, finished_at=ended, as_of=snap.as_of, actor=actor.name)
    return _Made([made], [], publications.source_of(told))


def _in_memory(desk: Desk, snap: Snapshot, actor: Actor, params: RunParams, progress: Progress) -> _Made:
    started, asked = utcnow(), conditions(params)
    arms, words = common_arms(snap, params, asked)
    progress.step("reading outcomes", 0, STEPS_PER_BLOCK * len(asked))
    table, notes = _load(snap, params, asked[0], arms, texts=params.embeddings is None)
    progress.step("embedding")
    made = embedded(table, params.embedder, params.embeddings)
    table = made.table
    policies = _roster(desk.warehouse, table, params)
    total = len(policies) + STEPS_PER_BLOCK * len(asked)
    done = iter(range(total))

    def step(words: str, of: str = "") -> None:
        progress.step(f"{of}: {words}" if of else words, next(done, total), total)

    decisions = decide(
        policies, table.train(), table.test(), params.seed, progress=lambda name: step(f"fitting {name}")
    )
    head = Head(
        params, started, snap.as_of, actor.name, made.embedder, made.note, made.s_per_query, words, decisions.absent
    )
    _some(decisions.decided, head)
    blocks = []
    for at, condition in enumerate(asked):
        if at:
            table, notes = _load(snap, params, condition, arms, texts=False)
        entries = [_entry(head, d) for d in decisions]
        seeing = [d for d in decisions if d.diagnostic]
        if at:  # a bound holds for the condition it was made under
            seeing, _ = diagnose(
                [p for p in policies if not hasattr(p, "fit")], table.train(), table.test(), params.seed
            )
            anew = {d.about.name: _entry(head, d) for d in seeing}
            entries = [anew.get(e.name, e) for e in entries]
        told = block(table, entries, head.asked, partial(step, of=condition_words(table.condition)))
        blocks.append(
            finished(
                told,
                head,
                table,
                notes,
                choices_sha256=decisions.choices_sha256,
                diagnostics_sha256=hash_of(seeing, table.test()),
            )
        )
    first = str(blocks[0].run["replay_run_id"])
    ids, names = table.test().queries.ids, table.names
    frames = (
        frame
        for d in (decisions if params.keep_choices else ())
        for frame in store.choice_frames(first, d.about.name, d.choices, ids, names)
    )
    return _Made(blocks, [version(d.about, params.seed) for d in decisions], source_of(notes), frames)


def _in_portions(desk: Desk, snap: Snapshot, actor: Actor, params: RunParams, progress: Progress, run_id: str) -> _Made:
    started, asked = utcnow(), conditions(params)
    arms, words = common_arms(snap, params, asked)
    shared = streamed.fit(
        snap, params, asked[0], arms, lambda sample: _roster(desk.warehouse, sample, params), progress
    )
    embedder = None if params.embedder in (None, "none") else params.embedder
    note = "" if embedder else "nothing is embedded unless an embedder is named, because the table is read in portions"
    head = Head(params, started, snap.as_of, actor.name, embedder, note, None, [*words, *shared.words], shared.absent)
    _some(shared.fits, head)
    staging = Staging(desk.warehouse, run_id)
    first = uuid7()
    blocks: list[store.Block] = []
    try:
        for at, condition in enumerate(asked):
            keep = (staging, first) if params.keep_choices and at == 0 else None
            told, table, notes = streamed.evaluate(
                snap, params, condition, arms, shared, head.asked, lambda f: _streamed_entry(head, f), progress, keep
            )
            blind, seeing = ({f.about.name: f.sha256 for f in shared.fits if (f.fitted is None) is d} for d in _SEEING)
            made = finished(
                told,
                head,
                table,
                notes,
                choices_sha256=content_hash(blind),
                diagnostics_sha256=content_hash(seeing),
                replay_run_id=None if at else first,
            )
            blocks.append(made)
    except BaseException:  # a cancelled run is no Exception where it is an interrupt; staging goes all the same
        _drop(desk, staging)
        raise
    return _Made(blocks, [version(f.about, params.seed) for f in shared.fits], source_of(notes), staging=staging)


def _drop(desk: Desk, staging: Staging | None) -> None:
    if staging is not None:
        with desk.warehouse.transaction() as tx:
            staging.drop(tx)


def _some(decided: Sequence[Any], head: Head) -> None:
    if not decided:
        raise BadRequest(
            f"None of the policies could run on {head.params.dataset}: {head.absent[0].reason}",
            fix="name other policies, or a condition that gives joules",
        )


def _roster(warehouse: Warehouse, table: OutcomeTable, params: RunParams) -> list[Policy | Diagnostic]:
    """The policies asked for, each once; `default` stands for the default roster. Every fixed arm is always there.

    The learned controller has weights of its own: they weigh an energy rank, the others weigh joules.
    """
    if params.rank_lambdas and LEARNED not in params.policies:
        raise BadRequest(
            "Weights of the energy rank are for the learned controller, which is not among the policies.",
            fix=f"add the policy {LEARNED}, or leave them out",
        )
    found: dict[str, Policy | Diagnostic] = {}
    for name in ("fixed", *(params.policies or [DEFAULT])):
        if (kept := stored(warehouse, name)) is not None:
            found.setdefault(kept.about.name, kept)
            continue
        names = None if name == DEFAULT else [name]
        for policy in roster(
            table, names, lambdas=params.lambdas or None, rank_lambdas=params.rank_lambdas or None, seed=params.seed
        ):
            found.setdefault(policy.about.name, policy)
    if params.incumbent and params.incumbent not in {*table.names, *found}:  # told before minutes of fitting
        raise incumbent_unknown(params.incumbent, list(found), table)
    return list(found.values())


def _load(
    snap: Snapshot, params: RunParams, condition: Condition, arms: list[str] | None, *, texts: bool
) -> tuple[OutcomeTable, LoadNotes]:
    return load_table(snap, params.dataset, condition=condition, arms=arms, texts=texts, **load_options(params))


def _entry(head: Head, d: Decided) -> Entry:
    return entry(
        head, d.about, d.choices, d.sha256, fit_s=d.fit_s, route_s=d.route_s_per_query, curve=d.curve, notes=d.notes
    )


def _streamed_entry(head: Head, f: streamed.Fit) -> Entry:
    route_s = f.routing_s / f.queries if f.queries else _NAN
    notes = getattr(f.fitted, "notes", None)
    return entry(head, f.about, streamed.no_choices(), f.sha256, fit_s=f.fit_s, route_s=route_s, notes=notes)
