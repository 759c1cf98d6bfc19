"""What a router is asked: the kind of task, how strong a model it needs, and what it must hold to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policies.errors import RequestInvalid

CATEGORIES: tuple[str, ...] = (
    "coding_general",
    "coding_refactor",
    "debugging",
    "docs_writing",
    "summarization",
    "translation",
    "reasoning_math",
    "tool_use_agentic",
    "general_chat",
)
TIERS: tuple[int, ...] = (1, 2, 3)  # 1 simple, 3 frontier reasoning


class Latency(StrEnum):
    INTERACTIVE = "interactive"  # a person waits: preemptible serving classes are out
    BATCH = "batch"  # may be held until there is capacity


@dataclass(frozen=True)
class Request:
    """One routing question.

    `required_context_tokens` is an estimate of the assembled prompt, not a size bucket. `residency`
    lists tags that an offer must declare (a region, a safety or data-handling promise); an offer that
    declares nothing satisfies none. `authorized_access` lists the access levels the account holds.
    Raises RequestInvalid, naming the field, its value and what is allowed.
    """

    category: str
    tier: int
    required_context_tokens: int
    latency: str = Latency.INTERACTIVE.value
    residency: frozenset[str] = frozenset()
    authorized_access: frozenset[str] = frozenset({"open"})

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise RequestInvalid(f"category is {self.category!r}.", fix=f"use one of {', '.join(CATEGORIES)}")
        if isinstance(self.tier, bool) or self.tier not in TIERS:
            raise RequestInvalid(f"tier is {self.tier!r}.", fix="use 1, 2 or 3")
        tokens = self.required_context_tokens
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise RequestInvalid(
                f"required_context_tokens is {tokens!r}.", fix="give a whole number of tokens, 0 or more"
            )
        if self.latency not in set(Latency):
            raise RequestInvalid(f"latency is {self.latency!r}.", fix=f"use one of {', '.join(Latency)}")
        object.__setattr__(self, "latency", str(self.latency))
        object.__setattr__(self, "residency", frozenset(self.residency))
        object.__setattr__(self, "authorized_access", frozenset(self.authorized_access))
