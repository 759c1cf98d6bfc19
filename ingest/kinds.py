"""The kinds of payload that joulebook reads: `joulebook import KIND FILE` and every configured source."""

from __future__ import annotations

import difflib
from datetime import datetime, timedelta

from ingest.billing.kinds import KINDS as _BILLING
from ingest.catalog.kinds import KINDS as _CATALOG
from ingest.errors import UnknownKind
from ingest.grid.kinds import KINDS as _GRID
from ingest.kind import Ask, Derive, Fetch, Kind, Option
from ingest.outcomes.kinds import KINDS as _OUTCOMES
from ingest.power.kinds import KINDS as _POWER
from ingest.quality.kinds import KINDS as _QUALITY
from ingest.sample.kinds import KINDS as _SAMPLE
from ingest.serving.kinds import KINDS as _SERVING
from ingest.shadow.kinds import KINDS as _SHADOW
from ingest.traces.kinds import KINDS as _TRACES

__all__ = ["KINDS", "Ask", "Derive", "Fetch", "Kind", "Option", "expand_url", "kind"]

_ALL: tuple[Kind, ...] = (
    *_CATALOG, *_BILLING, *_GRID, *_POWER, *_SERVING, *_QUALITY, *_OUTCOMES, *_SHADOW, *_TRACES, *_SAMPLE
)  # fmt: skip

KINDS: dict[str, Kind] = {k.name: k for k in _ALL}


def kind(name: str) -> Kind:
    """The kind of that name. Raises UnknownKind, which lists the allowed ones."""
    found = KINDS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, KINDS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UnknownKind(
            f"there is no kind {name!r}", fix=f"{hint}use one of {', '.join(sorted(KINDS))}", field="kind"
        )
    return found


def expand_url(url: str, now: datetime) -> str:
    """`url` with {now} replaced by the half hour that `now` (naive UTC) lies in, as YYYY-MM-DDThh:mmZ."""
    half_hour = now - timedelta(minutes=now.minute % 30, seconds=now.second, microseconds=now.microsecond)
    return url.replace("{now}", f"{half_hour:%Y-%m-%dT%H:%MZ}")
