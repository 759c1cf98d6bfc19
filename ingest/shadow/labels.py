"""`request-labels`: what a router knew of a request that was billed: category, tier, session, propensity.

Needed: `request_id`, as `provider/account/usage_key` of the billed request. Propensities are what an off-policy
estimate stands on: the probability of the offer that was taken, drawn before it was taken.
"""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl

from ingest.base import Parsed, Payload
from ingest.quality.scores import CATEGORIES
from ingest.shadow.reading import Check, Refusals, number, text_rows, whole
from warehouse.tables import frame_schema

LATENCIES = ("interactive", "batch")
_TEXTS = ("request_id", "category", "latency", "residency", "session", "chosen", "propensities")
COLUMNS = (*_TEXTS, "tier", "required_context_tokens", "propensity")
_ONE = 1e-6


def parse(payload: Payload) -> Parsed:
    """Labels -> core.request_label. Raises PayloadError where the payload is no such table."""
    text, rejects, came, notes = text_rows(payload, COLUMNS, "requests")
    refusals = Refusals(text, "request_id")
    typed = text.with_columns(
        whole("tier").alias("tier"),
        whole("required_context_tokens").alias("required_context_tokens"),
        number("propensity").alias("propensity"),
        pl.Series("wrong_", [_wrong(*row) for row in text.select("propensities", "chosen", "propensity").iter_rows()],
                  dtype=pl.Boolean),
        *(pl.col(n).alias(f"told_{n}") for n in ("tier", "propensity")),
    )  # fmt: skip
    sound = refusals.rows(typed, _CHECKS)
    refusals.fields(sound, {"required_context_tokens": "is not a whole number"})
    frame = sound.select(pl.col(name).cast(kind) for name, kind in frame_schema("core.request_label").items())
    return Parsed(
        primary="core.request_label",
        tables={"core.request_label": frame},
        rows_in=came,
        rejects=(*rejects, *refusals.found),
        notes=tuple(notes),
    )


_CHECKS: list[Check] = [
    ("request_id", "is missing", pl.col("request_id").is_null()),
    ("request_id", "is not provider/account/usage_key of a billed request",
     pl.col("request_id").str.count_matches("/") < 2),
    ("category", f"is none of {', '.join(CATEGORIES)}", ~pl.col("category").is_in(CATEGORIES)),
    ("latency", f"is none of {', '.join(LATENCIES)}", ~pl.col("latency").is_in(LATENCIES)),
    ("tier", "is not 1, 2 or 3", pl.col("told_tier").is_not_null() & ~pl.col("tier").is_in([1, 2, 3]).fill_null(False)),
    ("required_context_tokens", "is negative", pl.col("required_context_tokens") < 0),
    ("propensity", "is no probability above 0 and up to 1",
     pl.col("told_propensity").is_not_null() & ~pl.col("propensity").is_between(0, 1, closed="right").fill_null(False)),
    ("propensities", "is no JSON object of probabilities that sum to 1 and tell the propensity of the chosen offer",
     pl.col("wrong_")),
]  # fmt: skip


def _wrong(told: str | None, chosen: str | None, propensity: str | None) -> bool:
    if told is None:
        return False
    try:
        found: Any = json.loads(told)
        shares = [float(v) for v in found.values()]
        own = float(found[chosen]) if chosen is not None else None
        same = own is None or propensity is None or abs(own - float(propensity)) <= _ONE
    except (ValueError, TypeError, KeyError, AttributeError):
        return True
    return not (same and all(0 <= s <= 1 for s in shares) and abs(math.fsum(shares) - 1) <= _ONE)
