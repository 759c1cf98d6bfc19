"""Data structures of the loop: a heap per instance, a tournament over instances, lists of equally loaded instances.

Every operation costs O(log slots), O(log instances) or O(1), and allocates nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from policies.fleet.sim.layout import (
    LOW_EXPONENT,
    OCTAVES,
    SUB_BITS,
    bucket_of,
    deployment_of,
    instance,
    node_of,
    pool_of,
    slot,
)
from policies.kernels import part

_LOW = (LOW_EXPONENT + 1023) << SUB_BITS
_BINS = OCTAVES << SUB_BITS


@part
def push(s: Any, i: int, key: float, row: int) -> None:
    """Put a request on the heap of instance i, whose `running` does not count it yet."""
    k = instance(s, i).running
    while k > 0:
        up = (k - 1) >> 1
        if slot(s, i * s.width + up).due <= key:
            break
        slot(s, i * s.width + k).due = slot(s, i * s.width + up).due
        slot(s, i * s.width + k).row = slot(s, i * s.width + up).row
        k = up
    slot(s, i * s.width + k).due = key
    slot(s, i * s.width + k).row = row


@part
def pop(s: Any, i: int) -> None:
    """Take the first request off the heap of instance i, whose `running` still counts it."""
    last = instance(s, i).running - 1
    key, row = slot(s, i * s.width + last).due, slot(s, i * s.width + last).row
    k, child = 0, 1
    while child < last:
        if child + 1 < last and slot(s, i * s.width + child + 1).due < slot(s, i * s.width + child).due:
            child += 1
        if key <= slot(s, i * s.width + child).due:
            break
        slot(s, i * s.width + k).due = slot(s, i * s.width + child).due
        slot(s, i * s.width + k).row = slot(s, i * s.width + child).row
        k, child = child, 2 * child + 1
    slot(s, i * s.width + k).due = key
    slot(s, i * s.width + k).row = row


@part
def schedule(s: Any, i: int, at_s: float) -> None:
    """Tell the tournament when the next event of instance i is due."""
    node_of(s, i).next_s = at_s
    node = (i + s.leaves) >> 1
    while node > 0:
        left, right = node_of(s, 2 * node).winner, node_of(s, 2 * node + 1).winner
        best = left if node_of(s, left).next_s <= node_of(s, right).next_s else right
        if node_of(s, node).winner == best and best != i:
            break  # the same winner with the same time: nothing changes above
        node_of(s, node).winner = best
        node >>= 1


@part
def uniform(seed: int, a: int, b: int) -> float:
    """A number in [0, 1) that depends on its three arguments alone (splitmix64), so that policies can be paired."""
    x = np.uint64(seed) + np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xD1B54A32D192ED03)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) * 1.1102230246251565e-16


@part
def bin_of(seconds: float) -> int:
    """Bin of a log-linear histogram; what lies outside goes to the first or the last."""
    if not seconds > 0.0:
        return 0
    bits = np.float64(seconds).view(np.int64)
    found = (bits >> (52 - SUB_BITS)) - _LOW
    return min(max(int(found), 0), _BINS - 1)


@part
def _link(s: Any, i: int) -> None:
    me = instance(s, i)
    pool = pool_of(s, me.pool)
    bucket = min(me.seen, pool.buckets - 1)
    at = pool.bucket_at + bucket
    tail = bucket_of(s, at).tail
    me.before = tail
    me.after = -1
    if tail < 0:
        bucket_of(s, at).head = i
    else:
        instance(s, tail).after = i
    bucket_of(s, at).tail = i
    if bucket < pool.least:
        pool.least = bucket
    if bucket > pool.most:
        pool.most = bucket


@part
def _unlink(s: Any, i: int) -> None:
    me = instance(s, i)
    pool = pool_of(s, me.pool)
    at = pool.bucket_at + min(me.seen, pool.buckets - 1)
    if me.before < 0:
        bucket_of(s, at).head = me.after
    else:
        instance(s, me.before).after = me.after
    if me.after < 0:
        bucket_of(s, at).tail = me.before
    else:
        instance(s, me.after).before = me.before


@part
def _settle_least(s: Any, p: int) -> None:
    pool = pool_of(s, p)
    while pool.least < pool.buckets - 1 and bucket_of(s, pool.bucket_at + pool.least).head < 0:
        pool.least += 1


@part
def relist(s: Any, i: int, seen: int) -> None:
    """The balancer now sees `seen` requests on instance i."""
    me = instance(s, i)
    if me.listed == 0:
        me.seen = seen
        return
    if seen == me.seen:
        return
    _unlink(s, i)
    pool_of(s, me.pool).load += seen - me.seen
    me.seen = seen
    _link(s, i)
    _settle_least(s, me.pool)


@part
def enlist(s: Any, i: int) -> None:
    """Instance i takes requests from now on."""
    me = instance(s, i)
    if me.listed == 1:
        return
    pool = pool_of(s, me.pool)
    me.listed = 1
    me.position = pool.up
    instance(s, pool.first + pool.up).member = i
    pool.up += 1
    pool.load += me.seen
    pool.slots += deployment_of(s, me.deployment).slots
    pool.dark += me.dark
    _link(s, i)


@part
def delist(s: Any, i: int) -> None:
    """Instance i takes no requests from now on."""
    me = instance(s, i)
    if me.listed == 0:
        return
    pool = pool_of(s, me.pool)
    me.listed = 0
    pool.up -= 1
    moved = instance(s, pool.first + pool.up).member
    instance(s, pool.first + me.position).member = moved
    instance(s, moved).position = me.position
    pool.load -= me.seen
    pool.slots -= deployment_of(s, me.deployment).slots
    pool.dark -= me.dark
    _unlink(s, i)
    _settle_least(s, me.pool)
