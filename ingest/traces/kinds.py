"""The kinds of recorded workloads: what the fleet is simulated on."""

from __future__ import annotations

from ingest.base import Parser
from ingest.kind import DAY_S, MIB, Kind, Option
from ingest.stream import Streamer
from ingest.traces import azure, lengths, mooncake, requesttrace
from ingest.traces.settle import settle


def _kind(
    name: str, title: str, docs: str, parse: Parser, stream: Streamer | None, options: tuple[Option, ...]
) -> Kind:
    return Kind(
        name=name,
        title=title,
        parse=parse,
        docs=docs,
        transports=("file",),
        max_bytes=512 * MIB if stream else 16 * MIB,
        stale_after_s=366 * DAY_S,
        expire_after_s=5 * 366 * DAY_S,
        stream=stream,
        settle=settle,
        options=options,
    )


KINDS = (
    _kind(
        "azure-trace",
        "Azure LLM inference trace",
        "requests of an Azure trace (CSV): time in UTC with 100 ns, prompt and output tokens",
        azure.parse,
        azure.stream,
        azure.OPTIONS,
    ),
    _kind(
        "mooncake-trace",
        "Mooncake trace",
        "requests of a Mooncake trace (JSON lines): ms, prompt and output tokens, prefix blocks that make sessions",
        mooncake.parse,
        mooncake.stream,
        mooncake.OPTIONS,
    ),
    _kind(
        "request-trace",
        "Request trace",
        "requests of your own (CSV, Parquet, JSON lines): arrival, prompt and output tokens, session, model, category",
        requesttrace.parse,
        requesttrace.stream,
        requesttrace.OPTIONS,
    ),
    _kind(
        "length-cdf",
        "Distribution of request lengths",
        "cumulative distribution of prompt and output tokens together (JSON): [[tokens, share], …]",
        lengths.parse,
        None,
        lengths.OPTIONS,
    ),
)
