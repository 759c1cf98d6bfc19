"""ZeroEval, LLMRouter, RouteLLM, RouterBench and texts of queries, in their own formats."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pytest

from ingest.base import Parsed, Payload
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.outcomes.energy_models import LLMROUTER, ZEROEVAL
from tests.ingest.outcome_samples import (
    LLMROUTER as LLMROUTER_ROWS,
)
from tests.ingest.outcome_samples import (
    LLMROUTER_MODELS,
    LLMROUTER_QUERIES,
    OPTIONS,
    QUERIES,
    ROUTELLM,
    ROUTERBENCH,
)
from tests.ingest.outcome_samples import (
    ZEROEVAL as ZEROEVAL_TABLE,
)
from tests.ingest.samples import NOW, counts_add_up, rows


def parse(name: str, body: Any, *, file: str = "x", **options: str) -> Parsed:
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
    data = body if isinstance(body, bytes) else body.encode()
    declared = {**OPTIONS.get(name, {}), **options}
    told = kind(name).parse(Payload("src", name, f"file:///data/{file}", NOW, data, options=declared))
    assert counts_add_up(told)
    return told


def lines(documents: list[Any]) -> str:
    return "".join(json.dumps(d) + "\n" for d in documents)


class TestZeroEval:
    def test_the_run_under_its_hosts_name_completes_the_arm(self) -> None:
        told = parse("zeroeval-outcomes", ZEROEVAL_TABLE)
        arms = {a["arm"]: a for a in rows(told, "core.arm")}
        assert set(arms) == {"gemma-2-27b-it", "Mistral-Large-2"}
        assert arms["gemma-2-27b-it"]["model"] == "google/gemma-2-27b-it"
        assert {c["query_id"] for c in rows(told) if c["arm"] == "gemma-2-27b-it"} == {"gsm-0", "crux-0"}

    def test_only_on_gsm_where_it_completes_the_arm(self) -> None:
        told = parse("zeroeval-outcomes", ZEROEVAL_TABLE.replace("gsm,gsm-0", "crux,crux-9"))
        assert "gemma-2-27b-it@together" in {a["arm"] for a in rows(told, "core.arm")}

    def test_arms_that_were_measured_elsewhere_name_the_measured_model(self) -> None:
        arms = {a["arm"]: a for a in rows(parse("zeroeval-outcomes", ZEROEVAL_TABLE), "core.arm")}
        assert arms["Mistral-Large-2"]["energy_model"] == "mistralai/Mistral-Large-Instruct-2407"
        other = ZEROEVAL_TABLE.replace("Mistral-Large-2", "gpt-4o")
        models = {a["arm"]: a["energy_model"] for a in rows(parse("zeroeval-outcomes", other), "core.arm")}
        assert models["gpt-4o"] is None
        assert len(ZEROEVAL) == 10

    @pytest.mark.parametrize(
        ("arm", "size"),
        [("gemma-2-27b-it", 27), ("Meta-Llama-3.1-8B-Instruct", 8), ("Yi-1.5-9B-Chat", 9), ("Qwen2.5-0.5B-Chat", 0.5),
         ("Llama-3.1-405B-Inst@sambanova", 405), ("Mixtral-8x7B-Instruct-v0.1", None), ("Phi-3-mini-4k-instruct", None),
         ("gpt-4o", None), ("Mistral-Large-2", None)],
    )  # fmt: skip
    def test_a_size_is_read_only_from_a_name_that_says_it(self, arm: str, size: float | None) -> None:
        told = parse("zeroeval-outcomes", f"task,query_id,model,correct\ngsm,q,{arm},1\n")
        assert rows(told, "core.arm")[0]["parameters_b"] == size

    def test_tasks_are_benchmarks_and_tokens_are_counted(self) -> None:
        told = parse("zeroeval-outcomes", ZEROEVAL_TABLE)
        assert [(q["query_id"], q["benchmark"]) for q in rows(told, "core.query")] == [
            ("gsm-0", "gsm"),
            ("crux-0", "crux"),
        ]
        last = rows(told)[-1]
        assert (last["correct"], last["answered"], last["output_tokens"], last["energy_j"]) == (0, False, 0, None)

    def test_a_table_of_another_kind_is_refused_by_name(self) -> None:
        with pytest.raises(PayloadError, match="the column 'task' is missing"):
            parse("zeroeval-outcomes", "query_id,model,correct\nq,m,1\n")


class TestLlmRouter:
    def test_scores_become_cells_and_null_is_a_missing_one(self) -> None:
        told = parse("llmrouter-outcomes", LLMROUTER_ROWS)
        assert [(c["arm"], c["correct"]) for c in rows(told)] == [
            ("gemma-2-9b-it", 1.0), ("codegemma-7b", 0.0), ("gemma-2-9b-it", 0.25),
        ]  # fmt: skip
        assert told.rows_in == 3

    @pytest.mark.parametrize(
        ("file", "split"),
        [("train.json", "train"), ("test.json", "test"), ("latest.json", None), ("train_test.json", None)],
    )
    def test_the_name_of_the_file_tells_the_split(self, file: str, split: str | None) -> None:
        told = parse("llmrouter-outcomes", LLMROUTER_ROWS, file=file)
        assert {q["split"] for q in rows(told, "core.query")} == {split}

    def test_the_option_goes_where_the_name_tells_nothing(self) -> None:
        told = parse("llmrouter-outcomes", LLMROUTER_ROWS, split="test")
        assert {q["split"] for q in rows(told, "core.query")} == {"test"}

    def test_json_lines_say_the_same_as_a_list(self) -> None:
        listed, lined = (parse("llmrouter-outcomes", b) for b in (LLMROUTER_ROWS, lines(LLMROUTER_ROWS)))
        for table in listed.tables:
            assert listed.tables[table].equals(lined.tables[table])

    def test_the_texts_speak_of_the_same_queries_and_tell_no_split(self) -> None:
        outcomes = parse("llmrouter-outcomes", LLMROUTER_ROWS)
        texts = parse("llmrouter-outcomes", lines(LLMROUTER_QUERIES), file="default_query_train.jsonl")
        assert texts.primary == "core.query"
        assert [q["benchmark"] for q in rows(texts)] == ["sums", "rivers"]
        assert [q["split"] for q in rows(texts)] == [None, None]
        assert {q["query_id"] for q in rows(texts)} == {q["query_id"] for q in rows(outcomes, "core.query")}

    def test_routing_data_is_one_cell_per_row(self) -> None:
        record = {"task_name": "sums", "query": "What is 2 + 3?", "model_name": "codegemma-7b", "performance": 1.0,
                  "response": "5", "input_tokens": 8, "output_tokens": 2, "response_time": 0.75}  # fmt: skip
        told = parse("llmrouter-outcomes", lines([record]))
        (cell,) = rows(told)
        assert (cell["correct"], cell["prompt_tokens"], cell["output_tokens"], cell["latency_s"]) == (1.0, 8, 2, 0.75)
        assert rows(told, "core.query")[0]["benchmark"] == "sums"

    @pytest.mark.parametrize("text", [json.dumps(LLMROUTER_MODELS), json.dumps(LLMROUTER_MODELS, indent=2)])
    def test_the_list_of_models_tells_sizes_and_prices_per_token(self, text: str) -> None:
        told = parse("llmrouter-outcomes", text)
        assert told.primary == "core.arm"
        first = rows(told)[0]
        assert (first["model"], first["parameters_b"]) == ("google/gemma-2-9b-it", 9.0)
        assert (first["input_price_usd_per_token"], first["output_price_usd_per_token"]) == (
            Decimal("0.0000001"), Decimal("0.0000002"),
        )  # fmt: skip
        assert first["energy_model"] == LLMROUTER["gemma-2-9b-it"]

    def test_bad_rows_are_refused_and_their_siblings_load(self) -> None:
        scored = (("", {"a": 1}), ("x", []), ("y", {"a": 7}), ("z", {"a": "good"}))
        bad: list[Any] = [{"question": question, "scores": scores} for question, scores in scored]
        bad += [5, {"title": "?"}, {"task_name": "t", "query": "later"}]
        told = parse("llmrouter-outcomes", [*LLMROUTER_ROWS, *bad])
        assert told.tables["core.outcome"].height == 3
        assert sorted(r.reason for r in told.rejects) == [
            "correct is not a number, true or false",
            "correct is outside 0 to 1",
            "question is missing or no text, so the query cannot be named",
            "scores is no object of a score for each model",
            "the row has neither scores, nor performance of a model, nor a task's query",
            "the row is a number, not an object",
            "the row tells other things than the rows before it",
        ]


class TestRouteLlm:
    def test_every_column_but_the_prompt_is_an_arm(self) -> None:
        told = parse("routellm-outcomes", ROUTELLM)
        assert {c["arm"] for c in rows(told)} == {"mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"}
        assert [c["correct"] for c in rows(told)] == [1, 1, 0, 1]
        assert [c["output_chars"] for c in rows(told)] == [None, 1, None, 8]

    def test_the_name_of_the_file_tells_benchmark_and_domain(self) -> None:
        told = parse("routellm-outcomes", ROUTELLM, file="mmlu_high_school_biology.csv", benchmark="")
        assert [(q["query_id"], q["benchmark"]) for q in rows(told, "core.query")] == [
            ("mmlu/high_school_biology/0", "mmlu"), ("mmlu/high_school_biology/1", "mmlu"),
        ]  # fmt: skip
        told = parse("routellm-outcomes", ROUTELLM, file="gsm8k_responses.csv", benchmark="")
        assert [q["query_id"] for q in rows(told, "core.query")] == ["gsm8k/0", "gsm8k/1"]

    def test_files_of_one_declared_benchmark_do_not_share_ids(self) -> None:
        one, two = (parse("routellm-outcomes", ROUTELLM, file=f, benchmark="mine") for f in ("a.csv", "b.csv"))
        assert {q["query_id"] for q in rows(one, "core.query")}.isdisjoint(
            q["query_id"] for q in rows(two, "core.query")
        )

    def test_a_name_that_tells_nothing_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="does not tell the benchmark") as caught:
            parse("routellm-outcomes", ROUTELLM, file="answers.csv", benchmark="")
        assert "--option benchmark=" in caught.value.fix

    def test_the_arm_that_was_measured_elsewhere_names_the_measured_model(self) -> None:
        models = {a["arm"]: a["energy_model"] for a in rows(parse("routellm-outcomes", ROUTELLM), "core.arm")}
        name = "mistralai/Mixtral-8x7B-Instruct-v0.1"
        assert models == {name: name, "gpt-4-1106-preview": None}


class TestRouterBench:
    def test_each_model_has_score_cost_and_answer(self) -> None:
        told = parse("routerbench-outcomes", ROUTERBENCH)
        assert [(c["query_id"], c["arm"], c["correct"], c["cost_usd"]) for c in rows(told)] == [
            ("s.1", "a/one", 1.0, Decimal("0.0001")),
            ("s.1", "b/two", 0.0, Decimal("0.000002")),
            ("s.2", "a/one", 0.25, Decimal("0.0002")),
        ]
        assert [c["output_chars"] for c in rows(told)] == [1, 1, 4]
        assert [q["benchmark"] for q in rows(told, "core.query")] == ["sums", "rivers"]

    def test_an_empty_cell_is_missing_and_counted_not_wrong(self) -> None:
        told = parse("routerbench-outcomes", ROUTERBENCH)
        assert told.rows_in == 3
        assert told.notes == ("1 cells are empty: missing, not wrong",)

    def test_a_cost_without_a_score_stays_ungraded(self) -> None:
        told = parse("routerbench-outcomes", ROUTERBENCH.replace("0.0002,,a/one", "0.0002,0.5,a/one"))
        assert [(c["correct"], c["cost_usd"]) for c in rows(told)][-1] == (None, Decimal("0.5"))

    def test_the_oracles_column_is_no_arm(self) -> None:
        assert {a["arm"] for a in rows(parse("routerbench-outcomes", ROUTERBENCH), "core.arm")} == {"a/one", "b/two"}

    @pytest.mark.parametrize("protocol", [2, 4, 5])
    def test_a_pickle_is_refused_unopened(self, protocol: int) -> None:
        with pytest.raises(PayloadError, match="can run any program when it is read; it was not opened") as caught:
            parse("routerbench-outcomes", pickle.dumps({"a": 1}, protocol=protocol), file="routerbench_0shot.pkl")
        assert "to_parquet" in caught.value.fix

    def test_a_table_of_another_kind_is_refused_by_name(self) -> None:
        with pytest.raises(PayloadError, match="total_cost"):
            parse("routerbench-outcomes", "sample_id,prompt,eval_name\ns,p,e\n")


class TestTexts:
    def test_a_text_is_kept_to_the_letter(self) -> None:
        told = parse("replay-queries", 'query_id,question\nq," What is\n2 + 3? "\n')
        assert rows(told)[0]["text"] == " What is\n2 + 3? "

    def test_task_is_the_benchmark(self) -> None:
        assert [(q["dataset"], q["benchmark"]) for q in rows(parse("replay-queries", QUERIES))] == [("toy", "sums")] * 2

    def test_a_query_without_text_is_refused(self) -> None:
        told = parse("replay-queries", "query_id,question\nq1,\nq2,Why?\n")
        assert [r.reason for r in told.rejects] == ["prompt is missing"]

    def test_the_data_set_must_be_named(self) -> None:
        with pytest.raises(PayloadError, match="nothing names the data set") as caught:
            parse("replay-queries", QUERIES, dataset="")
        assert "--option dataset=" in caught.value.fix
