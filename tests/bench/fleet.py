"""The fleet simulator: requests per second with joules per request and capacity enforced, at 32 and 512 instances.

Floor in the same run: a bare event loop (arrivals, the least loaded instance by scan, one heap of completions), which
knows no slots, no speed that depends on load, no energy and no request. Times are CPU seconds, best of several,
because these machines are shared. The peer's figures are FleetSim's (vllm-project/semantic-router `src/fleet-sim`
at 3d48f8c9), measured on such a machine: 24 + 8 instances with its length router, and one pool of 512; it enforces
no capacity and has no energy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.fleet.power import published
from policies.fleet.sim import (
    Balancer,
    LengthCdf,
    Pool,
    Routing,
    Scenario,
    Workload,
    by_length,
    generate,
    simulate,
    stream,
    sweep,
)
from policies.fleet.sim.layout import LOG
from policies.kernels import jit
from tests.bench.timing import rounded
from tests.support import ROOT, SHARED

Array = NDArray[Any]

PEER_32, PEER_512 = 9_980.0, 806.0
_MADE = LengthCdf((64, 512, 1024, 2048, 4096, 8192), (0.01, 0.29, 0.4, 0.78, 0.9, 1.0), "made")


@dataclass(frozen=True)
class Sizes:
    requests: int = 1_000_000
    repeats: int = 5
    streamed: int = 10_000_000
    sweep_scenarios: int = 100
    sweep_requests: int = 100_000


def lengths() -> LengthCdf:
    """FleetSim's distribution of the Azure trace where it is at hand, else a made one of the same shape."""
    path = SHARED / "data" / "fleetsim_cdf" / "azure_cdf.json"
    return LengthCdf.from_pairs(json.loads(path.read_text()), "azure") if path.exists() else _MADE


def fleet(instances: int) -> list[Pool]:
    profile = published("A100-80GB")
    if instances == 32:  # the peer's documented example
        return [
            Pool(name="short", profile=profile, instances=24, context_tokens=6144),
            Pool(name="long", profile=profile, instances=8, context_tokens=65_536),
        ]
    return [Pool(name="all", profile=profile, instances=instances, context_tokens=8192)]


def scenario(instances: int, n: int, policy: str = "least_loaded", *, keep: bool = True) -> Scenario:
    """200 requests a second for every 32 instances."""
    return Scenario(
        pools=fleet(instances),
        workload=generate(n, 200.0 * instances / 32, lengths(), seed=42),
        routing=by_length([6144], [["short"], ["long"]]) if instances == 32 else Routing(),
        balancer=Balancer(policy=policy),
        keep_requests=keep,
    )


@jit
def bare_loop(
    arrival_s: NDArray[Any], service_s: NDArray[Any], load: NDArray[Any], due: NDArray[Any], at: NDArray[Any]
) -> float:
    """The floor; due and at (n,) are room for the heap. Returns the sum of end times."""
    size, total = 0, 0.0
    for k in range(len(arrival_s)):
        now = arrival_s[k]
        while size > 0 and due[0] <= now:
            load[at[0]] -= 1
            size -= 1
            key, value = due[size], at[size]
            hole, child = 0, 1
            while child < size:
                if child + 1 < size and due[child + 1] < due[child]:
                    child += 1
                if key <= due[child]:
                    break
                due[hole], at[hole] = due[child], at[child]
                hole, child = child, 2 * child + 1
            due[hole], at[hole] = key, value
        best = 0
        for i in range(1, len(load)):
            if load[i] < load[best]:
                best = i
        load[best] += 1
        end = now + service_s[k]
        total += end
        hole = size
        size += 1
        while hole > 0 and due[(hole - 1) >> 1] > end:
            due[hole], at[hole] = due[(hole - 1) >> 1], at[(hole - 1) >> 1]
            hole = (hole - 1) >> 1
        due[hole], at[hole] = end, best
    return total


def floor_of(made: Workload, instances: int) -> Callable[[], Any]:
    """The bare loop on the same requests, with the service times of a moderately filled instance."""
    service_s = (np.ceil(made.l_in / 512) + made.l_out) * 12e-3
    n = len(made)

    def work() -> None:
        bare_loop(made.arrival_s, service_s, np.zeros(instances, np.int32), np.zeros(n), np.zeros(n, np.int32))

    return work


def cpu_s(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def speed(sizes: Sizes, instances: int) -> dict[str, Any]:
    kept = scenario(instances, sizes.requests)
    assert kept.workload is not None
    works: dict[str, Callable[[], Any]] = {
        "requests_per_s": lambda: simulate(kept),
        "floor_requests_per_s": floor_of(kept.workload, instances),
        "requests_per_s_aggregates_only": lambda: simulate(replace(kept, keep_requests=False)),
        "requests_per_s_energy_aware": lambda: simulate(kept.with_policy("energy_aware")),
    }
    for work in works.values():
        work()
    best = {name: min(cpu_s(work) for _ in range(sizes.repeats)) for name, work in works.items()}
    told = {f"{name}_{instances}_instances": sizes.requests / seconds for name, seconds in best.items()}
    peer = PEER_32 if instances == 32 else PEER_512
    return told | {
        f"ratio_to_floor_{instances}_instances": best["floor_requests_per_s"] / best["requests_per_s"],
        f"times_peer_{instances}_instances": told[f"requests_per_s_{instances}_instances"] / peer,
    }


def compiling() -> dict[str, Any]:
    """Seconds of CPU until the first small run is done, with an empty cache and with a full one."""
    code = (
        "import time, sys; t = time.process_time(); from tests.bench.fleet import scenario, simulate; "
        "simulate(scenario(32, 1000)); print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": folder}
        cold, warm = (float(_apart(["-c", code], environment)) for _ in range(2))
    return {"compile_s_cold": cold, "compile_s_warm": warm}


def sweeping(sizes: Sizes) -> dict[str, Any]:
    """The same scenarios one after the other and on all cores, in seconds of the clock."""
    base = scenario(32, sizes.sweep_requests, keep=False)
    made = [replace(base.with_policy(p), seed=k) for k in range(sizes.sweep_scenarios // 2) for p in _TWO]
    seconds = {}
    for workers in (1, os.cpu_count() or 1):
        started = time.perf_counter()
        sweep(made, workers=workers)
        seconds[workers] = time.perf_counter() - started
    one, all_cores = seconds[1], seconds[os.cpu_count() or 1]
    return {
        "sweep_scenarios": len(made),
        "sweep_requests_each": sizes.sweep_requests,
        "sweep_one_core_s": one,
        "sweep_all_cores_s": all_cores,
        "sweep_cores": os.cpu_count(),
        "sweep_speedup": one / all_cores,
    }


_TWO = ("least_loaded", "energy_aware")


def streaming(sizes: Sizes) -> dict[str, Any]:
    """Peak memory of a process that streams a tenth of the requests, and all."""
    code = "import sys; from tests.bench.fleet import stream_here; stream_here(int(sys.argv[1]))"
    tenth, whole = (
        json.loads(_apart(["-c", code, str(n)], {**os.environ, "PYTHONPATH": str(ROOT)}))
        for n in (sizes.streamed // 10, sizes.streamed)
    )
    return {
        "streamed_requests": sizes.streamed,
        "streamed_requests_per_s": sizes.streamed / whole["cpu_s"],
        "streamed_peak_mib": whole["peak_mib"],
        "streamed_tenth_peak_mib": tenth["peak_mib"],
        "streamed_rows_of_requests_in_flight": whole["rows"],
        "kept_bytes_per_request": LOG.itemsize,
    }


def stream_here(n: int) -> None:
    portion = 200_000

    def portions() -> Iterator[Workload]:
        start = 0.0
        for k in range(max(n // portion, 1)):
            made = generate(min(n, portion), 200.0, lengths(), seed=k)
            yield replace(made, arrival_s=made.arrival_s + start)
            start += float(made.arrival_s[-1])

    told = stream(replace(scenario(32, 1000, keep=False), workload=None), portions())
    assert told.conserved and told.offered == max(n // portion, 1) * min(n, portion)
    print(
        json.dumps(
            {
                "cpu_s": time.process_time(),
                "peak_mib": _peak_mib(),
                "rows": len(told.memory["requests"]),
            }
        )
    )


def _peak_mib() -> float:
    """Of this process alone: getrusage would begin with what its parent had."""
    told = Path("/proc/self/status").read_text()
    return int(told.split("VmHWM:")[1].split()[0]) / 1024


def _apart(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def run(sizes: Sizes = Sizes()) -> dict[str, Any]:
    figures: dict[str, Any] = {"sizes": asdict(sizes), "lengths": lengths().name}
    for part in (
        lambda: speed(sizes, 32),
        lambda: speed(sizes, 512),
        compiling,
        lambda: sweeping(sizes),
        lambda: streaming(sizes),
    ):
        figures |= part()
    return rounded(figures)
