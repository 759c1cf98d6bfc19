"""The arithmetic of the replay lab: metrics, curves, hulls, bootstrap, and a table of 5,000,000 queries.

Floors in the same run: numpy's fancy-index gather for metrics, sort and cumulative sums for the curve, a sort for the
hull, numpy's multinomial and matmul for the bootstrap. Peers cannot be installed here, so their evaluators' loop
structure is restated (`restated_loop`): RouteLLM's pass over thresholds with an array of model names, RouterBench's
pass over rows and models. As published, on another machine: RouteLLM 1.5 M, RouterBench 2,500 query-policies a second.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from policies.pareto import mixing_hull
from policies.replay.bootstrap import paired_columns
from policies.replay.curves import Curve, curve
from policies.replay.policy import Choices, Threshold
from policies.replay.stream import ROWS, evaluate_chunks, split_rows, total_chunks
from policies.replay.table import Arm, OutcomeTable, Queries
from policies.replay.totals import Totals, matrix_totals
from tests.bench.timing import alternate, rounded, seconds
from tests.support import ROOT

Floats = npt.NDArray[np.float64]
Arms = npt.NDArray[np.int32]

_MATRICES = ("correct", "energy_j", "latency_s")


@dataclass(frozen=True)
class Sizes:
    policies: int = 64
    queries: int = 10_000
    arms: int = 9
    curve_queries: int = 14_042  # MMLU, as RouteLLM's evaluator takes it
    loop_thresholds: int = 55
    loop_rows: int = 445
    loop_prices: int = 4
    hull_points: int = 100_000
    replicates: int = 2000
    streamed_queries: int = 5_000_000
    streamed_policies: int = 4
    repeats: int = 5


def outcomes(rng: np.random.Generator, n: int, k: int) -> tuple[Floats, Floats, Floats]:
    """Correct, J and s of n queries and k arms."""
    joules = rng.gamma(2.0, 20.0, (n, k)) * 1.5 ** np.arange(k)
    return (rng.random((n, k)) < np.linspace(0.3, 0.8, k)).astype(np.float64), joules, joules / 300


def table_of(correct: Floats, energy_j: Floats, latency_s: Floats) -> OutcomeTable:
    n, k = correct.shape
    ids = np.arange(n).astype(object)
    benchmarks = np.array([f"b{i % 7}" for i in range(n)], dtype=object)
    nothing = np.full((n, k), np.nan)
    return OutcomeTable(
        "bench",
        tuple(Arm(f"arm{i}", f"model{i}") for i in range(k)),
        Queries(ids, benchmarks),
        np.ones(n, np.bool_),
        correct,
        energy_j,
        latency_s,
        nothing,
        nothing,
        nothing,
    )


def gather(correct: Floats, energy_j: Floats, latency_s: Floats, arms: Arms) -> Floats:
    """The floor: what numpy's fancy index makes of the same sums (P, 3)."""
    rows = np.arange(len(correct))
    return np.array([[matrix[rows, row].sum() for matrix in (correct, energy_j, latency_s)] for row in arms])


def routellm_loop(score: Floats, weak: Floats, strong: Floats, thresholds: Floats) -> Floats:
    """restated_loop of a strong/weak evaluator: per threshold the chosen names, a count of calls, accuracy by model."""
    frame = pd.DataFrame({"weak": weak, "strong": strong})
    accuracies = []
    for threshold in thresholds:
        names = np.where(score >= threshold, "strong", "weak")
        calls = Counter(names.tolist())
        right = sum(float(frame[name][names == name].sum()) for name in calls)
        accuracies.append(right / len(names))
    return np.array(accuracies)


def routerbench_loop(predicted: pd.DataFrame, cost: pd.DataFrame, correct: pd.DataFrame, prices: Floats) -> Floats:
    """restated_loop of a willingness-to-pay evaluator: per price and row the best of predicted x price - cost."""
    found = []
    for price in prices:
        quality, spent = 0.0, 0.0
        for index, row in predicted.iterrows():
            scores = {name: row[name] * price - cost.loc[index, name] for name in predicted.columns}
            best = max(scores, key=lambda name: scores[name])
            quality += correct.loc[index, best]
            spent += cost.loc[index, best]
        found.append((quality / len(predicted), spent / len(predicted)))
    return np.array(found)


def metrics(sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    matrices = outcomes(rng, sizes.queries, sizes.arms)
    arms = rng.integers(0, sizes.arms, (sizes.policies, sizes.queries)).astype(np.int32)
    subject, floor = alternate(lambda: matrix_totals(*matrices, arms), lambda: gather(*matrices, arms), sizes.repeats)
    count = sizes.policies * sizes.queries
    return {
        "metrics_policies": sizes.policies,
        "metrics_queries": sizes.queries,
        "metrics_query_policies_per_s": count / subject,
        "metrics_numpy_gather_query_policies_per_s": count / floor,
        "metrics_ratio_to_numpy_gather": floor / subject,
    }


def curves(sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    table = table_of(*outcomes(rng, sizes.curve_queries, 2))
    score = rng.random(sizes.curve_queries)
    swept = Threshold(score, 0, 1)

    def floor() -> None:
        order = np.argsort(-score)
        for matrix in (table.correct, table.energy_j, table.latency_s, table.cost_usd, table.power_w):
            np.cumsum((matrix[:, 1] - matrix[:, 0])[order])

    subject, floor_s = alternate(lambda: curve(table, swept), floor, sizes.repeats)
    thresholds = np.quantile(score, np.linspace(0, 1, sizes.loop_thresholds))
    weak, strong = table.correct.T
    loop_s = seconds(lambda: routellm_loop(score, weak, strong, thresholds))
    made: Curve = curve(table, swept)
    exact, loop = len(made) * len(table) / subject, sizes.loop_thresholds * len(table) / loop_s
    return {
        "curve_thresholds": len(made),
        "curve_all_thresholds_ms": 1e3 * subject,
        "curve_floor_sort_and_cumsum_ms": 1e3 * floor_s,
        "curve_ratio_to_floor": subject / floor_s,
        "curve_query_thresholds_per_s": exact,
        "routellm_restated_loop_query_policies_per_s": loop,
        "curve_times_routellm_restated_loop": exact / loop,
    }


def routerbench(sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    correct, energy, _ = outcomes(rng, sizes.loop_rows, 11)
    frames = [pd.DataFrame(part) for part in (rng.random(correct.shape), energy, correct)]
    prices = np.logspace(-1, 3, sizes.loop_prices)
    loop_s = seconds(lambda: routerbench_loop(*frames, prices))
    return {"routerbench_restated_loop_query_policies_per_s": sizes.loop_rows * sizes.loop_prices / loop_s}


def hulls(sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    x = rng.random(sizes.hull_points)
    concave = np.sqrt(x)  # the most corners that there can be
    cloud = rng.random(sizes.hull_points)
    subject, floor = alternate(lambda: mixing_hull(x, cloud), lambda: np.argsort(x), sizes.repeats)
    corners, _ = alternate(lambda: mixing_hull(x, concave), lambda: np.argsort(x), sizes.repeats)
    return {
        "hull_100k_ms": 1e3 * subject,
        "hull_100k_all_corners_ms": 1e3 * corners,
        "hull_floor_argsort_ms": 1e3 * floor,
        "hull_ratio_to_argsort": subject / floor,
    }


def bootstraps(sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    n = sizes.queries
    joules = rng.gamma(2.0, 20.0, n)
    columns = np.column_stack([rng.random(n) < 0.7, joules * 0.6, rng.random(n) < 0.72, joules]).astype(np.float64)

    def floor() -> None:
        for _ in range(sizes.replicates // 50):  # fifty at a time, as the whole does not fit in the cache
            rng.multinomial(n, np.full(n, 1 / n), size=50) @ columns

    subject, floor_s = alternate(
        lambda: paired_columns(columns, replicates=sizes.replicates, seed=1), floor, max(sizes.repeats // 2, 1)
    )
    return {
        "bootstrap_2000x10k_s": subject,
        "bootstrap_floor_numpy_multinomial_s": floor_s,
        "bootstrap_ratio_to_numpy": floor_s / subject,
    }


def stream(folder: Path, n: int, k: int, policies: int) -> dict[str, Any]:
    """Evaluate the table in `folder` by chunks: sums of the compiled pass, then all figures; with peak memory."""

    def read(name: str, first: int, rows: int, kind: type = np.float64, width: int = k) -> Any:
        # A read, not a memory map, whose pages would count as this process's memory.
        at = first * width * np.dtype(kind).itemsize
        return np.fromfile(folder / name, kind, rows * width, offset=at).reshape(rows, width)

    def parts() -> Iterator[tuple[Floats, Floats, Floats, Arms]]:
        for first in range(0, n, ROWS):
            rows = min(ROWS, n - first)
            correct, energy_j, latency_s = (read(name, first, rows) for name in _MATRICES)
            yield correct, energy_j, latency_s, np.ascontiguousarray(read("arms", first, rows, np.int32, policies).T)

    total_chunks(split_rows(*next(parts()), rows=n))  # compile
    base = _peak_mib()
    started = time.perf_counter()
    sums = total_chunks(parts())
    totals_s = time.perf_counter() - started
    tables = ((table_of(c, e, s), [Choices(arms=row) for row in a]) for c, e, s, a in parts())
    started = time.perf_counter()
    figures = evaluate_chunks(tables)
    evaluate_s = time.perf_counter() - started
    assert sums is not None
    return {
        "totals_s": totals_s,
        "evaluate_s": evaluate_s,
        "base_mib": base,
        "peak_mib": _peak_mib(),
        "accuracy": sums.accuracy.tolist(),
        "figures_accuracy": [each.accuracy for each in figures],
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_table(folder: Path, n: int, k: int, policies: int, rng: np.random.Generator) -> None:
    """Raw row-major matrices of a table and of its policies' arms, written in parts."""
    names = (*_MATRICES, "arms")
    files = {name: (folder / name).open("wb") for name in names}
    for first in range(0, n, 200_000):
        rows = min(200_000, n - first)
        arms = rng.integers(0, k, (rows, policies)).astype(np.int32)
        for name, part in zip(names, (*outcomes(rng, rows, k), arms), strict=True):
            files[name].write(part.tobytes())
    for file in files.values():
        file.close()


def stream_apart(folder: Path, n: int, k: int, policies: int) -> dict[str, Any]:
    """`stream` in a process of its own, whose peak memory can be told."""
    code = (
        "import json, sys; from pathlib import Path; from tests.bench.replay import stream; "
        "print(json.dumps(stream(Path(sys.argv[1]), *map(int, sys.argv[2:]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(n), str(k), str(policies)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def streamed(sizes: Sizes, rng: np.random.Generator) -> dict[str, Any]:
    n, k, policies = sizes.streamed_queries, sizes.arms, sizes.streamed_policies
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder, n, k, policies, rng)
        size = sum(file.stat().st_size for file in folder.iterdir())
        fifth, whole = stream_apart(folder, n // 5, k, policies), stream_apart(folder, n, k, policies)
        in_memory = _in_memory(folder, n, k, policies)
    return {
        "streamed_queries": n,
        "streamed_policies": policies,
        "streamed_table_mib": size / 2**20,
        "streamed_5m_queries_s": whole["totals_s"],
        "streamed_5m_query_policies_per_s": n * policies / whole["totals_s"],
        "streamed_5m_all_figures_s": whole["evaluate_s"],
        "streamed_base_mib": whole["base_mib"],
        "streamed_5m_peak_mib": whole["peak_mib"],
        "streamed_1m_peak_mib": fifth["peak_mib"],
        "in_memory_5m_queries_s": in_memory,
    }


def _in_memory(folder: Path, n: int, k: int, policies: int) -> float:
    matrices = [np.fromfile(folder / name).reshape(n, k) for name in _MATRICES]
    arms = np.ascontiguousarray(np.fromfile(folder / "arms", np.int32).reshape(n, policies).T)
    work: Callable[[], Totals] = lambda: matrix_totals(*matrices, arms)  # noqa: E731
    return min(seconds(work) for _ in range(2))


def run(sizes: Sizes = Sizes()) -> dict[str, Any]:
    rng = np.random.default_rng(2609)
    figures: dict[str, Any] = {"sizes": asdict(sizes)}
    for part in (metrics, curves, routerbench, hulls, bootstraps, streamed):
        figures |= part(sizes, rng)
    loop = figures["routellm_restated_loop_query_policies_per_s"]
    bench = figures["routerbench_restated_loop_query_policies_per_s"]
    ours = figures["metrics_query_policies_per_s"]
    figures |= {
        "metrics_times_routellm_restated_loop": ours / loop,
        "metrics_times_routerbench_restated_loop": ours / bench,
    }
    return rounded(figures)
