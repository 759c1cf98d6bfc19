"""The questions that are asked of a pool, under either convention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from policies.fleet.errors import QueueInvalid
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.power.profiles import Profile
from policies.fleet.queueing import peer, physical
from policies.fleet.queueing.convention import Convention, Slo
from policies.fleet.queueing.lengths import lengths_of
from policies.fleet.queueing.pools import Pool, PoolResult, Workload, plain


def evaluate(pool: Pool, instances: int, slo: Slo | None = None, convention: Convention | None = None) -> PoolResult:
    """What `instances` do under the load of `pool`; a queue that grows is `stable` False, not an error."""
    wanted, limits = convention or Convention.PHYSICAL, slo or Slo()
    if instances < 1:
        raise QueueInvalid(f"{instances} instances in pool {pool.name}.", fix="give 1 or more")
    if wanted.physical:
        return physical.evaluate(pool, instances, limits)
    return peer.evaluate(pool, instances, limits)


def size(pool: Pool, slo: Slo | None = None, convention: Convention | None = None) -> PoolResult:
    """The pool with the fewest instances that keep the SLO. Raises SloUnreachable, CapacityZero, ProfileIncomplete."""
    wanted, limits = convention or Convention.PHYSICAL, slo or Slo()
    found = (physical if wanted.physical else peer).instances_for(pool, limits)
    return evaluate(pool, found, limits, wanted)


def at_utilization(
    pool: Pool, utilization: float, slo: Slo | None = None, convention: Convention | None = None
) -> PoolResult:
    """The pool with the fewest instances whose load stays within `utilization`, whatever the SLO says."""
    wanted = convention or Convention.PHYSICAL
    if not 0 < utilization < 1:
        raise QueueInvalid(f"a utilization of {utilization}.", fix="give a share between 0 and 1")
    found = (physical if wanted.physical else peer).instances_at(pool, utilization)
    return evaluate(pool, found, slo, wanted)


def split_by_length(
    workload: Workload, tokens: int, convention: Convention | None = None
) -> tuple[Workload | None, Workload | None, float]:
    """(requests of up to `tokens` prompt and output tokens, longer ones, share of the former)."""
    wanted = convention or Convention.PHYSICAL
    if wanted.physical:
        return lengths_of(workload, prompt_share=wanted.prompt_share).split(tokens)
    if not isinstance(workload, LengthCdf):
        raise QueueInvalid("the peer's convention splits distributions only.", fix="use the physical convention")
    return peer.split(workload, tokens)


def two_pools(short: Pool, long: Pool, tokens: int, convention: Convention | None = None) -> list[Pool]:
    """Both pools with their part of the same load: `short` gets requests of up to `tokens`, `long` the rest.

    Rate and workload are those of `long`. A part without any request leaves its pool out.
    """
    few, many, share = split_by_length(long.workload, tokens, convention)
    pools = []
    if few is not None:
        pools.append(replace(short, workload=few, requests_per_s=long.requests_per_s * share))
    if many is not None:
        pools.append(replace(long, workload=many, requests_per_s=long.requests_per_s * (1 - share)))
    return pools


@dataclass(frozen=True)
class FullInstance:
    """One instance that decodes with all its slots busy at one context: the upper end of its efficiency."""

    profile: str
    context_tokens: int
    request_tokens: float  # mean length, prompt and output
    slots: int
    iteration_s: float
    output_tokens_per_s: float
    power_w: float
    board_power_w: float
    tokens_per_j: float
    paper_normalised_tokens_per_j: float
    evidence_class: str
    quality: str

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(dict(self.__dict__))
        return found


def full_instance(
    profile: Profile, context_tokens: int, request_tokens: float | None = None, *, extrapolate: bool = False
) -> FullInstance:
    """Decoding only, no prefill, no queue; requests hold half the context on average unless told otherwise.

    With half the context this is Table 1 of arXiv 2603.17280.
    """
    length = context_tokens / 2 if request_tokens is None else request_tokens
    slots = profile.n_slots(context_tokens)
    iteration_s = profile.iteration_ms(slots, length) / 1e3
    power = float(profile.power.power_w([float(slots)], extrapolate=extrapolate)[0])
    tokens = slots / iteration_s
    return FullInstance(
        profile=profile.name,
        context_tokens=context_tokens,
        request_tokens=length,
        slots=slots,
        iteration_s=iteration_s,
        output_tokens_per_s=tokens,
        power_w=power,
        board_power_w=power / profile.hardware_count,
        tokens_per_j=tokens / power,
        paper_normalised_tokens_per_j=tokens / power * profile.hardware_count,
        evidence_class=profile.evidence_class.value,
        quality=profile.quality_effective.value,
    )
