"""Training of the learned controller: from data set to stored weights, with its own account."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from app.desk import Desk
from app.operations import Actor
from app.operations.plain import plain
from app.replay import store, trained_store
from app.replay.embedded import Embedded, embedded
from app.replay.progress import Progress
from policies.replay.account import break_even
from policies.replay.bootstrap import Paired, paired
from policies.replay.controller import Settings, Trained, lambdas_per_j
from policies.replay.controller import train as train_controller
from policies.replay.errors import NothingToLearn
from policies.replay.load import load_table
from policies.replay.metrics import Figures, evaluate
from policies.replay.policy import Choices
from policies.replay.report_policy import figures_dict
from policies.replay.reward import LAMBDA_REINFORCED, Weights
from policies.replay.routers.fixed import fixed_arms
from policies.replay.table import Condition, OutcomeTable
from warehouse.clock import to_utc
from warehouse.evidence import EvidenceClass
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.operations.replay_train import TrainParams

NO_METER = "no meter of this machine and no declared power (machine_power_w)"
_SETTINGS = ("stage", "reward", "lam_supervised", "per_s", "per_w", "beta", "estimator", "scale", "group", "steps",
             "hidden", "unanswered")  # fmt: skip
_LOADING = ("seed", "test_share", "split", "leaked", "keep_partial", "batch_mode", "edition")


def train(desk: Desk, actor: Actor, params: TrainParams, progress: Progress) -> dict[str, Any]:
    """Train, store, and tell. Raises PolicyError, and Conflict where it was cancelled: nothing is kept then."""
    progress.step("reading outcomes", 0, 2 * params.steps)
    at = to_utc(params.at, what="at") if params.at else None
    options: dict[str, Any] = {name: getattr(params, name) for name in _LOADING}
    with snapshot(desk.warehouse) as snap:
        table, notes = load_table(
            snap,
            params.dataset,
            condition=Condition(params.gpu, params.batch, params.zone, at),
            arms=params.arms or None,
            benchmarks=params.benchmarks or None,
            evidence_class=EvidenceClass(params.evidence_class) if params.evidence_class else None,
            **options,
        )
        as_of = snap.as_of
    progress.step("embedding")
    made = embedded(table, params.embedder, params.embeddings)
    settings = _settings(params, made.table)

    def step(stage: str, at: int, of: int) -> None:
        progress.step(f"training {stage}", at if stage == "sft" else of + at, 2 * of)

    trained = train_controller(made.table.train(), settings, params.seed, step)
    progress.step("evaluating", 2 * params.steps)
    told = _told(trained, made, params.machine_power_w) | {"as_of": plain(as_of), "load": plain(notes.plain())}
    progress.step("storing")
    sample = bool(notes.sources) and all(s.startswith("sample:") for s in notes.sources)
    told["stored"] = trained_store.write(
        desk.warehouse, trained, told, actor, store.SAMPLE_SOURCE if sample else store.SOURCE
    )
    return told


def _settings(params: TrainParams, table: OutcomeTable) -> Settings:
    settings = Settings(**{name: getattr(params, name) for name in _SETTINGS}, benchmarks=params.see_benchmarks)
    if table.queries.embeddings is None:
        settings = replace(settings, components=0)
    if params.lam is not None:
        return replace(settings, lam=params.lam)
    if params.reward == "gated":
        return replace(settings, lam=LAMBDA_REINFORCED)
    slopes = lambdas_per_j(table.train())
    if not slopes:
        raise NothingToLearn(
            f"No two fixed arms of {table.dataset} trade joules for answers, so there is no default lambda.",
            fix="give --lambda, in 1/J",
        )
    return replace(settings, lam=slopes[-2])  # the last is half a slope


def _told(trained: Trained, made: Embedded, power_w: float | None) -> dict[str, Any]:
    """What the operation answers, but for where it is stored."""
    test, names = made.table.test(), made.table.names
    choices = trained.route(test.queries) if len(test) else None
    gated = trained.settings.reward == "gated" or trained.settings.stage == "sft"
    weights = trained.settings.weights if gated else Weights()
    figures = evaluate(test, [choices], weights=weights)[0] if choices is not None else None
    joules = None if power_w is None else power_w * trained.training_s
    kept = [step for step in trained.history if step["kept"]][-1]
    return {
        "id": trained.trained_policy_id,
        "name": trained.name,
        "dataset": trained.dataset,
        "dataset_sha256": trained.dataset_sha256,
        "parameters": trained.settings.plain(),
        "embedder": made.embedder,
        "embedding_note": made.note,
        "seed": trained.seed,
        "arms": list(names),
        "n_train": trained.n_train,
        "n_test": len(test),
        "counts": dict(trained.counts),
        "kept_steps": trained.kept_steps,
        "kept": plain(dict(kept)),
        "collapsed": trained.collapsed,
        "collapsed_at": None if trained.collapsed_at is None else list(trained.collapsed_at),
        "training_s": trained.training_s,
        "training_energy_j": joules,
        "training_energy_evidence_class": None if joules is None else EvidenceClass.MODELED.value,
        "training_energy_method": NO_METER if joules is None else f"declared {power_w:g} W x training seconds",
        "evidence_class": None if made.table.evidence_class is None else made.table.evidence_class.value,
        "reward_weights": asdict(weights),
        "held_out": None if figures is None else plain(figures_dict(figures, names)),
        "against": None if choices is None else _against(made.table, choices, figures, joules, trained.seed),
        "history": plain(list(trained.history)),
    }


def _against(
    table: OutcomeTable, choices: Choices, figures: Figures | None, training_j: float | None, seed: int
) -> dict[str, Any] | None:
    """The best fixed arm (most accurate on the training part, fewer joules on a tie) on the held-out queries."""
    assert figures is not None
    try:
        fixed = fixed_arms(table.train())
    except NothingToLearn:
        return None
    arm = int(np.lexsort((fixed.energy_j, -np.where(fixed.usable, fixed.accuracy, -np.inf)))[0])
    test = table.test()
    always = Choices(arms=np.full(len(test), arm, dtype=np.int32))
    best = evaluate(test, [always], fixed=[True])[0]
    spent, spends = best.energy_j_per_query, figures.energy_j_per_query
    saved = None if spent is None or spends is None else spent - spends
    return {
        "arm": table.names[arm],
        "accuracy": best.accuracy,
        "energy_j_per_query": spent,
        "paired": _paired(paired(test, choices, always, seed=seed)),
        "saved_j_per_query": saved,
        "break_even_queries": break_even(training_j, saved),
    }


def _paired(found: Paired) -> dict[str, Any]:
    keys = ("accuracy_difference", "energy_ratio", "energy_per_correct_ratio")
    told = {k: [i.estimate, i.low, i.high] for k in keys for i in (getattr(found, k),)}
    return {**told, "n": found.n, "missing": found.missing, "replicates": found.replicates}
