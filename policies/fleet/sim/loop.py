"""The event loop: arrivals, the next event of every instance, scheduled changes and telemetry, in order of time.

At one instant, scheduled changes come first, then instances, then telemetry, then arrivals.
"""

from __future__ import annotations

import math
from typing import Any

from policies.fleet.sim.choosing import (
    SLO_UNREACHABLE,
    STALE_CARBON,
    STALE_TELEMETRY,
    aware,
    head,
    oblivious,
)
from policies.fleet.sim.layout import (
    Balance,
    Change,
    Ended,
    Floats,
    Ints,
    Stage,
    Status,
    change_of,
    deployment_of,
    eligible,
    home,
    instance,
    log_of,
    node_of,
    pending,
    pool_of,
    request,
    slot,
    zone_of,
)
from policies.fleet.sim.serving import (
    advance,
    changed,
    drained,
    expire,
    finish,
    lose,
    observe,
    offer,
    ready,
    reject,
    unqueue,
    warm,
)
from policies.fleet.sim.structures import delist, enlist, pop, uniform
from policies.kernels import jit, part

UP, DRAINING, WARMING, EMPTY, DOWN = (int(stage) for stage in Stage)
MORE, DRAINED, HORIZON, BUDGET = (int(x) for x in (Ended.MORE, Ended.DRAINED, Ended.HORIZON, Ended.EVENT_BUDGET))
FAIL, START, PARK, REDEPLOY = int(Change.FAIL), int(Change.START), int(Change.PARK), int(Change.REDEPLOY)
UNHEALTHY, HEALTHY = int(Change.UNHEALTHY), int(Change.HEALTHY)
NO_BACKEND, TOO_LONG, NO_HEALTHY = (
    int(Status.NO_ELIGIBLE_BACKEND),
    int(Status.CONTEXT_TOO_LONG),
    int(Status.NO_HEALTHY_BACKEND),
)
QUEUE_FULL, SLO_REFUSED, FAILED = int(Status.QUEUE_FULL), int(Status.SLO_UNREACHABLE), int(Status.FAILED)
ENERGY_AWARE = int(Balance.ENERGY_AWARE)
PLACED = int(Status.IN_FLIGHT)


@jit
def events(s: Any, arrival_s: Floats, l_in: Ints, l_out: Ints, kind: Ints, session: Ints, last: bool) -> int:
    """Run until the arrivals are used up (and, where they are the last, until all is served). Returns Ended.

    Arrays of a portion of requests, in order of arrival; `session` is empty where none matter. The request table
    must have a free row for each.
    """
    taken, n = 0, len(arrival_s)
    arrival = arrival_s[0] if n > 0 else math.inf
    change = _change_at(s)
    tick = _tick_at(s)
    while True:
        if taken == n:
            if not last:
                return MORE
            if s.in_flight == 0 and s.horizon_s == math.inf:
                return DRAINED
        i = node_of(s, 1).winner
        served = node_of(s, i).next_s
        now = min(min(served, arrival), min(change, tick))
        if now > s.horizon_s or (now == math.inf):
            return HORIZON if s.in_flight > 0 or taken < n else DRAINED
        if s.happened >= s.event_budget:
            return BUDGET
        s.happened += 1
        s.now_s = now
        if change <= now:
            _apply(s, now)
            change = _change_at(s)
        elif served <= now:
            _serve(s, i, now)
        elif tick <= now:
            _telemetry(s, now)
            tick = _tick_at(s)
        else:
            row = _take(s, arrival, l_in[taken], l_out[taken], kind[taken])
            if len(session) > 0:
                request(s, row).session = session[taken]
            place(s, row, now)
            taken += 1
            arrival = arrival_s[taken] if taken < n else math.inf


@part
def _change_at(s: Any) -> float:
    change = s.change
    return float(change_of(s, change).at_s) if change < s.change_count else math.inf


@part
def _tick_at(s: Any) -> float:
    """Instances report in turn, each once per interval."""
    if s.telemetry == 0:
        return math.inf
    return float((s.tick + 1) * (s.interval_s / s.instance_count))


@part
def _take(s: Any, arrival: float, l_in: int, l_out: int, kind: int) -> int:
    s.free -= 1
    row = request(s, s.free).free
    it = request(s, row)
    it.arrival_s = arrival
    it.prior_j = 0.0
    it.id = s.offered
    it.l_in = l_in
    it.l_out = l_out
    it.kind = kind
    it.session = -1
    it.attempt = 1
    s.offered += 1
    s.in_flight += 1
    return int(row)


@part
def _serve(s: Any, i: int, now: float) -> None:
    me = instance(s, i)
    if me.state == WARMING:
        ready(s, i, now)
        return
    if me.queue_head >= 0:
        due = me.at_s + max(slot(s, i * s.width + 0).due - me.done, 0.0) * me.iteration_s
        if request(s, me.queue_head).start_s + pool_of(s, me.pool).max_wait_s < due:
            expire(s, i, now)
            return
    failed = finish(s, i, now)
    if failed >= 0:
        again(s, failed, now)


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


@part
def _telemetry(s: Any, now: float) -> None:
    i = s.tick % s.instance_count
    missed = uniform(s.seed, s.tick, 1) < s.dropout
    s.tick += 1
    me = instance(s, i)
    if not missed:
        advance(s, i, now)
        observe(s, i)
        me.seen_at_s = now
        if me.dark == 1:
            me.dark = 0
            pool_of(s, me.pool).dark -= me.listed
    elif me.dark == 0 and now - me.seen_at_s > s.ttl_s:
        me.dark = 1
        pool_of(s, me.pool).dark += me.listed


@part
def _apply(s: Any, now: float) -> None:
    """The next scheduled change. One that does not apply (starting an instance that runs) does nothing."""
    event = change_of(s, s.change)
    s.change += 1
    i = event.target
    if event.kind == FAIL:
        _fail(s, i, now)
    elif event.kind == START:
        if instance(s, i).state == EMPTY or instance(s, i).state == DOWN:
            advance(s, i, now)
            if instance(s, i).next_deployment >= 0:
                instance(s, i).deployment = instance(s, i).next_deployment
                instance(s, i).next_deployment = -1
            warm(s, i, now)
            changed(s, i)
    elif event.kind == PARK or event.kind == REDEPLOY:
        _drain(s, i, now, int(event.value) if event.kind == REDEPLOY else -1)
    elif event.kind == UNHEALTHY:
        instance(s, i).healthy = 0
        delist(s, i)
    elif event.kind == HEALTHY:
        instance(s, i).healthy = 1
        if instance(s, i).state == UP:
            enlist(s, i)
    else:
        for j in range(s.instance_count):
            if instance(s, j).zone == i:
                advance(s, j, now)
        zone_of(s, i).g_per_j = event.value
        zone_of(s, i).told_s = now


@part
def _drain(s: Any, i: int, now: float, deployment: int) -> None:
    me = instance(s, i)
    me.next_deployment = deployment
    if me.state == DOWN:
        return  # it starts with that deployment
    delist(s, i)
    advance(s, i, now)
    me.state = DRAINING
    if me.running == 0:
        drained(s, i, now)
    changed(s, i)


@part
def _fail(s: Any, i: int, now: float) -> None:
    """All that the instance holds is lost: joules so far are wasted, and each request is tried again elsewhere."""
    me = instance(s, i)
    advance(s, i, now)
    delist(s, i)
    me.state = DOWN
    count = me.running
    for k in range(count):  # in the order in which they would have ended
        row = slot(s, i * s.width).row
        lose(s, i, row, me.share_j - request(s, row).base_j)
        pop(s, i)
        me.running -= 1
        pending(s, i * s.width + k).row = row
    me.pending = 0
    me.blocks = 0
    waiting = me.queue_head
    while me.waiting > 0:
        unqueue(s, i)
    changed(s, i)
    ahead = s.change
    while ahead < s.change_count and change_of(s, ahead).kind == FAIL and change_of(s, ahead).at_s <= now:
        delist(s, change_of(s, ahead).target)  # what fails at the same instant takes nothing over
        ahead += 1
    for k in range(count):
        again(s, pending(s, i * s.width + k).row, now)  # an instance that is down leaves that list alone
    while waiting >= 0:
        following = request(s, waiting).next
        place(s, waiting, now)  # not begun: no attempt is used up
        waiting = following


@jit
def close(s: Any, until_s: float) -> None:
    """Settle all accounts at the end, and the energy of what is still running."""
    for i in range(s.instance_count):
        advance(s, i, until_s)
        me = instance(s, i)
        for k in range(me.running):
            row = slot(s, i * s.width + k).row
            request(s, row).prior_j += me.share_j - request(s, row).base_j
            request(s, row).base_j = me.share_j
            if s.keep == 1:
                it = request(s, row)
                log = log_of(s, it.id)
                log.energy_j = it.prior_j
                log.start_s = it.start_s
                log.first_s = it.first_s
                log.instance = i
        row = me.queue_head
        while row >= 0:
            if s.keep == 1:
                log_of(s, request(s, row).id).energy_j = request(s, row).prior_j
            row = request(s, row).next


@jit
def begin(s: Any) -> None:
    """Before the first event: every instance in its state, those that are up in the balancer's lists."""
    for i in range(s.instance_count):
        if instance(s, i).state == UP:
            enlist(s, i)
        changed(s, i)
