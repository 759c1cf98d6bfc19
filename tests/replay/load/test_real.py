"""ZeroEval x ML.ENERGY: the real tables, as the importers load them, give the reference figures."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ingest.kinds import kind
from policies.replay.load import load_table
from policies.replay.table import Condition, OutcomeTable
from tests.ingest.samples import payload
from tests.replay.load.world import NOW, reading
from tests.support import shared
from warehouse import loads
from warehouse.engine import Warehouse

# accuracy and J per query of the fixed arms at H100, batch 128 (nearest), edition 2, on the fixed 30 % that are held
# out: routers.md section 2. 405B has no more accuracy than Mistral-Large at five times the energy.
REFERENCE = {
    "gemma-2-2b-it": (0.320, 34),
    "gemma-2-9b-it": (0.597, 40),
    "Meta-Llama-3.1-8B-Instruct": (0.567, 59),
    "gemma-2-27b-it": (0.657, 78),
    "Meta-Llama-3.1-70B-Instruct": (0.717, 308),
    "Mistral-Large-2": (0.787, 435),
    "Llama-3.1-405B-Inst@sambanova": (0.760, 2036),
}
PARTIAL = ("Mixtral-8x7B-Instruct-v0.1", "Phi-3-mini-4k-instruct", "Mistral-Nemo-Instruct-2407")
OTHER = "gpt-4o-2024-08-06"


def _zeroeval(path: Path) -> bytes:
    """The rows of the benchmarked models and of one that was never benchmarked."""
    wanted = [*REFERENCE, *PARTIAL, OTHER, "gemma-2-27b-it@together"]
    return pl.read_csv(path).filter(pl.col("model").is_in(wanted)).write_csv().encode()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    files = {
        "zeroeval-outcomes": _zeroeval(shared("data/zeroeval/zeroeval_outcomes.csv.gz")),
        "replay-queries": gzip.decompress(shared("data/zeroeval/queries.csv.gz").read_bytes()),
        "mlenergy-v2": shared("data/mlenergy_v2/llm_energy_v2.csv").read_bytes(),
        "mlenergy-v3": shared("data/mlenergy_v3/llm_energy_v3.csv").read_bytes(),
    }
    warehouse = Warehouse.open(tmp_path_factory.mktemp("real") / "warehouse.duckdb")
    for name, body in files.items():
        options = {"dataset": "zeroeval"} if "energy" not in name else {}
        parsed = kind(name).parse(payload(body, name, now=NOW, options=options))
        with warehouse.transaction() as tx:
            for table, frame in parsed.tables.items():
                loads.load(tx, table, frame, source_id=name, run_id="r", known_from=NOW)
    yield warehouse
    warehouse.close()


def figures(table: OutcomeTable) -> dict[str, tuple[float, float]]:
    means = zip(table.correct.mean(axis=0), table.energy_j.mean(axis=0), strict=True)
    return {name: (round(float(a), 3), round(float(e))) for name, (a, e) in zip(table.names, means, strict=True)}


H100 = Condition(gpu="H100", batch=128)


def test_the_fixed_arms_are_the_reference_figures_on_the_fixed_split(real: Warehouse) -> None:
    with reading(real) as snap:
        table, notes = load_table(
            snap, "zeroeval", condition=H100, batch_mode="nearest", edition="v2", split="permutation"
        )
    assert (notes.queries, notes.train, notes.test, notes.coverage) == (2840, 1987, 853, 1.0)
    assert figures(table.test()) == REFERENCE
    assert set(notes.arms_left_out) == {*PARTIAL, OTHER}


def test_the_cheapest_correct_oracle_is_the_reference_figure(real: Warehouse) -> None:
    with reading(real) as snap:
        table, _ = load_table(
            snap, "zeroeval", condition=H100, batch_mode="nearest", edition="v2", split="permutation", texts=False
        )
    test = table.test()
    best = np.where(test.correct == 1, test.energy_j, np.inf).argmin(axis=1)  # nobody: the first arm
    nobody = (test.correct == 0).all(axis=1)
    best[nobody] = test.energy_j[nobody].argmin(axis=1)
    rows = np.arange(len(test))
    assert round(float(test.correct[rows, best].mean()), 3) == 0.869
    assert round(float(test.energy_j[rows, best].mean())) == 139


def test_on_all_queries_the_means_are_those_of_the_published_join(real: Warehouse) -> None:
    path = shared("data/zeroeval/replay_joined_h100_b128.csv.gz")
    joined = pl.read_csv(path).with_columns(pl.col("model").str.replace("@together", ""))
    means = joined.group_by("model").agg(pl.col("energy_j_est", "latency_s_est").mean())
    wanted = {model: (e, s) for model, e, s in means.iter_rows()}
    with reading(real) as snap:
        table, _ = load_table(snap, "zeroeval", condition=H100, batch_mode="nearest", edition="v2", texts=False)
    for k, name in enumerate(table.names):
        assert table.energy_j[:, k].mean() == pytest.approx(wanted[name][0], rel=1e-4)
        assert table.latency_s[:, k].mean() == pytest.approx(wanted[name][1], rel=1e-4)


def test_the_load_turns_the_order_of_models_round(real: Warehouse) -> None:
    """An 8B model at batch 8 costs per token what a 70B model costs at batch 256 (routers.md section 2)."""
    with reading(real) as snap:
        idle, loaded = (
            load_table(snap, "zeroeval", condition=Condition("H100", batch), edition="v3", texts=False)[1]
            for batch in (8, 256)
        )
    rates = [{r.arm: r.j_per_token for r in notes.energy_rates} for notes in (idle, loaded)]
    assert rates[0]["Meta-Llama-3.1-8B-Instruct"] == pytest.approx(0.455, abs=0.002)
    assert rates[1]["Meta-Llama-3.1-8B-Instruct"] == pytest.approx(0.077, abs=0.001)
    assert rates[0]["Meta-Llama-3.1-70B-Instruct"] == pytest.approx(3.76, abs=0.01)
    assert rates[1]["Meta-Llama-3.1-70B-Instruct"] == pytest.approx(0.479, abs=0.001)


def test_the_hash_split_has_every_benchmark_near_its_share(real: Warehouse) -> None:
    with reading(real) as snap:
        table, _ = load_table(snap, "zeroeval", condition=H100, batch_mode="nearest", texts=False)
    for name in ("gsm", "crux", "math-l5"):
        share = table.held_out[table.queries.benchmarks == name].mean()
        assert 0.25 < share < 0.35
