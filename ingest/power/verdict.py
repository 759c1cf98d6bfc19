"""What a closed window may claim: the choice of method, the plausibility rules and the quality mark.

Order of trust: energy counter over at least 1 s, trapezoid of polled power, nothing. What cannot be
told is None with a reason of counter_reset, gpu_lost, unsupported, below_resolution or implausible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ingest.power.sensors import DeviceInfo, power_ceiling_w, relative_uncertainty
from warehouse.evidence import Quality

MIN_COUNTER_S = 1.0  # ten updates of the counter; below that the last update decides the figure
MAX_HOLE_S = 2.0  # polls further apart than this say nothing about the power between them
DISAGREE_FAIR, DISAGREE_LOW = 0.25, 0.50  # |counter W - polled W| / the larger of both
UNCERTAIN_FAIR, UNCERTAIN_LOW = 0.10, 0.25  # relative uncertainty above which HIGH becomes FAIR, FAIR becomes LOW


class Poll(NamedTuple):
    """A believed power reading: monotonic us, W, and whether it is instant or the driver's average."""

    mono_us: int
    power_w: float
    instant: bool


class Integral(NamedTuple):
    energy_j: float
    instant: bool  # every poll was
    poll_gap_s: float  # mean distance of the polls


@dataclass(frozen=True)
class Verdict:
    method: str  # counter | integrated_instant | integrated_average | unavailable
    energy_j: float | None
    gap_reason: str | None
    quality: Quality
    relative_uncertainty: float | None = None
    polled_w: float | None = None
    notes: tuple[str, ...] = ()


def integrate(polls: Sequence[Poll], start_us: int, end_us: int) -> Integral | None:
    """Trapezoid of `polls` over [start_us, end_us] in J; None for fewer than two polls or a hole over 2 s.

    Before the first and after the last poll the nearest power is held, within the same 2 s.
    """
    if len(polls) < 2:
        return None
    times = [start_us, *(p.mono_us for p in polls), end_us]
    powers = [polls[0].power_w, *(p.power_w for p in polls), polls[-1].power_w]
    energy_j = 0.0
    for i in range(1, len(times)):
        step_s = (times[i] - times[i - 1]) / 1e6
        if step_s > MAX_HOLE_S:
            return None
        energy_j += step_s * (powers[i] + powers[i - 1]) / 2
    gap_s = (polls[-1].mono_us - polls[0].mono_us) / 1e6 / (len(polls) - 1)
    return Integral(energy_j, all(p.instant for p in polls), gap_s)


def _graded(best: Quality, uncertainty: float) -> Quality:
    if uncertainty > UNCERTAIN_LOW:
        return Quality.LOW
    return Quality.FAIR if uncertainty > UNCERTAIN_FAIR else best


def _unknown(method: str, reason: str, note: str, polled_w: float | None = None) -> Verdict:
    return Verdict(method, None, reason, Quality.LOW, polled_w=polled_w, notes=(note,))


def judge(
    device: DeviceInfo,
    duration_s: float,
    counter_delta_mj: int | None,
    polled: Integral | None,
    *,
    counter_stood: bool = False,
    polls_refused: bool = False,
    polls_seen: bool = False,
) -> Verdict:
    """The verdict on one window of `device` of `duration_s` > 0.

    `counter_delta_mj` >= 0, or None where an edge has no counter. `counter_stood`: the window before
    saw a counter that did not move, so this delta may include its energy and cannot be placed.
    """
    polled_w = polled.energy_j / duration_s if polled is not None else None
    if counter_delta_mj is not None and duration_s < MIN_COUNTER_S:
        note = f"{duration_s:.3g} s is shorter than the {MIN_COUNTER_S:g} s that the energy counter resolves"
        return _unknown("counter", "below_resolution", note, polled_w)
    if counter_delta_mj and not counter_stood:
        return _by_counter(device, duration_s, counter_delta_mj, polled_w)
    if polled is not None:
        return _by_polls(device, duration_s, polled, counter_delta_mj is not None)
    if counter_delta_mj is not None:
        return _unknown("counter", "below_resolution", f"the energy counter stood still within {duration_s:.3g} s")
    if polls_refused:
        return _unknown("unavailable", "implausible", "no believable power reading in the window")
    if polls_seen:
        note = f"polls are too sparse: fewer than two, or more than {MAX_HOLE_S:g} s apart"
        return _unknown("unavailable", "below_resolution", note)
    return _unknown("unavailable", "unsupported", "the GPU reports neither an energy counter nor power")


def _by_counter(device: DeviceInfo, duration_s: float, delta_mj: int, polled_w: float | None) -> Verdict:
    energy_j = delta_mj / 1000
    counter_w = energy_j / duration_s
    ceiling_w = power_ceiling_w(device.power_limit_w, device.boards)
    if counter_w > ceiling_w:
        note = f"the counter implies {counter_w:.4g} W, above {ceiling_w:g} W"
        return _unknown("counter", "implausible", note, polled_w)
    uncertainty = relative_uncertainty(device.sensor_class, "counter", duration_s)
    quality = Quality.HIGH
    notes: tuple[str, ...] = ()
    if polled_w is None:
        quality, notes = Quality.FAIR, ("no polled power to check the counter against",)
    else:
        apart = abs(counter_w - polled_w) / max(counter_w, polled_w)
        if apart > DISAGREE_FAIR:
            quality = Quality.LOW if apart > DISAGREE_LOW else Quality.FAIR
            notes = (f"counter says {counter_w:.4g} W, polled power {polled_w:.4g} W: {apart:.0%} apart",)
    return Verdict("counter", energy_j, None, _graded(quality, uncertainty), uncertainty, polled_w, notes)


def _by_polls(device: DeviceInfo, duration_s: float, polled: Integral, counter_stands: bool) -> Verdict:
    method = "integrated_instant" if polled.instant else "integrated_average"
    uncertainty = relative_uncertainty(device.sensor_class, method, duration_s, polled.poll_gap_s)
    notes = ("the energy counter stands or catches up, so power was integrated",) if counter_stands else ()
    return Verdict(
        method,
        polled.energy_j,
        None,
        _graded(Quality.FAIR, uncertainty),
        uncertainty,
        polled.energy_j / duration_s,
        notes,
    )
