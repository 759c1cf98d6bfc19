"""A replay run from data set to stored report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from app.desk import Desk
from app.errors import BadRequest
from app.operations import Actor
from app.operations.plain import plain
from app.replay import publications, store
from app.replay.conditions import common_arms, conditions, load_options
from app.replay.embedded import Embedded, embedded
from app.replay.progress import Progress
from policies.replay.code import code_sha256, policy_id
from policies.replay.decide import Decided, Decisions, decide, diagnose, hash_of
from policies.replay.load import LoadNotes, load_table
from policies.replay.policy import Diagnostic, Policy
from policies.replay.report import Asked, block
from policies.replay.report_policy import Entry, Training
from policies.replay.report_rows import metric_rows
from policies.replay.reward import Weights
from policies.replay.routers.registry import roster
from policies.replay.table import Condition, OutcomeTable
from warehouse.clock import utcnow
from warehouse.evidence import EvidenceClass
from warehouse.ids import uuid7
from warehouse.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from app.operations.replay import RunParams

STEPS_PER_BLOCK = 4
DEFAULT = "default"
LEARNED = "learned"
_TRIVIAL = ("fixed", "hull", "random")  # no fit worth an account


@dataclass(frozen=True)
class _Run:
    """What the blocks of a run share."""

    params: RunParams
    embedded: Embedded
    policies: Sequence[Policy | Diagnostic]
    decisions: Decisions
    arms: list[str] | None
    words: list[str]
    started_at: datetime
    as_of: datetime
    actor: str


def run(desk: Desk, actor: Actor, params: RunParams, progress: Progress) -> dict[str, Any]:
    """Replay and store; the report as `replay.report` tells it. Raises PolicyError and AppError."""
    with snapshot(desk.warehouse) as snap:
        if publications.is_published(snap, params.dataset):
            return _published(desk, snap, actor, params, progress)
        run_id, blocks, decided, ids, names, source = _outcomes(snap, actor, params, progress)
    progress.step("storing")
    first = str(blocks[0].run["replay_run_id"])
    store.write(
        desk.warehouse,
        run_id,
        blocks,
        _choice_frames(first, decided, ids, names) if params.keep_choices else (),
        [_version(d, params.seed) for d in decided],
        actor=actor,
        source_id=source,
        known_from=utcnow(),
    )
    return whole([plain(b.run["report"]) for b in blocks], run_id)


def whole(reports: Sequence[Mapping[str, Any]], run_id: str | None) -> dict[str, Any]:
    """The report of a run: what its blocks share, the first condition's front at the top, and the blocks.

    A published data set has one block, and no condition: it is told flat.
    """
    first = dict(reports[0])
    head = {"id": run_id, "stored": run_id is not None}
    if first["kind"] == "published":
        return {**head, **first}
    shared = ("dataset", "kind", "started_at", "finished_at", "as_of", "actor", "seed", "choices_sha256", "code_sha256",
              "embedder", "n_train", "n_test", "split", "absent", "hypervolume", "hypervolume_unit", "reference_point",
              "front", "statements")  # fmt: skip
    return {**head, **{name: first[name] for name in shared}, "blocks": [dict(r) for r in reports]}


def _outcomes(
    snap: Snapshot, actor: Actor, params: RunParams, progress: Progress
) -> tuple[str, list[store.Block], list[Decided], Any, tuple[str, ...], str]:
    started = utcnow()
    asked = conditions(params)
    arms, words = common_arms(snap, params, asked)
    progress.step("reading outcomes", 0, STEPS_PER_BLOCK * len(asked))
    table, notes = _load(snap, params, asked[0], arms, texts=params.embeddings is None)
    progress.step("embedding")
    made = embedded(table, params.embedder, params.embeddings)
    table = made.table
    policies = _roster(table, params)
    total = len(policies) + STEPS_PER_BLOCK * len(asked)
    done = iter(range(total))
    decisions = decide(
        policies,
        table.train(),
        table.test(),
        params.seed,
        progress=lambda name: progress.step(f"fitting {name}", next(done), total),
    )
    if not decisions.decided:
        raise BadRequest(
            f"None of the {len(policies)} policies could run on {params.dataset}: {decisions.absent[0].reason}",
            fix="name other policies, or a condition that gives joules",
        )
    shared = _Run(params, made, policies, decisions, arms, words, started, snap.as_of, actor.name)
    blocks = []
    for at, condition in enumerate(asked):
        if at:
            table, notes = _load(snap, params, condition, arms, texts=False)
        blocks.append(_block(shared, table, notes, at == 0, progress, done, total))
    first = next(iter(blocks)).run["replay_run_id"]
    for each in blocks:
        each.run["report"]["choices_of"] = first
    source = store.SAMPLE_SOURCE if all(s.startswith("sample:") for s in notes.sources) else store.SOURCE
    return uuid7(), blocks, list(decisions), table.test().queries.ids, table.names, source


def _roster(table: OutcomeTable, params: RunParams) -> list[Policy | Diagnostic]:
    """The policies asked for, each once; `default` stands for the default roster. Every fixed arm is always there.

    The learned controller has weights of its own: they weigh an energy rank, the others weigh joules.
    """
    found: dict[str, Policy | Diagnostic] = {}
    for name in ("fixed", *(params.policies or [DEFAULT])):
        lambdas = params.rank_lambdas if name == LEARNED else params.lambdas
        names = None if name == DEFAULT else [name]
        for policy in roster(table, names, lambdas=lambdas or None, seed=params.seed):
            found.setdefault(policy.about.name, policy)
    return list(found.values())


def _load(
    snap: Snapshot, params: RunParams, condition: Condition, arms: list[str] | None, *, texts: bool
) -> tuple[OutcomeTable, LoadNotes]:
    return load_table(snap, params.dataset, condition=condition, arms=arms, texts=texts, **load_options(params))


def _block(
    shared: _Run,
    table: OutcomeTable,
    notes: LoadNotes,
    first: bool,
    progress: Progress,
    done: Iterator[int],
    total: int,
) -> store.Block:
    """One condition: the same choices, looked up under its joules. Bounds are those of the condition itself."""
    params, decisions = shared.params, shared.decisions
    entries = [_entry(d, shared) for d in decisions]
    if not first:
        bounds = {e.about.name: e for e in _bounds(shared, table)}
        entries = [bounds.get(e.name, e) for e in entries]
    words = _condition_words(table)
    told = block(
        table,
        entries,
        Asked(params.incumbent, params.budget_j, Weights(energy=params.reward_lambda), params.seed),
        lambda stage: progress.step(f"{words}: {stage}", next(done, total), total),
    )
    finished = utcnow()
    replay_run_id = uuid7()
    told |= {
        "kind": "outcomes",
        "replay_run_id": replay_run_id,
        "started_at": shared.started_at,
        "finished_at": finished,
        "as_of": shared.as_of,
        "actor": shared.actor,
        "seed": params.seed,
        "embedder": shared.embedded.embedder,
        "embedding_note": shared.embedded.note,
        "split": notes.split,
        "load": notes.plain(),
        "notes": [*shared.words, *notes.warnings],
        "code_sha256": code_sha256(),
        "choices_sha256": decisions.choices_sha256,
        "diagnostics_sha256": hash_of([_as_decided(e) for e in entries if not e.about.deployable], table.test()),
        "absent": [{"policy": a.about.name, "family": a.about.family, "reason": a.reason} for a in decisions.absent],
        "router_power_w": params.router_power_w,
        "words": words,
    }
    return store.Block(_row(told, table), metric_rows(told))


def _row(told: dict[str, Any], table: OutcomeTable) -> dict[str, Any]:
    """The columns of core.replay_run."""
    reference = told["reference_point"] or {"accuracy": None, "energy_j": None, "version": None}
    condition = table.condition
    direct = ("replay_run_id", "dataset", "started_at", "finished_at", "as_of", "dataset_sha256", "seed", "n_train",
              "n_test", "choices_sha256", "hypervolume", "actor", "embedder")  # fmt: skip
    coverage = float(told["coverage"])
    return {
        **{name: told[name] for name in direct},
        "gpu": condition.gpu,
        "batch": condition.batch,
        "zone": condition.zone,
        "intensity_at": condition.at,
        "intensity_g_per_kwh": condition.intensity_g_per_kwh,
        "evidence_class": _text(told["evidence_class"]),
        "carbon_evidence_class": _text(told["carbon_evidence_class"]),
        "coverage": None if np.isnan(coverage) else coverage,
        "reference_accuracy": reference["accuracy"],
        "reference_energy_j": reference["energy_j"],
        "reference_version": reference["version"],
        "report": plain(told),
    }


def _entry(decided: Decided, shared: _Run) -> Entry:
    about, power = decided.about, shared.params.router_power_w
    seconds: float | None = None if np.isnan(decided.route_s_per_query) else decided.route_s_per_query
    if seconds is not None and about.needs_embeddings:
        embedding = shared.embedded.s_per_query
        seconds = None if embedding is None else seconds + embedding
    training = None
    if about.deployable and about.family not in _TRIVIAL and not np.isnan(decided.fit_s):
        joules = None if power is None else power * decided.fit_s
        training = Training(joules, None if joules is None else EvidenceClass.MODELED, decided.fit_s)
    return Entry(
        about=about,
        choices=decided.choices,
        sha256=decided.sha256,
        policy_id=policy_id(about.name, _parameters(decided, shared.params.seed)),
        fixed_arm=about.parameters["arm"] if about.family == "fixed" else None,
        swept=decided.curve,
        routing_s=seconds,
        routing_j=None if power is None or seconds is None else power * seconds,
        training=training,
        notes=decided.notes,
    )


def _bounds(shared: _Run, table: OutcomeTable) -> list[Entry]:
    """The policies that see outcomes, deciding anew: a bound holds for the condition it was made under."""
    seeing = [p for p in shared.policies if not hasattr(p, "fit")]
    decided, _ = diagnose(seeing, table.train(), table.test(), shared.params.seed)
    return [_entry(d, shared) for d in decided]


def _as_decided(entry: Entry) -> Decided:
    nan = float("nan")
    return Decided(entry.about, entry.choices, entry.swept, nan, nan, entry.sha256, entry.notes, diagnostic=True)


def _parameters(decided: Decided, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = plain({**decided.about.parameters, "seed": seed})
    return found


def _version(decided: Decided, seed: int) -> store.Version:
    parameters = _parameters(decided, seed)
    return store.Version(policy_id(decided.about.name, parameters), decided.about.name, parameters, code_sha256())


def _choice_frames(first: str, decided: Sequence[Decided], ids: Any, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    for one in decided:
        yield from store.choice_frames(first, one.about.name, one.choices, ids, names)


def _condition_words(table: OutcomeTable) -> str:
    c = table.condition
    parts = [
        c.gpu,
        None if c.batch is None else f"batch {c.batch:g}",
        c.zone,
        None if c.at is None else f"{c.at:%Y-%m-%dT%H:%MZ}",
    ]
    return ", ".join(p for p in parts if p) or "joules as recorded"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _published(desk: Desk, snap: Snapshot, actor: Actor, params: RunParams, progress: Progress) -> dict[str, Any]:
    started = utcnow()
    progress.step("reading published points", 0, 2)
    told = publications.published(snap, params.dataset)
    finished = utcnow()
    told = plain({**told, "as_of": snap.as_of, "started_at": started, "finished_at": finished, "actor": actor.name})
    stored = publications.published_block(
        told, started_at=started, finished_at=finished, as_of=snap.as_of, actor=actor.name
    )
    run_id = uuid7()
    progress.step("storing", 1, 2)
    store.write(
        desk.warehouse,
        run_id,
        [stored],
        [],
        [],
        actor=actor,
        source_id=publications.source_of(told),
        known_from=finished,
    )
    return whole([told], run_id)
