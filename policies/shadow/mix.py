"""The fixed reference mix of a shadow: shares of category and size band in the traffic that would be moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from policies.proof.bands import reference_mix

SMALLEST_SHARE = 0.01  # of the traffic; a stratum below it would hold up every shadow


@dataclass(frozen=True)
class Mix:
    """shares by stratum (`category|size band`), together 1; n requests of which traffic, in words.

    left_out: share of that traffic in strata that are too small, or whose size is unknown.
    """

    shares: dict[str, float]
    n: int
    basis: str
    left_out: float

    def to_dict(self) -> dict[str, Any]:
        return {"mix": self.shares, "mix_n": self.n, "mix_basis": self.basis, "mix_left_out": self.left_out}


def mix_of(asked: pl.DataFrame, cells: Iterable[str], control: str | None) -> Mix | None:
    """The mix of logged requests (`requests.questions`) in `cells`, or of those that `control` served.

    None without any: then nothing is standardised. Strata below SMALLEST_SHARE are left out and told.
    """
    for basis, traffic in (
        ("in its cells", asked.filter(pl.col("cell").is_in(list(cells)))),
        (f"that {control} served", asked.filter(pl.col("incumbent") == (control or ""))),
    ):
        known = traffic.filter(~pl.col("stratum").str.ends_with("|unknown"))
        if known.height:
            return _mix(known["stratum"].to_list(), traffic.height, f"{traffic.height} logged requests {basis}")
    return None


def _mix(strata: list[str], n: int, basis: str) -> Mix:
    found = reference_mix(strata)
    kept = {name: share for name, share in found.items() if share >= SMALLEST_SHARE} or found
    total = sum(kept.values())
    covered = total * len(strata) / n
    return Mix({name: kept[name] / total for name in sorted(kept)}, n, basis, max(1 - covered, 0.0))
