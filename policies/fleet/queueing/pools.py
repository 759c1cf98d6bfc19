"""A pool of equal instances, and what queueing says about it. Figures are of the whole pool unless they say instance
or board."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from policies.fleet.errors import QueueInvalid
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.power.profiles import Profile
from policies.fleet.queueing.lengths import Lengths
from policies.fleet.traces import Trace
from warehouse.evidence import lowest_quality, weakest

Workload = LengthCdf | Trace | Lengths


@dataclass(frozen=True)
class Pool:
    """What is asked of equal instances of one profile.

    concurrency_cap: requests at once per instance, below its slots (vLLM `max_num_seqs`).
    extrapolate: whether power may be asked for outside the range that its parameters come from.
    Raises QueueInvalid.
    """

    name: str
    profile: Profile
    context_tokens: int  # longest request, prompt and output
    requests_per_s: float
    workload: Workload
    concurrency_cap: int | None = None
    extrapolate: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.requests_per_s) and self.requests_per_s >= 0):
            raise QueueInvalid(f"{self.requests_per_s} requests/s for pool {self.name}.", fix="give 0 or more")
        if self.concurrency_cap is not None and self.concurrency_cap < 1:
            raise QueueInvalid(f"a cap of {self.concurrency_cap} requests at once.", fix="give 1 or more, or no cap")

    @property
    def slots(self) -> int:
        """Requests at once per instance. Raises CapacityZero, ProfileIncomplete."""
        own = self.profile.n_slots(self.context_tokens)
        return own if self.concurrency_cap is None else min(own, self.concurrency_cap)

    def capped(self, concurrency: int) -> Pool:
        return replace(self, concurrency_cap=concurrency)


@dataclass(frozen=True)
class PoolResult:
    """What a pool of `instances` does under its load. NaN: the convention does not tell; infinite: the queue grows.

    j_per_request and tokens per joule are those of the requests that are really carried. `tokens_per_j` counts
    output tokens, `total_tokens_per_j` prompt tokens too. `paper_normalised_*` divide the work of an instance by the
    power or price of one of its boards, as some papers do; they are no efficiency of anything.
    """

    pool: str
    convention: str
    profile: str
    logical_model: str
    hardware_model: str
    instances: int
    boards_per_instance: int
    slots: int
    requests_per_s: float  # offered
    carried_per_s: float
    too_long_share: float  # of offered requests, that no slot holds: rejected (peer: cut)
    capacity_per_s: float
    utilization: float
    stable: bool
    slo_met: bool
    quantile: float
    concurrency: float  # mean requests at once per instance
    wait_probability: float
    wait_mean_s: float
    wait_s: float  # at the quantile, like the next two
    ttft_s: float
    itl_s: float
    ttft_mean_s: float
    tpot_mean_s: float
    e2e_mean_s: float
    power_w: float
    instance_power_w: float
    board_power_w: float
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    tokens_per_j: float
    total_tokens_per_j: float
    paper_normalised_tokens_per_j: float
    paper_normalised_power_w: float
    j_per_request: float
    prefill_j_per_request: float
    decode_j_per_request: float
    idle_j_per_request: float
    j_per_output_token: float
    usd_per_hour: float
    usd_per_million_output_tokens: float
    paper_normalised_usd_per_million_output_tokens: float
    evidence_class: str
    quality: str
    presentable: bool
    notes: tuple[str, ...]

    @property
    def boards(self) -> int:
        return self.instances * self.boards_per_instance

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; what is not known or not finite is None."""
        return {**plain(asdict(self)), "boards": self.boards}


@dataclass(frozen=True)
class FleetResult:
    """Pools together. Work and watts add up, so their quotient is no mean of the pools' quotients."""

    name: str
    convention: str
    pools: tuple[PoolResult, ...]
    models: dict[str, float]  # logical model -> share of the carried requests
    instances: int
    boards: int
    requests_per_s: float
    carried_per_s: float
    stable: bool
    slo_met: bool
    ttft_worst_s: float  # of the pools, at the quantile
    power_w: float
    output_tokens_per_s: float
    tokens_per_j: float
    total_tokens_per_j: float
    paper_normalised_tokens_per_j: float
    paper_normalised_power_w: float
    j_per_request: float
    usd_per_hour: float
    usd_per_million_output_tokens: float
    evidence_class: str
    quality: str
    presentable: bool
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; what is not known or not finite is None."""
        return {**plain(asdict(self)), "pools": [p.to_dict() for p in self.pools]}


def fleet(name: str, pools: list[PoolResult]) -> FleetResult:
    """The pools of one fleet as one. Raises QueueInvalid for none, or for pools of two conventions."""
    conventions = {p.convention for p in pools}
    if len(conventions) != 1:
        raise QueueInvalid(f"the fleet {name} has pools of {len(conventions)} conventions.", fix="work all out by one")
    power, paper_w = sum(p.power_w for p in pools), sum(p.paper_normalised_power_w for p in pools)
    carried, output = sum(p.carried_per_s for p in pools), sum(p.output_tokens_per_s for p in pools)
    total = output + sum(p.prompt_tokens_per_s for p in pools)
    models: dict[str, float] = {}
    for p in pools:
        models[p.logical_model] = models.get(p.logical_model, 0.0) + ratio(p.carried_per_s, carried)
    usd = sum(p.usd_per_hour for p in pools)
    quality = lowest_quality(p.quality for p in pools)
    evidence = weakest(p.evidence_class for p in pools)
    assert quality is not None and evidence is not None  # there is a pool
    return FleetResult(
        name=name,
        convention=conventions.pop(),
        pools=tuple(pools),
        models=models,
        instances=sum(p.instances for p in pools),
        boards=sum(p.boards for p in pools),
        requests_per_s=sum(p.requests_per_s for p in pools),
        carried_per_s=carried,
        stable=all(p.stable for p in pools),
        slo_met=all(p.slo_met for p in pools),
        ttft_worst_s=max(p.ttft_s for p in pools),
        power_w=power,
        output_tokens_per_s=output,
        tokens_per_j=ratio(output, power),
        total_tokens_per_j=ratio(total, power),
        paper_normalised_tokens_per_j=ratio(output, paper_w),
        paper_normalised_power_w=paper_w,
        j_per_request=ratio(power, carried),
        usd_per_hour=usd,
        usd_per_million_output_tokens=ratio(usd / 3600 * 1e6, output),
        evidence_class=evidence.value,
        quality=quality.value,
        presentable=all(p.presentable for p in pools),
        notes=tuple(dict.fromkeys(note for p in pools for note in p.notes)),
    )


def ratio(top: float, bottom: float) -> float:
    """NaN where there is nothing to divide by: an idle pool has no joules per request."""
    return top / bottom if bottom > 0 else math.nan


def plain(value: Any) -> Any:
    """JSON values: what is not finite becomes None, tuples become lists."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
