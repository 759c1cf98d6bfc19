"""Giving power back to the grid: a cap on power becomes a cap on requests at once, and what that does to the queue.

A cap bounds the power of a *full* instance. What the fleet really draws hangs on the load that it carries: where the
cap does not bind, nothing is saved, and requests that wait for a slot run in fuller batches or, past capacity, do not
run at all. A cap may therefore RAISE joules per request; each row says so. Clocks and voltage (an NVML power cap) are
another mechanism and not modelled here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from policies.fleet.errors import QueueInvalid
from policies.fleet.queueing import peer, physical
from policies.fleet.queueing.convention import Convention, Slo
from policies.fleet.queueing.pools import Pool, PoolResult, plain

LEVELS = (0.0, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50)
BASES = ("full", "carried")
_RISE, _TOLD, _NOTHING = 1e-6, 5e-5, 1e-3  # relative; below them: rounding, 0.00 % in words, no saving


@dataclass(frozen=True)
class FlexRow:
    """One level. `result` is the pool under the cap; None where not even one request at once keeps it.

    saved_w, j_per_request_change (relative) compare with the first row of no cap at the same load.
    """

    reduction: float  # asked for, share
    cap_w: float  # of one instance
    concurrency_cap: int
    binding: bool  # whether the cap is below the slots
    saved_w: float
    saved_share: float
    j_per_request_change: float
    raises_j_per_request: bool
    result: PoolResult | None
    words: str

    def to_dict(self) -> dict[str, Any]:
        return {**plain(dict(self.__dict__)), "result": None if self.result is None else self.result.to_dict()}


def flex(
    pool: Pool,
    instances: int,
    slo: Slo | None = None,
    convention: Convention | None = None,
    *,
    levels: Sequence[float] = LEVELS,
    basis: str = "full",
) -> list[FlexRow]:
    """A row per level of reduction (shares, 0 is no cap).

    basis: what the reduction is of, the power of an instance with all slots busy (`full`) or that which it draws
    under this load (`carried`). The peer knows the asymptote of its curve only and ignores `basis`.
    Raises QueueInvalid for levels that are no shares, and what `evaluate` raises.
    """
    if basis not in BASES:
        raise QueueInvalid(f"the basis {basis!r}.", fix=f"choose one of {', '.join(BASES)}")
    for level in levels:
        if not 0 <= level < 1:
            raise QueueInvalid(f"a reduction of {level}.", fix="give shares from 0 to below 1")
    wanted, limits = convention or Convention.PHYSICAL, slo or Slo()
    if wanted.physical:
        return _physical(pool, instances, limits, levels, basis)
    return _peer(pool, instances, limits, levels)


def _peer(pool: Pool, instances: int, slo: Slo, levels: Sequence[float]) -> list[FlexRow]:
    """The peer's table: power at the CAP, whatever the load, and service recalibrated to the capped slots."""
    idle, nominal = peer.board_range_w(pool.profile)
    rows, first = [], None
    for level in levels:
        target = max(idle, nominal * (1 - level))
        cap = min(pool.slots, peer.concurrency_for(pool.profile, target))
        result = peer.evaluate(pool.capped(cap), instances, slo, board_w=peer.board_power_w(pool.profile, cap))
        first = first or result
        rows.append(_row(level, target * pool.profile.hardware_count, cap, pool, first, result))
    return rows


def _physical(pool: Pool, instances: int, slo: Slo, levels: Sequence[float], basis: str) -> list[FlexRow]:
    uncapped = physical.evaluate(pool, instances, slo)
    power = pool.profile.power
    if basis == "carried":
        reference = uncapped.instance_power_w
    else:
        reference = float(power.tabulated(pool.slots, extrapolate=pool.extrapolate)[1:].max())
    rows = []
    for level in levels:
        cap_w = reference * (1 - level)
        if level == 0:
            rows.append(_row(level, cap_w, pool.slots, pool, uncapped, uncapped))
            continue
        cap = power.inverse(cap_w, pool.slots, extrapolate=pool.extrapolate)
        result = physical.evaluate(pool.capped(cap), instances, slo) if cap else None
        rows.append(_row(level, cap_w, cap, pool, uncapped, result))
    return rows


def _row(level: float, cap_w: float, cap: int, pool: Pool, before: PoolResult, result: PoolResult | None) -> FlexRow:
    saved = before.power_w - result.power_w if result else math.nan
    change = result.j_per_request / before.j_per_request - 1 if result else math.nan
    raises = change > _RISE
    return FlexRow(
        reduction=level,
        cap_w=cap_w,
        concurrency_cap=cap,
        binding=cap < pool.slots,
        saved_w=saved,
        saved_share=saved / before.power_w if before.power_w > 0 else math.nan,
        j_per_request_change=change,
        raises_j_per_request=raises,
        result=result,
        words=_words(cap, pool, result, saved / before.power_w if before.power_w > 0 else 0.0, change),
    )


def _words(cap: int, pool: Pool, result: PoolResult | None, saved: float, change: float) -> str:
    if result is None:
        return "not even one request at once keeps this cap; park instances instead"
    if cap >= pool.slots:
        return "the cap does not bind"
    if not result.stable:
        backlog = result.requests_per_s * (1 - result.too_long_share) - result.carried_per_s
        told = f"{cap} requests at once do not carry the load: {backlog:.3g} requests/s pile up"
    else:
        told = f"{cap} requests at once carry the load, SLO {'kept' if result.slo_met else 'missed'}"
    if abs(saved) < _NOTHING:
        told += "; it saves nothing at this load"
    if result.convention == Convention.PEER.name:
        return f"{told}; power is that of full instances, whatever the load"
    return f"{told}; the cap RAISES joules per request by {change:.2%}" if change >= _TOLD else told
