"""Where a request goes: the eligible set, its session's instance, the balancer, and who else is asked."""

from __future__ import annotations

from typing import Any

from policies.fleet.sim.choosing import SLO_UNREACHABLE, STALE_CARBON, STALE_TELEMETRY, aware, head, oblivious
from policies.fleet.sim.layout import Balance, Status, deployment_of, eligible, home, instance, pool_of, request
from policies.fleet.sim.leaving import reject
from policies.fleet.sim.serving import offer
from policies.kernels import part

NO_BACKEND, TOO_LONG = int(Status.NO_ELIGIBLE_BACKEND), int(Status.CONTEXT_TOO_LONG)
NO_HEALTHY, QUEUE_FULL = int(Status.NO_HEALTHY_BACKEND), int(Status.QUEUE_FULL)
SLO_REFUSED, FAILED, PLACED = int(Status.SLO_UNREACHABLE), int(Status.FAILED), int(Status.IN_FLIGHT)
ENERGY_AWARE = int(Balance.ENERGY_AWARE)


@part
def again(s: Any, row: int, now: float) -> None:
    """Another attempt at once, where one is left."""
    it = request(s, row)
    if it.attempt >= s.max_attempts:
        it.status = FAILED
        reject(s, row, now)
        return
    it.attempt += 1
    s.retries += 1
    place(s, row, now)


@part
def place(s: Any, row: int, now: float) -> None:
    """Route and balance one request; it ends with a reason where nothing takes it."""
    request(s, row).status = _place(s, row, now)
    if request(s, row).status != PLACED:
        reject(s, row, now)


@part
def _place(s: Any, row: int, now: float) -> int:
    m, reason = _allow(s, row)
    if m == 0:
        return reason
    it = request(s, row)
    affine = s.affinity == 1 and it.session >= 0
    if affine:
        i = home(s, it.session).value
        it.reused = 1
        if i >= 0 and _may_stay(s, i, m) and offer(s, i, row, now):
            s.affine += 1
            return PLACED
    it.reused = 0
    i = _choose(s, m, row, now)
    if i < 0:
        return SLO_REFUSED
    if not offer(s, i, row, now):
        i = _redirect(s, m, row, now)
        if i < 0:
            return QUEUE_FULL
    if affine:
        home(s, it.session).value = i
    return PLACED


@part
def _allow(s: Any, row: int) -> tuple[int, int]:
    """Fill `allowed` in the order of preference; how many, and the reason where there is none."""
    it = request(s, row)
    tokens = it.l_in + it.l_out
    m, reason = 0, NO_BACKEND
    for k in range(s.pool_count):
        p = pool_of(s, k).preferred
        if eligible(s, it.kind * s.pool_count + p).yes == 0:
            continue
        pool = pool_of(s, p)
        if tokens > pool.context:
            if reason == NO_BACKEND:
                reason = TOO_LONG
        elif pool.up == 0:
            reason = NO_HEALTHY
        else:
            pool_of(s, m).allowed = p
            m += 1
    return m, reason


@part
def _may_stay(s: Any, i: int, m: int) -> bool:
    """A session stays where it was while that pool is allowed and the instance has a free slot."""
    me = instance(s, i)
    if me.seen >= deployment_of(s, me.deployment).slots:
        return False
    found = False
    for k in range(m):
        found = found or pool_of(s, k).allowed == me.pool
    return found


@part
def _choose(s: Any, m: int, row: int, now: float) -> int:
    """An instance, or -1 where the SLO is out of reach and such requests are refused."""
    if s.policy < ENERGY_AWARE:
        return oblivious(s, s.policy, m, row)
    s.decisions += 1
    i = aware(s, s.policy, m, row, now)
    if i >= 0:
        return i
    if i == STALE_TELEMETRY:
        s.fallback_telemetry += 1
    elif i == STALE_CARBON:
        s.fallback_carbon += 1
    elif i == SLO_UNREACHABLE:
        if s.reject_on_slo == 1:
            return -1
        s.fallback_slo += 1
    return oblivious(s, s.fallback, m, row)


@part
def _redirect(s: Any, m: int, row: int, now: float) -> int:
    """The chosen instance refused: the least loaded one of each allowed pool is asked; -1 where all refuse."""
    for k in range(m):
        i = head(s, pool_of(s, k).allowed)
        if i >= 0 and offer(s, i, row, now):
            s.redirected += 1
            return i
    return -1
