"""The rules of the simulator, written down a second time: no virtual clock, no heap, every instance looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from policies.fleet.sim import Scenario, Status


@dataclass
class Request:
    id: int
    arrival_s: float
    l_in: int
    l_out: int
    kind: int
    start_s: float = math.nan
    first_s: float = math.nan
    end_s: float = math.nan
    left: float = 0.0  # iterations, or seconds at analytic speed
    to_first: float = 0.0
    energy_j: float = 0.0
    status: int = 0
    instance: int = -1
    attempt: int = 1


@dataclass
class Instance:
    pool: Any
    index: int
    stamp: int
    up: bool = True
    running: list[Request] = field(default_factory=list)
    queue: list[Request] = field(default_factory=list)
    idle_j: float = 0.0
    down_s: float = 0.0

    @property
    def load(self) -> int:
        return len(self.running) + len(self.queue)


class Naive:
    """Supports round_robin, least_loaded and spillover, failures for good, retries, both speeds."""

    def __init__(self, scenario: Scenario) -> None:
        self.x = scenario
        self.routed = scenario.routing.apply(scenario.workload, [p.name for p in scenario.pools])
        self.all = [Instance(p, i, i) for i, p in enumerate(p for p in scenario.pools for _ in range(p.instances))]
        self.members = {p.name: [i for i in self.all if i.pool is p] for p in scenario.pools}  # in the order of turns
        self.done: list[Request] = []
        self.stamps, self.turn, self.turns, self.now = len(self.all), 0, {}, 0.0

    def touch(self, it: Instance) -> None:
        it.stamp = self.stamps = self.stamps + 1

    def slots(self, pool: Any) -> int:
        return pool.deployments["base"].slots_at(pool.context_tokens)

    def rate(self, it: Instance) -> float:
        if self.x.speed == "analytic":
            return 1.0
        p = it.pool.profile
        tokens = sum(r.l_in + r.l_out for r in it.running)
        return 1e3 / (p.W_ms + p.H_ms_per_seq * tokens / p.calibration_ctx)

    def blocks(self, r: Request, pool: Any) -> int:
        return math.ceil((r.l_in + r.l_out) / pool.profile.block_tokens)

    def fits(self, it: Instance, r: Request) -> bool:
        held = sum(self.blocks(other, it.pool) for other in it.running)
        return len(it.running) < self.slots(it.pool) and held + self.blocks(r, it.pool) <= it.pool.profile.kv_blocks

    def begin(self, it: Instance, r: Request) -> None:
        p = it.pool.profile
        prefill = math.ceil(r.l_in / p.chunk_tokens)
        r.left, r.to_first = prefill + r.l_out, prefill
        if self.x.speed == "analytic":
            tokens = r.l_in + r.l_out
            r.left *= (p.W_ms + p.H_ms_per_seq * tokens / p.calibration_ctx * self.slots(it.pool)) / 1e3
            r.to_first = min(prefill * (p.W_ms + p.H_ms_per_seq) / 1e3, r.left)
        r.start_s, r.first_s = self.now, math.nan
        it.running.append(r)

    def advance(self, until: float) -> None:
        for it in self.all:
            span, n = until - self.now, len(it.running)
            if not it.up:
                it.down_s += span
            elif not n:
                it.idle_j += it.pool.profile.power.idle_loaded_w * span
            else:
                rate, share = self.rate(it), float(it.pool.profile.power.power_w(n)) / n
                for r in it.running:
                    r.energy_j += share * span
                    if math.isnan(r.first_s) and r.to_first <= span * rate + 1e-9:
                        r.first_s = self.now + r.to_first / rate
                    r.left -= span * rate
                    r.to_first -= span * rate
        self.now = until

    def due(self, it: Instance) -> tuple[float, int]:
        end = self.now + min((r.left for r in it.running), default=math.inf) / self.rate(it) if it.running else math.inf
        expiry = it.queue[0].start_s + it.pool.max_wait_s if it.queue else math.inf
        return (expiry, 1) if expiry < end else (end, 0)

    def close(self, r: Request, status: int) -> None:
        r.status, r.end_s = status, self.now
        self.done.append(r)

    def admit(self, it: Instance) -> None:
        while it.queue and self.fits(it, it.queue[0]):
            self.begin(it, it.queue.pop(0))
        self.touch(it)

    def offer(self, it: Instance, r: Request) -> bool:
        limit = math.inf if it.pool.queue_limit is None else it.pool.queue_limit
        if not it.queue and self.fits(it, r):
            self.begin(it, r)
        elif len(it.queue) < limit:
            r.start_s = self.now
            it.queue.append(r)
        else:
            return False
        self.touch(it)
        return True

    def least(self, pool: Any) -> Instance:
        return min((i for i in self.all if i.pool is pool and i.up), key=lambda i: (i.load, i.stamp))

    def choose(self, r: Request, pools: list[Any]) -> Instance:
        policy = self.x.balancer.policy
        up = [i for p in pools for i in self.members[p.name]]
        if policy == "round_robin":
            turn = self.turns.get(r.kind, 0)
            self.turns[r.kind] = turn + 1
            return up[turn % len(up)]
        if policy == "spillover":

            def use(p: Any) -> float:
                mine = [i for i in up if i.pool is p]
                return sum(i.load for i in mine) / (len(mine) * self.slots(p))

            below = [p for p in pools if use(p) < self.x.balancer.threshold]
            return self.least(below[0] if below else min(pools, key=use))
        if len(pools) == 1:
            return self.least(pools[0])
        turn, self.turn = self.turn, self.turn + 1
        heads = [self.least(pools[(turn + k) % len(pools)]) for k in range(len(pools))]
        return min(heads, key=lambda i: i.load / self.slots(i.pool))

    def place(self, r: Request) -> None:
        named = [p for k, p in enumerate(self.x.pools) if self.routed.eligible[r.kind, k]]
        long = [p for p in named if r.l_in + r.l_out <= p.context_tokens]
        pools = [p for p in long if any(i.up for i in self.all if i.pool is p)]
        if not pools:
            reason = Status.NO_HEALTHY_BACKEND if long else Status.CONTEXT_TOO_LONG
            return self.close(r, reason if named else Status.NO_ELIGIBLE_BACKEND)
        asked = [self.choose(r, pools)]
        if not self.offer(asked[0], r) and not any(self.offer(self.least(p), r) for p in pools):
            self.close(r, Status.QUEUE_FULL)
        return None

    def remove(self, it: Instance) -> None:
        """The last member takes the place of one that leaves."""
        members = self.members[it.pool.name]
        if it in members:
            last = members.pop()
            if last is not it:
                members[members.index(it)] = last

    def again(self, r: Request) -> None:
        if r.attempt >= self.x.max_attempts:
            return self.close(r, Status.FAILED)
        r.attempt += 1
        return self.place(r)

    def run(self) -> Naive:
        w = self.x.workload
        assert w is not None
        columns = (w.arrival_s, w.l_in, w.l_out, self.routed.kind)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        arrivals = [Request(k, *row) for k, row in enumerate(rows)]
        fails = sorted((c.at_s, i) for c in self.x.changes for i in c.instances)
        total = len(arrivals)
        while len(self.done) < total:
            soonest = min(self.all, key=lambda i: self.due(i)[0])
            at, expired = self.due(soonest)
            fail, arrival = fails[0][0] if fails else math.inf, arrivals[0].arrival_s if arrivals else math.inf
            self.advance(min(at, fail, arrival))
            if fail <= min(at, arrival):
                it = self.all[fails.pop(0)[1]]
                self.remove(it)
                it.up, lost, waiting, it.running, it.queue = False, it.running, it.queue, [], []
                for r in sorted(lost, key=lambda r: r.left):
                    self.again(r)
                for r in waiting:
                    self.place(r)
            elif at <= arrival and expired:
                self.close(soonest.queue.pop(0), Status.WAIT_TOO_LONG)
                self.admit(soonest)
            elif at <= arrival:
                r = min(soonest.running, key=lambda r: r.left)
                soonest.running.remove(r)
                r.instance = soonest.index
                self.close(r, Status.COMPLETED)
                self.admit(soonest)
            else:
                self.place(arrivals.pop(0))
        self.done.sort(key=lambda r: r.id)
        return self
