"""What is scheduled: failures, starts, draining, redeployment, health, intensity; and reports of telemetry."""

from __future__ import annotations

from typing import Any

from policies.fleet.sim.layout import Change, Stage, change_of, instance, pending, pool_of, request, slot, zone_of
from policies.fleet.sim.placing import again, place
from policies.fleet.sim.serving import advance, changed, drained, lose, observe, unqueue, warm
from policies.fleet.sim.structures import delist, enlist, pop, uniform
from policies.kernels import part

UP, DRAINING, WARMING, EMPTY, DOWN = (int(stage) for stage in Stage)
FAIL, START, PARK, REDEPLOY = int(Change.FAIL), int(Change.START), int(Change.PARK), int(Change.REDEPLOY)
UNHEALTHY, HEALTHY = int(Change.UNHEALTHY), int(Change.HEALTHY)


@part
def report(s: Any, now: float) -> None:
    """The next instance in turn reports to the balancer, or its report is lost."""
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
def apply(s: Any, now: float) -> None:
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
    if me.state == DOWN or me.state == EMPTY:
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
