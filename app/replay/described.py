"""What every report of recorded outcomes says beside its figures: where from, when, by whom, with which code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from app.operations.plain import plain
from app.replay import store
from policies.replay.code import code_sha256, policy_id
from policies.replay.decide import Absent
from policies.replay.load import LoadNotes
from policies.replay.policy import About, Choices, Threshold, Tradeoff
from policies.replay.report import Asked
from policies.replay.report_policy import Entry, Training
from policies.replay.report_rows import metric_rows
from policies.replay.reward import Weights
from policies.replay.table import Condition, OutcomeTable
from warehouse.clock import utcnow
from warehouse.evidence import EvidenceClass
from warehouse.ids import uuid7

if TYPE_CHECKING:
    from app.operations.replay import RunParams

_TRIVIAL = ("fixed", "hull", "random")  # no fit worth an account


@dataclass(frozen=True)
class Head:
    """What the blocks of a run share."""

    params: RunParams
    started_at: datetime
    as_of: datetime
    actor: str
    embedder: str | None
    embedding_note: str
    embedding_s: float | None  # per query
    words: Sequence[str]
    absent: Sequence[Absent]

    @property
    def asked(self) -> Asked:
        p = self.params
        return Asked(p.incumbent, p.budget_j, Weights(energy=p.reward_lambda), p.seed)


def entry(
    head: Head,
    about: About,
    choices: Choices,
    sha256: str,
    *,
    fit_s: float,
    route_s: float,
    curve: Threshold | Tradeoff | None = None,
    notes: Any = None,
) -> Entry:
    """A policy of the report with its own account. Times are NaN where there are none."""
    power = head.params.router_power_w
    seconds: float | None = None if np.isnan(route_s) else route_s
    if seconds is not None and about.needs_embeddings:
        seconds = None if head.embedding_s is None else seconds + head.embedding_s
    told = notes or {}
    training = None
    if about.deployable and about.family not in _TRIVIAL and not np.isnan(fit_s):
        training = _training(told, told.get("training_s", fit_s), power)
    return Entry(
        about=about,
        choices=choices,
        sha256=sha256,
        policy_id=version(about, head.params.seed).policy_id,
        fixed_arm=about.parameters["arm"] if about.family == "fixed" else None,
        swept=curve,
        routing_s=seconds,
        routing_j=None if power is None or seconds is None else power * seconds,
        training=training,
        notes=told,
    )


def _training(told: Mapping[str, Any], seconds: float | None, power_w: float | None) -> Training:
    """What training cost: declared power x the time to fit, or what a policy that was trained before tells of it.

    That one may have been trained on another machine, so no power of this one stands for what it does not tell.
    """
    joules = told.get("training_energy_j")
    cls = told.get("training_energy_evidence_class") or told.get("training_energy_class")
    if joules is not None and cls is not None:
        return Training(float(joules), EvidenceClass(cls), seconds)
    if power_w is None or seconds is None or "training_energy_j" in told:
        return Training(seconds=seconds)
    return Training(power_w * seconds, EvidenceClass.MODELED, seconds)


def version(about: About, seed: int) -> store.Version:
    parameters: dict[str, Any] = plain({**about.parameters, "seed": seed})
    return store.Version(policy_id(about.name, parameters), about.name, parameters, code_sha256())


def finished(
    told: dict[str, Any],
    head: Head,
    table: OutcomeTable,
    notes: LoadNotes,
    *,
    choices_sha256: str,
    diagnostics_sha256: str,
    replay_run_id: str | None = None,
) -> store.Block:
    """The block of one condition, ready to be stored."""
    told |= {
        "kind": "outcomes",
        "replay_run_id": replay_run_id or uuid7(),
        "started_at": head.started_at,
        "finished_at": utcnow(),
        "as_of": head.as_of,
        "actor": head.actor,
        "seed": head.params.seed,
        "embedder": head.embedder,
        "embedding_note": head.embedding_note,
        "split": notes.split,
        "load": notes.plain(),
        "notes": [*head.words, *notes.warnings],
        "code_sha256": code_sha256(),
        "choices_sha256": choices_sha256,
        "diagnostics_sha256": diagnostics_sha256,
        "absent": [{"policy": a.about.name, "family": a.about.family, "reason": a.reason} for a in head.absent],
        "router_power_w": head.params.router_power_w,
        "words": condition_words(table.condition),
    }
    return store.Block(_row(told, table.condition), metric_rows(told))


def condition_words(condition: Condition) -> str:
    """`H100, batch 128, GB, 2026-11-29T18:00Z`."""
    parts = [
        condition.gpu,
        None if condition.batch is None else f"batch {condition.batch:g}",
        condition.zone,
        None if condition.at is None else f"{condition.at:%Y-%m-%dT%H:%MZ}",
    ]
    return ", ".join(p for p in parts if p) or "joules as recorded"


def source_of(notes: LoadNotes) -> str:
    """The source id under which a run over this data set is stored."""
    return store.SAMPLE_SOURCE if all(s.startswith("sample:") for s in notes.sources) else store.SOURCE


def _row(told: dict[str, Any], condition: Condition) -> dict[str, Any]:
    """The columns of core.replay_run."""
    reference = told["reference_point"] or {"accuracy": None, "energy_j": None, "version": None}
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


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
