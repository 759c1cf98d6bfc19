"""Usage types of Amazon Bedrock: which kind of tokens, routed how, in which tier, of which model.

Two spellings are in use. Camel case, `USE1-MP:USE1_CacheReadInputTokenCount_Global-Units`, and snake case for
newer models, `USE1-MP:USE1_input_tokens_global_standard-Units`; models of Amazon's own and older ones
are named in front, `USE1-NovaLite-input-tokens`. `global` is cross-region inference, about a tenth cheaper
than regional, so the two are never one price.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_KINDS = (
    ("cache_read", re.compile(r"cache[-_ ]?read")),
    ("cache_write", re.compile(r"cache[-_ ]?write")),
    ("prompt", re.compile(r"(input|prompt)[-_ ]?(text[-_ ]?)?token")),
    ("completion", re.compile(r"(output|response|completion)[-_ ]?(text[-_ ]?)?token")),
)
_TIER = re.compile(r"(?:^|[-_])(standard|flex|priority|batch)(?=[-_]|$)")
_MODEL = re.compile(r"^[A-Z0-9]{3,5}-(?!MP:)(?P<model>.+?)-(?:input|output|cache|response)[-_]", re.IGNORECASE)


@dataclass(frozen=True)
class UsageType:
    """What a usage type tells; None where it does not."""

    token_kind: str | None = None  # prompt | completion | cache_read | cache_write
    routing: str | None = None  # regional | global
    service_tier: str | None = None  # standard | flex | priority | batch
    model: str | None = None


def read_usage_type(text: str) -> UsageType:
    """What `text`, a usage type or the name of a meter, tells."""
    lower = text.lower()
    kind = next((name for name, pattern in _KINDS if pattern.search(lower)), None)
    if kind is None:
        return UsageType()
    tier, model = _TIER.search(lower), _MODEL.match(text)
    return UsageType(
        kind,
        "global" if "global" in lower else "regional",
        tier[1] if tier else None,
        model["model"] if model else None,
    )
