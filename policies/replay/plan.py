"""What a load of an outcome table will read: which arms, which energy, which split. Decided before any cell is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import polars as pl

from policies.replay.conditions import with_carbon
from policies.replay.energy_join import Joined, Rate, configurations, join
from policies.replay.errors import (
    ArmUnknown,
    ConditionUnknown,
    CorrectnessInvalid,
    DatasetUnknown,
    EnergyInvalid,
    MixedEvidence,
)
from policies.replay.split import split
from policies.replay.sql import sql_text
from policies.replay.table import Arm, Bools, Condition
from warehouse.evidence import EvidenceClass, strongest_first
from warehouse.intensity import Intensity
from warehouse.snapshots import Snapshot

_ARM = ("model", "effort", "serving_class", "energy_model", "parameters_b")
_PRICES = ("input_price_usd_per_token", "output_price_usd_per_token")


@dataclass(frozen=True)
class Options:
    """How to load; see `policies.replay.load.load_table`."""

    condition: Condition = field(default_factory=Condition)
    arms: tuple[str, ...] | None = None
    benchmarks: tuple[str, ...] | None = None
    seed: int = 0
    test_share: float = 0.3
    split: str = "auto"
    leaked: str = "refuse"
    keep_partial: bool = False
    batch_mode: str = "nearest"
    edition: str | None = None
    evidence_class: EvidenceClass | None = None
    carbon: Mapping[str, Any] = field(default_factory=dict)  # signal, basis, carry_s


@dataclass(frozen=True)
class Plan:
    """`queries` (query_id, benchmark, prompt_tokens, text_key; N rows by id) and (N,) `held_out` are what is kept."""

    dataset: str
    options: Options
    condition: Condition
    arms: tuple[Arm, ...]
    stats: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, str]
    queries: pl.DataFrame
    held_out: Bools
    split_words: str
    leaked: int
    joined: Joined | None
    evidence_class: EvidenceClass | None
    energy_method: str
    intensity: Intensity | None
    warnings: tuple[str, ...]

    @property
    def rates(self) -> tuple[Rate, ...]:
        return tuple(self.joined.rates[a.name] for a in self.arms if a.name in self.joined.rates) if self.joined else ()

    @property
    def newest_at(self) -> datetime | None:
        return max((s["newest_at"] for s in self.stats.values() if s["newest_at"]), default=None)


def plan(snap: Snapshot, dataset: str, options: Options) -> Plan:
    """Raises the errors of `load_table`."""
    stats = _stats(snap, dataset, options)
    queries = _queries(snap, dataset, options)
    parts = split(
        queries,
        kind=options.split,
        seed=options.seed,
        test_share=options.test_share,
        leaked=options.leaked,
        dataset=dataset,
    )
    joined = _join(snap, stats, options)
    chosen, left_out = _choose(dataset, stats, queries.height, joined, options)
    if joined:
        joined = replace(joined, rates={name: joined.rates[name] for name in chosen if name in joined.rates})
    cls, method = _energy(dataset, {name: stats[name] for name in chosen}, joined, options)
    condition, intensity = with_carbon(snap, options.condition, cls, **options.carbon)
    return Plan(
        dataset=dataset,
        options=options,
        condition=condition,
        arms=tuple(_arm(name, stats[name]) for name in chosen),
        stats=stats,
        left_out=left_out,
        queries=queries.filter(pl.Series(parts.keep)).drop("split", "draw"),
        held_out=parts.held_out[parts.keep],
        split_words=parts.words,
        leaked=parts.leaked,
        joined=joined,
        evidence_class=cls,
        energy_method=method,
        intensity=intensity,
        warnings=_warnings({n: stats[n] for n in chosen}, joined, intensity),
    )


def _stats(snap: Snapshot, dataset: str, options: Options) -> dict[str, dict[str, Any]]:
    rows = snap.frame(sql_text("arms.sql"), dataset=dataset, benchmarks=_listed(options.benchmarks)).to_dicts()
    stats = {row["arm"]: row for row in rows}
    if options.benchmarks:
        _check_benchmarks(snap, dataset, options.benchmarks)
    if not any(row["cells"] for row in rows):
        known = snap.sql("SELECT DISTINCT dataset FROM core.outcome WHERE known_from <= $as_of ORDER BY dataset")
        raise DatasetUnknown(
            f"No outcome of {dataset!r} is recorded.",
            fix=f"use one of {', '.join(known['dataset'])}" if known.height else "import outcomes first",
        )
    unknown = [a for a in options.arms or () if a not in stats]
    if unknown:
        raise ArmUnknown(f"The data set {dataset} has no arm {unknown[0]!r}.", fix=f"use one of {', '.join(stats)}")
    for name in options.arms or stats:
        if stats[name]["correct_nan"]:
            raise CorrectnessInvalid(
                f"{stats[name]['correct_nan']} outcomes of {dataset} by {name} have a correctness that is no number.",
                fix="give a share between 0 and 1, or leave the cell out",
            )
        if stats[name]["energy_nan"] and options.condition.gpu is None:
            raise EnergyInvalid(
                f"{stats[name]['energy_nan']} outcomes of {dataset} by {name} have an energy that is no number.",
                fix="give joules above 0; unknown energy is a missing value",
            )
    return stats


def _check_benchmarks(snap: Snapshot, dataset: str, asked: Sequence[str]) -> None:
    known = snap.sql(
        "SELECT DISTINCT benchmark FROM core.query WHERE dataset = $dataset AND known_from <= $as_of "
        "ORDER BY benchmark",
        dataset=dataset,
    )["benchmark"].to_list()
    unknown = [name for name in asked if name not in known]
    if known and unknown:
        raise DatasetUnknown(
            f"The data set {dataset} has no benchmark {unknown[0]!r}.", fix=f"use one of {', '.join(known)}"
        )


def _queries(snap: Snapshot, dataset: str, options: Options) -> pl.DataFrame:
    return snap.frame(
        sql_text("queries.sql"), dataset=dataset, salt=str(options.seed), benchmarks=_listed(options.benchmarks)
    )


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return list(values) if values else None


def _join(snap: Snapshot, stats: Mapping[str, Mapping[str, Any]], options: Options) -> Joined | None:
    asked = options.condition
    if asked.gpu is None and asked.batch is None:
        return None
    wanted = options.arms or stats
    joined = join(
        configurations(snap),
        {name: stats[name]["energy_model"] for name in wanted},
        gpu=asked.gpu,
        batch=asked.batch,
        mode=options.batch_mode,
        edition=options.edition,
    )
    untold = {n: "no output tokens are known" for n in joined.rates if not stats[n]["with_tokens"]}
    refused = {**joined.missing, **untold}
    usable = len(wanted) - len(refused)
    if (options.arms and refused) or usable < min(2, len(wanted)):
        name, reason = min(refused.items(), key=lambda item: ("outside" not in item[1], item[0]))
        raise ConditionUnknown(
            f"{usable} of {len(wanted)} arms have joules per token on {asked.gpu} at batch {asked.batch:g}; "
            f"{name} has none: {reason}.",
            fix="choose a GPU and a batch that were measured (nearest: up to a factor of two away), or other arms",
        )
    return Joined(
        {n: r for n, r in joined.rates.items() if n not in untold}, refused, joined.gpu, joined.batch, joined.mode
    )


def _choose(
    dataset: str, stats: Mapping[str, Mapping[str, Any]], n: int, joined: Joined | None, options: Options
) -> tuple[list[str], dict[str, str]]:
    """Arms to keep, and why the others are left out."""
    if options.arms:
        return list(dict.fromkeys(options.arms)), {name: "not asked for" for name in stats if name not in options.arms}
    left_out = {name: "no cell is recorded" for name, s in stats.items() if not s["cells"]}
    if joined:
        left_out.update(joined.missing)
    candidates = [name for name in stats if name not in left_out]
    if options.keep_partial:
        return candidates, left_out
    known = "graded_with_tokens" if joined else "graded_with_energy"
    if not joined and not any(s["with_energy"] for s in stats.values()):
        known = "graded"
    complete = [name for name in candidates if stats[name][known] == n]
    if len(complete) < 2:
        return candidates, left_out
    words = {
        "graded": "graded",
        "graded_with_energy": "graded and have energy",
        "graded_with_tokens": "graded and have tokens",
    }[known]
    for name in set(candidates) - set(complete):
        left_out[name] = f"{stats[name][known]} of {n} queries are {words}"
    return complete, dict(sorted(left_out.items()))


def _energy(
    dataset: str, stats: Mapping[str, Mapping[str, Any]], joined: Joined | None, options: Options
) -> tuple[EvidenceClass | None, str]:
    if joined:
        return EvidenceClass.CALIBRATED, joined.method
    told = sorted({c for s in stats.values() for c in s["classes"]})
    if options.evidence_class is not None:
        told = [c for c in told if c == options.evidence_class]
    if len(told) > 1 or told == [""]:
        each = "; ".join(
            f"{cls or 'untold'}: {', '.join(n for n, s in stats.items() if cls in s['classes'])}" for cls in told
        )
        known = strongest_first(c for c in told if c)
        raise MixedEvidence(
            f"The joules of {dataset} are of more than one evidence class, or of none ({each}).",
            fix=f"choose one of {', '.join(known) or ', '.join(EvidenceClass)} (evidence_class), or arms of one class",
        )
    if not told:
        return None, ""
    methods = sorted({m for s in stats.values() for m in s["methods"]})
    return EvidenceClass(told[0]), "; ".join(methods[:3]) + ("; …" if len(methods) > 3 else "")


def _arm(name: str, row: Mapping[str, Any]) -> Arm:
    return Arm(name, **{key: row[key] for key in (*_ARM, *_PRICES)})


def _warnings(
    stats: Mapping[str, Mapping[str, Any]], joined: Joined | None, intensity: Intensity | None
) -> tuple[str, ...]:
    found = []
    if joined:
        editions: dict[str, list[str]] = {}
        for name in stats:
            if name in joined.rates:
                editions.setdefault(joined.rates[name].edition, []).append(name)
        if len(editions) > 1:
            each = "; ".join(f"{edition}: {', '.join(names)}" for edition, names in sorted(editions.items()))
            found.append(f"joules per token come from several editions, whose runtimes differ ({each})")
        own = sum(s["with_energy"] for s in stats.values())
        if own:
            found.append(f"{own} cells tell joules of their own, which hold for another load and are not used here")
    if intensity is not None:
        if intensity.is_fallback:
            found.append(f"the grid intensity of {intensity.zone} is a yearly factor ({intensity.method})")
        if intensity.warning:
            found.append(intensity.warning)
    return tuple(found)
