"""The cumulative distribution of request lengths: knots of total tokens, which closed forms and simulations share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policies.fleet.errors import TraceInvalid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LengthCdf:
    """Knots (tokens, share of requests that are not longer): uniform over the whole tokens between two knots.

    Raises TraceInvalid where tokens do not rise from 1, shares fall, or the last share is not 1.
    """

    tokens: tuple[int, ...]
    share: tuple[float, ...]
    name: str = ""
    citation: str | None = None

    def __post_init__(self) -> None:
        tokens, share = np.asarray(self.tokens), np.asarray(self.share, dtype=np.float64)
        what = f"the distribution {self.name or 'of lengths'}"
        if not len(tokens) or len(tokens) != len(share):
            raise TraceInvalid(f"{what} has no knots, or not one share for each.", fix="give [tokens, share] pairs")
        if tokens[0] < 1 or (np.diff(tokens) <= 0).any():
            raise TraceInvalid(f"the tokens of {what} do not rise from 1 or more.", fix="sort the knots")
        if not np.isfinite(share).all() or share[0] < 0 or (np.diff(share) < 0).any():
            raise TraceInvalid(f"the shares of {what} fall, or are no numbers.", fix="give cumulative shares")
        if abs(share[-1] - 1) > 1e-6:
            raise TraceInvalid(f"{what} ends at {share[-1]:g}, not at 1.", fix="add the knot of the longest request")

    def share_at(self, tokens: float) -> float:
        """Share of requests that are not longer, linear between knots."""
        return float(np.interp(tokens, (0, *self.tokens), (0.0, *self.share)))

    @cached_property
    def masses(self) -> tuple[Ints, Floats]:
        """Every whole length up to the last knot, and its probability."""
        edges = np.array((0, *self.tokens), dtype=np.int64)
        widths = np.diff(edges)
        mass = np.repeat(np.diff((0.0, *self.share)) / widths, widths)
        return np.arange(1, edges[-1] + 1, dtype=np.int64), mass / mass.sum()

    @property
    def mean_tokens(self) -> float:
        tokens, mass = self.masses
        return float(tokens @ mass)

    @staticmethod
    def from_pairs(pairs: Sequence[Sequence[float]], name: str = "") -> LengthCdf:
        """From [[tokens, share], ...], the form that FleetSim's files have."""
        return LengthCdf(tuple(int(p[0]) for p in pairs), tuple(float(p[1]) for p in pairs), name)

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Total tokens (n,), 2 or more: a request has a prompt and an output."""
        ends = np.array([1, *self.tokens], dtype=np.int64)
        piece = np.minimum(np.searchsorted(self.share, rng.random(n)), len(self.tokens) - 1)
        low, high = ends[piece] + 1, ends[piece + 1]
        found: Ints = low + np.floor(rng.random(n) * (high - low + 1)).astype(np.int64)
        return found


def cdf_of(lengths: ArrayLike, *, name: str, knots: int = 64) -> LengthCdf:
    """The distribution of total `lengths` with about `knots` knots, at their quantiles. Raises TraceInvalid."""
    tokens = np.sort(np.asarray(lengths, dtype=np.int64))
    if not len(tokens) or tokens[0] < 1:
        raise TraceInvalid(f"{name} has no lengths, or one below 1.", fix="give whole tokens above 0")
    at = np.unique(np.quantile(tokens, np.linspace(0, 1, knots + 1), method="inverted_cdf").astype(np.int64))
    share = np.searchsorted(tokens, at, side="right") / len(tokens)
    return LengthCdf(tuple(map(int, at)), tuple(map(float, share)), name)
