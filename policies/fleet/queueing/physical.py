"""A pool as it is: speed and power of the requests that really run, TTFT as a distribution, all boards counted.

What stays a model: requests are spread evenly, arrivals are Poisson, an iteration that carries prefill draws and lasts
like any other, KV cache is kept for a whole context per slot, and the queue's tail is Kimura's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.fleet.errors import CapacityZero, SloUnreachable
from policies.fleet.power.models import Array
from policies.fleet.queueing.convention import Convention, Slo
from policies.fleet.queueing.lengths import Lengths, lengths_of
from policies.fleet.queueing.occupancy import Occupancy, Speed, occupancy
from policies.fleet.queueing.pools import Pool, PoolResult, ratio
from policies.fleet.queueing.search import least
from policies.fleet.queueing.wait import Wait, tail

_NEGLIGIBLE = 1e-12  # share of a level that no figure shows
_SERVICE = "speed and power by the requests running at once, evenly spread; Poisson arrivals"


@dataclass(frozen=True)
class Service:
    """What serving `pool` takes, whatever the number of its instances. Lengths are of the requests that fit."""

    pool: Pool
    lengths: Lengths
    fitting: float  # share of the requests that a slot holds
    slots: int

    @classmethod
    def of(cls, pool: Pool) -> Service:
        """Raises CapacityZero where no request fits, ProfileIncomplete."""
        asked = lengths_of(pool.workload, prompt_share=Convention.PHYSICAL.prompt_share)
        fitting, _, share = asked.split(pool.context_tokens)
        if fitting is None:
            raise CapacityZero(
                f"no request of pool {pool.name} fits into {pool.context_tokens} tokens.",
                fix=f"give a context of {int(asked.total_tokens.min())} tokens or more",
            )
        return cls(pool, fitting, share, pool.slots)

    @property
    def requests_per_s(self) -> float:
        """Of those that fit."""
        return self.pool.requests_per_s * self.fitting

    @cached_property
    def chunks(self) -> Array:
        """Iterations of prefill, per kind of request."""
        (size,) = self.pool.profile.need("chunk_tokens")
        return np.ceil(self.lengths.prompt_tokens / size)

    @cached_property
    def speed(self) -> Speed:
        """Iterations last by the tokens of all running requests; on average each counts for those that it holds,
        weighted by how long it runs."""
        p, iterations = self.lengths.probability, self.chunks + self.lengths.output_tokens
        mean = float(iterations @ p)
        context = float((iterations * self.lengths.total_tokens) @ p) / mean
        profile = self.pool.profile
        alone, busy = profile.iteration_ms(0, context) / 1e3, profile.iteration_ms(1, context) / 1e3
        return Speed(mean, alone, busy - alone)

    @cached_property
    def cv2(self) -> float:
        """Of the service time. All requests of a batch share its iterations, so it is that of their number."""
        p, iterations = self.lengths.probability, self.chunks + self.lengths.output_tokens
        mean = float(iterations @ p)
        return max(0.0, float(iterations**2 @ p) / mean**2 - 1)

    @cached_property
    def prefill(self) -> tuple[Array, Array]:
        """(distinct numbers of prefill iterations, their probabilities)."""
        counts, place = np.unique(self.chunks, return_inverse=True)
        return counts, np.bincount(place, self.lengths.probability).astype(np.float64)

    @property
    def capacity_per_s(self) -> float:
        """Requests per second of one instance with all slots busy."""
        return float(self.speed.ends_per_s(np.array([float(self.slots)]))[0])

    def at(self, instances: int) -> Occupancy:
        return occupancy(instances, self.slots, self.requests_per_s, self.speed)

    def wait(self, found: Occupancy) -> Wait:
        return tail(found.waiting, found.capacity_per_s, self.requests_per_s, self.cv2)


def evaluate(pool: Pool, instances: int, slo: Slo) -> PoolResult:
    """`instances` under the load of `pool`. Raises CapacityZero, ProfileIncomplete, ExtrapolationRefused."""
    return evaluate_service(Service.of(pool), instances, slo)


def evaluate_service(service: Service, instances: int, slo: Slo) -> PoolResult:
    """The same for a pool whose service is worked out already."""
    pool, profile = service.pool, service.pool.profile
    found = service.at(instances)
    wait = service.wait(found)
    carried = min(service.requests_per_s, found.capacity_per_s)
    levels = np.arange(service.slots + 1, dtype=np.float64)
    shown = found.time > _NEGLIGIBLE
    watts = np.zeros(service.slots + 1)
    watts[shown] = profile.power.power_w(levels[shown], extrapolate=pool.extrapolate)
    instance_w = float(watts @ found.time)
    idle_j = ratio(instances * float(watts[0] * found.time[0]), carried)
    request_j = ratio(instances * instance_w, carried)
    prefill_share = float(service.prefill[0] @ service.prefill[1]) / service.speed.iterations
    prompt, output = carried * service.lengths.prompt_mean, carried * service.lengths.output_mean
    ttft = ttft_quantile_s(service, found, wait, slo.quantile)
    itl = _itl_quantile_s(service, found, slo.quantile)
    tpot = ratio(found.mean * instances, carried * service.speed.iterations)
    power, paper_w = instances * instance_w, instances * instance_w / profile.hardware_count
    usd = profile.usd_per_hour
    usd_per_h = math.nan if usd is None else instances * profile.hardware_count * usd
    return PoolResult(
        pool=pool.name,
        convention=Convention.PHYSICAL.name,
        profile=profile.name,
        logical_model=profile.logical_model,
        hardware_model=profile.hardware_model,
        instances=instances,
        boards_per_instance=profile.hardware_count,
        slots=service.slots,
        requests_per_s=pool.requests_per_s,
        carried_per_s=carried,
        too_long_share=1 - service.fitting,
        capacity_per_s=found.capacity_per_s,
        utilization=found.utilization,
        stable=found.stable,
        slo_met=_meets(found, ttft, itl, slo),
        quantile=slo.quantile,
        concurrency=found.mean,
        wait_probability=wait.probability,
        wait_mean_s=wait.mean_s,
        wait_s=wait.quantile_s(slo.quantile),
        ttft_s=ttft,
        itl_s=itl,
        ttft_mean_s=wait.mean_s + _prefill_mean_s(service, found),
        tpot_mean_s=tpot,
        e2e_mean_s=wait.mean_s + ratio(found.mean * instances, carried),
        power_w=power,
        instance_power_w=instance_w,
        board_power_w=instance_w / profile.hardware_count,
        prompt_tokens_per_s=prompt,
        output_tokens_per_s=output,
        tokens_per_j=ratio(output, power),
        total_tokens_per_j=ratio(prompt + output, power),
        paper_normalised_tokens_per_j=ratio(output, paper_w),
        paper_normalised_power_w=paper_w,
        j_per_request=request_j,
        prefill_j_per_request=(request_j - idle_j) * prefill_share,
        decode_j_per_request=(request_j - idle_j) * (1 - prefill_share),
        idle_j_per_request=idle_j,
        j_per_output_token=ratio(power, output),
        usd_per_hour=usd_per_h,
        usd_per_million_output_tokens=ratio(usd_per_h / 3600 * 1e6, output),
        paper_normalised_usd_per_million_output_tokens=ratio(usd_per_h / profile.hardware_count / 3600 * 1e6, output),
        evidence_class=profile.evidence_class.value,
        quality=profile.quality_effective.value,
        presentable=profile.presentable,
        notes=(f"lengths: {service.lengths.told}", _SERVICE, profile.words, *_outside(service, levels[shown])),
    )


def instances_for(pool: Pool, slo: Slo) -> int:
    """Least instances that keep the SLO. Raises SloUnreachable where no number does, naming the floor."""
    service = Service.of(pool)
    _refuse_floor(service, slo)

    def keeps(instances: int) -> bool:
        found = service.at(instances)
        ttft = ttft_quantile_s(service, found, service.wait(found), slo.quantile)
        return _meets(found, ttft, _itl_quantile_s(service, found, slo.quantile), slo)

    def refuse(n: int) -> Exception:
        return SloUnreachable(f"{n} instances of pool {pool.name} do not keep the SLO.", fix="loosen the SLO")

    return least(keeps, instances_at(pool, slo.utilization_max), refuse=refuse)


def instances_at(pool: Pool, utilization: float) -> int:
    """Least whole number at which load / capacity stays within `utilization`."""
    service = Service.of(pool)
    load = service.requests_per_s / service.capacity_per_s
    return max(1, math.ceil(load / utilization * (1 - 1e-12)))


def ttft_quantile_s(service: Service, found: Occupancy, wait: Wait, quantile: float) -> float:
    """Time to the first token: wait and prefill, which runs at the speed that the request meets on its arrival."""
    if not found.stable:
        return math.inf
    counts, chance = service.prefill
    level = np.flatnonzero(found.starts > _NEGLIGIBLE)
    at_once = np.outer(service.speed.iteration(level.astype(np.float64)), counts).ravel()
    share = np.outer(found.starts[level], chance).ravel()
    order = np.argsort(at_once, kind="stable")
    at_once, below = at_once[order], np.cumsum(share[order])
    full = counts * float(service.speed.iteration(np.array([float(service.slots)]))[0])
    lost = 1 - below[-1] - found.waiting if len(below) else 0.0  # levels that were left out

    def reached(seconds: float) -> float:
        place = int(np.searchsorted(at_once, seconds, side="right"))
        started = float(below[place - 1]) if place else 0.0
        late = np.maximum(seconds - full, 0.0)
        return started + lost + found.waiting * float(chance @ (1 - np.exp(-wait.decay_per_s * late)))

    target = quantile * (1 - 1e-12)
    low, high = 0.0, float(full[-1])
    while reached(high) < target:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if reached(middle) >= target else (middle, high)
    return high


def _itl_quantile_s(service: Service, found: Occupancy, quantile: float) -> float:
    """Time between two tokens, over all tokens: an iteration of n requests yields n of them."""
    levels = np.arange(1, service.slots + 1, dtype=np.float64)
    seconds = service.speed.iteration(levels)
    tokens = found.time[1:] * levels / seconds
    if not tokens.sum() > 0:
        return math.nan
    reached = np.cumsum(tokens) / tokens.sum()
    return float(seconds[min(int(np.searchsorted(reached, quantile * (1 - 1e-12))), len(seconds) - 1)])


def _prefill_mean_s(service: Service, found: Occupancy) -> float:
    counts, chance = service.prefill
    seconds = service.speed.iteration(np.arange(service.slots + 1, dtype=np.float64))
    return float(counts @ chance) * float(seconds @ found.starts + seconds[-1] * found.waiting)


def _meets(found: Occupancy, ttft: float, itl: float, slo: Slo) -> bool:
    smooth = slo.itl_s is None or not itl > slo.itl_s
    return found.utilization <= slo.utilization_max * (1 + 1e-9) and ttft <= slo.ttft_s and smooth


def _refuse_floor(service: Service, slo: Slo) -> None:
    """What no number of instances can better: a request that runs alone."""
    counts, chance = service.prefill
    alone = float(service.speed.iteration(np.array([1.0]))[0])
    place = int(np.searchsorted(np.cumsum(chance), slo.quantile * (1 - 1e-12)))
    floor = alone * float(counts[min(place, len(counts) - 1)])
    if floor > slo.ttft_s:
        raise SloUnreachable(
            f"prefill alone takes {floor:.3f} s at the quantile {slo.quantile:g}, the SLO is {slo.ttft_s:g} s.",
            fix="loosen the SLO, shorten the context or choose a faster profile",
        )
    if slo.itl_s is not None and alone > slo.itl_s:
        raise SloUnreachable(
            f"an iteration of one request alone takes {alone:.4f} s, the SLO between tokens is {slo.itl_s:g} s.",
            fix="loosen the SLO or choose a faster profile",
        )


def _outside(service: Service, levels: Array) -> tuple[str, ...]:
    """Marks an extrapolation that was asked for."""
    outside = service.pool.profile.power.outside(levels)
    if not outside.any():
        return ()
    far = levels[outside]
    return (f"power at {far.min():g} to {far.max():g} requests at once is extrapolated",)
