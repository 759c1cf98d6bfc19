"""On recorded outcomes of real models: figures that are known from elsewhere, and what the routers reach.

ZeroEval x ML.ENERGY (H100, batch 128): 7 models that were asked all 2,840 queries; permutation split, seed 0.
LLMRouter: 9 models, 6,108 queries, no joules. Skipped where the shared inputs are absent.
"""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from policies.replay.decide import Decisions, decide
from policies.replay.domination import verdicts
from policies.replay.embeddings import embed
from policies.replay.policy import Threshold
from policies.replay.routers.fixed import half_of_best
from policies.replay.routers.registry import roster
from policies.replay.table import Arm, OutcomeTable, Queries, strings
from tests.replay.routers.tables import replayed
from tests.support import shared

ARMS = {
    "gemma-2-2b-it": 2.6,
    "gemma-2-9b-it": 9.2,
    "gemma-2-27b-it": 27.2,
    "Meta-Llama-3.1-8B-Instruct": 8.0,
    "Meta-Llama-3.1-70B-Instruct": 70.0,
    "Mistral-Large-2": 123.0,
    "Llama-3.1-405B-Inst@sambanova": 405.0,
}
ASKED = ("fixed", "oracle", "knn-60", "uniroute-8")


def matrix(cells: pl.DataFrame, ids: list[str], value: str) -> np.ndarray:
    wide = cells.pivot(on="model", index="id", values=value)
    return pl.DataFrame({"id": ids}).join(wide, on="id", maintain_order="left").select(*ARMS).to_numpy().astype(float)


@pytest.fixture(scope="module")
def zeroeval() -> OutcomeTable:
    cells = pl.read_csv(shared("data/zeroeval/replay_joined_h100_b128.csv.gz")).with_columns(
        id=pl.col("task") + "/" + pl.col("query_id"), model=pl.col("model").str.replace("27b-it@together", "27b-it")
    )
    asked = pl.read_csv(shared("data/zeroeval/queries.csv.gz")).with_columns(
        id=pl.col("task") + "/" + pl.col("query_id")
    )
    ids = asked["id"].to_list()
    n = len(ids)
    held_out = np.zeros(n, dtype=np.bool_)
    held_out[np.random.default_rng(0).permutation(n)[int(0.7 * n) :]] = True
    unknown = np.full((n, len(ARMS)), np.nan)
    texts = asked["question"].to_list()
    return OutcomeTable(
        dataset="zeroeval",
        arms=tuple(Arm(name, name, parameters_b=size) for name, size in ARMS.items()),
        queries=Queries(strings(ids), strings(asked["task"].to_list()), strings(texts), embed(texts)),
        held_out=held_out,
        correct=matrix(cells, ids, "correct"),
        energy_j=matrix(cells, ids, "energy_j_est"),
        latency_s=unknown,
        cost_usd=unknown,
        power_w=unknown,
        output_tokens=unknown,
    ).check()


@pytest.fixture(scope="module")
def decided(zeroeval: OutcomeTable) -> Decisions:
    """The regression at the budget that the default roster sets: half of the best arm's joules, on training."""
    budget = half_of_best(zeroeval)
    names = [*ASKED, f"regression@{budget}J"]
    return decide(roster(zeroeval, names, lambdas=[0.0]), zeroeval.train(), zeroeval.test(), 0)


def peak(decided: Decisions, name: str, test: OutcomeTable) -> float:
    """The highest accuracy over a fine grid of lambda."""
    swept = decided[name].curve
    assert swept is not None and not isinstance(swept, Threshold)
    rows = np.arange(len(test))
    grid = [0.0, *np.logspace(-6, -2, 60)]
    return max(float(test.correct[rows, (swept.error + x * swept.energy_j).argmin(axis=1)].mean()) for x in grid)


class TestZeroEval:
    @pytest.mark.parametrize(
        ("arm", "accuracy", "joules"),
        [
            ("gemma-2-2b-it", 0.320, 34),
            ("gemma-2-9b-it", 0.597, 40),
            ("Meta-Llama-3.1-8B-Instruct", 0.567, 59),
            ("gemma-2-27b-it", 0.657, 78),
            ("Meta-Llama-3.1-70B-Instruct", 0.717, 308),
            ("Mistral-Large-2", 0.787, 435),
            ("Llama-3.1-405B-Inst@sambanova", 0.760, 2036),
        ],
    )
    def test_fixed_arms(
        self, zeroeval: OutcomeTable, decided: Decisions, arm: str, accuracy: float, joules: float
    ) -> None:
        found = replayed(zeroeval.test(), decided[f"always-{arm}"].choices.arms)
        assert found == (pytest.approx(accuracy, abs=6e-4), pytest.approx(joules, abs=0.6))

    def test_the_oracle(self, zeroeval: OutcomeTable, decided: Decisions) -> None:
        found = replayed(zeroeval.test(), decided["oracle"].choices.arms)
        assert found == (pytest.approx(0.869, abs=6e-4), pytest.approx(139, abs=0.6))
        assert decided["oracle"].notes["unanswered_queries"] == 112

    @pytest.mark.parametrize(("name", "accuracy"), [("uniroute-8", 0.787), ("knn-60", 0.777)])
    def test_no_router_beats_the_best_single_arm_on_accuracy(
        self, zeroeval: OutcomeTable, decided: Decisions, name: str, accuracy: float
    ) -> None:
        """UniRoute's clusters are another seed's, so its peak is met to half a point."""
        assert peak(decided, name, zeroeval.test()) == pytest.approx(accuracy, abs=0.006)

    def test_regression_within_half_the_joules_is_above_every_mixture_of_arms(
        self, zeroeval: OutcomeTable, decided: Decisions
    ) -> None:
        """The one operating point that the default roster sets beforehand, by the training part alone."""
        (name,) = (d.about.name for d in decided if d.about.name.startswith("regression@"))
        (verdict,) = verdicts(zeroeval.test(), [decided[name].choices], replicates=1000)
        assert verdict.margin.low is not None and verdict.margin.low > 0
        assert "Meta-Llama-3.1-70B-Instruct" in verdict.dominates


@pytest.fixture(scope="module")
def llmrouter() -> OutcomeTable:
    folder = shared("data/llmrouter")
    rows = [row for part in ("train", "test") for row in json.loads((folder / f"{part}.json").read_text("utf-8"))]
    names = sorted(rows[0]["scores"])
    texts = [row["question"] for row in rows]
    correct = np.array([[row["scores"][name] for name in names] for row in rows])
    held_out = np.zeros(len(rows), dtype=np.bool_)
    held_out[np.random.default_rng(0).permutation(len(rows))[int(0.8 * len(rows)) :]] = True
    unknown = np.full(correct.shape, np.nan)
    ids = strings([str(at) for at in range(len(rows))])
    queries = Queries(ids, strings([""] * len(rows)), strings(texts), embed(texts))
    arms = tuple(Arm(name, name) for name in names)
    return OutcomeTable("llmrouter", arms, queries, held_out, correct, *[unknown] * 5).check()


class TestLLMRouter:
    def test_means_of_neighbours_scores_beat_the_best_single_arm_from_40_neighbours_on(
        self, llmrouter: OutcomeTable
    ) -> None:
        """Reference: k = 5 .573, k = 40 .630, best single .613, oracle .790 (80/20)."""
        test = llmrouter.test()
        found = decide(roster(llmrouter, ["fixed", "oracle", "knn-5", "knn-40"]), llmrouter.train(), test, 0)
        rows = np.arange(len(test))
        reached = {d.about.name: float(test.correct[rows, d.choices.arms].mean()) for d in found}
        assert max(value for name, value in reached.items() if name.startswith("always-")) == pytest.approx(
            0.613, abs=6e-4
        )
        assert reached["oracle"] == pytest.approx(0.790, abs=6e-4)
        assert reached["knn-5"] == pytest.approx(0.573, abs=0.003)
        assert reached["knn-40"] == pytest.approx(0.630, abs=0.003)
