"""What a moving name stood for, and since when: pure, over the versions of core.offer.

A catalog row such as `~acme/one-latest` says in `alias_of` what it stands for today; each change is a new
version with its own `valid_from`. So a name is resolved as of an instant, and the answer carries the dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

MAX_STEPS = 8


@dataclass(frozen=True)
class Resolution:
    """`names`: the offer and what it stood for, step by step; `since`: when the last of these steps was first seen
    (naive UTC). `cycle`: the names lead back to one another, so they name no model."""

    names: tuple[str, ...]
    since: datetime | None
    cycle: bool = False

    @property
    def target(self) -> str | None:
        """What the name stood for in the end; None where names only name one another."""
        return None if self.cycle else self.names[-1]


def resolve(
    offers: pl.DataFrame, provider: str, name: str, at: datetime, known_at: datetime | None = None
) -> Resolution:
    """What `name` of `provider` stood for at `at`, by what was known at `known_at` (default: all of it).

    offers: rows of core.offer (provider, offer_id, alias_of, valid_from, known_from), any number of versions.
    A name that no row speaks of stands for itself.
    """
    own = offers.filter((pl.col("provider") == provider) & (pl.col("valid_from") <= at))
    if known_at is not None:
        own = own.filter(pl.col("known_from") <= known_at)
    own = own.sort("valid_from", "known_from")
    names, since = [name], None
    while len(names) <= MAX_STEPS:
        versions = own.filter(pl.col("offer_id") == names[-1])
        target = versions["alias_of"].last() if versions.height else None
        if target is None:
            return Resolution(tuple(names), since)
        since = _since(versions)
        if target in names:
            return Resolution((*names, str(target)), since, cycle=True)
        names.append(str(target))
    return Resolution(tuple(names), since, cycle=True)


def _since(versions: pl.DataFrame) -> datetime:
    """The first instant of the unbroken run of versions that say the same as the last one."""
    targets, instants = versions["alias_of"].to_list(), versions["valid_from"].to_list()
    first = len(targets) - 1
    while first and targets[first - 1] == targets[-1]:
        first -= 1
    return instants[first]  # type: ignore[no-any-return]
