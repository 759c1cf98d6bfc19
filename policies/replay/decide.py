"""Choices first, outcomes later: fit each policy, let it route held-out queries it sees no outcomes of, hash.

`decide_blind` gets the held-out queries without their cells, so the hash over its choices cannot depend on
any outcome. Diagnostics see the cells; they run after that hash is taken and have one of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policies.replay.errors import PolicyUnknown, QueryLeaked, ReplayError
from policies.replay.policy import About, Choices, Diagnostic, Fitted, Policy, Threshold, Tradeoff
from policies.replay.table import OutcomeTable, Queries, check_embeddings
from warehouse.ids import content_hash, sha256

Clock = Callable[[], float]


@dataclass(frozen=True)
class Decided:
    """What one policy chose. `notes` are counts and fitted figures; times are wall clock of this machine.

    `sha256` covers choices and curve. `route_s_per_query` is the router's own latency, in batch, NaN for
    diagnostics (they cannot be run live) and where there is nothing to route.
    """

    about: About
    choices: Choices
    curve: Threshold | Tradeoff | None
    fit_s: float
    route_s_per_query: float
    sha256: str
    notes: Mapping[str, Any] = field(default_factory=dict)
    diagnostic: bool = False


@dataclass(frozen=True)
class Absent:
    """A policy that was asked for and could not run, and why."""

    about: About
    reason: str


@dataclass(frozen=True)
class Decisions:
    """All that was decided, in the order of the roster; iterates over `decided`."""

    decided: tuple[Decided, ...]
    absent: tuple[Absent, ...]
    choices_sha256: str  # deployable policies: taken before any held-out outcome was joined
    diagnostics_sha256: str  # policies that saw held-out outcomes or outputs

    def __iter__(self) -> Iterator[Decided]:
        return iter(self.decided)

    def __len__(self) -> int:
        return len(self.decided)

    def __getitem__(self, name: str) -> Decided:
        """The decision of the policy `name`. Raises PolicyUnknown."""
        for one in self.decided:
            if one.about.name == name:
                return one
        names = ", ".join(one.about.name for one in self.decided)
        raise PolicyUnknown(f"No policy {name!r} took part.", fix=f"use one of {names}")


def decide(
    roster: Sequence[Policy | Diagnostic],
    train: OutcomeTable,
    test: OutcomeTable,
    seed: int,
    *,
    clock: Clock = time.perf_counter,
    progress: Callable[[str], None] = lambda name: None,
) -> Decisions:
    """Every policy's choices for `test`. A policy that cannot run is listed as absent with its reason.

    Raises PolicyUnknown where two policies share a name, QueryLeaked, EmbeddingInvalid for embeddings that are
    not finite, and the errors of OutcomeTable.check.
    """
    check(roster, train, test)
    policies = [one for one in roster if hasattr(one, "fit")]
    decided, absent = decide_blind(policies, train, test.queries, seed, clock=clock, progress=progress)
    choices_sha256 = hash_of(decided, test)
    seen, missing = diagnose([d for d in roster if not hasattr(d, "fit")], train, test, seed, progress=progress)
    place = {one.about.name: at for at, one in enumerate(roster)}
    return Decisions(
        tuple(sorted((*decided, *seen), key=lambda one: place[one.about.name])),
        tuple(sorted((*absent, *missing), key=lambda one: place[one.about.name])),
        choices_sha256,
        hash_of(seen, test),
    )


def decide_blind(
    policies: Sequence[Any],
    train: OutcomeTable,
    queries: Queries,
    seed: int,
    *,
    clock: Clock = time.perf_counter,
    progress: Callable[[str], None] = lambda name: None,
) -> tuple[list[Decided], list[Absent]]:
    """Fit and route, timed; sees the queries and none of their outcomes."""
    decided: list[Decided] = []
    absent: list[Absent] = []
    for policy in policies:
        progress(policy.about.name)
        try:
            began = clock()
            fitted: Fitted = policy.fit(train, seed)
            fitted_at = clock()
            choices = fitted.route(queries)
            routed_at = clock()
            curve = fitted.curve(queries)
        except ReplayError as error:
            absent.append(Absent(policy.about, str(error)))
            continue
        per_query = (routed_at - fitted_at) / len(queries) if len(queries) else float("nan")
        notes = dict(getattr(fitted, "notes", {}))
        hashed = _hash(choices, curve)
        decided.append(Decided(policy.about, choices, curve, fitted_at - began, per_query, hashed, notes))
    return decided, absent


def diagnose(
    diagnostics: Sequence[Any],
    train: OutcomeTable,
    test: OutcomeTable,
    seed: int,
    *,
    progress: Callable[[str], None] = lambda name: None,
) -> tuple[list[Decided], list[Absent]]:
    """The bounds: policies that see the held-out outcomes or outputs."""
    decided: list[Decided] = []
    absent: list[Absent] = []
    for policy in diagnostics:
        progress(policy.about.name)
        try:
            choices = policy.route_seeing(train, test, seed)
        except ReplayError as error:
            absent.append(Absent(policy.about, str(error)))
            continue
        notes = dict(policy.notes(test)) if hasattr(policy, "notes") else {}
        nan = float("nan")
        decided.append(Decided(policy.about, choices, None, nan, nan, _hash(choices, None), notes, diagnostic=True))
    return decided, absent


def check(roster: Sequence[Policy | Diagnostic], train: OutcomeTable, test: OutcomeTable) -> None:
    """Raises what `decide` raises about its input."""
    names = [one.about.name for one in roster]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PolicyUnknown(f"The policy {twice[0]!r} is in the roster twice.", fix="name each policy once")
    for table in (train, test):
        table.check()
        if table.queries.embeddings is not None:
            check_embeddings(table.queries.embeddings, len(table))
    both = np.intersect1d(train.queries.ids.astype(str), test.queries.ids.astype(str))
    if both.size:
        raise QueryLeaked(
            f"{both.size} held-out queries are in the training part, too; the first is {both[0]}.",
            fix="give each query one split",
        )


def hash_of(decided: Sequence[Decided], test: OutcomeTable) -> str:
    """One hash over queries, arms and every policy's own hash."""
    ids = "\n".join(str(value) for value in test.queries.ids)
    return content_hash(
        {
            "queries": sha256(ids.encode("utf-8", "surrogatepass")),
            "arms": list(test.names),
            "policies": {one.about.name: one.sha256 for one in decided},
        }
    )


def _hash(choices: Choices, curve: Threshold | Tradeoff | None) -> str:
    parts: dict[str, Any] = {"choices": choices.sha256}
    if isinstance(curve, Threshold):
        parts |= {"score": sha256(np.ascontiguousarray(curve.score).tobytes())}
        parts |= {"weak": curve.weak, "strong": curve.strong}
    elif curve is not None:
        parts |= {"error": sha256(np.ascontiguousarray(curve.error).tobytes())}
        parts |= {"energy_j": sha256(np.ascontiguousarray(curve.energy_j).tobytes())}
    return content_hash(parts)
