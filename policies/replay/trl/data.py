"""Training data of the language-model router: prompts, oracle labels and rewards, from an outcome table.

Label of a query: the arm of the greatest gated reward, which is the cheapest correct one for any weight of energy
above 0 (equal rewards: the least joules, then the first arm). The paper does not say what to do with a query that no
arm answers: every reward is -1 there, so it has no label and its group of rollouts no advantage. It is left out of
both stages, and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from policies.replay.errors import NothingToLearn, RouterInvalid
from policies.replay.reward import LAMBDA_REINFORCED, LAMBDA_SUPERVISED, Weights, rewards_of
from policies.replay.table import Floats, OutcomeTable, Queries
from policies.replay.trl.prompts import MAX_CHARS, PROMPT_VERSION, Messages, messages
from warehouse.ids import canonical_json, sha256

SUPERVISED = Weights(energy=LAMBDA_SUPERVISED)
REINFORCED = Weights(energy=LAMBDA_REINFORCED)


@dataclass(frozen=True)
class Counts:
    """What became of the training part: queries, and cells of the queries used."""

    queries: int
    without_text: int  # nothing to show to a language model
    without_outcome: int  # no cell with a known reward
    unanswered: int  # no known cell is right
    used: int
    shortened: int  # of those used
    cells: int
    missing_cells: int  # a rollout that picks one gets no reward


@dataclass(frozen=True)
class Example:
    """One query: its prompt, the oracle's arm, and the reward of every arm (NaN where unknown)."""

    key: str  # identifies the query: id and text
    prompt: Messages
    label: int
    reward: tuple[float, ...]


@dataclass(frozen=True)
class TrainingSet:
    """Everything that training needs, so that it can run on a machine that has a GPU and no warehouse."""

    dataset: str
    table_sha256: str
    arms: tuple[str, ...]
    supervised: Weights
    reinforced: Weights
    max_chars: int
    counts: Counts
    examples: tuple[Example, ...]
    prompt_version: int = PROMPT_VERSION

    def rewards(self) -> Floats:
        """(M, K), NaN where unknown."""
        return np.array([example.reward for example in self.examples], dtype=np.float64)

    @property
    def sha256(self) -> str:
        return sha256("\n".join(self.lines()).encode("utf-8", "surrogatepass"))

    def lines(self) -> Iterator[str]:
        """JSON lines: a head, then one query a line. `read_lines` is the way back."""
        head = {
            "format": "joulebook-trl-1",
            "dataset": self.dataset,
            "table_sha256": self.table_sha256,
            "arms": list(self.arms),
            "supervised": asdict(self.supervised),
            "reinforced": asdict(self.reinforced),
            "max_chars": self.max_chars,
            "counts": asdict(self.counts),
            "prompt_version": self.prompt_version,
        }
        yield canonical_json(head)
        for one in self.examples:
            reward = [None if np.isnan(value) else value for value in one.reward]
            yield canonical_json({"key": one.key, "prompt": one.prompt, "label": one.label, "reward": reward})


def read_lines(lines: Iterator[str]) -> TrainingSet:
    """The training set that `TrainingSet.lines` wrote. Raises RouterInvalid."""
    try:
        head = json.loads(next(lines))
        if head.pop("format") != "joulebook-trl-1" or head["prompt_version"] != PROMPT_VERSION:
            raise ValueError("written by another version")
        examples = tuple(_example(json.loads(line), len(head["arms"])) for line in lines if line.strip())
        return TrainingSet(
            **{
                **head,
                "arms": tuple(head["arms"]),
                "supervised": Weights(**head["supervised"]),
                "reinforced": Weights(**head["reinforced"]),
                "counts": Counts(**head["counts"]),
                "examples": examples,
            }
        )
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise RouterInvalid(
            f"This is no training set of this version ({type(error).__name__}: {error}).", fix="export it again"
        ) from error


def _example(row: dict[str, object], arms: int) -> Example:
    reward = tuple(np.array(row["reward"], dtype=np.float64).tolist())  # null becomes NaN
    label = row["label"]
    if len(reward) != arms or not isinstance(label, int) or not 0 <= label < arms:
        raise ValueError(f"query {row['key']} does not fit {arms} arms")
    return Example(str(row["key"]), row["prompt"], label, reward)  # type: ignore[arg-type]


def query_keys(queries: Queries) -> list[str]:
    """What identifies each query wherever it turns up: a hash of id and text."""
    texts = queries.texts if queries.texts is not None else [None] * len(queries)
    pairs = zip(queries.ids, texts, strict=True)
    return [sha256(canonical_json([str(id_), text]).encode("utf-8", "surrogatepass"))[:16] for id_, text in pairs]


def training_set(
    train: OutcomeTable,
    supervised: Weights = SUPERVISED,
    reinforced: Weights = REINFORCED,
    max_chars: int = MAX_CHARS,
) -> TrainingSet:
    """Labels and rewards of the training part `train`. Raises NothingToLearn, and ReplayError for weights unmet."""
    kept, counts = _usable(train, supervised, reinforced, max_chars)
    label_reward, reward = rewards_of(train, supervised), rewards_of(train, reinforced)
    _refuse_ties(train, label_reward[kept])
    keys, texts = query_keys(train.queries), train.queries.texts
    assert texts is not None
    examples = tuple(
        Example(
            key=keys[row],
            prompt=messages(texts[row], train.names, max_chars),
            label=_oracle(label_reward[row], train.energy_j[row]),
            reward=tuple(reward[row].tolist()),
        )
        for row in kept
    )
    return TrainingSet(train.dataset, train.sha256, train.names, supervised, reinforced, max_chars, counts, examples)


def _usable(train: OutcomeTable, supervised: Weights, reinforced: Weights, max_chars: int) -> tuple[list[int], Counts]:
    """Rows to train on, and what became of all rows."""
    texts = train.queries.texts if train.queries.texts is not None else [None] * len(train)
    known = np.isfinite(rewards_of(train, supervised)) & np.isfinite(rewards_of(train, reinforced))
    right = known & (train.correct > 0)
    silent = np.array([text is None or not text.strip() for text in texts], dtype=bool)
    unknown = ~silent & ~known.any(axis=1)
    unanswered = ~silent & ~unknown & ~right.any(axis=1)
    kept = np.flatnonzero(~(silent | unknown | unanswered)).tolist()
    return kept, Counts(
        queries=len(train),
        without_text=int(silent.sum()),
        without_outcome=int(unknown.sum()),
        unanswered=int(unanswered.sum()),
        used=len(kept),
        shortened=sum(len(str(texts[row])) > max_chars for row in kept),
        cells=int(known[kept].size),
        missing_cells=int((~known[kept]).sum()),
    )


def _oracle(reward: Floats, energy_j: Floats) -> int:
    best = np.flatnonzero(reward == np.nanmax(reward))
    return int(best[np.argmin(np.where(np.isnan(energy_j[best]), np.inf, energy_j[best]))])


def _refuse_ties(train: OutcomeTable, reward: Floats) -> None:
    if not len(reward):
        raise NothingToLearn(
            f"No training query of {train.dataset} has a text and an arm that answers it.",
            fix="import outcomes with the queries' texts, correctness and energy",
        )
    if (np.nanmax(reward, axis=1) == np.nanmin(reward, axis=1)).all():
        raise NothingToLearn(
            f"All arms of {train.dataset} earn the same on every training query.",
            fix="record outcomes of arms that differ in energy or correctness",
        )
