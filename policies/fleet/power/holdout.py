"""How well joules per token of a concurrency that was never measured are predicted, by model, GPU and form.

For each binding (task, layout and precision are part of it) every inner level of concurrency is left out once; power
and throughput are fitted to the rest, and J/token = power / throughput is compared with what was measured. The
relative half-width of the quotient is the root of the sum of squares of the two. Curves are then grouped by model and
GPU; an error is the mean over all left-out windows of |predicted - measured| / measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from policies.fleet.power.calibration import MIN_LEVELS, MIN_WINDOWS
from policies.fleet.power.curves import POWER, TABLE, THROUGHPUT
from policies.fleet.power.estimate import HeldOut, HoldOut, hold_out, levels
from policies.fleet.power.windows import Binding, MeasuredWindow, bindings

# Form of power with form of throughput.
PAIRS = {
    "logistic": ("logistic_log2", "logistic_log2"),
    "linear": ("linear", "linear"),
    "logistic power, linear iteration": ("logistic_log2", "linear"),
    TABLE: (TABLE, TABLE),
}


@dataclass(frozen=True)
class Point:
    """One left-out window: signed relative errors, and whether the 95 % interval of J/token held it."""

    index: int  # of the window within its binding
    concurrency: float
    power_error: float
    throughput_error: float
    j_per_token_error: float
    covered: bool | None


@dataclass(frozen=True)
class Score:
    """Means of absolute relative errors over `n` left-out windows."""

    n: int
    power: float
    throughput: float
    j_per_token: float
    coverage: float | None


@dataclass(frozen=True)
class HoldoutRow:
    logical_model: str
    hardware_model: str
    boards: tuple[int, ...]
    curves: int
    windows: int
    scores: dict[str, Score | None]  # by the names of PAIRS; None: nothing could be predicted

    @property
    def wins(self) -> str | None:
        """The pair with the smallest error of J/token."""
        known = {name: s.j_per_token for name, s in self.scores.items() if s is not None}
        return min(known, key=known.__getitem__) if known else None


@dataclass(frozen=True)
class HoldoutTable:
    """Rows by model and GPU; totals by GPU and over everything, of the windows that every pair predicted, so that
    the pairs compare; and the bindings that were too small to say anything.
    """

    rows: tuple[HoldoutRow, ...]
    totals: tuple[HoldoutRow, ...]
    left_out: tuple[Binding, ...]


def holdout_table(windows: Sequence[MeasuredWindow]) -> HoldoutTable:
    """Leave-one-concurrency-out error of J/token for every binding with enough windows."""
    grouped: dict[tuple[str, str], list[tuple[Binding, int, dict[str, list[Point]]]]] = {}
    left_out = []
    for binding, members in bindings(windows).items():
        used = [w for w in members if w.concurrency >= 1 and w.power_w and w.output_tokens_per_s]
        if len(used) < MIN_WINDOWS or levels(_concurrency(used)).max() + 1 < MIN_LEVELS:
            left_out.append(binding)
            continue
        key = (binding.logical_model, binding.hardware_model)
        grouped.setdefault(key, []).append((binding, len(used), _points(used)))
    rows = tuple(_row(*key, curves) for key, curves in sorted(grouped.items()))
    by_gpu: dict[str, list[tuple[Binding, int, dict[str, list[Point]]]]] = {}
    for (_, gpu), curves in sorted(grouped.items()):
        by_gpu.setdefault(gpu, []).extend(curves)
    if grouped:
        by_gpu["all"] = [c for curves in grouped.values() for c in curves]
    totals = [_row("all", gpu, [(b, n, _common(points)) for b, n, points in curves]) for gpu, curves in by_gpu.items()]
    return HoldoutTable(rows, tuple(totals), tuple(left_out))


def _concurrency(used: Sequence[MeasuredWindow]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([w.concurrency for w in used], dtype=np.float64)


def _points(used: Sequence[MeasuredWindow]) -> dict[str, list[Point]]:
    n, equal = _concurrency(used), np.ones(len(used))
    x = np.column_stack([n, equal])
    observed = {
        POWER: np.array([w.power_w for w in used], dtype=np.float64),
        THROUGHPUT: np.array([w.output_tokens_per_s for w in used], dtype=np.float64),
    }
    wanted = {(q, f) for pair in PAIRS.values() for q, f in zip((POWER, THROUGHPUT), pair, strict=True)}
    folds = {key: _inner(hold_out(*key, x, observed[key[0]], equal)) for key in sorted(wanted)}
    return {
        name: [_point(i, n[i], power[i], tokens[i]) for i in sorted(power.keys() & tokens.keys())]
        for name, (by_power, by_tokens) in PAIRS.items()
        for power, tokens in [(folds[POWER, by_power], folds[THROUGHPUT, by_tokens])]
    }


def _common(points: dict[str, list[Point]]) -> dict[str, list[Point]]:
    """Of each pair, the windows that every pair predicted."""
    shared = set.intersection(*({p.index for p in told} for told in points.values()))
    return {name: [p for p in told if p.index in shared] for name, told in points.items()}


def _inner(held: HoldOut) -> dict[int, HeldOut]:
    return {w.index: w for w in held.windows if w.inner}


def _point(index: int, concurrency: float, power: HeldOut, tokens: HeldOut) -> Point:
    ratio = (1 + power.error_relative) / (1 + tokens.error_relative)  # predicted over measured
    half = math.hypot(power.half_width / power.predicted, tokens.half_width / tokens.predicted)
    return Point(
        index=index,
        concurrency=float(concurrency),
        power_error=power.error_relative,
        throughput_error=tokens.error_relative,
        j_per_token_error=ratio - 1,
        covered=None if math.isnan(half) else abs(1 - 1 / ratio) <= half,
    )


def _row(model: str, gpu: str, curves: Sequence[tuple[Binding, int, dict[str, list[Point]]]]) -> HoldoutRow:
    return HoldoutRow(
        logical_model=model,
        hardware_model=gpu,
        boards=tuple(sorted({b.hardware_count for b, _, _ in curves})),
        curves=len(curves),
        windows=sum(n for _, n, _ in curves),
        scores={name: _score([p for _, _, points in curves for p in points[name]]) for name in PAIRS},
    )


def _score(points: Sequence[Point]) -> Score | None:
    if not points:
        return None
    told = [p.covered for p in points if p.covered is not None]
    return Score(
        n=len(points),
        power=_mean([abs(p.power_error) for p in points]),
        throughput=_mean([abs(p.throughput_error) for p in points]),
        j_per_token=_mean([abs(p.j_per_token_error) for p in points]),
        coverage=sum(told) / len(told) if told else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def table_data(table: HoldoutTable) -> dict[str, Any]:
    """The table as plain JSON."""
    return {
        "pairs": {name: {"power": p, "throughput": t} for name, (p, t) in PAIRS.items()},
        "rows": [{**asdict(r), "wins": r.wins} for r in table.rows],
        "totals": [{**asdict(r), "wins": r.wins} for r in table.totals],
        "left_out": [b.words for b in table.left_out],
        "rule": f"{MIN_WINDOWS} windows at {MIN_LEVELS} levels of concurrency or more",
    }


def markdown(table: HoldoutTable) -> str:
    """The table as docs carry it: error of J/token by pair of forms, with the coverage of the winner's intervals.

    A pair that could not be fitted to every fold says in brackets how many windows it predicted.
    """
    names = list(PAIRS)
    lines = [
        f"| model | GPU | boards | curves | left-out windows | {' | '.join(names)} | wins | coverage |",
        "|" + " --- |" * 3 + " ---: |" * (len(names) + 2) + " --- | ---: |",
    ]
    for row in (*table.rows, *table.totals):
        n = max((s.n for s in row.scores.values() if s is not None), default=0)
        won = row.scores[row.wins] if row.wins else None
        cells = (
            row.logical_model,
            row.hardware_model,
            ", ".join(map(str, row.boards)),
            str(row.curves),
            str(n),
            *(
                "" if s is None else f"{s.j_per_token:.1%}" + ("" if s.n == n else f" ({s.n})")
                for s in row.scores.values()
            ),
            row.wins or "",
            "" if won is None or won.coverage is None else f"{won.coverage:.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
