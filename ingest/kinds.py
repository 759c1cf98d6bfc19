"""The kinds of payload that joulebook reads: `joulebook import KIND FILE` and every configured source."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from ingest.base import Parser
from ingest.billing import derive, neuralwatt_completions, neuralwatt_usage
from ingest.catalog import neuralwatt, openrouter
from ingest.errors import UnknownKind
from ingest.grid import static_factors, uk_carbon
from ingest.sample import published
from warehouse.engine import Transaction

_MIB = 2**20
_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S


Derive = Callable[[Transaction, str], Mapping[str, pl.DataFrame]]
"""Frames per table that follow from what a source has loaded; called within the transaction of the load."""


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

    @property
    def importable(self) -> bool:
        """Whether `joulebook import` takes files of this kind."""
        return "file" in self.transports


_ALL = (
    Kind(
        name="openrouter",
        title="OpenRouter catalog",
        parse=openrouter.parse,
        docs="GET /api/v1/models: offers and list prices, USD per token as text",
        transports=("http", "file"),
        max_bytes=16 * _MIB,
        provider=openrouter.PROVIDER,
        default_url="https://openrouter.ai/api/v1/models",
        cadence_s=_HOUR_S,
        stale_after_s=3 * _HOUR_S,
        expire_after_s=7 * _DAY_S,
    ),
    Kind(
        name="neuralwatt-models",
        title="Neuralwatt catalog",
        parse=neuralwatt.parse,
        docs="GET /v1/models: offers, serving classes and list prices, USD per million tokens",
        transports=("http", "file"),
        max_bytes=4 * _MIB,
        provider=neuralwatt.PROVIDER,
        default_url="https://api.neuralwatt.com/v1/models",
        cadence_s=_HOUR_S,
        stale_after_s=3 * _HOUR_S,
        expire_after_s=7 * _DAY_S,
    ),
    Kind(
        name="neuralwatt-usage",
        title="Neuralwatt usage export",
        parse=neuralwatt_usage.parse,
        docs="usage analytics export of the portal (JSON): billed cost, energy and carbon per model and day",
        transports=("file", "http"),
        max_bytes=32 * _MIB,
        provider=neuralwatt_usage.PROVIDER,
        derive=derive.tariffs_of_source,
        stale_after_s=7 * _DAY_S,
        expire_after_s=60 * _DAY_S,
    ),
    Kind(
        name="neuralwatt-completions",
        title="Neuralwatt completions",
        parse=neuralwatt_completions.parse,
        docs="responses with energy and cost blocks: JSON, JSON lines or SSE text",
        transports=("file",),
        max_bytes=256 * _MIB,
        provider=neuralwatt_completions.PROVIDER,
        stale_after_s=7 * _DAY_S,
        expire_after_s=60 * _DAY_S,
    ),
    Kind(
        name="uk-carbon",
        title="Grid carbon, Great Britain",
        parse=uk_carbon.parse,
        docs="api.carbonintensity.org.uk: half-hourly national average, direct factors, actual and forecast",
        transports=("http", "file"),
        max_bytes=4 * _MIB,
        default_url="https://api.carbonintensity.org.uk/intensity",
        cadence_s=_HOUR_S / 2,
        stale_after_s=2 * _HOUR_S,
        expire_after_s=2 * _DAY_S,
    ),
    Kind(
        name="grid-factors",
        title="Static grid factors",
        parse=static_factors.parse,
        docs="CSV or JSON list: zone, year, basis, source and one intensity column with its unit in the name",
        transports=("file", "http"),
        max_bytes=16 * _MIB,
        stale_after_s=366 * _DAY_S,
        expire_after_s=5 * 366 * _DAY_S,
    ),
    Kind(
        name="published-points",
        title="Published routing policies",
        parse=published.parse,
        docs="points of a publication (JSON): policy, accuracy, J, s and W per query; never a measurement of ours",
        transports=("generated",),
        max_bytes=1 * _MIB,
        stale_after_s=366 * _DAY_S,
        expire_after_s=5 * 366 * _DAY_S,
    ),
)

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
