"""What happens on one instance: time passes, requests start, end, wait and are lost.

Continuous batching as a fluid: all running requests advance at the speed of the iteration,
`W + H / calibration_ctx * (tokens of all running requests)`, so a request of ceil(l_in / chunk) + l_out iterations ends
when the instance has done that many more. The instance therefore keeps one clock, `done`, and a heap of the values at
which its requests end; between two events speed and power are constant and every integral is exact.

Joules of running requests are shared equally: `share_j` counts what one running request would have got since the
instance was last idle, and a request's energy is the difference of two readings.
"""

from __future__ import annotations

import math
from typing import Any

from policies.fleet.sim.layout import (
    Mode,
    Stage,
    Status,
    account_of,
    deployment_of,
    instance,
    pending,
    pool_of,
    request,
    slot,
    watts,
    zone_of,
)
from policies.fleet.sim.leaving import complete, reject
from policies.fleet.sim.structures import enlist, pop, push, relist, schedule, uniform
from policies.kernels import part

ACTIVE, IDLE = int(Mode.ACTIVE), int(Mode.IDLE)
UP, DRAINING, WARMING, EMPTY, DOWN = (int(stage) for stage in Stage)
WAIT_TOO_LONG = int(Status.WAIT_TOO_LONG)
MODES = len(Mode)
_MODE_OF_STATE = (IDLE, IDLE, int(Mode.WARMING), int(Mode.EMPTY), int(Mode.DOWN))


@part
def advance(s: Any, i: int, now: float) -> None:
    """Settle the account of instance i until `now`."""
    me = instance(s, i)
    elapsed = now - me.at_s
    if elapsed <= 0.0:
        return
    joules = me.power_w * elapsed
    account = account_of(s, i * MODES + me.mode)
    account.energy_j += joules
    account.carbon_g += joules * zone_of(s, me.zone).g_per_j
    account.time_s += elapsed
    if me.running > 0:
        me.share_j += me.share_w * elapsed
        me.running_s += me.running * elapsed
        done = me.done + elapsed * me.rate
        if done >= me.first_due:
            _first_tokens(s, i, done)
        me.done = done
    me.at_s = now


@part
def _first_tokens(s: Any, i: int, done: float) -> None:
    """Note when first tokens appeared between `me.done` and `done`."""
    me = instance(s, i)
    k, least = 0, math.inf
    while k < me.pending:
        due = pending(s, i * s.width + k).due
        if due <= done:
            request(s, pending(s, i * s.width + k).row).first_s = me.at_s + (due - me.done) * me.iteration_s
            me.pending -= 1
            pending(s, i * s.width + k).due = pending(s, i * s.width + me.pending).due
            pending(s, i * s.width + k).row = pending(s, i * s.width + me.pending).row
        else:
            least = min(least, due)
            k += 1
    me.first_due = least


@part
def retune(s: Any, i: int) -> None:
    """Speed, power and next event of instance i after its requests or its state changed; its account is settled."""
    me = instance(s, i)
    deployment = deployment_of(s, me.deployment)
    if me.running > 0:
        me.mode = ACTIVE
        me.power_w = watts(s, deployment.power_at + me.running).value
        me.share_w = me.power_w / me.running
        if s.analytic == 0:
            me.iteration_s = deployment.w_s + deployment.h_s * me.context
            me.rate = 1.0 / me.iteration_s
        due = me.at_s + max(slot(s, i * s.width + 0).due - me.done, 0.0) * me.iteration_s
        if me.queue_head >= 0:
            due = min(due, request(s, me.queue_head).start_s + pool_of(s, me.pool).max_wait_s)
    else:
        _idle(s, i)
        due = me.warm_at_s if me.state == WARMING else math.inf
    schedule(s, i, due)


@part
def _idle(s: Any, i: int) -> None:
    """Nothing runs: the clocks start anew, so that their resolution does not fade in a long run."""
    me = instance(s, i)
    deployment = deployment_of(s, me.deployment)
    me.done = 0.0
    me.share_j = 0.0
    me.context = 0.0
    me.first_due = math.inf
    me.mode = _MODE_OF_STATE[me.state]
    if me.state == EMPTY:
        me.power_w = deployment.empty_w
    elif me.state == DOWN:
        me.power_w = deployment.down_w
    else:
        me.power_w = watts(s, deployment.power_at).value


@part
def observe(s: Any, i: int) -> None:
    """The balancer learns the true state of instance i."""
    me = instance(s, i)
    me.seen_context = me.context
    me.seen_blocks = me.blocks
    relist(s, i, me.running + me.waiting)


@part
def changed(s: Any, i: int) -> None:
    """After every event on instance i."""
    retune(s, i)
    if s.telemetry == 0:
        observe(s, i)


@part
def blocks_of(s: Any, i: int, row: int) -> int:
    """KV blocks of a request: all that it will need, so that nothing is ever preempted."""
    size = deployment_of(s, instance(s, i).deployment).block_tokens
    return int((request(s, row).l_in + request(s, row).l_out + size - 1) // size)


@part
def fits(s: Any, i: int, blocks: int) -> bool:
    me = instance(s, i)
    deployment = deployment_of(s, me.deployment)
    return bool(me.running < deployment.slots and me.blocks + blocks <= deployment.kv_blocks)


@part
def start(s: Any, i: int, row: int, now: float) -> None:
    """Request `row` begins its service; the account of the instance is settled and the caller calls `changed`."""
    me, it = instance(s, i), request(s, row)
    deployment = deployment_of(s, me.deployment)
    tokens = it.l_in + it.l_out
    prompt = it.l_in
    if it.reused == 1:
        prompt = max(int(prompt * (1.0 - s.reuse)), 1)
    prefill = float((prompt + deployment.chunk - 1) // deployment.chunk)
    work = prefill + it.l_out
    if s.analytic == 1:
        work *= deployment.w_s + deployment.h_s * tokens * deployment.slots
        prefill = min(prefill * deployment.alone_s, work)
        me.iteration_s = 1.0
        me.rate = 1.0
    push(s, i, me.done + work, row)
    pending(s, i * s.width + me.pending).due = me.done + prefill
    pending(s, i * s.width + me.pending).row = row
    me.pending += 1
    me.first_due = min(me.first_due, me.done + prefill)
    me.running += 1
    me.context += tokens
    me.blocks += it.blocks
    me.started += 1
    it.start_s = now
    it.base_j = me.share_j


@part
def offer(s: Any, i: int, row: int, now: float) -> bool:
    """Hand a request to instance i: it starts, waits there, or is refused (False)."""
    me, it = instance(s, i), request(s, row)
    if me.listed == 0:
        return False
    it.blocks = blocks_of(s, i, row)
    if me.waiting == 0 and fits(s, i, it.blocks):
        advance(s, i, now)
        start(s, i, row, now)
    elif me.waiting < pool_of(s, me.pool).queue_limit:
        it.start_s = now
        it.next = -1
        if me.queue_head < 0:
            me.queue_head = row
        else:
            request(s, me.queue_tail).next = row
        me.queue_tail = row
        me.waiting += 1
        advance(s, i, now)
    else:
        return False
    if s.telemetry == 1:
        me.seen_context += it.l_in + it.l_out
        me.seen_blocks += it.blocks
        relist(s, i, me.seen + 1)
    changed(s, i)
    return True


@part
def unqueue(s: Any, i: int) -> int:
    """Take the head off the queue of instance i."""
    me = instance(s, i)
    row = me.queue_head
    me.queue_head = request(s, row).next
    if me.queue_head < 0:
        me.queue_tail = -1
    me.waiting -= 1
    return int(row)


@part
def _admit(s: Any, i: int, now: float) -> None:
    """Start what waits, first come first served: the head waits for room even where a smaller one would fit."""
    me = instance(s, i)
    while me.waiting > 0 and fits(s, i, request(s, me.queue_head).blocks):
        start(s, i, unqueue(s, i), now)


@part
def finish(s: Any, i: int, now: float) -> int:
    """The first running request of instance i ends. Returns its row where its answer is an error, else -1."""
    me = instance(s, i)
    deployment = deployment_of(s, me.deployment)
    advance(s, i, now)
    row = slot(s, i * s.width + 0).row
    me.done = slot(s, i * s.width + 0).due
    if me.first_due <= me.done:
        _first_tokens(s, i, me.done)
    it = request(s, row)
    pop(s, i)
    me.running -= 1
    me.context -= it.l_in + it.l_out
    me.blocks -= it.blocks
    spent = me.share_j - it.base_j
    failed = -1
    if deployment.error_rate > 0.0 and uniform(s.seed, it.id, 3 + it.attempt) < deployment.error_rate:
        lose(s, i, row, spent)
        failed = row
    else:
        complete(s, i, row, it.prior_j + spent, now)
    if me.running == 0:
        _idle(s, i)
    _admit(s, i, now)
    if me.state == DRAINING and me.running == 0 and me.waiting == 0:
        drained(s, i, now)
    changed(s, i)
    return int(failed)


@part
def lose(s: Any, i: int, row: int, spent: float) -> None:
    """An attempt ends without an answer: its joules stay with the request and count as wasted."""
    me = instance(s, i)
    request(s, row).prior_j += spent
    me.wasted_j += spent
    me.lost += 1


@part
def expire(s: Any, i: int, now: float) -> None:
    """The head of the queue has waited for too long."""
    advance(s, i, now)
    row = unqueue(s, i)
    request(s, row).status = WAIT_TOO_LONG
    reject(s, row, now)
    _admit(s, i, now)  # what is behind it may be smaller
    changed(s, i)


@part
def drained(s: Any, i: int, now: float) -> None:
    """An instance that drains holds nothing any more: it parks or warms up with its next deployment."""
    me = instance(s, i)
    if me.next_deployment < 0:
        me.state = EMPTY
    else:
        me.deployment = me.next_deployment
        me.next_deployment = -1
        warm(s, i, now)


@part
def warm(s: Any, i: int, now: float) -> None:
    me = instance(s, i)
    me.state = WARMING
    me.warm_at_s = now + deployment_of(s, me.deployment).warmup_s


@part
def ready(s: Any, i: int, now: float) -> None:
    """Warm-up is over."""
    me = instance(s, i)
    advance(s, i, now)
    me.state = UP
    me.seen = 0
    me.seen_context = 0.0
    me.seen_blocks = 0
    me.seen_at_s = now
    me.dark = 0
    if me.healthy == 1:
        enlist(s, i)
    changed(s, i)
