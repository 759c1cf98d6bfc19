"""How a request leaves the fleet: counted, measured and written down."""

from __future__ import annotations

from typing import Any

from policies.fleet.sim.layout import BINS, METRICS, Status, histogram, instance, log_of, request, tally
from policies.fleet.sim.structures import bin_of
from policies.kernels import part

COMPLETED = int(Status.COMPLETED)
MEASURES = len(METRICS)


@part
def _leave(s: Any, row: int, joules: float, now: float) -> None:
    """A request leaves the fleet with its status."""
    it = request(s, row)
    tally(s, it.kind * s.status_count + it.status).value += 1
    s.in_flight -= 1
    request(s, s.free).free = row
    s.free += 1
    if s.keep == 1:
        log = log_of(s, it.id)
        log.status = it.status
        log.attempts = it.attempt
        log.end_s = now
        log.energy_j = joules


@part
def reject(s: Any, row: int, now: float) -> None:
    """A request leaves the fleet without an answer; `status` says why."""
    s.rejected_j += request(s, row).prior_j
    _leave(s, row, request(s, row).prior_j, now)


@part
def complete(s: Any, i: int, row: int, joules: float, now: float) -> None:
    it = request(s, row)
    it.status = COMPLETED
    s.completed_j += joules
    _measure(s, row, i, now)
    if s.keep == 1:
        log = log_of(s, it.id)
        log.instance = i
        log.start_s = it.start_s
        log.first_s = it.first_s
    _leave(s, row, joules, now)


@part
def _measure(s: Any, row: int, i: int, now: float) -> None:
    me, it = instance(s, i), request(s, row)
    me.completed += 1
    me.output_tokens += it.l_out
    ttft, total = it.first_s - it.arrival_s, now - it.arrival_s
    per_token = (now - it.first_s) / it.l_out
    if ttft <= s.ttft_s and per_token <= s.tpot_s and total <= s.e2e_s:
        me.slo_met += 1
    if it.arrival_s >= s.settle_s:
        s.measured += 1
        if s.keep == 0:
            _count(s, me.pool, 0, ttft)
            _count(s, me.pool, 1, per_token)
            _count(s, me.pool, 2, total)
            _count(s, me.pool, 3, it.start_s - it.arrival_s)


@part
def _count(s: Any, pool: int, measure: int, seconds: float) -> None:
    histogram(s, (pool * MEASURES + measure) * BINS + bin_of(seconds)).value += 1
