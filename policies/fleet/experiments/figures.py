"""Figures of one run, and of the same case over several seeds with intervals. Unknown is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from policies.fleet.experiments.resolve import Resolved
from policies.fleet.sim import SimResult
from policies.fleet.sim.layout import METRICS, Mode

LEVEL = 0.95
# metric -> unit, in the order that reports show them.
UNITS: Mapping[str, str] = {
    "offered": "requests",
    "completed": "requests",
    "rejected": "requests",
    "in_flight": "requests",
    "success_rate": "share",
    "slo_attainment": "share",
    "j_per_success": "J",
    "j_per_right_answer": "J",
    "active_j_per_success": "J",
    "j_per_output_token": "J",
    "tokens_per_j": "tok/J",
    "energy_j": "J",
    **{f"{mode.name.lower()}_j": "J" for mode in Mode},
    "wasted_j": "J",
    "mean_power_w": "W",
    **{f"p{q}_{metric}": "s" for metric in METRICS for q in (50, 95, 99)},
    "cost_usd": "USD",
    "usd_per_million_output_tokens": "USD",
    "carbon_g": "gCO2eq",
    "g_per_success": "gCO2eq",
    "capacity_per_s": "requests/s",
    "throughput_per_s": "requests/s",
    "utilization": "share",
    "output_tokens": "tokens",
    "retries": "attempts",
    "fallback_telemetry": "decisions",
    "fallback_carbon": "decisions",
    "fallback_slo": "decisions",
    "decisions": "decisions",
    "pool_changes": "decisions",
    "run_s": "s",
}
JOULES = ("energy_j", "j_per", "active_j", "idle_j", "warming_j", "empty_j", "down_j", "wasted_j", "tokens_per_j",
          "mean_power_w", "power_w")  # fmt: skip
GRAMS = ("carbon_g", "g_per_success")
BETTER_HIGH = ("success_rate", "slo_attainment", "tokens_per_j", "throughput_per_s", "completed")


@dataclass(frozen=True)
class Run:
    """One simulated run, reduced to plain figures. NaN: not identifiable."""

    seed: int
    ended: str
    figures: dict[str, float]
    pools: list[dict[str, Any]]
    classes: list[dict[str, Any]]
    rejections: dict[str, int]


@dataclass(frozen=True)
class Figure:
    """Mean over `n` seeds with a 95 % interval of Student's t; None where seeds do not differ or there is one."""

    value: float | None
    low: float | None
    high: float | None
    unit: str
    n: int

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


def run_figures(result: SimResult, found: Resolved, capacity_per_s: float) -> Run:
    """What a run came to. The seconds of a run are those of the simulated fleet."""
    told = result.summary()
    energy = result.energy_j
    output, completed = result.output_tokens, result.completed
    right = _right_answers(result, found)
    figures: dict[str, float] = {
        **{n: float(told[n]) for n in UNITS if isinstance(told.get(n), int | float)},
        **{f"{state}_j": joules for state, joules in result.energy_by_state_j.items()},
        "j_per_right_answer": energy / right if right > 0 else math.nan,
        "j_per_output_token": energy / output if output else math.nan,
        "usd_per_million_output_tokens": result.cost_usd / output * 1e6 if output else math.nan,
        "g_per_success": result.carbon_g / completed if completed else math.nan,
        "capacity_per_s": capacity_per_s,
        **{f"fallback_{name}": float(n) for name, n in result.fallbacks.items()},
        "pool_changes": float(result.flips),
        "run_s": result.end_s,
        **{f"rejected_{reason}": float(n) for reason, n in result.rejections.items()},
    }
    return Run(
        seed=result.seed,
        ended=result.ended.name.lower(),
        figures=figures,
        pools=_pools(result),
        classes=result.per_class(),
        rejections=result.rejections,
    )


def _pools(result: SimResult) -> list[dict[str, Any]]:
    """The simulator's figures of each pool, with energy by state."""
    columns = result.per_instance
    found = []
    for told in result.per_pool():
        mine = columns["pool"] == told["pool"]
        states = {f"{mode.name.lower()}_j": float(columns[f"{mode.name.lower()}_j"][mine].sum()) for mode in Mode}
        found.append(
            {
                **told,
                **states,
                "output_tokens": int(columns["output_tokens"][mine].sum()),
                "wasted_j": float(columns["wasted_j"][mine].sum()),
            }
        )
    return found


def _right_answers(result: SimResult, found: Resolved) -> float:
    """Completed requests times the share that was right on the outcome set; NaN where no set is named."""
    quality = found.scenario.quality
    if quality is None:
        return math.nan
    share = {model.lower(): s for model, s in quality.success.items()}
    return sum(
        float(pool["completed"]) * share.get(found.profiles[pool["pool"]].logical_model.lower(), math.nan)
        for pool in result.per_pool()
        if pool["completed"]
    )


def over_seeds(runs: Sequence[Run]) -> dict[str, Figure]:
    """Figures of a case: mean and interval over its seeds, in the order of `UNITS`."""
    names = dict.fromkeys(n for run in runs for n in run.figures)
    order = [n for n in UNITS if n in names] + sorted(n for n in names if n not in UNITS)
    return {name: figure([r.figures.get(name, 0.0) for r in runs], unit(name)) for name in order}


def unit(metric: str) -> str:
    return "requests" if metric.startswith("rejected_") else UNITS[metric]


def figure(values: Sequence[float], what: str) -> Figure:
    """Mean of `values`; None where one of them is not known: the others would answer another question."""
    if not values or not all(math.isfinite(v) for v in values):
        return Figure(None, None, None, what, len(values))
    mean = float(np.mean(values))
    half = half_width(values)
    if half is None:
        return Figure(mean, None, None, what, len(values))
    return Figure(mean, mean - half, mean + half, what, len(values))


def half_width(values: Sequence[float]) -> float | None:
    """Of the interval of the mean. None for fewer than two, or where seeds make no difference at all."""
    if len(values) < 2 or max(values) == min(values):
        return None
    return float(stdtrit(len(values) - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))


def paired(base: Sequence[Run], other: Sequence[Run], metric: str) -> dict[str, Any]:
    """`other` minus `base` on the same seeds: mean difference, its interval, and the difference relative to base."""
    before = [r.figures.get(metric, 0.0) for r in base]
    after = [r.figures.get(metric, 0.0) for r in other]
    found = figure([b - a for a, b in zip(before, after, strict=True)], unit(metric))
    start = figure(before, unit(metric)).value
    relative = None if found.value is None or not start else found.value / start
    verdict = "same"
    if found.low is not None and found.high is not None and (found.low > 0 or found.high < 0):
        higher = found.low > 0
        verdict = "better" if higher == (metric in BETTER_HIGH) else "worse"
    elif found.low is not None:
        verdict = "not distinguished"
    elif found.value is None:
        verdict = "unknown"
    elif found.value:
        verdict = "no interval"
    return {"difference": found.to_dict(), "relative": relative, "verdict": verdict}
