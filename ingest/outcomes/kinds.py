"""The kinds of recorded outcomes: what the replay lab reads."""

from __future__ import annotations

from ingest.base import Parser
from ingest.kind import DAY_S, MIB, Kind, Option
from ingest.outcomes import llmrouter, long, queries, routellm, routerbench, zeroeval
from ingest.outcomes.settle import settle
from ingest.stream import Streamer


def _kind(name: str, title: str, docs: str, parse: Parser, stream: Streamer, options: tuple[Option, ...]) -> Kind:
    return Kind(
        name=name,
        title=title,
        parse=parse,
        docs=docs,
        transports=("file",),
        max_bytes=512 * MIB,
        stale_after_s=366 * DAY_S,
        expire_after_s=5 * 366 * DAY_S,
        stream=stream,
        settle=settle,
        options=options,
    )


KINDS = (
    _kind(
        "outcomes",
        "Recorded outcomes",
        "long table, CSV or Parquet: query, arm, correctness, and joules with evidence class, seconds, tokens, USD",
        long.parse,
        long.stream,
        long.OPTIONS,
    ),
    _kind(
        "replay-queries",
        "Texts of replay queries",
        "query_id and question (CSV, Parquet) for a data set whose outcomes lack the text",
        queries.parse,
        queries.stream,
        queries.OPTIONS,
    ),
    _kind(
        "zeroeval-outcomes",
        "ZeroEval outcomes",
        "graded answers of ZeroEval (CSV): task, query, model, correctness, output tokens",
        zeroeval.parse,
        zeroeval.stream,
        zeroeval.OPTIONS,
    ),
    _kind(
        "llmrouter-outcomes",
        "LLMRouter outcomes",
        "LLMRouter's scores or routing data (JSON, JSON lines), texts of its queries, its list of models",
        llmrouter.parse,
        llmrouter.stream,
        llmrouter.OPTIONS,
    ),
    _kind(
        "routellm-outcomes",
        "RouteLLM outcomes",
        "RouteLLM's responses on MMLU and GSM8K (CSV): prompt and correctness of each model",
        routellm.parse,
        routellm.stream,
        routellm.OPTIONS,
    ),
    _kind(
        "routerbench-outcomes",
        "RouterBench outcomes",
        "RouterBench's wide table (CSV, Parquet): score, response and USD of each model",
        routerbench.parse,
        routerbench.stream,
        routerbench.OPTIONS,
    ),
)
