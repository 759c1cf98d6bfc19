"""A kind of payload: what is known about it, whichever way it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from ingest.base import Parser, Payload
from ingest.http import NotModified
from ingest.settle import Settle
from ingest.stream import Streamer
from warehouse.engine import Transaction

MIB = 2**20
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S

Derive = Callable[[Transaction, str], Mapping[str, pl.DataFrame]]
"""Frames per table that follow from what a source has loaded; called within the transaction of the load."""


@dataclass(frozen=True)
class Ask:
    """One fetch: where, with which secret and validators, within which limits."""

    url: str  # with placeholders filled in
    source_id: str
    kind: str
    secret: str | None
    options: Mapping[str, str]
    etag: str | None
    last_modified: str | None
    max_bytes: int
    offline: bool
    now: datetime  # naive UTC


Fetch = Callable[[Ask], Payload | NotModified]
"""A fetch that is more than one GET (a login before it, a window in the address). It uses `ingest.http.fetch`."""


@dataclass(frozen=True)
class Option:
    """Something a payload does not tell and a person must declare, such as the zone of naive time stamps.

    Given with `--option name=value`, under `[sources.NAME.options]`, and kept in `Payload.options`.
    """

    name: str
    about: str
    default: str | None = None  # None with required: must be given; None without: may be absent
    required: bool = False
    allowed: tuple[str, ...] = ()  # empty: any text


@dataclass(frozen=True)
class Kind:
    """What is known about a kind of payload, whichever way it comes.

    max_bytes bounds the unpacked payload; min_rows is what a sound payload holds at least. cadence_s is
    None for what only comes by hand. Data older than stale_after_s is shown as stale, older than
    expire_after_s as expired; both are defaults that configuration may change.
    """

    name: str
    title: str
    parse: Parser
    docs: str
    transports: tuple[str, ...]  # of http, file
    max_bytes: int
    stale_after_s: float
    expire_after_s: float
    provider: str | None = None
    default_url: str | None = None  # may hold {now}, see expand_url
    cadence_s: float | None = None
    min_rows: int = 1
    derive: Derive | None = None  # what follows from the loaded facts of a source; called after each load
    settle: Settle | None = None  # compares staged rows with each other and with what is known: see ingest/settle.py
    stream: Streamer | None = None  # for files that may be large: see ingest/stream.py
    options: tuple[Option, ...] = ()
    secret_header: str = "Authorization"  # noqa: S105 (a header name)
    secret_prefix: str = "Bearer "  # noqa: S105
    fetch: Fetch | None = None  # None: one conditional GET

    @property
    def importable(self) -> bool:
        """Whether `joulebook import` takes files of this kind."""
        return "file" in self.transports
