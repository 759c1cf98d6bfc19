"""A cap on power as a cap on requests at once, for every pool of a fleet."""

from __future__ import annotations

from policies.fleet.errors import CapacityZero, ScenarioInvalid
from policies.fleet.experiments.resolve import Resolved


def cap_slots(found: Resolved, reduction: float) -> dict[str, int]:
    """Requests at once by pool that keep each instance `reduction` (share) below its power with all slots busy.

    Empty for no reduction. Raises CapacityZero where not even one request at once keeps the cap.
    """
    if not 0 <= reduction < 1:
        raise ScenarioInvalid(f"a reduction of {reduction}.", fix="give shares from 0 to below 1")
    if reduction == 0:
        return {}
    slots = {}
    for pool in found.pools():
        most = pool.deployments["base"].slots_at(pool.context_tokens)
        power = pool.profile.power
        full = float(power.tabulated(most, extrapolate=pool.extrapolate)[1:].max())
        cap = power.inverse(full * (1 - reduction), most, extrapolate=pool.extrapolate)
        if cap < 1:
            raise CapacityZero(
                f"not even one request at once keeps an instance of {pool.name} {reduction:.0%} below its full power.",
                fix="give back less, or park instances",
            )
        slots[pool.name] = cap
    return slots
