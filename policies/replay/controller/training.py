"""Training from the outcome table: a supervised warm start, then reinforcement, both stopped by a validation part.

The validation part is drawn from the training part; the held-out part is never looked at. Of each stage the weights
with the best validation value are kept, the starting point included, so a stage never ends worse there than it began.
Cells that are not recorded are masked: they are never labels, never sampled, and never count as wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from policies.replay.controller.encoder import Encoder
from policies.replay.controller.lessons import Lessons, lessons
from policies.replay.controller.model import (
    Adam,
    Parameters,
    backward,
    entropies,
    forward,
    initial,
    kl,
    penalty,
    softmax,
)
from policies.replay.controller.objective import advantages, cross_entropy, sampled_group, surrogate
from policies.replay.controller.settings import Settings
from policies.replay.controller.trained import Trained
from policies.replay.metrics import collapsed, entropy
from policies.replay.table import Bools, Floats, Ints, OutcomeTable

SMALLEST_VALIDATION = 10
Progress = Callable[[str, int, int], None]
Gradient = Callable[[Parameters], tuple[float, Parameters]]
Score = Callable[[Parameters], float]


@dataclass(frozen=True)
class Step:
    """One look at the policy: expectations under its probabilities over the recorded cells of the fitted queries.

    `policy_entropy` (nats) is the mean of the queries' own; `selection_entropy` is of the mix of most probable arms,
    0 where one arm takes all: `collapsed` then. `kl` to the supervised policy. `validation` is what stopping looks at.
    """

    stage: str
    step: int
    loss: float | None
    reward: float
    accuracy: float
    energy_j: float
    policy_entropy: float
    selection_entropy: float
    collapsed: bool
    kl: float | None
    validation: float | None
    kept: bool = False


def train(table: OutcomeTable, settings: Settings, seed: int, progress: Progress | None = None) -> Trained:
    """Train on every query of `table`, which must be a training part. Deterministic under `seed`, but for seconds.

    `progress(stage, step, of)` is called at every step; what it raises ends the training.
    Raises NothingToLearn and EmbeddingInvalid.
    """
    began = time.perf_counter()
    learnt = lessons(table, settings)
    encoder = Encoder.learn(
        table.queries,
        components=settings.components,
        rich=settings.rich,
        benchmarks=settings.benchmarks,
        policy=settings.name,
    )
    run = _Run(settings, encoder.encode(table.queries), learnt, np.random.default_rng(seed), progress)
    parameters = run.supervised()
    if settings.stage != "sft":
        parameters = run.reinforced(parameters)
    return Trained(
        settings=settings,
        seed=seed,
        dataset=table.dataset,
        dataset_sha256=table.sha256,
        n_train=len(table),
        arms=table.names,
        seen=np.asarray(learnt.known.any(axis=0)),
        encoder=encoder,
        parameters=parameters,
        counts=learnt.counts | {"fitted": len(run.fitted), "validation": len(run.checked)},
        history=tuple(asdict(step) for step in run.history),
        training_s=time.perf_counter() - began,
    )


class _Run:
    def __init__(
        self, settings: Settings, x: Floats, learnt: Lessons, rng: np.random.Generator, progress: Progress | None
    ) -> None:
        self.settings, self.x, self.learnt, self.rng = settings, x, learnt, rng
        self.progress = progress or (lambda stage, step, of: None)
        self.history: list[Step] = []
        self.reference: Floats | None = None  # (N, K) probabilities of the supervised policy
        usable = rng.permutation(np.flatnonzero(learnt.usable))
        n = int(settings.validation * len(usable))
        n = n if n >= SMALLEST_VALIDATION else 0
        self.checked, self.fitted = usable[:n], usable[n:]

    def policy(self, parameters: Parameters, rows: Ints) -> Floats:
        return softmax(forward(parameters, self.x[rows])[0], self.learnt.known[rows])

    def supervised(self) -> Parameters:
        labelled = self.learnt.labels.sum(axis=1) > 0
        rows, checked = self.fitted[labelled[self.fitted]], self.checked[labelled[self.checked]]
        start = initial(self.x.shape[1], len(self.learnt.known[0]), self.settings.hidden, self.rng)
        if not len(rows):
            return start
        batches = self._batches(rows)

        def gradient(parameters: Parameters) -> tuple[float, Parameters]:
            at = next(batches)
            logits, h = forward(parameters, self.x[at])
            loss, d = cross_entropy(softmax(logits, self.learnt.known[at]), self.learnt.labels[at])
            return self._with_decay(parameters, loss, at, h, d)

        def score(parameters: Parameters) -> float:
            return -cross_entropy(self.policy(parameters, checked), self.learnt.labels[checked])[0]

        return self._descend("sft", start, gradient, score if len(checked) else None)

    def reinforced(self, start: Parameters) -> Parameters:
        self.reference = self.policy(start, np.arange(len(self.x)))
        beta = self.settings.beta if self.settings.stage == "kl-grpo" else 0.0
        reference, learnt = self.reference, self.learnt
        groups = self._groups()
        state: dict[str, tuple[Ints, Floats, Floats, Floats]] = {}
        count = 0

        def gradient(parameters: Parameters) -> tuple[float, Parameters]:
            nonlocal count
            if count % self.settings.epochs == 0:
                state["group"] = groups(parameters)
            count += 1
            at, old, weight, advantage = state["group"]
            logits, h = forward(parameters, self.x[at])
            p = softmax(logits, learnt.known[at])
            loss, d = surrogate(p, old, weight, advantage, self.settings.clip, beta, reference[at])
            return self._with_decay(parameters, loss, at, h, d)

        def score(parameters: Parameters) -> float:
            p = self.policy(parameters, self.checked)
            apart = float(kl(p, reference[self.checked]).mean()) if beta else 0.0
            return _expected(p, learnt.rewards[self.checked]) - beta * apart

        return self._descend(self.settings.stage, start, gradient, score if len(self.checked) else None)

    def _groups(self) -> Callable[[Parameters], tuple[Ints, Floats, Floats, Floats]]:
        """A function that draws a batch and tells (rows, old policy, weight of each arm, its advantage)."""
        batches, settings = self._batches(self.fitted), self.settings

        def draw(parameters: Parameters) -> tuple[Ints, Floats, Floats, Floats]:
            at = next(batches)
            old = self.policy(parameters, at)
            weight = old if settings.estimator == "exact" else sampled_group(old, settings.group, self.rng)
            return at, old, weight, advantages(self.learnt.rewards[at], weight, settings.scale)

        return draw

    def _with_decay(
        self, parameters: Parameters, loss: float, at: Ints, h: Floats, d_logits: Floats
    ) -> tuple[float, Parameters]:
        l2 = self.settings.l2
        return loss + penalty(parameters, l2), backward(parameters, self.x[at], h, d_logits, l2)

    def _batches(self, rows: Ints) -> Iterator[Ints]:
        """Rows in batches, in a new order each time round, for ever."""
        while True:
            mixed = self.rng.permutation(rows)
            for start in range(0, len(mixed), self.settings.batch):
                yield mixed[start : start + self.settings.batch]

    def _descend(self, stage: str, start: Parameters, gradient: Gradient, score: Score | None) -> Parameters:
        """Steps of Adam until validation no longer improves; the best weights there, or the last without validation."""
        settings = self.settings
        adam = Adam.over(start, settings.learning_rate)
        parameters = best = start
        found = score(start) if score else None
        highest, kept, stale = found, len(self.history), 0
        self.history.append(self._look(stage, 0, None, start, found))
        loss = None
        for step in range(1, settings.steps + 1):
            self.progress(stage, step, settings.steps)
            loss, slope = gradient(parameters)
            parameters = adam.step(parameters, slope)
            if step % settings.check_every and step < settings.steps:
                continue
            found = score(parameters) if score else None
            self.history.append(self._look(stage, step, loss, parameters, found))
            if found is None or highest is None or found > highest:
                best, highest, kept, stale = parameters, found, len(self.history) - 1, 0
            else:
                stale += 1
            if stale >= settings.patience:
                break
        self.history[kept] = Step(**(asdict(self.history[kept]) | {"kept": True}))
        return best

    def _look(self, stage: str, step: int, loss: float | None, parameters: Parameters, found: float | None) -> Step:
        rows, learnt = self.fitted, self.learnt
        p = self.policy(parameters, rows)
        mix = np.bincount(p.argmax(axis=1), minlength=p.shape[1]) / len(p)
        return Step(
            stage=stage,
            step=step,
            loss=loss,
            reward=_expected(p, learnt.rewards[rows]),
            accuracy=_expected(p, learnt.correct[rows]),
            energy_j=_expected(p, learnt.energy_j[rows]),
            policy_entropy=float(entropies(p).mean()),
            selection_entropy=entropy(mix),
            collapsed=collapsed(mix),
            kl=None if self.reference is None else float(kl(p, self.reference[rows]).mean()),
            validation=found,
        )


def _expected(p: Floats, values: Floats) -> float:
    """Mean over queries of the expectation of `values` (N, K) under `p`, which is 0 wherever a cell is missing."""
    known: Bools = p > 0
    return float((p * np.where(known, values, 0.0)).sum(axis=1).mean())
