"""Pairs of outcomes -> what a gate is told.

One kind of pairs is judged: replays where they have reached the plan or are all there is, else mirrored requests;
they are never mixed. Each request counts once, by its first run; further runs tell the noise between runs. An aborted
pair is a request that tells nothing, so that broken ones lower the coverage and cannot be left out in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from policies.proof.checked import Floats
from policies.proof.evidence import Amounts, Both, Constraint, Evidence
from policies.proof.margins import OutcomeKind
from policies.shadow.noise import OrderEffect, RunNoise, order_effect, run_noise
from warehouse.evidence import EvidenceClass

PAIRED = (OutcomeKind.PAIRED_REPLAY, OutcomeKind.MIRRORED)
SAMPLED = "sampled"
_ORDER = ("observed_at", "repeat_no", "pair_id", "source_id")


def kind_of(pairs: pl.DataFrame, planned: int) -> OutcomeKind:
    """The kind to judge: the strongest that has reached the plan, else the strongest that is there."""
    there = {k: first_runs(pairs, k) for k in PAIRED}
    for kind, found in there.items():
        if usable(found) >= planned:
            return kind
    return next((kind for kind, found in there.items() if found.height), OutcomeKind.PAIRED_REPLAY)


def first_runs(pairs: pl.DataFrame, kind: OutcomeKind) -> pl.DataFrame:
    """One pair per request, in the order in which they were observed."""
    own = pairs.filter(pl.col("evidence_kind") == kind.value)
    first = own.sort("repeat_no", *[c for c in _ORDER if c != "repeat_no"]).unique(
        "request_id", keep="first", maintain_order=True
    )
    return first.sort(*_ORDER)


def usable(first: pl.DataFrame) -> int:
    """Requests that were not aborted."""
    return first.height - int(first["aborted"].sum())


def evidence_of(
    pairs: pl.DataFrame,
    kind: OutcomeKind,
    eligible: Sequence[Constraint] = (),
    mix: Mapping[str, float] | None = None,
    min_coverage: float = 0.0,
) -> Evidence:
    """What the gate is told of the pairs of `kind`. eligible: hard constraints that were proved over eligible sets."""
    own = pairs.filter(pl.col("evidence_kind") == kind.value)
    used = first_runs(pairs, kind)
    aborted = used.height - usable(used)
    told = None
    if aborted and aborted > (1 - min_coverage) * used.height:
        told = f"{aborted} of {used.height} pairs were broken off"
    return Evidence(
        kind=kind.value,
        success=_both(used, "success"),
        latency_s=_both(used, "latency_s") if _any(used, "latency_s") else None,
        energy_j=_amounts(used, "energy_j", "evidence_class", "meter_class"),
        usd=_amounts(used, "cost_usd", None, None),
        carbon_g=_amounts(used, "carbon_g", "carbon_evidence_class", "meter_class"),
        constraints=(*eligible, Constraint(SAMPLED, own.height, own["violation"].drop_nulls().len(), proved=False)),
        clusters=_clusters(used),
        strata=(used["category"] + "|" + used["size_band"]).to_list() if mix else None,
        mix=mix or None,
        category=used["category"].to_list(),
        aborted=told,
    )


def _both(pairs: pl.DataFrame, name: str) -> Both:
    return Both(*(_floats(pairs, f"{arm}_{name}") for arm in ("candidate", "control")))


def _any(pairs: pl.DataFrame, name: str) -> bool:
    return any(pairs[f"{arm}_{name}"].null_count() < pairs.height for arm in ("candidate", "control"))


def _amounts(pairs: pl.DataFrame, name: str, classes: str | None, meters: str | None) -> Amounts | None:
    """Class and meter of the pairs that tell the figure; a bill is a document and needs neither."""
    if not _any(pairs, name):
        return None
    telling = pairs.filter(pl.col(f"candidate_{name}").is_not_null() & pl.col(f"control_{name}").is_not_null())
    kinds = [str(c) for c in telling[classes].unique().sort() if c is not None] if classes else [EvidenceClass.MEASURED]
    meter = telling[meters].unique().sort().to_list() if meters else ["bill"]
    both = _both(pairs, name)
    return Amounts(both.candidate, both.control, kinds, kinds, meter, meter)


def _floats(pairs: pl.DataFrame, name: str) -> Floats:
    told = pl.when(~pl.col("aborted")).then(pl.col(name).cast(pl.Float64)).fill_null(float("nan"))
    return np.asarray(pairs.select(told).to_series().to_numpy(), dtype=np.float64)


def _clusters(pairs: pl.DataFrame) -> list[str] | None:
    """Session or tenant; a pair without one is one by itself. None where no pair tells one."""
    if pairs["cluster"].null_count() == pairs.height:
        return None
    return pairs.select(pl.coalesce("cluster", pl.format("request {}", "request_id"))).to_series().to_list()


def notes(pairs: pl.DataFrame, kind: OutcomeKind) -> dict[str, Any]:
    """What the pairs say about themselves: how many of which, noise between runs, effect of the order."""
    own = pairs.filter(pl.col("evidence_kind") == kind.value)
    used = first_runs(pairs, kind)
    noise: RunNoise | None = run_noise(_ratio(own), own["request_id"].to_list())
    order: OrderEffect | None = order_effect(_ratio(used), used["first_arm"].to_list())
    return {
        "pairs": own.height,
        "requests": used.height,
        "aborted": used.height - usable(used),
        "repeats": own.height - used.height,
        "clusters": used["cluster"].n_unique() - (used["cluster"].null_count() > 0),
        "sources": own["source_id"].unique().sort().to_list(),
        "run_noise": None if noise is None else vars(noise) | {"words": noise.words},
        "order": None if order is None else vars(order),
        "warnings": [order.warning] if order is not None and order.warning else [],
        "by_kind": dict(pairs.group_by("evidence_kind").len().sort("evidence_kind").iter_rows()),
    }


def _ratio(pairs: pl.DataFrame) -> Floats:
    one, zero = (_floats(pairs, f"{arm}_energy_j") for arm in ("candidate", "control"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(zero > 0, one / zero, np.nan))
