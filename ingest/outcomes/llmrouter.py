"""`llmrouter-outcomes`: files of LLMRouter (github.com/ulab-uiuc/LLMRouter), JSON or JSON lines, told apart by rows.

    question, scores {model: 0..1}                    outcomes (train.json, test.json)
    query, model_name, performance, tokens, times     outcomes, one cell per row (routing data)
    task_name, query                                  texts and benchmarks of queries (default_query_*.jsonl)
    {model: {size, input_price, output_price}}        sizes and prices of arms (default_llm.json)

Queries have no ids: the hash of a query's text is one, so that all files speak of the same query. The option `split`,
a row, or the file's name (train, test) tells the split of outcomes. The texts of queries tell none: they hold more
queries than the outcomes, some of them in both parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import polars as pl

from ingest.base import Parsed, Reject
from ingest.billing.pieces import UNREADABLE, Rest, Unpacked, batched
from ingest.billing.tabular import Chunk, Columns, chunks
from ingest.fields import Row, plain_json
from ingest.outcomes.cells import Cells
from ingest.outcomes.columns import SPLIT, dataset_option
from ingest.outcomes.energy_models import LLMROUTER, energy_model, parameters_b
from ingest.outcomes.llmrouter_arms import is_arms, read_arms
from ingest.outcomes.queries import read_queries
from ingest.read import loads
from ingest.stream import Stream, whole
from warehouse.ids import sha256

OPTIONS = (dataset_option("llmrouter"), SPLIT)
# field of a routing record -> column here; times are seconds
_RECORD = {
    "performance": "correct", "input_tokens": "prompt_tokens", "output_tokens": "output_tokens",
    "response_time": "latency_s",
}  # fmt: skip
COLUMNS = Columns(
    plain=("question", "query", "scores", "task_name", "task", "split", "model_name", *_RECORD), nested={}
)
_TOLD = ("query_id", "prompt", "benchmark", "split", "arm", *_RECORD.values())
_LARGEST_ARMS = 1 << 20
_GZIP = b"\x1f\x8b"


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """Cells, queries or arms of a file. Raises PayloadError where it is none of those above."""
    head = file.read(_LARGEST_ARMS)
    rest: Any = file
    if head.startswith(_GZIP):
        rest = Unpacked(about, Rest(head, file))
        head = rest.read(_LARGEST_ARMS)
    if len(head) < _LARGEST_ARMS and head.lstrip().startswith(b"{") and is_arms(document := _document(head)):
        yield read_arms(about, document)
        return
    yield from batched(_parts(about, Rest(head, rest)))


def _document(body: bytes) -> Any:
    try:
        return loads(body.decode("utf-8-sig"), allow_nan=True)
    except UNREADABLE:
        return None


def _parts(about: Stream, file: Rest) -> Iterator[Parsed]:
    cells = Cells(about)
    queries: bool | None = None  # whether the file tells texts of queries and no outcomes
    for chunk in chunks(about, file, COLUMNS):
        told: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for row in _rows(chunk, rejects):
            shape = _shape(row.data)
            if queries is None and shape is not None:
                queries = shape is _query_row
            if shape is None:
                row.refuse(None, None, "the row has neither scores, nor performance of a model, nor a task's query",
                           whole_row=True)  # fmt: skip
            elif (shape is _query_row) != queries:
                row.refuse(None, None, "the row tells other things than the rows before it", whole_row=True)
            else:
                told += shape(about, row)
            rejects += row.rejects
        schema = {"row_no": pl.Int64, **dict.fromkeys(_TOLD, pl.String)}
        frame = pl.DataFrame([{name: r.get(name) for name in schema} for r in told], schema=schema)
        if queries:
            yield read_queries(about, frame, frame.height + len(rejects), rejects)
        else:
            found = cells.read(frame.with_columns(energy_model(LLMROUTER), parameters_b()))
            yield replace(found, rows_in=frame.height + len(rejects), rejects=(*rejects, *found.rejects))


def _rows(chunk: Chunk, rejects: list[Reject]) -> Iterator[Row]:
    for index, row_no in enumerate(chunk.numbers):
        data, why = chunk.read(index)
        row = Row(row_no, data or {})
        if data is None:
            row.refuse(None, None, why, whole_row=True)
            rejects += row.rejects
        else:
            yield row


def _shape(data: Mapping[str, Any]) -> Any:
    if "scores" in data:
        return _score_cells
    if "model_name" in data and "performance" in data:
        return _record_cell
    return _query_row if "query" in data else None


def _score_cells(about: Stream, row: Row) -> list[dict[str, Any]]:
    """A cell for each model that has a score; null is a missing cell."""
    query = _query(about, row)
    scores = row.data["scores"]
    if query is not None and (not isinstance(scores, dict) or not scores):
        row.refuse("scores", scores, "is no object of a score for each model", whole_row=True)
        return []
    if query is None:
        return []
    return [{**query, "arm": arm, "correct": _text(score)} for arm, score in scores.items() if score is not None]


def _record_cell(about: Stream, row: Row) -> list[dict[str, Any]]:
    query = _query(about, row)
    if query is None:
        return []
    figures = {name: _text(row.data.get(told)) for told, name in _RECORD.items()}
    return [{**query, "arm": _text(row.data["model_name"]), **figures}]


def _query_row(about: Stream, row: Row) -> list[dict[str, Any]]:
    query = _query(about, row)
    return [] if query is None else [{**query, "split": None}]


def _query(about: Stream, row: Row) -> dict[str, Any] | None:
    """What the row tells of its query; None, with a refusal, where it has no text."""
    name = "question" if "question" in row.data else "query"
    text = row.data.get(name)
    if not isinstance(text, str) or not text.strip():
        row.refuse(name, text, "is missing or no text, so the query cannot be named", whole_row=True)
        return None
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return {
        "row_no": row.row_no,
        "query_id": sha256(text.encode())[:16],
        "prompt": text,
        "benchmark": _text(row.data.get("task_name", row.data.get("task"))),
        "split": _text(row.data.get("split")) or _split_of_name(about.path.name),
    }


def _split_of_name(name: str) -> str | None:
    """train or test, where a file's name has one of these words."""
    found = set(re.findall(r"(?<![a-z])(train|test)(?![a-z])", name.lower()))
    return found.pop() if len(found) == 1 else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return plain_json(value)


parse = whole(stream)
