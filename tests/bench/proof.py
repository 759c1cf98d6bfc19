"""Coverage of the intervals, false alarms of the gate and of peeking, by simulation; and speed against scipy's methods.

A nominal 95 % interval should cover 95 % of the time, a bound be wrong 2.5 % of the time. Figures carry their Monte
Carlo error: with 4,000 runs one standard error of a 95 % coverage is 0.34 percentage points.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from policies.proof.evidence import Amounts, Both, Constraint, Evidence
from policies.proof.gate import Mode, Ruling, judge
from policies.proof.intervals import fieller, newcombe_paired, ratio_delta, tango
from policies.proof.margins import HARD_CONSTRAINTS, Margins
from policies.proof.planning import n_noninferiority
from policies.proof.quantiles import quantile_contrast
from policies.proof.ratios import ratio_bootstrap, ratio_clustered
from policies.proof.sequences import mean_sequence
from tests.bench.timing import alternate, rounded

_RUNS = 4_000
_LOOKS = 20


def run() -> dict[str, Any]:
    return rounded(
        paired_rates() | ratio_coverage() | noninferiority() | peeking() | gate_alarms() | monitoring_alarms() | speed()
    )


def paired_rates(runs: int = _RUNS, n: int = 200) -> dict[str, Any]:
    """Tango and Newcombe at n = 200, 8 % discordance, a true loss of 3 points."""
    rng = np.random.default_rng(1)
    p_b, p_c, p_a = 0.025, 0.055, 0.85
    tables = rng.multinomial(n, [p_a, p_b, p_c, 1 - p_a - p_b - p_c], size=runs)
    hits = {"tango": 0, "newcombe": 0}
    for a, b, c, d in tables.tolist():
        hits["tango"] += _covers(_tango(b, c, n), p_b - p_c)
        hits["newcombe"] += _covers(_newcombe(a, b, c, d), p_b - p_c)
    return {f"coverage_{k}_n200": v / runs for k, v in hits.items()}


def ratio_coverage(runs: int = _RUNS) -> dict[str, Any]:
    """Ratio and single arm: skewed joules, 90 % success; 5 % success for Fieller; tenants of 20 requests."""
    out: dict[str, Any] = {}
    for n in (50, 400):
        delta = fiel = 0
        for seed in range(runs):
            e1, s1, e0, s0 = arms(n, seed)
            delta += _covers(ratio_delta(e1, s1, e0, s0), 0.8)
            fiel += _covers(fieller(e1, s1), 80 / 0.9)
        out |= {f"coverage_ratio_delta_n{n}": delta / runs, f"coverage_fieller_n{n}": fiel / runs}
    rare = 0
    for seed in range(runs):
        e1, s1, _, _ = arms(400, seed, success=0.05)
        rare += _covers(fieller(e1, s1), 80 / 0.05)
    few = runs // 10
    boot = sum(_covers(ratio_bootstrap(*arms(400, seed), seed=seed), 0.8) for seed in range(few))
    plain = clustered = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        tenant = np.repeat(np.arange(40), 10)
        e1, s1, e0, s0 = arms(400, seed + runs)
        e1 = e1 * rng.lognormal(-0.045, 0.3, 40)[tenant]
        plain += _covers(ratio_delta(e1, s1, e0, s0), 0.8)
        clustered += _covers(ratio_clustered(e1, s1, e0, s0, tenant), 0.8)
    return out | {
        "coverage_fieller_20_successes": rare / runs,
        "coverage_bootstrap_n400": boot / few,
        "coverage_ignoring_40_clusters": plain / runs,
        "coverage_40_clusters": clustered / runs,
    }


def noninferiority(runs: int = _RUNS, margin: float = 0.02, psi: float = 0.10) -> dict[str, Any]:
    """At a true loss of exactly the margin a pass is an error (nominal 2.5 %); with no loss it is the power (90 %)."""
    n = n_noninferiority(margin, psi)
    rng = np.random.default_rng(2)
    out: dict[str, Any] = {"noninferiority_n": n}
    for name, loss in (("type_1", margin), ("power", 0.0)):
        p_b, p_c = (psi - loss) / 2, (psi + loss) / 2
        passed = 0
        for _, b, c, _ in rng.multinomial(n, [0.85, p_b, p_c, 0.15 - psi], size=runs).tolist():
            passed += _tango(b, c, n)[0] > -margin
        out[f"noninferiority_{name}"] = passed / runs
    return out


def peeking(runs: int = _RUNS, n: int = 2_000) -> dict[str, Any]:
    """20 looks at nothing: how often one of them leaves 0 out."""
    rng = np.random.default_rng(3)
    looks = np.linspace(n / _LOOKS, n, _LOOKS).astype(int)
    fixed = sequence = 0
    for _ in range(runs):
        x = rng.standard_normal(n)
        means = np.cumsum(x)[looks - 1] / looks
        fixed += bool((np.abs(means) > 1.959964 / np.sqrt(looks)).any())
        lows, highs = mean_sequence(x, n)
        sequence += bool(((lows[looks - 1] > 0) | (highs[looks - 1] < 0)).any())
    return {"peeking_20_looks_nominal": fixed / runs, "peeking_20_looks_sequence": sequence / runs}


def gate_alarms(runs: int = 400, n: int = 1_000) -> dict[str, Any]:
    """The whole gate where it must not pass: J per success falls by exactly the 5 % that is required; and where there
    is neither harm nor gain it must not fail for harm. `pass_where_true`: a gain of 20 % and no loss."""
    margins = Margins(planned_n=n, success_margin=0.03, resamples=200)
    equal = Margins(planned_n=n, success_margin=0.03, energy_gain=None, energy_margin=0.0, resamples=200)
    wrong = right = harm = 0
    for seed in range(runs):
        wrong += judge(world(n, seed, 0.95), margins).verdict is Ruling.PASS
        right += judge(world(n, seed, 0.80), margins).verdict is Ruling.PASS
        harm += judge(world(n, seed, 1.00), equal).verdict is Ruling.FAIL
    return {
        "gate_pass_at_the_required_gain": wrong / runs,
        "gate_pass_where_true": right / runs,
        "gate_fail_where_equal": harm / runs,
    }


def monitoring_alarms(runs: int = 400, n: int = 1_000) -> dict[str, Any]:
    """20 looks by the gate at a candidate exactly on the success margin, nothing else harmed: false stops."""
    margins = Margins(planned_n=n, success_margin=0.03, energy_gain=None, energy_margin=0.0, usd_margin=None,
                      carbon_margin=None, p95_margin=None)  # fmt: skip
    peeked = watched = 0
    for seed in range(runs):
        evidence = world(n, seed, 1.0, loss=0.03)
        stops = [0, 0]
        for look in np.linspace(n / _LOOKS, n, _LOOKS).astype(int):
            part = _first(evidence, int(look))
            stops[0] |= judge(part, margins, mode=Mode.MONITOR).stop
            fixed = Margins.from_dict(margins.to_dict() | {"planned_n": int(look), "resamples": 1})
            stops[1] |= judge(part, fixed).verdict is Ruling.FAIL
        watched, peeked = watched + stops[0], peeked + stops[1]
    return {"monitor_false_stops": watched / runs, "gate_false_stops_by_peeking": peeked / runs}


def speed() -> dict[str, Any]:
    """The bootstrap of a ratio against scipy's for the same draws; one gate of 10,000 pairs."""
    data = arms(2_000, 0)

    def ratio(a: Any, b: Any, c: Any, d: Any, axis: int) -> Any:
        return a.sum(axis) / b.sum(axis) / (c.sum(axis) / d.sum(axis))

    def theirs() -> None:
        stats.bootstrap(data, ratio, paired=True, vectorized=True, method="percentile", n_resamples=2_000, batch=200)

    ours_s, theirs_s = alternate(lambda: ratio_bootstrap(*data, resamples=2_000), theirs, 5)
    big, margins = world(10_000, 0, 0.8), Margins(planned_n=10_000)
    latency = big.latency_s
    assert latency is not None

    def bare() -> None:
        for _ in range(3):
            ratio_bootstrap(*arms_of(big))
        quantile_contrast(latency.candidate, latency.control, relative=True)

    gate_s, bare_s = alternate(lambda: judge(big, margins), bare, 5)
    tango_s, newcombe_s = alternate(lambda: tango(5, 12, 200), lambda: newcombe_paired(170, 5, 12, 13), 200)
    return {
        "bootstrap_2000x2000_s": ours_s,
        "floor_scipy_bootstrap_s": theirs_s,
        "bootstrap_ratio_to_floor": ours_s / theirs_s,
        "gate_10000_pairs_s": gate_s,
        "floor_bare_resampling_s": bare_s,
        "gate_ratio_to_floor": gate_s / bare_s,
        "tango_us": 1e6 * tango_s,
        "newcombe_us": 1e6 * newcombe_s,
    }


def arms(n: int, seed: int, success: float = 0.9) -> tuple[Any, Any, Any, Any]:
    """Paired, skewed joules with means 80 and 100 J, a ratio of 0.8 at equal success; coefficient of variation 0.8."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(-0.245, 0.7, n)
    noise = rng.lognormal(-0.02, 0.2, (2, n))
    s1, s0 = (rng.uniform(size=(2, n)) < success).astype(float)
    return 80 * size * noise[0], s1, 100 * size * noise[1], s0


def world(n: int, seed: int, ratio: float, loss: float = 0.0) -> Evidence:
    """Everything a gate judges: J per success at exactly `ratio`, success lower by `loss`, latency of one kind."""
    rng = np.random.default_rng(seed + 10_000)
    size, noise = rng.lognormal(-0.125, 0.5, n), rng.lognormal(-0.005, 0.1, (4, n))
    u = rng.uniform(size=n)
    # pairs differ in 5 % + loss of the cases; both rates start from 95 %
    s0 = np.where(
        u < 0.025, 0.0, np.where((u >= 0.025) & (u < 0.05 + loss), 1.0, (rng.uniform(size=n) < 0.95).astype(float))
    )
    s1 = np.where(u < 0.025, 1.0, np.where((u >= 0.025) & (u < 0.05 + loss), 0.0, s0))
    rate = 1.0 - loss / s0.mean()
    e1, e0 = ratio * rate * 200 * size * noise[0], 200 * size * noise[1]
    kinds = ("measured", "measured", "nvml", "nvml")
    energy = Amounts(e1, e0, *kinds)
    return Evidence(
        "paired_replay", Both(s1, s0), Both(2 * size * noise[2] * 0.9, 2 * size * noise[3]), energy, energy, energy,
        [Constraint(name, n, 0) for name in HARD_CONSTRAINTS],
    )  # fmt: skip


def arms_of(evidence: Evidence) -> tuple[Any, Any, Any, Any]:
    energy, success = evidence.energy_j, evidence.success
    assert energy is not None and isinstance(success, Both)
    return energy.candidate, success.candidate, energy.control, success.control


def _first(evidence: Evidence, n: int) -> Evidence:
    e1, s1, e0, s0 = (np.asarray(x)[:n] for x in arms_of(evidence))
    energy = Amounts(e1, e0, "measured", "measured", "nvml", "nvml")
    return Evidence("paired_replay", Both(s1, s0), None, energy, constraints=evidence.constraints)


@cache
def _tango(b: int, c: int, n: int) -> tuple[float, float]:
    return tango(b, c, n)


@cache
def _newcombe(a: int, b: int, c: int, d: int) -> tuple[float, float]:
    return newcombe_paired(a, b, c, d)


def _covers(interval: tuple[float, float], truth: float) -> bool:
    return interval[0] <= truth <= interval[1]
