"""What became of each request of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import FleetError
from policies.fleet.sim.layout import METRICS, Floats, Ints, Status
from policies.fleet.sim.workload import Workload


@dataclass(frozen=True)
class RequestLog:
    """Per request (n,), in order of arrival; NaN where there is no such time, instance -1 where none answered."""

    workload: Workload
    status: NDArray[np.int16]
    attempts: NDArray[np.int16]
    instance: Ints
    pool: Ints
    start_s: Floats  # of the attempt that was answered
    first_s: Floats
    end_s: Floats  # of service, or of rejection
    energy_j: Floats  # of all attempts; the energy of idle instances is not in it

    @property
    def completed(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.status == Status.COMPLETED
        return found

    @property
    def ttft_s(self) -> Floats:
        """Queue wait and prefill, with lost attempts."""
        return self.first_s - self.workload.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Decoding per output token: one iteration each."""
        return (self.end_s - self.first_s) / self.workload.l_out

    @property
    def e2e_s(self) -> Floats:
        return np.where(self.completed, self.end_s - self.workload.arrival_s, np.nan)

    @property
    def wait_s(self) -> Floats:
        return self.start_s - self.workload.arrival_s

    def latency(self, metric: str) -> Floats:
        if metric not in METRICS:
            raise FleetError(f"there is no latency {metric!r}.", fix=f"use one of {', '.join(METRICS)}")
        found: Floats = getattr(self, metric)
        return found
