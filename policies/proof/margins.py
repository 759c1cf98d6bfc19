"""What must be shown before anything is promoted: fixed, stored and hashed before the shadow starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from policies.proof.checked import probability
from policies.proof.errors import CountsInvalid, EvidenceMixed, MarginsInvalid
from policies.proof.planning import n_noninferiority


class OutcomeKind(StrEnum):
    """Where the outcome of the candidate comes from, strongest first; never mixed within one proof."""

    PAIRED_REPLAY = "paired_replay"  # the same request, sent to both
    MIRRORED = "mirrored"  # a live request, copied to the candidate
    REFERENCE_WORKLOAD = "reference_workload"  # runs of a fixed workload on each, not the same requests
    OFF_POLICY = "off_policy"  # weighted logs of another policy

    @property
    def strength(self) -> int:
        """0 is the weakest."""
        return len(OutcomeKind) - 1 - list(OutcomeKind).index(self)

    @property
    def paired(self) -> bool:
        return self in (OutcomeKind.PAIRED_REPLAY, OutcomeKind.MIRRORED)


HARD_CONSTRAINTS = ("authorization", "residency", "safety", "context")


@dataclass(frozen=True)
class Margins:
    """Every margin of a gate, with unit and default. None: this figure is not judged. Raises MarginsInvalid.

    `confidence` is that of two-sided intervals, so each bound holds at 97.5 % by default. Every check must pass
    (intersection-union test), so none is corrected for the number of checks.
    """

    success_margin: float = 0.02  # share: the largest loss of success rate, 2 percentage points
    slo_s: float | None = None  # s: latency objective; None judges no share over it
    over_slo_margin: float = 0.02  # share: the largest rise of the share of requests over the SLO
    p95_margin: float | None = 0.10  # share: the largest rise of P95 latency relative to the control
    p95_limit_s: float | None = None  # s: P95 of the candidate must be shown to lie at or below it
    energy_gain: float | None = 0.05  # share: J per success must be shown to fall by at least this
    energy_margin: float | None = 0.0  # share: the largest rise of J per success, where energy_gain is None
    usd_margin: float | None = 0.05  # share: the largest rise of USD per success
    carbon_margin: float | None = 0.05  # share: the largest rise of gCO2eq per success
    constraints: tuple[str, ...] = HARD_CONSTRAINTS  # hard constraints that must be there, each with zero violations
    violation_rate: float = 0.01  # share: what sampling must exclude for a sampled constraint (1 %: 299 requests)
    planned_n: int | None = None  # requests; None plans from success_margin, discordance and power
    discordance: float = 0.10  # share of pairs expected to differ, for planning
    power: float = 0.90  # of the plan
    confidence: float = 0.95  # of two-sided intervals
    min_coverage: float = 1.0  # share of requests that must tell a figure; below it the check is INCONCLUSIVE
    min_successes: int = 30  # per arm; below it Fieller's set replaces the delta method
    min_clusters: int = 10  # with fewer clusters no clustered interval is trusted
    weakest_kind: OutcomeKind = OutcomeKind.REFERENCE_WORKLOAD  # weaker outcome evidence never passes
    resamples: int = 2_000  # of the bootstrap checks
    seed: int = 0  # of the bootstrap checks

    def __post_init__(self) -> None:
        for name in ("success_margin", "over_slo_margin", "violation_rate", "discordance"):
            self._within(name, 0.0, 1.0)
        for name in ("confidence", "power"):
            probability(getattr(self, name), name)
        for name in ("p95_margin", "energy_margin", "usd_margin", "carbon_margin"):
            self._within(name, 0.0, math.inf, closed=True)
        for name in ("slo_s", "p95_limit_s"):
            self._within(name, 0.0, math.inf)
        self._within("energy_gain", 0.0, 1.0, closed=True)
        self._within("min_coverage", 0.0, 1.0 + 1e-12)
        for name in ("planned_n", "min_successes", "min_clusters", "resamples"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise MarginsInvalid(f"{name} is {value!r}.", fix="give a whole number of at least 1")
        object.__setattr__(self, "constraints", tuple(self.constraints))
        object.__setattr__(self, "weakest_kind", OutcomeKind(self.weakest_kind))

    def _within(self, name: str, low: float, high: float, *, closed: bool = False) -> None:
        value = getattr(self, name)
        if value is None:
            return
        inside = low <= value < high if closed else low < value < high
        if not inside:
            raise MarginsInvalid(f"{name} is {value}.", fix=f"give a number above {low:g} and below {high:g}")

    @property
    def n(self) -> int:
        """Requests planned: below it nothing is concluded."""
        if self.planned_n is not None:
            return self.planned_n
        alpha = (1 - self.confidence) / 2
        return n_noninferiority(self.success_margin, self.discordance, alpha=alpha, power=self.power)

    @property
    def energy_limit(self) -> float | None:
        """What the upper bound of the ratio of J per success must stay below."""
        if self.energy_gain is not None:
            return 1 - self.energy_gain
        return None if self.energy_margin is None else 1 + self.energy_margin

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for storing and hashing; `from_dict` reads them back."""
        return asdict(self) | {"constraints": list(self.constraints), "weakest_kind": self.weakest_kind.value}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Margins:
        """Raises MarginsInvalid for a name that is no margin."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(told) - known)
        if unknown:
            raise MarginsInvalid(f"{unknown[0]!r} is no margin.", fix=f"use {', '.join(sorted(known))}")
        try:
            return cls(**told)
        except (TypeError, ValueError) as wrong:
            raise MarginsInvalid(f"the margins cannot be read: {wrong}.", fix="give numbers") from wrong


def one_kind(kinds: object) -> OutcomeKind:
    """The single kind of outcome evidence of `kinds` (one name, or one per request).

    Raises EvidenceMixed for several, CountsInvalid for none or an unknown one.
    """
    names = [kinds] if isinstance(kinds, str) else sorted({str(k) for k in kinds})  # type: ignore[attr-defined]
    unknown = [name for name in names if name not in set(OutcomeKind)]
    if unknown or not names:
        raise CountsInvalid(f"kind of outcome evidence is {unknown or 'missing'}.", fix=f"use {', '.join(OutcomeKind)}")
    if len(names) > 1:
        raise EvidenceMixed(
            f"outcome evidence mixes {', '.join(names)}.", fix="judge each kind by itself; the strongest counts"
        )
    return OutcomeKind(names[0])
