"""The peer's conventions, to the digit: only for checking against its figures. See `convention` for what they are."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from policies.fleet.errors import ProfileIncomplete, QueueInvalid, SloUnreachable
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.power.models import Linear, Logistic
from policies.fleet.power.profiles import Profile
from policies.fleet.queueing.convention import Convention, Slo
from policies.fleet.queueing.pools import Pool, PoolResult, ratio
from policies.fleet.queueing.search import least
from policies.fleet.queueing.wait import Wait, mgc

_OUTPUT_SHARE = 0.20


@dataclass(frozen=True)
class Calibration:
    """Of an instance with all `slots` busy; cv2 and seconds are of the 3,000 draws."""

    slots: int
    service_s: float
    cv2: float
    prefill_s: float  # of one request alone

    @property
    def capacity_per_s(self) -> float:
        """Requests per second of one instance."""
        return self.slots / self.service_s

    def wait(self, instances: int, requests_per_s: float) -> Wait:
        servers = instances * self.slots
        if requests_per_s * self.service_s >= servers:
            return Wait(1.0, 0.0)
        return mgc(servers, requests_per_s, 1 / self.service_s, self.cv2)


def calibrate(pool: Pool) -> Calibration:
    """Raises QueueInvalid for a workload that is no distribution of totals, ProfileIncomplete, CapacityZero."""
    return _calibrate(_cdf(pool), pool.profile, pool.context_tokens, pool.slots)


@lru_cache(maxsize=64)
def _calibrate(cdf: LengthCdf, profile: Profile, context_tokens: int, slots: int) -> Calibration:
    totals = _draws(cdf, context_tokens)
    prompt = np.maximum((totals * Convention.PEER.prompt_share).astype(np.int64), 1)
    output = np.maximum(totals - prompt, 1)
    (chunk,) = profile.need("chunk_tokens")
    w, h, ctx = profile.need("W_ms", "H_ms_per_seq", "calibration_ctx")
    chunks = np.ceil(prompt / chunk)
    service = (chunks + output) * (w + h * (prompt + output) / ctx * slots) / 1e3
    mean = float(service.mean())
    cv2 = max(0.01, float((service**2).mean()) / mean**2 - 1)
    return Calibration(slots, mean, cv2, float(chunks.mean()) * (w + h) / 1e3)


def _draws(cdf: LengthCdf, context_tokens: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Totals: a segment by chance, then uniform within it; the first segment of a part starts at 1 all the same."""
    assert Convention.PEER.draws is not None
    rng = random.Random(Convention.PEER.seed)  # noqa: S311  (the peer's seed is the point)
    shares = np.asarray(cdf.share)
    found = []
    for _ in range(Convention.PEER.draws):
        k = int(np.searchsorted(shares, rng.random(), side="left"))
        if k == len(shares):
            continue  # beyond a last share just below 1
        low = 1 + (cdf.tokens[k - 1] if k else 0)
        high = min(context_tokens, cdf.tokens[k])
        found.append(rng.randint(low, high) if low <= high else context_tokens)
    return np.array(found, dtype=np.int64)


def output_mean(cdf: LengthCdf) -> int:
    """Whole mean output tokens: a fifth of the mean of the segments' middles."""
    edges, shares = (0, *cdf.tokens), (0.0, *cdf.share)
    middles = (np.diff(edges) / 2.0 + edges[:-1]) @ np.diff(shares)
    return max(1, int(_OUTPUT_SHARE * float(middles) / shares[-1]))


def split(cdf: LengthCdf, tokens: int) -> tuple[LengthCdf, LengthCdf, float]:
    """(up to `tokens`, longer, share of the former); the longer part keeps no knot at `tokens`."""
    share = max(1e-6, min(1 - 1e-6, cdf.share_at(tokens)))
    short = [(t, f / share) for t, f in zip(cdf.tokens, cdf.share, strict=True) if t <= tokens]
    if not short or short[-1][0] < tokens:
        short.append((tokens, 1.0))
    short[-1] = (short[-1][0], 1.0)
    long = [(t, max(0.0, (f - share) / (1 - share))) for t, f in zip(cdf.tokens, cdf.share, strict=True) if t > tokens]
    long = [*long[:-1], (long[-1][0], 1.0)] if long else [(tokens + 1, 1.0)]
    return _as_cdf(short, f"{cdf.name} to {tokens}"), _as_cdf(long, f"{cdf.name} above {tokens}"), share


def _as_cdf(knots: list[tuple[int, float]], name: str) -> LengthCdf:
    return LengthCdf(tuple(t for t, _ in knots), tuple(f for _, f in knots), name)


def evaluate(pool: Pool, instances: int, slo: Slo, *, board_w: float | None = None) -> PoolResult:
    """`instances` under the load of `pool`. `board_w` overrides the power, as the peer's table of caps does."""
    profile, cdf = pool.profile, _cdf(pool)
    told = calibrate(pool)
    capacity = instances * told.capacity_per_s
    utilization = pool.requests_per_s / capacity
    concurrency = utilization * told.slots
    wait = told.wait(instances, pool.requests_per_s)
    ttft = wait.quantile_s(slo.quantile) + told.prefill_s
    board = board_w if board_w is not None else board_power_w(profile, max(1, int(concurrency)))
    carried = min(pool.requests_per_s, capacity)
    output = carried * output_mean(cdf)
    boards = instances * profile.hardware_count
    (usd,) = profile.need("usd_per_hour")
    power = boards * board
    return PoolResult(
        pool=pool.name,
        convention=Convention.PEER.name,
        profile=profile.name,
        logical_model=profile.logical_model,
        hardware_model=profile.hardware_model,
        instances=instances,
        boards_per_instance=profile.hardware_count,
        slots=told.slots,
        requests_per_s=pool.requests_per_s,
        carried_per_s=carried,
        too_long_share=1 - cdf.share_at(pool.context_tokens),
        capacity_per_s=capacity,
        utilization=utilization,
        stable=wait.stable,
        slo_met=ttft <= slo.ttft_s,
        quantile=slo.quantile,
        concurrency=concurrency,
        wait_probability=wait.probability,
        wait_mean_s=wait.mean_s,
        wait_s=wait.quantile_s(slo.quantile),
        ttft_s=ttft,
        itl_s=math.nan,
        ttft_mean_s=wait.mean_s + told.prefill_s,
        tpot_mean_s=math.nan,
        e2e_mean_s=wait.mean_s + told.service_s,
        power_w=power,
        instance_power_w=profile.hardware_count * board,
        board_power_w=board,
        prompt_tokens_per_s=math.nan,
        output_tokens_per_s=output,
        tokens_per_j=ratio(output, power),
        total_tokens_per_j=math.nan,
        paper_normalised_tokens_per_j=ratio(output, instances * board),
        paper_normalised_power_w=instances * board,
        j_per_request=ratio(power, carried),
        prefill_j_per_request=math.nan,
        decode_j_per_request=math.nan,
        idle_j_per_request=math.nan,
        j_per_output_token=ratio(power, output),
        usd_per_hour=boards * usd,
        usd_per_million_output_tokens=ratio(boards * usd / 3600 * 1e6, output),
        paper_normalised_usd_per_million_output_tokens=ratio(instances * usd / 3600 * 1e6, output),
        evidence_class=profile.evidence_class.value,
        quality=profile.quality_effective.value,
        presentable=False,
        notes=("conventions of FleetSim, for comparison with its figures only", profile.words),
    )


def instances_for(pool: Pool, slo: Slo) -> int:
    """Least instances whose WAIT keeps the SLO, one more than the load needs at least, and the bound on utilization."""
    told = calibrate(pool)
    if pool.requests_per_s == 0:
        return 1
    load = pool.requests_per_s / told.capacity_per_s
    start = max(1, math.ceil(load) + 1)
    by_slo = least(
        lambda n: told.wait(n, pool.requests_per_s).quantile_s(slo.quantile) <= slo.ttft_s, start, refuse=_unreachable
    )
    return max(by_slo, math.ceil(pool.requests_per_s / (told.capacity_per_s * slo.utilization_max)))


def _unreachable(n: int) -> SloUnreachable:
    return SloUnreachable(f"{n} instances do not keep the SLO.", fix="loosen it, or lower the load")


def instances_at(pool: Pool, utilization: float) -> int:
    """Least whole number at which the load stays below `utilization`, which is kept within 0.05 and 0.95."""
    bound = max(0.05, min(0.95, utilization))
    return max(1, math.ceil(pool.requests_per_s / (calibrate(pool).capacity_per_s * bound)))


def board_power_w(profile: Profile, concurrency: int) -> float:
    """W of one board at a whole concurrency."""
    return float(profile.power.board_active_w(np.array([max(1, concurrency)], dtype=np.float64))[0])


def board_range_w(profile: Profile) -> tuple[float, float]:
    """(idle, nominal) W of a board: asymptotes of a logistic curve, ends of a line. Raises ProfileIncomplete."""
    power = profile.power
    if isinstance(power, Logistic):
        return power.board_idle_w, power.board_nominal_w
    if isinstance(power, Linear):
        (slots,) = profile.need("max_slots")
        return power.board_idle_w, power.board_idle_w + power.board_w_per_request * slots
    raise ProfileIncomplete(
        f"a {power.form} model has no idle and nominal power.", fix="use the physical convention for this profile"
    )


def concurrency_for(profile: Profile, board_w: float) -> int:
    """Requests at once that keep a board near `board_w`: twenty steps of a bisection that may stop one too low."""
    low, high = 1, int(profile.need("max_slots")[0])
    idle, nominal = board_range_w(profile)
    target = max(idle, min(board_w, nominal))
    for _ in range(20):
        middle = (low + high) // 2
        if board_power_w(profile, middle) <= target:
            low = middle
        else:
            high = middle - 1
        if low >= high:
            break
    return max(1, low)


def _cdf(pool: Pool) -> LengthCdf:
    if not isinstance(pool.workload, LengthCdf):
        raise QueueInvalid(
            f"the peer's convention knows totals only, and pool {pool.name} has pairs of lengths.",
            fix="give a distribution (policies.fleet.length_cdf.cdf_of), or use the physical convention",
        )
    return pool.workload
