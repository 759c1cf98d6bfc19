"""Prompt and output lengths with their probabilities: what a pool is asked to serve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from policies.fleet.errors import TraceInvalid
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.traces import Floats, Ints, Trace


@dataclass(frozen=True)
class Lengths:
    """Pairs of lengths, of which request has one with its probability; probabilities sum to 1."""

    prompt_tokens: Ints
    output_tokens: Ints
    probability: Floats
    told: str  # where the pairs come from, in words

    def __post_init__(self) -> None:
        if not len(self.prompt_tokens):
            raise TraceInvalid("a workload without any request.", fix="choose a trace or distribution that has some")
        least = min(int(self.prompt_tokens.min()), int(self.output_tokens.min()))
        if least < 1 or not math.isclose(float(self.probability.sum()), 1.0, rel_tol=1e-9):
            raise TraceInvalid(
                "lengths below 1, or probabilities that do not sum to 1.", fix="give whole tokens above 0"
            )

    @property
    def total_tokens(self) -> Ints:
        return self.prompt_tokens + self.output_tokens

    @property
    def prompt_mean(self) -> float:
        return float(self.prompt_tokens @ self.probability)

    @property
    def output_mean(self) -> float:
        return float(self.output_tokens @ self.probability)

    def split(self, tokens: int) -> tuple[Lengths | None, Lengths | None, float]:
        """(requests of up to so many tokens, the longer ones, share of the former); None for a part without any."""
        short = self.total_tokens <= tokens
        return self._part(short), self._part(~short), float(self.probability[short].sum())

    def _part(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Lengths | None:
        share = float(self.probability[chosen].sum())
        if share <= 0:
            return None
        return Lengths(
            self.prompt_tokens[chosen], self.output_tokens[chosen], self.probability[chosen] / share, self.told
        )


def lengths_of(workload: LengthCdf | Trace | Lengths, *, prompt_share: float) -> Lengths:
    """`workload` as pairs. A distribution tells totals only, of which `prompt_share` is assumed to be prompt."""
    if isinstance(workload, Lengths):
        return workload
    if isinstance(workload, Trace):
        return pairs(workload.prompt_tokens, workload.output_tokens, told=f"trace {workload.name}, as recorded")
    tokens, mass = workload.masses
    kept = mass > 0
    prompt, output = share_out(tokens[kept], prompt_share)
    told = f"distribution {workload.name or 'of lengths'}, {prompt_share:.0%} of each request assumed to be prompt"
    return Lengths(prompt, output, mass[kept], told)


def pairs(prompt_tokens: ArrayLike, output_tokens: ArrayLike, *, told: str) -> Lengths:
    """Equally likely pairs; equal ones are counted together."""
    prompt, output = (np.asarray(a, dtype=np.int64) for a in (prompt_tokens, output_tokens))
    if not len(prompt):
        raise TraceInvalid("a workload without any request.", fix="choose a trace or distribution that has some")
    base = int(output.max()) + 1
    distinct, count = np.unique(prompt * base + output, return_counts=True)
    return Lengths(distinct // base, distinct % base, count / len(prompt), told)


def share_out(tokens: Ints, prompt_share: float) -> tuple[Ints, Ints]:
    """Totals as prompt and output, each at least 1 (so a total of 1 becomes 2)."""
    prompt = np.maximum((tokens * prompt_share).astype(np.int64), 1)
    return prompt, np.maximum(tokens - prompt, 1)
