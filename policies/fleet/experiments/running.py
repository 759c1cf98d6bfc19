"""Many runs on all cores, with progress, and with an end at once where somebody cancels."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

from policies.fleet.errors import CapacityZero
from policies.fleet.experiments.figures import Run, run_figures
from policies.fleet.experiments.resolve import Resolved
from policies.fleet.queueing import Pool as QueuePool
from policies.fleet.queueing.physical import Service
from policies.fleet.sim import Scenario, simulate

Step = Callable[[str, int, int], None]  # what is done, how many of how many; raises where the run was cancelled
K = TypeVar("K")
_LOOK_EVERY_S = 0.1


def silent(stage: str, done: int, total: int) -> None:
    """For who does not watch."""


class _Stopped(Exception):
    """No error: it ends the other threads."""


def run_all(jobs: Sequence[tuple[K, Scenario, Resolved]], step: Step, stage: str = "simulating") -> list[tuple[K, Run]]:
    """Every job, in the order given. The first error, or a cancelled `step`, ends those that still run.

    Results are reduced to figures in their thread, so that requests of one run at a time per core are held.
    """
    stop = threading.Event()

    def watch(_: int) -> None:
        if stop.is_set():
            raise _Stopped

    def work(scenario: Scenario, found: Resolved) -> Run:
        watch(0)
        return run_figures(simulate(scenario, watch), found, capacity_per_s(found, scenario))

    found: dict[int, Run] = {}
    step(stage, 0, len(jobs))
    with ThreadPoolExecutor(min(os.cpu_count() or 1, max(len(jobs), 1))) as threads:
        places = {threads.submit(work, scenario, r): i for i, (_, scenario, r) in enumerate(jobs)}
        pending = set(places)
        try:
            while pending:
                ended, pending = wait(pending, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                found.update({places[future]: future.result() for future in ended})
                step(stage, len(found), len(jobs))  # also while one long run goes on: it may be cancelled
        except BaseException:  # Ctrl+C too: threads that nobody waits for would simulate on; raised again below
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return [(key, found[i]) for i, (key, _, _) in enumerate(jobs)]


def capacity_per_s(found: Resolved, scenario: Scenario) -> float:
    """Requests a second that the fleet carries with all slots busy, if each pool got this mix of lengths.

    NaN where a pool holds no request of the mix.
    """
    lengths = found.source.lengths
    total = 0.0
    for pool in scenario.pools:
        asked = QueuePool(
            pool.name,
            pool.profile,
            pool.context_tokens,
            0.0,
            lengths,
            concurrency_cap=pool.slots,
            extrapolate=pool.extrapolate,
        )
        try:
            total += (pool.instances - pool.parked) * Service.of(asked).capacity_per_s
        except CapacityZero:
            return math.nan
    return total
