"""How long a request waits for a slot: M/G/c by Kimura's approximation.

    P(W > t) = C exp(-t 2 (c mu - lambda) / (1 + cv2))

C is Erlang-C, cv2 the squared coefficient of variation of the service time. The tail has mean
C (1 + cv2) / (2 (c mu - lambda)), the two-moment approximation of M/G/c (Kimura 1994; Lee and Longton 1959); it is
exact for M/M/c (cv2 = 1) and for M/G/1's mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.fleet.errors import QueueInvalid
from policies.fleet.queueing.erlang import erlang_c


@dataclass(frozen=True)
class Wait:
    """0 with probability 1 - `probability`, else exponential. Unstable: `decay_per_s` is 0 and every wait infinite."""

    probability: float
    decay_per_s: float

    @property
    def stable(self) -> bool:
        return self.decay_per_s > 0

    @property
    def mean_s(self) -> float:
        return self.probability / self.decay_per_s if self.stable else math.inf

    def exceeds(self, seconds: float) -> float:
        """Share of requests that wait longer."""
        if seconds < 0:
            return 1.0
        return self.probability * math.exp(-self.decay_per_s * seconds) if self.stable else 1.0

    def quantile_s(self, quantile: float) -> float:
        """The wait that a share `quantile` of requests does not exceed: 0 where enough do not wait at all."""
        if not 0 < quantile < 1:
            raise QueueInvalid(f"a quantile of {quantile}.", fix="give a share between 0 and 1, such as 0.99")
        if not self.stable:
            return math.inf
        beyond = 1 - quantile
        return math.log(self.probability / beyond) / self.decay_per_s if self.probability > beyond else 0.0


def tail(probability: float, capacity_per_s: float, requests_per_s: float, cv2: float) -> Wait:
    """The wait where all servers are busy with `probability` and serve `capacity_per_s` then."""
    spare = capacity_per_s - requests_per_s
    return Wait(probability, 2 * spare / (1 + cv2)) if spare > 0 else Wait(1.0, 0.0)


def mgc(servers: int, requests_per_s: float, service_per_s: float, cv2: float = 1.0) -> Wait:
    """M/G/c: `servers` that serve `service_per_s` each. Raises QueueInvalid."""
    if not (requests_per_s >= 0 and service_per_s > 0 and cv2 >= 0):
        raise QueueInvalid(
            f"{requests_per_s} requests/s, {service_per_s} services/s and a cv2 of {cv2}.",
            fix="give a rate of 0 or more, a service rate above 0 and a cv2 of 0 or more",
        )
    probability = erlang_c(servers, requests_per_s / service_per_s)
    return tail(probability, servers * service_per_s, requests_per_s, cv2)
