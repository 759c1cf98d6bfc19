"""A replay of a table that is read in portions: fitted on a sample of its training part, evaluated on all the rest.

Memory does not grow with the queries. Each portion is chosen for and hashed before its outcomes are looked at;
choices wait in staging tables until the run is stored whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from app.errors import BadRequest
from app.replay import store
from app.replay.conditions import load_options
from app.replay.progress import Progress
from policies.replay.decide import Absent
from policies.replay.embeddings import embed
from policies.replay.errors import ReplayError
from policies.replay.load import LoadNotes, iter_tables
from policies.replay.policy import About, Choices, Diagnostic, Policy
from policies.replay.report import Asked, assemble
from policies.replay.report_policy import Entry
from policies.replay.report_stream import Gatherer, Train
from policies.replay.table import Condition, OutcomeTable
from warehouse.ids import content_hash
from warehouse.snapshots import Snapshot
from warehouse.staging import Staging

if TYPE_CHECKING:
    from app.operations.replay import RunParams

ABOVE_CELLS = 20_000_000
FITTED_ON = 100_000  # training queries that policies are fitted on
EMBEDDERS = ("wordllama", "minilm")  # those that need no training part


@dataclass
class Fit:
    """A policy ready to choose, its running hash and times. `fitted` None: it sees outcomes, a bound."""

    about: About
    policy: Any
    fitted: Any | None
    fit_s: float
    routing_s: float = 0.0
    queries: int = 0
    hashes: list[str] = field(default_factory=list)

    @property
    def sha256(self) -> str:
        return content_hash(self.hashes)

    def choose(self, sample: OutcomeTable, test: OutcomeTable, seed: int) -> Choices:
        """Choices for one portion, hashed."""
        began = time.perf_counter()
        if self.fitted is None:
            made: Choices = self.policy.route_seeing(sample, test, seed)
        else:
            made = self.fitted.route(test.queries)
            self.routing_s += time.perf_counter() - began
            self.queries += len(test)
        self.hashes.append(made.sha256)
        return made


@dataclass(frozen=True)
class Streamed:
    """What the blocks of a streamed run share."""

    fits: list[Fit]
    absent: list[Absent]
    sample: OutcomeTable
    words: list[str]


def wanted(snap: Snapshot, params: RunParams) -> bool:
    """Whether the table is read in portions: as asked, else where it has more than ABOVE_CELLS outcomes."""
    if params.stream is not None:
        return params.stream
    count = snap.sql("SELECT count(*) AS n FROM core.outcome WHERE dataset = $dataset", dataset=params.dataset)
    return int(count["n"][0]) > ABOVE_CELLS


def portions(
    snap: Snapshot, params: RunParams, condition: Condition, arms: list[str] | None
) -> Iterator[tuple[OutcomeTable, LoadNotes]]:
    """The table in portions, with embeddings where an embedder was asked for. Raises BadRequest for one that cannot."""
    name = params.embedder if params.embedder != "none" else None
    if params.embeddings is not None or (name is not None and name not in EMBEDDERS):
        raise BadRequest(
            "A table that is read in portions takes no file of embeddings, and no embedder that is fitted.",
            fix=f"use --embedder {' or '.join(EMBEDDERS)}, or none",
        )
    for table, notes in iter_tables(
        snap, params.dataset, condition=condition, arms=arms, texts=name is not None, **load_options(params)
    ):
        if name is not None:
            assert table.queries.texts is not None
            table = table.with_embeddings(embed(table.queries.texts.tolist(), name))
        yield table, notes


def fit(
    snap: Snapshot,
    params: RunParams,
    condition: Condition,
    arms: list[str] | None,
    make: Callable[[OutcomeTable], Sequence[Policy | Diagnostic]],
    progress: Progress,
) -> Streamed:
    """Fit every policy of `make(sample)` on a sample of the training part. Raises what loading raises."""
    kept: list[OutcomeTable] = []
    rng = np.random.default_rng(params.seed)
    seen = 0
    for table, _ in portions(snap, params, condition, arms):
        progress.step(f"reading training queries, {seen:,} so far")
        train = table.train()
        seen += len(train)
        kept.append(train)
        while sum(map(len, kept)) > 2 * FITTED_ON:  # thin all by half, so that every portion stays represented
            kept = [t.take(np.sort(rng.choice(len(t), (len(t) + 1) // 2, replace=False))) for t in kept]
    if not kept:
        raise BadRequest(f"{params.dataset} has no query.", fix="import outcomes, or name other benchmarks")
    sample = stacked(kept)
    if len(sample) > FITTED_ON:
        sample = sample.take(np.sort(rng.choice(len(sample), FITTED_ON, replace=False)))
    fits, absent = [], []
    for policy in make(sample):
        progress.step(f"fitting {policy.about.name}")
        try:
            began = time.perf_counter()
            fitted = policy.fit(sample, params.seed) if hasattr(policy, "fit") else None
            fits.append(Fit(policy.about, policy, fitted, time.perf_counter() - began))
        except ReplayError as error:
            absent.append(Absent(policy.about, str(error)))
    words = [f"read in portions; fitted on a sample of {len(sample):,} of {seen:,} training queries"]
    return Streamed(fits, absent, sample, words)


def evaluate(
    snap: Snapshot,
    params: RunParams,
    condition: Condition,
    arms: list[str] | None,
    shared: Streamed,
    asked: Asked,
    entry_of: Callable[[Fit], Entry],
    progress: Progress,
    staging: tuple[Staging, str] | None,
) -> tuple[dict[str, Any], OutcomeTable, LoadNotes]:
    """One condition: (report, a table that names what the portions share, notes). Stages the choices."""
    gather: Gatherer | None = None
    train: Train | None = None
    last: tuple[OutcomeTable, LoadNotes] | None = None
    for each in shared.fits:
        each.hashes.clear()
    for table, notes in portions(snap, params, condition, arms):
        progress.step(f"evaluating, {notes.queries:,} queries so far")
        test = table.test()
        chosen = [f.choose(shared.sample, test, params.seed) for f in shared.fits] if len(test) else []
        if gather is None or train is None:
            fixed = [f.about.family == "fixed" for f in shared.fits]
            gather, train = Gatherer(len(table.arms), len(shared.fits), asked.weights, fixed), Train(len(table.arms))
        train.add(table)
        gather.add(test, chosen)
        if staging is not None:
            for f, choices in zip(shared.fits, chosen, strict=False):
                for frame in store.choice_frames(staging[1], f.about.name, choices, test.queries.ids, table.names):
                    staging[0].add({"core.replay_choice": frame})
        last = table, notes
    parts = None if gather is None or train is None else gather.parts(train, asked.seed, asked.replicates)
    if parts is None or train is None or last is None:
        raise BadRequest(f"{params.dataset} has no held-out query.", fix="give --test-share, or another split")
    about, notes = last
    entries = [entry_of(f) for f in shared.fits]
    return assemble(about, entries, asked, train.with_reference(parts, about)), about, notes


def stacked(tables: Sequence[OutcomeTable]) -> OutcomeTable:
    """The rows of all tables, which must have the same arms."""
    names = ("correct", "energy_j", "latency_s", "cost_usd", "power_w", "output_tokens")
    queries = tables[0].queries
    parts: dict[str, Any] = {
        name: None if getattr(queries, name) is None else np.concatenate([getattr(t.queries, name) for t in tables])
        for name in ("ids", "benchmarks", "texts", "embeddings", "prompt_tokens")
    }
    matrices: dict[str, Any] = {name: np.concatenate([getattr(t, name) for t in tables]) for name in names}
    held_out = np.concatenate([t.held_out for t in tables])
    return replace(tables[0], queries=replace(queries, **parts), held_out=held_out, **matrices)


def no_choices() -> Choices:
    """Stands where choices were too many to keep."""
    return Choices(arms=np.empty(0, dtype=np.int32))
