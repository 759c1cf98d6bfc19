"""The published data sets, against figures that their publishers tell. Skipped where they are absent."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ingest.base import Parsed
from ingest.kinds import kind
from ingest.read import read_file
from tests.ingest.outcome_samples import OPTIONS
from tests.ingest.outcomes.loading import Desk
from tests.ingest.samples import NOW, counts_add_up
from tests.support import shared


def parse(name: str, path: Path, **options: str) -> Parsed:
    from dataclasses import replace

    payload = read_file(path, source_id="real", kind=name, max_bytes=2**30, now=NOW)
    declared = {k: v for k, v in OPTIONS[name].items() if k == "dataset"} | options
    told = kind(name).parse(replace(payload, options=declared))
    assert counts_add_up(told)
    return told


@pytest.fixture(scope="module")
def told() -> Parsed:
    return parse("zeroeval-outcomes", shared("data/zeroeval/zeroeval_outcomes.csv.gz"))


class TestZeroEval:
    def test_every_row_is_a_cell(self, told: Parsed) -> None:
        assert (told.rows_in, told.rejects) == (128_890, ())
        queries, arms = told.tables["core.query"]["query_id"], told.tables["core.arm"]["arm"]
        assert (queries.n_unique(), arms.n_unique()) == (2_840, 59)

    def test_seven_measured_arms_are_complete(self, told: Parsed) -> None:
        cells = told.tables["core.outcome"].join(told.tables["core.arm"].unique(), on="arm")
        counts = cells.filter(pl.col("energy_model").is_not_null()).group_by("arm").len()
        complete = counts.filter(pl.col("len") == 2_840)["arm"].sort().to_list()
        assert complete == [
            "Llama-3.1-405B-Inst@sambanova", "Meta-Llama-3.1-70B-Instruct", "Meta-Llama-3.1-8B-Instruct",
            "Mistral-Large-2", "gemma-2-27b-it", "gemma-2-2b-it", "gemma-2-9b-it",
        ]  # fmt: skip
        assert counts.height == 10

    def test_the_names_of_measured_models_are_those_of_the_benchmark(self, told: Parsed) -> None:
        measured = pl.read_csv(shared("data/mlenergy_v2/llm_energy_v2.csv"))["model_id"].unique()
        named = told.tables["core.arm"]["energy_model"].drop_nulls()
        assert set(named) <= set(measured)

    def test_accuracy_on_gsm_is_the_published_one(self, told: Parsed) -> None:
        """Within a point for 40 of the 44 models; the grader differs from the publisher's."""
        published = {
            row["Model"]: float(row["Acc"]) / 100
            for row in json.loads(shared("data/zeroeval/gsm.summary.json").read_text())
        }
        cells = told.tables["core.outcome"].filter(pl.col("query_id").str.starts_with("gsm8k"))
        ours = dict(cells.group_by("arm").agg(pl.col("correct").mean()).iter_rows())
        both = [abs(ours[name] - accuracy) for name, accuracy in published.items() if name in ours]
        assert sum(gap <= 0.0101 for gap in both) >= 0.85 * len(both) > 30


class TestLlmRouter:
    def test_mean_scores_of_the_training_part(self) -> None:
        told = parse("llmrouter-outcomes", shared("data/llmrouter/train.json"))
        assert told.rows_in == 5_608 * 9
        means = dict(told.tables["core.outcome"].group_by("arm").agg(pl.col("correct").mean().round(3)).iter_rows())
        assert means["qwen2.5-7b-instruct"] == 0.520
        assert means["llama-3.1-nemotron-51b-instruct"] == 0.621
        assert means["llama3-chatqa-1.5-8b"] == 0.175

    def test_119_held_out_questions_are_in_train_too_and_are_left_out(self, desk: Desk) -> None:
        desk.load_file("llmrouter-outcomes", shared("data/llmrouter/train.json"))
        told = desk.load_file("llmrouter-outcomes", shared("data/llmrouter/test.json"))
        assert (told.rows_loaded, told.rows_quarantined) == (381 * 9, 119 * 9)
        assert len(desk.reasons()) == 119
        assert desk.rows("SELECT split, count(*) FROM core.query GROUP BY 1 ORDER BY 1") == [
            ("test", 381),
            ("train", 5608),
        ]

    def test_every_query_of_the_outcomes_has_its_task(self) -> None:
        outcomes = parse("llmrouter-outcomes", shared("data/llmrouter/test.json"))
        texts = parse("llmrouter-outcomes", shared("data/llmrouter/default_query_test.jsonl"))
        known = outcomes.tables["core.query"].join(texts.tables["core.query"], on="query_id", how="inner")
        assert known.height == 500
        assert known.filter(pl.col("benchmark_right") == "").is_empty()
        assert known["benchmark_right"].n_unique() == 10  # of the 14 tasks


class TestRouteLlm:
    """Accuracy without the contaminated prompts, as RouteLLM's paper has it (arXiv:2406.18665)."""

    @staticmethod
    def accuracy(told: list[Parsed], folder: str) -> tuple[int, dict[str, float]]:
        lines = shared(f"data/routellm_evals/{folder}/contaminated_prompts.jsonl").read_text().splitlines()
        seen = [json.loads(line)["eval_prompt"] for line in lines]
        queries = pl.concat(p.tables["core.query"] for p in told).filter(~pl.col("text").is_in(seen))
        cells = pl.concat(p.tables["core.outcome"] for p in told).join(queries, on="query_id", how="semi")
        return queries.height, dict(cells.group_by("arm").agg((100 * pl.col("correct").mean()).round(2)).iter_rows())

    def test_gsm8k(self) -> None:
        told = parse("routellm-outcomes", shared("data/routellm_evals/gsm8k/gsm8k_responses.csv"))
        assert told.rows_in == 2 * 1_319
        assert self.accuracy([told], "gsm8k") == (
            1_307, {"mistralai/Mixtral-8x7B-Instruct-v0.1": 63.73, "gpt-4-1106-preview": 85.77},
        )  # fmt: skip

    def test_mmlu_is_57_files_of_one_data_set(self) -> None:
        files = sorted(shared("data/routellm_evals/mmlu").glob("mmlu_*.csv"))
        told = [parse("routellm-outcomes", path) for path in files]
        assert (len(files), sum(p.rows_in for p in told)) == (57, 2 * 14_042)
        queries = pl.concat(p.tables["core.query"] for p in told)
        assert set(queries["benchmark"]) == {"mmlu"}
        assert queries["query_id"].n_unique() == 14_042
        assert self.accuracy(told, "mmlu") == (
            14_037, {"mistralai/Mixtral-8x7B-Instruct-v0.1": 68.09, "gpt-4-1106-preview": 80.59},
        )  # fmt: skip
