"""Under which conventions a queue is worked out: the peer's, to check against its figures, or physical ones.

The peer is FleetSim (vllm-project/semantic-router `src/fleet-sim`, optimizer/analytical.py, tpw.py, grid_flex.py at
3d48f8c9). Where the two differ:

                     PEER                                       PHYSICAL
    lengths          3,000 draws of a total, seed 42, 80/20     every length with its probability; a trace's own pairs
    too long         cut to the context                         rejected, and counted
    speed            always that of all slots busy              that of the requests really running
    slots busy       Erlang-C                                   birth-death chain with that speed
    wait             P99 = ln(C / 0.01) / decay                 the same tail (Kimura)
    TTFT             P99 of the wait + MEAN prefill of one      quantile of the sum, prefill at the speed it meets
    power            P(floor(mean concurrency)), of one board   mean of P over the concurrencies, of all boards
    SLO              on the wait                                on the TTFT, and on the time between tokens if asked
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from policies.fleet.errors import QueueInvalid


@dataclass(frozen=True)
class Convention:
    """Use `Convention.PEER` or `Convention.PHYSICAL`.

    prompt_share   part of a total length that is prompt, where the workload tells totals only
    draws, seed    of the peer's calibration; no draws: exact
    physical       which of the two columns above
    """

    name: str
    physical: bool
    prompt_share: float = 0.8
    draws: int | None = None
    seed: int | None = None

    PEER: ClassVar[Convention]
    PHYSICAL: ClassVar[Convention]

    def __str__(self) -> str:
        return self.name


Convention.PEER = Convention("peer", physical=False, draws=3000, seed=42)
Convention.PHYSICAL = Convention("physical", physical=True)

CONVENTIONS = {c.name: c for c in (Convention.PHYSICAL, Convention.PEER)}


def convention(name: str) -> Convention:
    """Raises QueueInvalid for another name."""
    if name not in CONVENTIONS:
        raise QueueInvalid(f"there is no convention {name!r}.", fix=f"choose one of {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]


@dataclass(frozen=True)
class Slo:
    """What a pool must keep. Raises QueueInvalid for a limit that is none.

    `utilization_max` bounds load / capacity: near 1 the approximation of the wait gives way, and so does a real pool.
    """

    ttft_s: float = 0.5
    quantile: float = 0.99
    itl_s: float | None = None  # time between two tokens, at the same quantile
    utilization_max: float = 0.85

    def __post_init__(self) -> None:
        if not self.ttft_s > 0 or not (self.itl_s is None or self.itl_s > 0):
            raise QueueInvalid("an SLO of 0 seconds or less.", fix="give seconds above 0")
        if not 0 < self.quantile < 1:
            raise QueueInvalid(f"an SLO at the quantile {self.quantile}.", fix="give a share below 1, such as 0.99")
        if not 0 < self.utilization_max < 1:
            raise QueueInvalid(f"utilization_max is {self.utilization_max}.", fix="give a share between 0 and 1")
