"""The event loop: arrivals, the next event of every instance, scheduled changes and telemetry, in order of time.

At one instant, scheduled changes come first, then instances, then telemetry, then arrivals.
"""

from __future__ import annotations

import math
from typing import Any

from policies.fleet.sim.changing import apply, report
from policies.fleet.sim.layout import (
    Ended,
    Floats,
    Ints,
    Stage,
    change_of,
    instance,
    log_of,
    node_of,
    pool_of,
    request,
    slot,
)
from policies.fleet.sim.placing import again, place
from policies.fleet.sim.serving import advance, changed, expire, finish, ready
from policies.fleet.sim.structures import enlist
from policies.kernels import jit, part

UP, DRAINING, WARMING, EMPTY, DOWN = (int(stage) for stage in Stage)
MORE, DRAINED, HORIZON, BUDGET = (int(x) for x in (Ended.MORE, Ended.DRAINED, Ended.HORIZON, Ended.EVENT_BUDGET))


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
            apply(s, now)
            change = _change_at(s)
        elif served <= now:
            _serve(s, i, now)
        elif tick <= now:
            report(s, now)
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
