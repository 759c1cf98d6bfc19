"""Which figures of a comparison may stand side by side; see `policies.fleet.comparison`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.fleet.comparison import Side, compare
from policies.fleet.errors import ComparisonRefused
from policies.fleet.experiments.figures import Run
from policies.fleet.experiments.resolve import Resolved


def models_of(found: Resolved, runs: Sequence[Run], slots: Mapping[str, int] | None = None) -> dict[str, float]:
    """Logical model -> share of the requests that it answers.

    Where the router's sets leave each class one model, the policy cannot change who answers what, so the shares are
    those of the offered requests. Else they are those of the answers.
    """
    models = [found.profiles[p.name].logical_model.lower() for p in found.scenario.pools]
    if len(set(models)) == 1:
        return {models[0]: 1.0}
    routed = found.sim(found.scenario.seeds[0], slots=slots).routed
    assert routed is not None
    counts = np.bincount(routed.kind, minlength=len(routed.eligible))
    shares: dict[str, float] = {}
    fixed = True
    for count, row in zip(counts, routed.eligible, strict=True):
        served = {m for m, allowed in zip(models, row, strict=True) if allowed}
        if count and len(served) > 1:
            fixed = False
        if count and len(served) == 1:
            shares[next(iter(served))] = shares.get(next(iter(served)), 0.0) + float(count)
    if not fixed:
        shares = {}
        for run in runs:
            for model, pool in zip(models, run.pools, strict=True):
                shares[model] = shares.get(model, 0.0) + pool["completed"]
    total = sum(shares.values())
    return {m: s / total for m, s in shares.items()} if total else {}


def compared(found: Resolved, cases: Sequence[tuple[str, Sequence[Run], Mapping[str, Any]]]) -> dict[str, Any]:
    """`allowed` with the comparison, or why it is refused. Rows are (name, runs, the case)."""
    quality = found.scenario.quality
    sides = [
        Side(
            name=name,
            models=models_of(found, runs),
            evidence_class=found.evidence_class,
            tokens_per_j=told["figures"]["tokens_per_j"]["value"],
            j_per_success=told["figures"]["j_per_right_answer"]["value"],
            outcome_set=None if quality is None else quality.outcome_set,
            load=found.workload_sha256,
        )
        for name, runs, told in cases
    ]
    try:
        return {"allowed": True, "why": None, **compare(sides).to_dict()}
    except ComparisonRefused as refused:
        return {"allowed": False, "why": refused.message, "fix": refused.fix, "basis": None, "sides": []}
