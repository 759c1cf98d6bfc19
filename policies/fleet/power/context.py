"""Power by context length: a study that filled an instance at each context and measured it there, once.

Such a study is a **line** through (context, concurrency), not a surface: at each context it knows the one concurrency
that filled the KV cache. Between its contexts everything is interpolated, linear in log2(context); a concurrency off
the line by more than `TOLERANCE`, or a context outside, is refused. On the line power falls and rises again, so no
function of concurrency alone can hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from policies.fleet.errors import ExtrapolationRefused, ProfileInvalid
from policies.fleet.power.models import Table
from policies.fleet.power.profiles import Profile
from warehouse.evidence import EvidenceClass, Quality

TOLERANCE = 0.05


@dataclass(frozen=True)
class ContextPoint:
    context_tokens: int
    concurrency: float  # requests at once that filled the instance
    output_tokens_per_s: float  # of the instance
    board_w: float


@dataclass(frozen=True)
class OnLine:
    """What the study says at one context; figures of an instance unless they say board."""

    context_tokens: float
    concurrency: float
    power_w: float
    board_w: float
    output_tokens_per_s: float
    tokens_per_j: float
    j_per_token: float
    paper_normalised_tokens_per_j: float  # tokens of the instance over joules of one of its boards: no efficiency
    interpolated: bool
    evidence_class: EvidenceClass
    provenance: str


@dataclass(frozen=True)
class ContextStudy:
    """Points by rising context. Raises ProfileInvalid where they do not rise or are no positive numbers."""

    name: str
    points: tuple[ContextPoint, ...]
    hardware_count: int
    hardware_model: str
    logical_model: str
    runtime: str
    runtime_version: str
    config_version: str
    board_idle_empty_w: float | None
    board_idle_loaded_w: float | None
    evidence_class: EvidenceClass
    quality: Quality
    provenance: str
    version: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        contexts = [p.context_tokens for p in self.points]
        if len(contexts) < 2 or any(b <= a for a, b in pairwise(contexts)):
            raise ProfileInvalid(f"the contexts of {self.name} do not rise.", fix="give two or more, sorted")
        figures = [(p.concurrency, p.output_tokens_per_s, p.board_w) for p in self.points]
        if not (np.isfinite(figures).all() and (np.asarray(figures) > 0).all()):
            raise ProfileInvalid(f"a point of {self.name} is not above 0.", fix="leave that point out")

    def at(self, context_tokens: float, concurrency: float | None = None) -> OnLine:
        """Figures of a full instance. Raises ExtrapolationRefused outside the contexts, or off the line."""
        known = [p.context_tokens for p in self.points]
        if not known[0] <= context_tokens <= known[-1]:
            raise ExtrapolationRefused(
                f"a context of {context_tokens:g} tokens lies outside {known[0]} to {known[-1]} of {self.name}.",
                fix="stay within the contexts of the study",
            )

        def along(name: str) -> float:
            values = [getattr(p, name) for p in self.points]
            if context_tokens in known:  # as printed, without the rounding of a logarithm
                return float(values[known.index(int(context_tokens))])
            return float(2 ** np.interp(np.log2(context_tokens), np.log2(known), np.log2(values)))

        full, tokens_per_s = along("concurrency"), along("output_tokens_per_s")
        board_w = float(np.interp(np.log2(context_tokens), np.log2(known), [p.board_w for p in self.points]))
        if concurrency is not None and not abs(concurrency - full) <= TOLERANCE * full:
            raise ExtrapolationRefused(
                f"{self.name} was measured with {full:.0f} requests at {context_tokens:g} tokens, not {concurrency:g}.",
                fix="ask for the full instance, or calibrate a profile at this context",
            )
        power_w = board_w * self.hardware_count
        return OnLine(
            context_tokens=context_tokens,
            concurrency=full,
            power_w=power_w,
            board_w=board_w,
            output_tokens_per_s=tokens_per_s,
            tokens_per_j=tokens_per_s / power_w,
            j_per_token=power_w / tokens_per_s,
            paper_normalised_tokens_per_j=tokens_per_s / board_w,
            interpolated=context_tokens not in known,
            evidence_class=self.evidence_class,
            provenance=self.provenance,
        )

    def profile_at(self, context_tokens: int) -> Profile:
        """A profile of the full instance at that context: a table of one concurrency, refused at any other."""
        found = self.at(context_tokens)
        return Profile(
            name=f"{self.name}@{context_tokens}",
            power=Table(
                hardware_count=self.hardware_count,
                board_idle_empty_w=self.board_idle_empty_w,
                board_idle_loaded_w=self.board_idle_loaded_w,
                concurrency=(found.concurrency,),
                board_w=(found.board_w,),
            ),
            logical_model=self.logical_model,
            hardware_model=self.hardware_model,
            evidence_class=self.evidence_class,
            quality=self.quality,
            quality_computed=self.quality,
            provenance=self.provenance,
            version=self.version,
            runtime=self.runtime,
            runtime_version=self.runtime_version,
            config_version=self.config_version,
            calibration_ctx=context_tokens,
            notes=(*self.notes, *(("between two contexts of the study",) if found.interpolated else ())),
        )
