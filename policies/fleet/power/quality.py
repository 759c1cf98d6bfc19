"""The quality of a calibration, worked out from what it can show and never from a name.

    HIGH  8 windows or more at 6 or more levels, hold-out error <= 5 %, coverage >= 80 %, measured here
    FAIR  hold-out error <= 15 %, coverage >= 60 %
    LOW   else; also where a parameter ends at its bound, or the fit knows no interval

Never above the lowest quality of the windows, and never HIGH where they were only published or allocated.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.fleet.power.estimate import Estimate, HoldOut
from policies.fleet.power.windows import MeasuredWindow
from warehouse.evidence import EvidenceClass, Quality, lowest_quality

_HIGH = {"windows": 8, "levels": 6, "error": 0.05, "coverage": 0.80}
_FAIR = {"error": 0.15, "coverage": 0.60}


def quality_of(
    used: Sequence[MeasuredWindow], count: int, fitted: Estimate, held: HoldOut, basis: EvidenceClass
) -> tuple[Quality, tuple[str, ...]]:
    """The quality, and what keeps it from being higher."""
    error, coverage = held.error, held.coverage
    windows = lowest_quality(w.quality for w in used)
    low = [
        *(f"{name} ends at its bound" for name in fitted.at_bound),
        *(["no level could be held out"] if error is None else []),
        *([f"hold-out error {error:.1%} is above 15 %"] if error is not None and error > _FAIR["error"] else []),
        *(["the windows do not determine an interval"] if coverage is None else []),
        *([f"coverage {coverage:.0%} is below 60 %"] if coverage is not None and coverage < _FAIR["coverage"] else []),
        *(["a window is of quality LOW"] if windows is Quality.LOW else []),
    ]
    if low or error is None or coverage is None:
        return Quality.LOW, tuple(low)
    fair = [
        *([f"{len(used)} windows are fewer than 8"] if len(used) < _HIGH["windows"] else []),
        *([f"{count} levels are fewer than 6"] if count < _HIGH["levels"] else []),
        *([f"hold-out error {error:.1%} is above 5 %"] if error > _HIGH["error"] else []),
        *([f"coverage {coverage:.0%} is below 80 %"] if coverage < _HIGH["coverage"] else []),
        *(["a window is of quality FAIR"] if windows is Quality.FAIR else []),
        *([f"the windows are {basis}"] if basis is not EvidenceClass.MEASURED else []),
    ]
    return (Quality.FAIR, tuple(fair)) if fair else (Quality.HIGH, ())
