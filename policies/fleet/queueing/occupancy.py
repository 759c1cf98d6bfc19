"""How many requests run at once on an instance, and how often all slots are taken.

An instance with n requests ends n / (E[K] (W + h n)) of them per second: K iterations per request, each of W plus h for
every running request. Speed depends on n, so this is no M/M/c: it is a birth-death chain over the requests in the
pool, with Erlang-C as its special case h = 0. Below all slots busy it holds for any distribution of K (processor
sharing with state-dependent speed is insensitive to it; Kelly, Reversibility and Stochastic Networks, 1979, section
3.3); beyond, the queue is Kimura's (`wait`). Requests are spread evenly: an instance runs floor or ceil of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policies.fleet.errors import QueueInvalid
from policies.fleet.power.models import Array

_WIDE = 300_000  # states that are always looked at all


@dataclass(frozen=True)
class Speed:
    """What makes an instance fast or slow: iterations of a request, seconds of an iteration without and per request."""

    iterations: float
    iteration_s: float
    per_request_s: float

    def iteration(self, concurrency: Array) -> Array:
        return self.iteration_s + self.per_request_s * concurrency

    def ends_per_s(self, concurrency: Array) -> Array:
        """Requests that an instance ends per second, by the requests that it runs."""
        return np.where(
            concurrency > 0, concurrency / (self.iterations * self.iteration(np.maximum(concurrency, 1.0))), 0.0
        )


@dataclass(frozen=True)
class Occupancy:
    """Shares by level 0 … slots: of time that an instance runs so many, of arrivals that start as the so-many-th.

    `waiting` is the share of arrivals that find all slots taken; they are in no level of `starts`.
    """

    time: Array  # (slots + 1,), sums to 1
    starts: Array  # (slots + 1,), sums to 1 - waiting
    waiting: float
    capacity_per_s: float  # of the pool with all slots busy
    utilization: float  # offered / capacity

    @property
    def stable(self) -> bool:
        return self.utilization < 1

    @property
    def mean(self) -> float:
        """Requests at once on an instance."""
        return float(np.arange(len(self.time)) @ self.time)


def occupancy(instances: int, slots: int, requests_per_s: float, speed: Speed) -> Occupancy:
    """Raises QueueInvalid where a number makes no pool."""
    if instances < 1 or slots < 1:
        raise QueueInvalid(f"{instances} instances of {slots} slots.", fix="give 1 or more of each")
    if not requests_per_s >= 0:
        raise QueueInvalid(f"{requests_per_s} requests/s.", fix="give 0 or more")
    ends = speed.ends_per_s(np.arange(slots + 1, dtype=np.float64))
    capacity = float(instances * ends[-1])
    utilization = requests_per_s / capacity
    if utilization >= 1:
        return Occupancy(_at(slots, slots), np.zeros(slots + 1), 1.0, capacity, utilization)
    if requests_per_s == 0:
        return Occupancy(_at(0, slots), _at(1, slots), 0.0, capacity, 0.0)
    low, high = _window(instances, slots, requests_per_s, speed)
    k = np.arange(low, high + 1)
    level, rest = np.divmod(k, instances)
    upper = rest / instances  # share of the instances that run one more than `level`
    leaving = instances * ((1 - upper) * ends[level] + upper * ends[np.minimum(level + 1, slots)])
    log_weight = np.zeros(len(k))
    np.cumsum(math.log(requests_per_s) - np.log(leaving[1:]), out=log_weight[1:])
    weight = np.exp(log_weight - log_weight.max())
    top = instances * slots
    if high == top:
        weight[-1] /= 1 - utilization  # this state and all those with a queue
    weight /= weight.sum()
    time: Array = np.bincount(level, weight * (1 - upper), slots + 2).astype(np.float64)
    time += np.bincount(level + 1, weight * upper, slots + 2)
    free = k < top
    starts: Array = np.bincount(level[free] + 1, weight[free], slots + 2).astype(np.float64)
    waiting = float(weight[-1]) if high == top else 0.0
    return Occupancy(time[: slots + 1], starts[: slots + 1], waiting, capacity, utilization)


def _at(level: int, slots: int) -> Array:
    shares = np.zeros(slots + 1)
    shares[level] = 1.0
    return shares


def _window(instances: int, slots: int, requests_per_s: float, speed: Speed) -> tuple[int, int]:
    """The states that matter: everything outside weighs less than e^-800 of the likeliest."""
    top = instances * slots
    if top <= _WIDE:
        return 0, top
    work = requests_per_s * speed.iterations
    left = 1 - work * speed.per_request_s / instances
    likeliest = min(work * speed.iteration_s / left, top) if left > 0 else float(top)
    slowing = 1 + speed.per_request_s * likeliest / instances / speed.iteration_s if speed.iteration_s else 1e3
    width = 60 * math.sqrt(likeliest * slowing) + 200
    return max(0, int(likeliest - width)), min(top, int(likeliest + width))
