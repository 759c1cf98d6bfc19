"""The router's part, before the balancer: which pools may serve each class of requests.

A class is a combination of model, category, tenant and length; its row of the eligible matrix is the intersection of
all rules that are given. The simulator enforces the matrix and rejects with a reason; it never looks elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import EligibleSetEmpty, FleetError
from policies.fleet.sim.layout import Ints
from policies.fleet.sim.workload import Workload


@dataclass(frozen=True)
class Routed:
    """Class of each request (n,), and which pools may serve which class (C, P)."""

    kind: Ints
    eligible: NDArray[np.bool_]
    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Rules of the router. A rule that is given is complete: what it does not name has no eligible backend.

    `models`, `categories`, `tenants`: pools that may serve a value (authorization, safety and residency arrive here
    as such sets). `lengths`: (most tokens, pools), in rising order; the last may be infinite. `length_of` is "total",
    which assumes that the output length is known, or "prompt". `by` adds columns to the classes for reports alone.
    `affinity` sends a session to the instance that served it last while that has a free slot; `prefix_reuse` is the
    share of such a prompt that is in its cache.
    """

    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tenants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lengths: Sequence[tuple[float, Sequence[str]]] = ()
    length_of: str = "total"
    by: tuple[str, ...] = ()
    affinity: bool = False
    prefix_reuse: float = 0.0

    def __post_init__(self) -> None:
        if self.length_of not in ("total", "prompt"):
            raise FleetError(f"length_of is {self.length_of!r}.", fix="use total or prompt")
        if unknown := sorted(set(self.by) - {"model", "category", "tenant"}):
            raise FleetError(f"requests have no {unknown[0]!r}.", fix="use model, category or tenant")
        bounds = [most for most, _ in self.lengths]
        if any(b >= a for b, a in pairwise(bounds)):
            raise FleetError("the lengths of the routing rule do not rise.", fix="sort them")
        if not 0 <= self.prefix_reuse <= 1:
            raise FleetError(f"prefix_reuse is {self.prefix_reuse}.", fix="give a share from 0 to 1")

    def apply(self, workload: Workload, pools: Sequence[str]) -> Routed:
        """Classes and eligible sets. The classes depend on names, not on which requests there are."""
        kind = np.zeros(len(workload), np.int64)
        eligible, labels = np.ones((1, len(pools)), np.bool_), [""]
        for name, names, codes, rule in (
            ("model", workload.models, workload.model, self.models),
            ("category", workload.categories, workload.category, self.categories),
            ("tenant", workload.tenants, workload.tenant, self.tenants),
        ):
            if not rule and name not in self.by:
                continue
            values = [*names, f"unknown {name}"]
            rows = np.array([_row(rule.get(value, ()), pools) if rule else [True] * len(pools) for value in values])
            codes = codes if len(codes) else np.full(len(workload), -1)
            kind = kind * len(values) + np.where(codes < 0, len(values) - 1, codes)
            eligible = (eligible[:, None, :] & rows[None, :, :]).reshape(-1, len(pools))
            labels = [" ".join(filter(None, (label, value))) for label in labels for value in values]
        if self.lengths:
            length = workload.tokens if self.length_of == "total" else workload.l_in
            bounds = [most for most, _ in self.lengths]
            rows = np.array([*(_row(names, pools) for _, names in self.lengths), [False] * len(pools)])
            kind = kind * len(rows) + np.searchsorted(bounds, length)
            eligible = (eligible[:, None, :] & rows[None, :, :]).reshape(-1, len(pools))
            told = [*(f"<={most:g} tokens" for most in bounds), f">{bounds[-1]:g} tokens"]
            labels = [" ".join(filter(None, (label, value))) for label in labels for value in told]
        return Routed(kind.astype(np.int32), eligible, tuple(labels))


def by_length(bounds: Sequence[float], pools: Sequence[Sequence[str]], *, length_of: str = "total") -> Routing:
    """A length router: requests up to bounds[k] tokens go to pools[k], longer ones to the last of `pools`."""
    if len(pools) != len(bounds) + 1:
        raise FleetError(f"{len(bounds)} bounds and {len(pools)} sets of pools.", fix="give one set more than bounds")
    return Routing(lengths=tuple(zip((*bounds, math.inf), pools, strict=True)), length_of=length_of)


def enforceable(routed: Routed, pools: Sequence[str]) -> Routed:
    """The same, checked: shapes and codes fit, and at least one class that occurs has a backend.

    Raises FleetError, and EligibleSetEmpty where no request at all may be served.
    """
    if routed.eligible.ndim != 2 or routed.eligible.shape[1] != len(pools) or routed.eligible.dtype != np.bool_:
        raise FleetError(
            f"the eligible matrix has shape {routed.eligible.shape} and type {routed.eligible.dtype}.",
            fix=f"give booleans of shape (classes, {len(pools)})",
        )
    if len(routed.classes) != len(routed.eligible):
        raise FleetError(
            f"{len(routed.classes)} classes are named and the eligible matrix has {len(routed.eligible)} rows.",
            fix="name every class",
        )
    occurring = np.unique(routed.kind)
    if occurring.min() < 0 or occurring.max() >= len(routed.eligible):
        raise FleetError(
            f"a class is {int(occurring.max())} and the eligible matrix has {len(routed.eligible)} rows.",
            fix="give a row for every class",
        )
    if not routed.eligible[occurring].any():
        raise EligibleSetEmpty(
            "no pool may serve any of these requests.", fix=f"name one of {', '.join(pools)} in the router's sets"
        )
    return routed


def _row(names: Sequence[str], pools: Sequence[str]) -> list[bool]:
    if unknown := sorted(set(names) - set(pools)):
        raise FleetError(f"the router names a pool {unknown[0]!r}.", fix=f"use {', '.join(pools)}")
    return [pool in names for pool in pools]
