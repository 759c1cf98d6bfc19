"""What a simulation tells: counts that add up, latency, joules by state, dollars and grams, together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import FleetError
from policies.fleet.sim.layout import (
    BINS,
    LOW_EXPONENT,
    METRICS,
    SUB_BITS,
    Ended,
    Floats,
    Memory,
    Mode,
    Status,
)
from policies.fleet.sim.log import RequestLog
from policies.fleet.sim.memory import Plan
from warehouse.evidence import EvidenceClass, Quality, lowest_quality, weakest

SUCCESS = int(Status.COMPLETED)
APPORTION = ("per_request", "by_active_energy", "by_output_tokens")
RESOLUTION = 2.0**-SUB_BITS


@dataclass(frozen=True)
class SimResult:
    """One run. Energy is modelled: `evidence_class` and `quality` are the weakest of the profiles."""

    plan: Plan
    memory: Memory
    ended: Ended
    end_s: float
    settle_s: float
    requests: RequestLog | None  # None where only aggregates were kept
    policy: str
    seed: int
    classes: tuple[str, ...]  # labels of the classes of requests
    intensity_version: str | None

    # Counts

    @property
    def offered(self) -> int:
        """Requests that arrived before the run ended."""
        return int(self._counters["offered"])

    @property
    def completed(self) -> int:
        """Answered: a request whose answer was an error is completed only if a later attempt succeeded."""
        return int(self._tally[:, SUCCESS].sum())

    @property
    def in_flight(self) -> int:
        return int(self._counters["in_flight"])

    @property
    def rejections(self) -> dict[str, int]:
        """By reason; those that did not occur are left out."""
        return {
            status.name.lower(): int(n) for status in Status if status > SUCCESS and (n := self._tally[:, status].sum())
        }

    @property
    def rejected(self) -> int:
        return sum(self.rejections.values())

    @property
    def failed(self) -> int:
        """Among the rejected: attempts were used up by failures and errors."""
        return int(self._tally[:, Status.FAILED].sum())

    @property
    def conserved(self) -> bool:
        """Offered = completed + rejected + in flight, and joules of requests = joules of active instances."""
        counts = self.offered == self.completed + self.rejected + self.in_flight
        return counts and math.isclose(
            self.energy_by_state_j["active"], self.energy_requests_j, rel_tol=1e-9, abs_tol=1e-6
        )

    @property
    def success_rate(self) -> float:
        """Completed per offered; NaN where nothing was offered."""
        return self.completed / self.offered if self.offered else math.nan

    @property
    def slo_attainment(self) -> float:
        """Completed within the SLO, per offered: rejected and unfinished requests count as missed."""
        met = int(self.memory["instances"]["slo_met"].sum())
        return met / self.offered if self.offered else math.nan

    # Energy

    @property
    def energy_by_state_j(self) -> dict[str, float]:
        """J of all instances, by what they were doing."""
        sums = self._accounts["energy_j"].sum(axis=0)
        return {mode.name.lower(): float(sums[mode]) for mode in Mode}

    @property
    def energy_j(self) -> float:
        return float(self._accounts["energy_j"].sum())

    @property
    def energy_requests_j(self) -> float:
        """J of completed, rejected and unfinished requests."""
        free = np.ones(len(self.memory["requests"]), np.bool_)
        free[self.memory["requests"]["free"][: int(self._counters["free"])]] = False
        running = float(self.memory["requests"]["prior_j"][free].sum())
        return float(self._counters["completed_j"]) + float(self._counters["rejected_j"]) + running

    @property
    def wasted_j(self) -> float:
        """J of attempts that failed, in whatever became of their requests."""
        return float(self.memory["instances"]["wasted_j"].sum())

    @property
    def j_per_success(self) -> float:
        """All joules, those of idle instances and of failures too, per completed request; NaN without one."""
        return self.energy_j / self.completed if self.completed else math.nan

    @property
    def active_j_per_success(self) -> float:
        return self.energy_by_state_j["active"] / self.completed if self.completed else math.nan

    @property
    def output_tokens(self) -> int:
        return int(self.memory["instances"]["output_tokens"].sum())

    @property
    def tokens_per_j(self) -> float:
        return self.output_tokens / self.energy_j if self.energy_j > 0 else math.nan

    @property
    def carbon_g(self) -> float:
        """gCO2eq of all instances; NaN where the intensity of a zone was unknown for any time."""
        return float(self._accounts["carbon_g"].sum())

    @property
    def cost_usd(self) -> float:
        """Instance hours of the whole run at the profiles' price, down and empty ones too; NaN where unknown."""
        if any(d.profile.usd_per_hour is None for _, _, d in self.plan.deployments):
            return math.nan
        price = np.array([d.profile.usd_per_instance_hour for _, _, d in self.plan.deployments])
        return float(price[self.memory["instances"]["deployment"]].sum() * self.end_s / 3600)

    # Time

    @property
    def utilization(self) -> float:
        """Mean share of slots that were taken, over the time that instances had a model."""
        slots = self.memory["deployments"]["slots"][self.memory["instances"]["deployment"]]
        loaded = self._accounts["time_s"][:, : Mode.WARMING].sum(axis=1)
        return _ratio(self.memory["instances"]["running_s"].sum(), (slots * loaded).sum())

    @property
    def mean_power_w(self) -> float:
        return self.energy_j / self.end_s if self.end_s > 0 else math.nan

    def percentile(self, metric: str, q: float, pool: str | None = None) -> float:
        """The q-th percentile (0..100) of `ttft_s`, `tpot_s`, `e2e_s` or `wait_s` over completed requests.

        Exact where requests were kept; else from bins that are RESOLUTION (0.8 %) wide. NaN where there is none.
        """
        if self.requests is not None:
            values = self.requests.latency(metric)
            chosen = self.requests.completed & (self.requests.workload.arrival_s[: len(values)] >= self.settle_s)
            if pool is not None:
                chosen &= self.requests.pool == self.plan.names.index(pool)
            return float(np.percentile(values[chosen], q)) if chosen.any() else math.nan
        if metric not in METRICS:
            raise FleetError(f"there is no latency {metric!r}.", fix=f"use one of {', '.join(METRICS)}")
        counts = self.memory["histogram"]["value"].reshape(len(self.plan.pools), len(METRICS), BINS)[
            :, METRICS.index(metric)
        ]
        chosen_counts = counts.sum(axis=0) if pool is None else counts[self.plan.names.index(pool)]
        return _from_bins(chosen_counts, q)

    # Balancing

    @property
    def fallbacks(self) -> dict[str, int]:
        """Decisions of an energy- or carbon-aware policy that fell back, by reason."""
        return {name: int(self._counters[f"fallback_{name}"]) for name in ("telemetry", "carbon", "slo")}

    @property
    def decisions(self) -> int:
        """Of an energy- or carbon-aware policy, with those that fell back."""
        return int(self._counters["decisions"])

    @property
    def flips(self) -> int:
        """How often a class of requests moved to another pool."""
        return int(self.memory["classes"]["flips"].sum())

    @property
    def retries(self) -> int:
        return int(self._counters["retries"])

    @property
    def evidence_class(self) -> EvidenceClass:
        found = weakest(d.profile.evidence_class for _, _, d in self.plan.deployments)
        assert found is not None
        return found

    @property
    def quality(self) -> Quality:
        found = lowest_quality(d.profile.quality_effective for _, _, d in self.plan.deployments)
        assert found is not None
        return found

    @property
    def per_instance(self) -> dict[str, NDArray[Any]]:
        """Columns over instances: pool, deployment, counts, J by state, mean concurrency while loaded, busy share."""
        me, account = self.memory["instances"], self._accounts
        joules, loaded = account["energy_j"], account["time_s"][:, : Mode.WARMING].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return {
                "pool": np.array(self.plan.names, object)[me["pool"]],
                "deployment": np.array([name for _, name, _ in self.plan.deployments], object)[me["deployment"]],
                "started": me["started"].copy(),
                "completed": me["completed"].copy(),
                "lost": me["lost"].copy(),
                "output_tokens": me["output_tokens"].copy(),
                **{f"{mode.name.lower()}_j": joules[:, mode].copy() for mode in Mode},
                "energy_j": joules.sum(axis=1),
                "wasted_j": me["wasted_j"].copy(),
                "carbon_g": account["carbon_g"].sum(axis=1),
                "concurrency": me["running_s"] / loaded,
                "busy_share": account["time_s"][:, Mode.ACTIVE] / loaded,
                "mean_power_w": joules.sum(axis=1) / self.end_s,
            }

    def per_pool(self) -> list[dict[str, Any]]:
        """Figures of each pool, plain values with units in their names."""
        columns, found = self.per_instance, []
        slots = self.memory["deployments"]["slots"][self.memory["instances"]["deployment"]]
        running_s = self.memory["instances"]["running_s"]
        loaded_s = self._accounts["time_s"][:, : Mode.WARMING].sum(axis=1)
        for name in self.plan.names:
            mine = columns["pool"] == name
            completed, energy_j = int(columns["completed"][mine].sum()), float(columns["energy_j"][mine].sum())
            found.append(
                {
                    "pool": name,
                    "instances": int(mine.sum()),
                    "completed": completed,
                    "lost": int(columns["lost"][mine].sum()),
                    "energy_j": energy_j,
                    "active_j": float(columns["active_j"][mine].sum()),
                    "mean_power_w": float(columns["mean_power_w"][mine].sum()),
                    "j_per_success": energy_j / completed if completed else math.nan,
                    "carbon_g": float(columns["carbon_g"][mine].sum()),
                    "concurrency": _ratio(running_s[mine].sum(), loaded_s[mine].sum()),
                    "utilization": _ratio(running_s[mine].sum(), (loaded_s * slots)[mine].sum()),
                    "p99_ttft_s": self.percentile("ttft_s", 99, name),
                    "p99_e2e_s": self.percentile("e2e_s", 99, name),
                }
            )
        return found

    def per_class(self) -> list[dict[str, Any]]:
        """Completed and rejected, with reasons, by class of requests that occurred."""
        return [
            {
                "class": label,
                "completed": int(row[SUCCESS]),
                "rejected": int(row[SUCCESS + 1 :].sum()),
                "rejections": {s.name.lower(): int(row[s]) for s in Status if s > SUCCESS and row[s]},
            }
            for label, row in zip(self.classes, self._tally, strict=True)
            if row.any()
        ]

    def apportioned(self, rule: str) -> Floats:
        """J per request (n,) with the energy of idle, warming, empty and down instances spread over completed ones.

        `per_request` in equal parts, `by_active_energy` in proportion to what each spent, `by_output_tokens`. The sum
        is the energy of the run, but for what unfinished and failed requests spent. Needs the requests.
        """
        if rule not in APPORTION:
            raise FleetError(f"there is no rule {rule!r}.", fix=f"use one of {', '.join(APPORTION)}")
        if self.requests is None:
            raise FleetError("the requests of this run were not kept.", fix="simulate with keep_requests=True")
        log = self.requests
        weight = {
            "per_request": np.ones(len(log.energy_j)),
            "by_active_energy": log.energy_j,
            "by_output_tokens": log.workload.l_out.astype(np.float64),
        }[rule] * log.completed
        rest = self.energy_j - self.energy_by_state_j["active"]
        total = float(weight.sum())
        return log.energy_j + (weight * (rest / total) if total > 0 else 0.0)

    def summary(self) -> dict[str, Any]:
        """Plain values, units in the names; NaN where something is not identifiable."""
        latency = {f"p{q}_{metric}": self.percentile(metric, q) for metric in METRICS for q in (50, 95, 99)}
        return {
            "policy": self.policy,
            "seed": self.seed,
            "ended": self.ended.name.lower(),
            "end_s": self.end_s,
            "offered": self.offered,
            "completed": self.completed,
            "rejected": self.rejected,
            "rejections": self.rejections,
            "in_flight": self.in_flight,
            "success_rate": self.success_rate,
            "slo_attainment": self.slo_attainment,
            **latency,
            "energy_j": self.energy_j,
            "energy_by_state_j": self.energy_by_state_j,
            "wasted_j": self.wasted_j,
            "j_per_success": self.j_per_success,
            "active_j_per_success": self.active_j_per_success,
            "output_tokens": self.output_tokens,
            "tokens_per_j": self.tokens_per_j,
            "mean_power_w": self.mean_power_w,
            "carbon_g": self.carbon_g,
            "intensity_version": self.intensity_version,
            "cost_usd": self.cost_usd,
            "utilization": self.utilization,
            "throughput_per_s": self.completed / self.end_s if self.end_s > 0 else math.nan,
            "retries": self.retries,
            "fallbacks": self.fallbacks,
            "decisions": self.decisions,
            "flips": self.flips,
            "redirected": int(self._counters["redirected"]),
            "session_hits": int(self._counters["affine"]),
            "evidence_class": self.evidence_class.value,
            "quality": self.quality.value,
            "pools": self.per_pool(),
        }

    @property
    def _accounts(self) -> Any:
        return self.memory["accounts"].reshape(-1, len(Mode))

    @property
    def _tally(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.memory["tally"]["value"].reshape(-1, len(Status))
        return found

    @property
    def _counters(self) -> Any:
        return self.memory.record


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b > 0 else math.nan


def _from_bins(counts: NDArray[np.int64], q: float) -> float:
    """Percentile from a log-linear histogram, linear within its bin; NaN where it is empty."""
    total = int(counts.sum())
    if not total:
        return math.nan
    reached = np.cumsum(counts)
    rank = q / 100 * (total - 1) + 0.5
    k = int(np.searchsorted(reached, rank))
    if k == 0:
        return 0.0
    low, high = _edge(k), _edge(k + 1)
    return low + (high - low) * (rank - (int(reached[k]) - int(counts[k]))) / int(counts[k])


def _edge(k: int) -> float:
    octave, part = divmod(k, 1 << SUB_BITS)
    return float(2.0 ** (LOW_EXPONENT + octave) * (1 + part / (1 << SUB_BITS)))
