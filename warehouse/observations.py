"""Energy observations side by side: only like with like, everything else refused by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from warehouse.engine import Transaction, Warehouse
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, Quality, lowest_quality, one_class, weakest

# What must match before two energies may be compared or added (design section 4).
IDENTITY = (
    "logical_model",
    "deployable_model",
    "deployable_version",
    "hardware_model",
    "hardware_count",
    "meter_scope",
    "runtime",
    "runtime_version",
    "config_version",
)


@dataclass(frozen=True)
class EnergyFigure:
    """Energy per successful request over comparable observations.

    value = sum of energy over all attempts / sum of successes; None where no success is known.
    `coverage` is the share of requests that had energy; those without are in neither sum.
    `relative_uncertainty` is that of the meters, taken as common to all (it does not shrink with n).
    """

    energy_j_per_success: float | None
    energy_j: float | None
    successes: int
    attempts: int
    coverage: float | None
    evidence_class: EvidenceClass
    quality: Quality
    method_classes: tuple[str, ...]
    relative_uncertainty: float | None
    n: int
    newest_at: datetime


def method_class(method: str) -> str:
    """The kind of metering behind a method: counter, integral, attribution or the method itself."""
    if method in {"counter"}:
        return "counter"
    if method.startswith("integrated_"):
        return "integral"
    if "prorated" in method:
        return "attribution"
    return method


def read(source: Warehouse | Transaction, observation_ids: Sequence[str]) -> pl.DataFrame:
    """The named observations, in order of their window."""
    return source.query(
        "SELECT * FROM core.energy_observation WHERE list_contains($ids, observation_id) "
        "ORDER BY window_start_at, observation_id",
        {"ids": list(observation_ids)},
    )


def require_comparable(observations: pl.DataFrame) -> None:
    """Raise IncomparableObservations, naming what differs, unless all rows may be compared with each other.

    An unknown (NULL) matches only an unknown: what is not known to be the same is not the same.
    """
    for column in IDENTITY:
        values = observations[column].unique(maintain_order=True).to_list()
        if len(values) > 1:
            shown = ", ".join("unknown" if v is None else str(v) for v in values[:4])
            raise IncomparableObservations(
                f"These observations differ in {column}: {shown}.",
                fix=f"compare observations of one {column}, or calibrate a profile across them",
            )
    metered = observations.filter(pl.col("energy_gross_j").is_not_null())  # a gap was metered by nothing
    one_class(metered["evidence_class"].to_list(), what="this set of observations")
    methods = sorted({method_class(m) for m in metered["method"]})
    if len(methods) > 1:
        raise IncomparableObservations(
            f"These observations differ in method class: {', '.join(methods)}.",
            fix="compare observations of one method class",
        )


def energy_per_success(observations: pl.DataFrame) -> EnergyFigure:
    """The figure of a set of comparable observations. Raises IncomparableObservations otherwise, also when empty."""
    if observations.is_empty():
        raise IncomparableObservations("There is no observation to sum up.", fix="widen the selection")
    require_comparable(observations)
    known = observations.filter(pl.col("energy_gross_j").is_not_null())
    energy = float(known["energy_gross_j"].sum()) if known.height else None
    successes = int(known["successes"].fill_null(0).sum())
    uncertainties = [u for u in known["relative_uncertainty"].to_list() if u is not None and math.isfinite(u)]
    told = known if known.height else observations
    evidence = weakest(told["evidence_class"].to_list())
    quality = lowest_quality(told["quality"].to_list())
    assert evidence is not None
    assert quality is not None
    attempts = observations["attempts"].fill_null(1)
    return EnergyFigure(
        energy_j_per_success=energy / successes if energy is not None and successes else None,
        energy_j=energy,
        successes=successes,
        attempts=int(attempts.sum()),
        coverage=known.height / observations.height,
        evidence_class=evidence,
        quality=quality,
        method_classes=tuple(sorted({method_class(m) for m in told["method"]})),
        relative_uncertainty=max(uncertainties) if uncertainties else None,
        n=known.height,
        newest_at=observations["window_end_at"].max(),  # type: ignore[arg-type]
    )
