"""Quality scores, CSV or JSON -> core.score: what a leaderboard or an evaluation of one's own says of a model.

Columns: `model`, `category`, `component` (leaderboard | self_eval; or the option `component` for the whole file),
`date`, `source` (the leaderboard's name), and exactly one score column whose unit stands in its name (`UNITS`), or
`correct` beside `n`. A self-evaluation needs `n`: the router lets it outweigh a leaderboard from ten on. Columns that
are not known are left out and named in the run's notes, except one that looks like a score: its unit is unsure.

Categories are the router's; a leaderboard's own names are not mapped, since no mapping would be more than a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Refused, Row
from ingest.kind import Option
from ingest.quality.table import MISSHAPEN, count_of, day_of, needed, read_rows, text_of
from ingest.read import refuse
from warehouse.tables import frame

CATEGORIES = (
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
COMPONENTS = ("leaderboard", "self_eval")
# score column -> what it is divided by
UNITS = {
    "score_fraction": Decimal(1),
    "score_0_1": Decimal(1),
    "score_percent": Decimal(100),
    "score_pct": Decimal(100),
}
CORRECT = "correct"
OPTIONS = (Option("component", "what the whole file is, where it has no such column", allowed=COMPONENTS),)
_KNOWN = frozenset({"model", "category", "component", "source", "date", "n", CORRECT, *UNITS})
_Key = tuple[Any, ...]


def parse(payload: Payload) -> Parsed:
    """Scores of the file; `data_at` is its newest date. Raises PayloadError where its columns are not those above."""
    listed, columns = read_rows(payload, ("scores", "results", "data"))
    column = _score_column(columns, payload) if columns else CORRECT
    rows: dict[_Key, dict[str, Any]] = {}
    rejects: list[Reject] = []
    for row_no, data in enumerate(listed):
        row = Row(row_no, data, " / ".join(str(data.get(k)) for k in ("model", "category", "component", "date")))
        try:
            found = _score(data, column, payload)
            _once(rows, found)
        except Refused as refused:
            name, _, reason = str(refused).partition(" ")
            row.refuse(name, data.get(name), reason, whole_row=True)
            rejects += row.rejects
    ignored = sorted(set(columns) - _KNOWN)
    return Parsed(
        primary="core.score",
        tables={"core.score": frame("core.score", rows.values())},
        rows_in=len(listed),
        rejects=tuple(rejects),
        data_at=max((row["valid_from"] for row in rows.values()), default=None),
        notes=(f"columns that were left out: {', '.join(n[:40] for n in ignored[:12])}",) if ignored else (),
    )


def _score_column(columns: list[str], payload: Payload) -> str:
    units = ", ".join(UNITS)
    found = [name for name in columns if name in UNITS or name == CORRECT]
    unsure = [name for name in columns if name not in _KNOWN and ("score" in name or "accuracy" in name)]
    if unsure and not found:
        refuse(payload, f"the column {unsure[0]!r} does not tell its unit", field=unsure[0],
               fix=f"name it one of {units}, or give {CORRECT} and n")  # fmt: skip
    if len(found) != 1:
        told = "no column tells a score with its unit" if not found else f"{', '.join(found)} tell it twice"
        refuse(payload, told, field="score", fix=f"use exactly one of {units}, or {CORRECT} with n")
    if missing := [n for n in ("model", "category", "date", "source") if n not in columns]:
        refuse(payload, f"the column {missing[0]!r} is missing", field=missing[0], fix="add it; nothing is assumed")
    if "component" not in columns and payload.options.get("component") is None:
        refuse(payload, "the column 'component' is missing", field="component",
               fix=f"add it, or --option component={'|'.join(COMPONENTS)}")  # fmt: skip
    return found[0]


def _score(data: Mapping[str, Any], column: str, payload: Payload) -> dict[str, Any]:
    """One row of core.score. Raises Refused, the message beginning with the field."""
    if MISSHAPEN in data:
        raise Refused("row has not the columns of the header")
    model, category, source = (text_of(data, name) for name in ("model", "category", "source"))
    if category not in CATEGORIES:
        raise Refused(f"category is none of {', '.join(CATEGORIES)}")
    component = text_of(data, "component") if data.get("component") is not None else payload.options.get("component")
    if component not in COMPONENTS:
        raise Refused(f"component is none of {', '.join(COMPONENTS)}")
    at = day_of(text_of(data, "date"), "date", not_after=payload.fetched_at)
    n = count_of(data, "n", low=1)
    if n is None and (component == "self_eval" or column == CORRECT):
        raise Refused("n is missing; a share without its sample size says nothing")
    return {
        "model": model,
        "category": category,
        "component": component,
        "valid_from": at,
        "score": _share(data, column, n),
        "n": n,
        "source_name": source,
    }


def _share(data: Mapping[str, Any], column: str, n: int | None) -> float:
    if column == CORRECT:
        assert n is not None
        correct = count_of(data, CORRECT)
        if correct is None:
            raise Refused(f"{CORRECT} is missing")
        if correct > n:
            raise Refused(f"{CORRECT} is above n, {n}")
        return correct / n
    told = needed(data, column, low=-(10**6), high=10**6)
    if not 0 <= told <= UNITS[column]:
        hint = "; a percentage belongs into score_percent" if 1 < told <= 100 else ""
        raise Refused(f"{column} is {told:f}, outside 0 to {UNITS[column]}{hint}")
    return float(told / UNITS[column])


def _once(rows: dict[_Key, dict[str, Any]], found: dict[str, Any]) -> None:
    known = rows.setdefault(tuple(found[k] for k in ("model", "category", "component", "valid_from")), found)
    if known is not found:
        how = "as before" if known == found else f"differently; {known['score']:g} of {known['source_name']} was kept"
        raise Refused(f"model has a {found['component']} score of this category and date twice, {how}")
