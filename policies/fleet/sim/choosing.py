"""Load-balancing policies: which instance takes the request at hand.

`pool_of(s, k).allowed` for k < m are the pools that the router's eligible set, the context and health leave; no
policy looks elsewhere. Policies see `seen`, `seen_context` and `seen_blocks`, which are the truth only where telemetry
is perfect. Instances of a pool that look equally loaded form a list whose head was chosen longest ago, so ties are
broken fairly in O(1).
"""

from __future__ import annotations

import math
from typing import Any

from policies.fleet.sim.layout import (
    Balance,
    bucket_of,
    class_of,
    deployment_of,
    instance,
    pool_of,
    request,
    watts,
    zone_of,
)
from policies.fleet.sim.structures import uniform
from policies.kernels import part

RANDOM, ROUND_ROBIN, LEAST_LOADED = int(Balance.RANDOM), int(Balance.ROUND_ROBIN), int(Balance.LEAST_LOADED)
SPILLOVER, POWER_OF_TWO, PACK = int(Balance.SPILLOVER), int(Balance.POWER_OF_TWO), int(Balance.PACK)
STATIC, CARBON_AWARE = int(Balance.STATIC), int(Balance.CARBON_AWARE)
TRIES = 4
STALE_TELEMETRY, STALE_CARBON, SLO_UNREACHABLE = -1, -2, -3  # no choice, and why


@part
def oblivious(s: Any, policy: int, m: int, row: int) -> int:
    """An instance by a policy that knows nothing of energy; m > 0."""
    it = request(s, row)
    if policy == RANDOM:
        return _nth(s, m, uniform(s.seed, it.id, 11 + 16 * it.attempt))
    if policy == ROUND_ROBIN:
        turn = class_of(s, it.kind).turn
        class_of(s, it.kind).turn = turn + 1
        return _at(s, m, turn)
    if policy == POWER_OF_TWO:
        a = _nth(s, m, uniform(s.seed, it.id, 12 + 16 * it.attempt))
        b = _nth(s, m, uniform(s.seed, it.id, 13 + 16 * it.attempt))
        return a if _fill(s, a) <= _fill(s, b) else b
    if policy == STATIC:
        return head(s, pool_of(s, 0).allowed)
    if policy == SPILLOVER:
        return _spillover(s, m)
    if policy == PACK:
        return _pack(s, m)
    return least_loaded(s, m)


@part
def head(s: Any, p: int) -> int:
    """The least loaded instance of pool p, among equals the one chosen longest ago; -1 where none takes requests."""
    pool = pool_of(s, p)
    return int(bucket_of(s, pool.bucket_at + pool.least).head) if pool.up > 0 else -1


@part
def _fill(s: Any, i: int) -> float:
    """Requests per slot."""
    return float(instance(s, i).seen / deployment_of(s, instance(s, i).deployment).slots)


@part
def least_loaded(s: Any, m: int) -> int:
    if m == 1:
        return head(s, pool_of(s, 0).allowed)
    turn = s.turn
    s.turn = turn + 1
    best, found = math.inf, -1
    for k in range(m):
        i = head(s, pool_of(s, (turn + k) % m).allowed)
        fill = _fill(s, i)
        if fill < best:
            best, found = fill, i
    return found


@part
def _at(s: Any, m: int, turn: int) -> int:
    """The instance whose turn it is, over all allowed pools."""
    total = 0
    for k in range(m):
        total += pool_of(s, pool_of(s, k).allowed).up
    return _counted(s, m, turn % total)


@part
def _nth(s: Any, m: int, share: float) -> int:
    total = 0
    for k in range(m):
        total += pool_of(s, pool_of(s, k).allowed).up
    return _counted(s, m, min(int(share * total), total - 1))


@part
def _counted(s: Any, m: int, place: int) -> int:
    for k in range(m):
        pool = pool_of(s, pool_of(s, k).allowed)
        if place < pool.up:
            return int(instance(s, pool.first + place).member)
        place -= pool.up
    return -1


@part
def _spillover(s: Any, m: int) -> int:
    """The first pool below the threshold of utilization, else the least utilized one; least loaded within."""
    best, found = math.inf, pool_of(s, 0).allowed
    for k in range(m):
        pool = pool_of(s, pool_of(s, k).allowed)
        utilization = pool.load / pool.slots
        if utilization < s.threshold:
            return head(s, pool_of(s, k).allowed)
        if utilization < best:
            best, found = utilization, pool_of(s, k).allowed
    return head(s, found)


@part
def fullest(s: Any, p: int, below: int) -> int:
    """The most loaded instance of pool p that has fewer than `below` requests and a free slot; -1: none."""
    pool = pool_of(s, p)
    while pool.most > pool.least and bucket_of(s, pool.bucket_at + pool.most).head < 0:
        pool.most -= 1
    for bucket in range(min(below - 1, pool.most), pool.least - 1, -1):
        i = bucket_of(s, pool.bucket_at + bucket).head
        if i >= 0 and bucket < deployment_of(s, instance(s, i).deployment).slots:
            return int(i)
    return -1


@part
def _pack(s: Any, m: int) -> int:
    """Fill the fewest instances: the fullest with room, pool by pool."""
    for k in range(m):
        p = pool_of(s, k).allowed
        slots = deployment_of(s, instance(s, head(s, p)).deployment).slots
        i = fullest(s, p, max(int(s.pack_share * slots), 1))
        if i >= 0:
            return i
    return least_loaded(s, m)


@part
def aware(s: Any, policy: int, m: int, row: int, now: float) -> int:
    """The least expected marginal joules (grams, for the carbon-aware policy) per successful request.

    Per pool two instances are compared, the least loaded one and the fullest that keeps the limits: the joules that one
    more request costs first rise with concurrency and then fall, so the least stands at an end. Within hysteresis
    and dwell the class stays with its pool.
    """
    it = request(s, row)
    kind = class_of(s, it.kind)
    up, dark = 0, 0
    for k in range(m):
        up += pool_of(s, pool_of(s, k).allowed).up
        dark += pool_of(s, pool_of(s, k).allowed).dark
    if s.telemetry == 1 and dark > s.dark_share * up:
        return STALE_TELEMETRY
    best, found, best_pool = math.inf, -1, -1
    stay, stay_instance = math.inf, -1
    stale = False
    for k in range(m):
        p = pool_of(s, k).allowed
        weight = 1.0
        if s.telemetry == 1 and now - instance(s, head(s, p)).seen_at_s > s.ttl_s:
            if s.dark_share == 0.0:
                return STALE_TELEMETRY
            stale = True
            continue
        if policy == CARBON_AWARE:
            zone = pool_of(s, p).zone
            weight = zone_of(s, zone).g_per_j
            if not (weight >= 0.0 and now - zone_of(s, zone).told_s <= s.carbon_ttl_s):
                return STALE_CARBON
        i, cost = _candidate(s, p, row, now)
        cost *= weight
        if cost < best:
            best, found, best_pool = cost, i, p
        if p == kind.incumbent and cost < math.inf:
            stay, stay_instance = cost, i
    if best_pool < 0:
        return STALE_TELEMETRY if stale else SLO_UNREACHABLE
    if best_pool != kind.incumbent:
        held = now - kind.since_s < s.dwell_s
        if stay_instance >= 0 and (held or best >= stay - s.hysteresis * abs(stay)):
            return stay_instance
        if kind.incumbent >= 0:
            kind.flips += 1
        kind.incumbent = best_pool
        kind.since_s = now
    return found


@part
def _candidate(s: Any, p: int, row: int, now: float) -> tuple[int, float]:
    """The cheaper of two instances of pool p, and its expected joules; infinite where neither may serve."""
    low = head(s, p)
    cost = expected_j(s, low, row, now)
    below = _room(s, instance(s, low).deployment, row)
    for _ in range(TRIES):
        high = fullest(s, p, below)
        if high < 0 or high == low:
            break
        other = expected_j(s, high, row, now)
        if other < math.inf:
            return (high, other) if other < cost else (low, cost)
        below = instance(s, high).seen  # longer requests than the mean run there: the next fullest
    return low, cost


@part
def _room(s: Any, d: int, row: int) -> int:
    """How many requests of mean length deployment d may run so that one more keeps the SLO."""
    deployment = deployment_of(s, d)
    prefill = (request(s, row).l_in + deployment.chunk - 1) // deployment.chunk
    spare_s = min(s.tpot_s, s.ttft_s / prefill) - deployment.w_s
    if s.analytic == 1 or spare_s >= deployment.each_s * deployment.slots:
        return int(deployment.slots)
    return int(spare_s / deployment.each_s) if spare_s > 0.0 else 0


@part
def expected_j(s: Any, i: int, row: int, now: float) -> float:
    """Expected marginal joules of the request at hand on instance i, per success; infinite where it breaks a limit.

    While an instance runs n requests, an iteration costs a(n) = (P(n) - P_idle) tau(n) above its idle state, and one
    more request of K iterations makes K of them cost a(n + 1): its own power and the time that it takes from others.
    """
    me, it = instance(s, i), request(s, row)
    if s.telemetry == 1 and now - me.seen_at_s > s.ttl_s:
        return math.inf
    deployment = deployment_of(s, me.deployment)
    tokens = it.l_in + it.l_out
    prefill = (it.l_in + deployment.chunk - 1) // deployment.chunk
    work = prefill + class_of(s, it.kind).output_tokens
    waits = me.seen >= deployment.slots or (
        me.seen_blocks + (tokens + deployment.block_tokens - 1) // deployment.block_tokens > deployment.kv_blocks
    )
    n = min(me.seen, deployment.slots - 1)
    table, idle = deployment.power_at, watts(s, deployment.power_at).value
    if s.analytic == 1:
        before = deployment.w_s + deployment.h_s * tokens * deployment.slots
        after = before
        first = deployment.alone_s
    else:
        before = deployment.w_s + deployment.h_s * me.seen_context
        after = before + deployment.h_s * tokens
        first = after
    wait = 0.0
    if waits:
        queued = max(me.seen - deployment.slots, 0)
        if queued >= pool_of(s, me.pool).queue_limit:
            return math.inf
        # Till as many requests have ended: a sum of so many gaps, at its 99th percentile (normal approximation).
        wait = (queued + 1) * work * before / deployment.slots * (1.0 + 2.33 / math.sqrt(queued + 1))
    if wait + prefill * first > s.ttft_s or after > s.tpot_s or wait > pool_of(s, me.pool).max_wait_s:
        return math.inf
    if wait + work * after > s.e2e_s:
        return math.inf
    joules = work * ((watts(s, table + n + 1).value - idle) * after - (watts(s, table + n).value - idle) * before)
    served = 1.0 - deployment.error_rate
    if deployment.failure_rate > 0.0:
        served *= math.exp(-deployment.failure_rate * work * after)
    return float(joules / served) if served > 0.0 else math.inf
