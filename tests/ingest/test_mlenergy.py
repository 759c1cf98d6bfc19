"""ML.ENERGY tables: published joules per token, kept apart from anything that was metered here."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl
import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.pipeline import refresh
from ingest.read import read_file
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.ingest.serving_samples import LEADGREEN, MLENERGY_V2_CSV, MLENERGY_V3_CSV
from tests.support import shared
from warehouse.engine import Warehouse
from warehouse.evidence import EvidenceClass
from warehouse.observations import energy_per_success
from warehouse.runs import SourceRow, register_source


def parsed(name: str, body: Any, **options: str) -> Parsed:
    result = kind(name).parse(replace(payload(body, name), options=options))
    assert counts_add_up(result)
    return result


def line(at: int, **changes: str) -> str:
    """The v3 sample with cells of one row changed."""
    header, *lines = MLENERGY_V3_CSV.strip().splitlines()
    names = header.split(",")
    cells = dict(zip(names, lines[at].split(","), strict=True)) | changes
    lines[at] = ",".join(cells[n] for n in names)
    return "\n".join([header, *lines]) + "\n"


def test_a_configuration_is_one_observation_at_its_batch() -> None:
    eight, sixty_four = rows(parsed("mlenergy-v3", MLENERGY_V3_CSV))
    assert (eight["logical_model"], eight["deployable_version"]) == ("acme/Big-70B", "bfloat16")
    assert (eight["hardware_model"], eight["hardware_count"]) == ("H100", 4)
    assert (eight["runtime"], eight["runtime_version"]) == ("vllm", "0.11.1")
    assert (eight["concurrency"], sixty_four["concurrency"]) == (7.5, 63.5)
    assert eight["config_version"] == "tp4 ep1 dp1 max_num_seqs 8, lm-arena-chat"
    assert json.loads(eight["attributes"])["power_w"] == 1800


def test_energy_over_tokens_is_exactly_the_published_figure() -> None:
    eight, sixty_four = rows(parsed("mlenergy-v3", MLENERGY_V3_CSV))
    assert (eight["energy_gross_j"], eight["output_tokens"]) == (1600.0, 400)
    assert sixty_four["energy_gross_j"] / sixty_four["output_tokens"] == 0.5


def test_it_is_published_and_no_meter_of_ours() -> None:
    for name, body in (("mlenergy-v3", MLENERGY_V3_CSV), ("mlenergy-v2", MLENERGY_V2_CSV)):
        for row in rows(parsed(name, body)):
            assert row["evidence_class"] == EvidenceClass.MODELED
            assert row["workload"] == "benchmark"
            assert "ML.ENERGY" in row["method"]
            assert row["window_start_at"] == row["window_end_at"]
            assert (row["attempts"], row["successes"], row["carbon_g"]) == (None, None, None)


def test_the_date_of_a_table_may_be_declared() -> None:
    assert rows(parsed("mlenergy-v3", MLENERGY_V3_CSV))[0]["window_end_at"] == datetime(2026, 2, 16)
    told = parsed("mlenergy-v3", MLENERGY_V3_CSV, published="2026-03-01", runtime_version="0.12.0")
    assert rows(told)[0]["window_end_at"] == told.data_at == datetime(2026, 3, 1)
    assert rows(told)[0]["runtime_version"] == "0.12.0"
    with pytest.raises(PayloadError, match="published"):
        parsed("mlenergy-v3", MLENERGY_V3_CSV, published="March")


def test_a_task_of_the_leaderboard_itself_is_the_same() -> None:
    header, *lines = (text.split(",") for text in MLENERGY_V3_CSV.strip().splitlines())

    def typed(name: str, cell: str) -> Any:
        return float(cell) if cell.replace(".", "").isdecimal() and name != "task" else cell

    listed = [{n: typed(n, c) for n, c in zip(header, row, strict=True) if n != "task"} for row in lines]
    document = {"task": "lm-arena-chat", "task_display_name": "Chat", "configurations": listed}
    assert rows(parsed("mlenergy-v3", document)) == rows(parsed("mlenergy-v3", MLENERGY_V3_CSV))


def test_a_repeated_run_of_a_configuration_is_kept_and_a_repeated_row_is_not() -> None:
    again = (
        MLENERGY_V3_CSV + line(0, avg_batch_size="7.9").splitlines()[1] + "\n" + MLENERGY_V3_CSV.splitlines()[1] + "\n"
    )
    result = parsed("mlenergy-v3", again)
    assert [json.loads(r["attributes"])["repeat"] for r in rows(result)] == [1, 1, 2]
    assert len({r["observation_id"] for r in rows(result)}) == 3
    assert [r.reason for r in result.rejects] == ["row comes twice, the same in every column"]
    assert result.notes == ("1 runs repeat a configuration; all are kept",)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"energy_per_token_joules": "0"}, "energy_per_request_joules", "follows from the other columns"),
        ({"energy_per_token_joules": ""}, "energy_per_token_joules", "missing"),
        ({"energy_per_token_joules": "NaN"}, "energy_per_token_joules", "not a number"),
        ({"energy_per_token_joules": "-4.0"}, "energy_per_token_joules", "negative"),
        ({"energy_per_request_joules": "1700"}, "energy_per_request_joules", "1601 follows"),
        ({"avg_power_watts": "1.8"}, "avg_power_watts", "1800 follows"),
        ({"num_gpus": "0"}, "num_gpus", "below 1"),
        ({"num_gpus": "1.5"}, "num_gpus", "whole"),
        ({"avg_batch_size": "0"}, "avg_batch_size", "above 0"),
        ({"model_id": ""}, "model_id", "missing"),
        (
            {"output_throughput_tokens_per_sec": "4500", "avg_power_watts": "18000", "num_gpus": "8"},
            "power",
            "not plausible",
        ),
    ],
)
def test_a_row_that_contradicts_itself_goes_alone(changes: dict[str, str], field: str, said: str) -> None:
    result = parsed("mlenergy-v3", line(0, **changes))
    assert [r["concurrency"] for r in rows(result)] == [63.5]
    assert [(r.row_no, r.field) for r in result.rejects] == [(0, field)]
    assert said in result.rejects[0].reason


def test_another_table_is_told_what_is_missing() -> None:
    with pytest.raises(PayloadError, match="'gpu_model' is missing"):
        parsed("mlenergy-v3", MLENERGY_V2_CSV)
    with pytest.raises(PayloadError, match="'gpu' is missing"):
        parsed("mlenergy-v2", MLENERGY_V3_CSV)


def test_a_reference_steers_nothing_and_is_compared_with_nothing_of_ours(warehouse: Warehouse) -> None:
    with warehouse.transaction() as tx:
        register_source(tx, SourceRow("ml", "mlenergy-v3", "t", "file", None, None, 1e6, 1e7))
    found = replace(payload(MLENERGY_V3_CSV, "mlenergy-v3"), source_id="ml")
    for expected in ((2, 0), (0, 2)):
        outcome = refresh(warehouse, kind("mlenergy-v3"), "ml", lambda: found, trigger="import")
        assert (outcome.rows_loaded, outcome.rows_unchanged) == expected
    stored = warehouse.query("SELECT * FROM core.energy_observation")
    assert stored.filter(pl.col("workload") == "seed_reference").is_empty()
    assert warehouse.scalar("SELECT count(*) FROM core.usage") == 0
    figure = energy_per_success(stored.head(1))
    assert (figure.evidence_class, figure.energy_j_per_success) == (EvidenceClass.MODELED, None)


def test_lead_green_tells_the_runs_of_v3_again() -> None:
    (again,) = rows(parsed("leadgreen", LEADGREEN))
    first = rows(parsed("mlenergy-v3", MLENERGY_V3_CSV))[0]
    same = ("logical_model", "deployable_version", "hardware_model", "hardware_count", "config_version", "concurrency",
            "energy_gross_j", "output_tokens", "evidence_class", "workload")  # fmt: skip
    assert {k: again[k] for k in same} == {k: first[k] for k in same}
    assert again["observation_id"] != first["observation_id"]
    assert again["method"] == "published table (Lead Green, from ML.ENERGY v3, GPUs only)"


def test_two_units_of_lead_green_that_disagree_are_refused() -> None:
    odd = {**LEADGREEN, "configurations": [{**LEADGREEN["configurations"][0], "wh_per_million_output_tokens": 4.0}]}
    (reject,) = parsed("leadgreen", odd).rejects
    assert reject.field == "wh_per_million_output_tokens"
    with pytest.raises(PayloadError, match="no list 'configurations'"):
        parsed("leadgreen", {"rows": []})


class TestRealTables:
    def table(self, name: str, path: str) -> pl.DataFrame:
        found = kind(name)
        file = shared(f"data/{path}")
        result = found.parse(read_file(file, source_id="real", kind=name, max_bytes=found.max_bytes, now=NOW))
        assert counts_add_up(result)
        assert result.rejects == ()
        frame = result.tables["core.energy_observation"]
        assert frame["observation_id"].is_unique().all()
        return frame.with_columns(j_per_token=pl.col("energy_gross_j") / pl.col("output_tokens"))

    def test_v3(self) -> None:
        frame = self.table("mlenergy-v3", "mlenergy_v3/llm_energy_v3.csv")
        assert frame.height == 838
        big = frame.filter(
            (pl.col("logical_model") == "meta-llama/Llama-3.3-70B-Instruct")
            & (pl.col("hardware_model") == "H100")
            & pl.col("config_version").str.ends_with("lm-arena-chat")
        )
        by_batch = dict(zip(big["attributes"].str.json_path_match("$.max_num_seqs"), big["j_per_token"], strict=True))
        # energy.md section 4.2: 3.847 J/token at batch 8, 0.423 at 768
        for batch, expected in ((8, 3.847), (64, 0.822), (256, 0.491), (768, 0.423)):
            assert by_batch[str(batch)] == pytest.approx(expected, abs=5e-4)

    def test_v2(self) -> None:
        frame = self.table("mlenergy-v2", "mlenergy_v2/llm_energy_v2.csv")
        assert frame.height == 314
        assert set(frame["hardware_model"]) == {"NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"}
        # SOURCE.txt: Llama-3.1-70B on A100, 1,226 J/request at batch 32, 439 at 512
        big = frame.filter(
            (pl.col("logical_model") == "meta-llama/Meta-Llama-3.1-70B-Instruct")
            & pl.col("hardware_model").str.contains("A100")
        )
        per_request = dict(
            zip(big["attributes"].str.json_path_match("$.max_num_seqs"), big["energy_gross_j"], strict=True)
        )
        assert per_request["32"] == pytest.approx(1226, rel=0.005)
        assert per_request["512"] == pytest.approx(439, rel=0.005)

    def test_lead_green_agrees_with_v3(self) -> None:
        again = self.table("leadgreen", "leadgreen/llama-3-3-70b-instruct.json")
        assert again.height == 19
        v3 = self.table("mlenergy-v3", "mlenergy_v3/llm_energy_v3.csv")
        key = ["logical_model", "hardware_model", "hardware_count", "config_version", "deployable_version"]
        both = again.join(v3, on=key, suffix="_v3")
        assert both.height == 19
        assert ((both["j_per_token"] / both["j_per_token_v3"] - 1).abs() < 1e-6).all()
