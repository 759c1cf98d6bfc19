"""How well joules per token of a concurrency that was never measured are predicted, by model, GPU and form.

For each binding (task, layout and precision are part of it) every inner level of concurrency is left out once; power
and throughput are fitted to the rest, and J/token = power / throughput is compared with what was measured. The
relative half-width of the quotient is the root of the sum of squares of the two. Curves are then grouped by model and
GPU; an error is the mean over all left-out windows of |predicted - measured| / measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    """Rows by model and GPU, the same over everything, and what was too small to say anything."""

    rows: tuple[HoldoutRow, ...]
    total: HoldoutRow
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
    everything = [curve for curves in grouped.values() for curve in curves]
    rows = tuple(_row(*key, curves) for key, curves in sorted(grouped.items()))
    return HoldoutTable(rows, _row("all", "all", everything), tuple(left_out))


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
        name: [_point(n[i], power[i], tokens[i]) for i in sorted(power.keys() & tokens.keys())]
        for name, (by_power, by_tokens) in PAIRS.items()
        for power, tokens in [(folds[POWER, by_power], folds[THROUGHPUT, by_tokens])]
    }


def _inner(held: HoldOut) -> dict[int, HeldOut]:
    return {w.index: w for w in held.windows if w.inner}


def _point(concurrency: float, power: HeldOut, tokens: HeldOut) -> Point:
    ratio = (1 + power.error_relative) / (1 + tokens.error_relative)  # predicted over measured
    half = math.hypot(power.half_width / power.predicted, tokens.half_width / tokens.predicted)
    return Point(
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


def markdown(table: HoldoutTable) -> str:
    """The table as docs carry it: error of J/token by pair of forms in %, with the coverage of the winner."""
    names = list(PAIRS)
    lines = [
        f"| model | GPU | boards | curves | left-out windows | {' | '.join(names)} | wins | coverage |",
        "|" + " --- |" * 4 + " ---: |" * (len(names) + 1) + " --- | ---: |",
    ]
    for row in (*table.rows, table.total):
        n = max((s.n for s in row.scores.values() if s is not None), default=0)
        cells = ["" if s is None else f"{s.j_per_token:.1%}" for s in row.scores.values()]
        won = row.scores[row.wins] if row.wins else None
        covered = "" if won is None or won.coverage is None else f"{won.coverage:.0%}"
        boards = ", ".join(map(str, row.boards))
        lines.append(
            f"| {row.logical_model} | {row.hardware_model} | {boards} | {row.curves} | {n} | {' | '.join(cells)} "
            f"| {row.wins or ''} | {covered} |"
        )
    return "\n".join(lines) + "\n"
