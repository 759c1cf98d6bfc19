"""Recorded workloads: traces of requests as arrays, and cumulative distributions of request lengths.

A trace keeps what it recorded, arrivals and prompt and output lengths of each request; a distribution knows total
tokens only, so whoever uses one must say how they split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from policies.fleet.errors import TraceInvalid, TraceUnknown
from policies.fleet.length_cdf import LengthCdf
from warehouse.clock import iso
from warehouse.snapshots import Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their arrival; every array has one entry per request.

    `session`, `model` and `category` are codes into `sessions` (how many there are), `models` and `categories`;
    -1 where the trace does not tell. Raises TraceInvalid: no request, arrivals that fall, lengths below 1.
    """

    name: str
    arrival_s: Floats  # since the first request of the trace
    prompt_tokens: Ints
    output_tokens: Ints
    session: Codes
    model: Codes
    category: Codes
    sessions: int
    models: tuple[str, ...]
    categories: tuple[str, ...]
    started_at: str | None = None  # of the first request, where the trace tells

    def __post_init__(self) -> None:
        if not len(self.arrival_s):
            raise TraceInvalid(f"the trace {self.name} has no requests.", fix="import one that has")
        for name in ("prompt_tokens", "output_tokens", "session", "model", "category"):
            if len(getattr(self, name)) != len(self.arrival_s):
                raise TraceInvalid(f"{name} of the trace {self.name} has another length.", fix="give one per request")
        if not np.isfinite(self.arrival_s).all() or (np.diff(self.arrival_s) < 0).any():
            raise TraceInvalid(
                f"the arrivals of the trace {self.name} are not in order.", fix="sort the requests by their arrival"
            )
        if min(int(self.prompt_tokens.min()), int(self.output_tokens.min())) < 1:
            raise TraceInvalid(f"a length of the trace {self.name} is below 1.", fix="leave that request out")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def duration_s(self) -> float:
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def requests_per_s(self) -> float:
        """Mean rate over the trace. Raises TraceInvalid where all requests arrive at once."""
        if not self.duration_s > 0:
            raise TraceInvalid(f"all requests of the trace {self.name} arrive at once.", fix="declare a rate")
        return (len(self) - 1) / self.duration_s


def traces(snap: Snapshot) -> list[dict[str, Any]]:
    """What is known of each trace, by name: counts, mean lengths, span, models, sources, age. Plain JSON values."""
    return _listed(snap, "traces.sql")


def cdfs(snap: Snapshot) -> list[dict[str, Any]]:
    """What is known of each distribution of lengths, by name. Plain JSON values."""
    return _listed(snap, "cdfs.sql")


def read_trace(
    snap: Snapshot, name: str, *, from_s: float = 0.0, to_s: float | None = None, limit: int | None = None
) -> Trace:
    """The requests of a trace that arrive from `from_s` to before `to_s`, at most `limit` of them.

    `arrival_s` stays that of the whole trace. Raises TraceUnknown, and TraceInvalid where no request is in the window.
    """
    frame = snap.frame(_sql("trace.sql"), trace=name, from_s=from_s, to_s=to_s, limit=limit)
    if frame.is_empty():
        known = {row["trace"]: row["requests"] for row in traces(snap)}
        if name not in known:
            raise TraceUnknown(f"there is no trace {name!r}.", fix=_choose(known, "trace"))
        raise TraceInvalid(f"no request of the trace {name} arrives in that window.", fix="widen from_s and to_s")
    session, sessions = _codes(frame["session_id"])
    model, models = _codes(frame["model"])
    category, categories = _codes(frame["category"])
    started_at = frame["arrived_at"][0]
    return Trace(
        name=name,
        arrival_s=frame["arrival_s"].to_numpy(),
        prompt_tokens=frame["prompt_tokens"].to_numpy(),
        output_tokens=frame["output_tokens"].to_numpy(),
        session=session,
        model=model,
        category=category,
        sessions=len(sessions),
        models=tuple(models),
        categories=tuple(categories),
        started_at=None if started_at is None else iso(started_at),
    )


def read_cdf(snap: Snapshot, name: str) -> LengthCdf:
    """Raises TraceUnknown, and TraceInvalid where the knots are none of a distribution."""
    frame = snap.sql(_sql("cdf.sql"), cdf=name)
    if frame.is_empty():
        raise TraceUnknown(
            f"there is no distribution of lengths {name!r}.",
            fix=_choose([row["cdf"] for row in cdfs(snap)], "length-cdf"),
        )
    citation = frame["citation"].drop_nulls()
    return LengthCdf(
        tuple(frame["tokens"].to_list()),
        tuple(frame["share"].to_list()),
        name,
        citation[0] if len(citation) else None,
    )


def _codes(values: pl.Series) -> tuple[Codes, list[str]]:
    """Codes by first appearance, -1 for NULL, and what they stand for."""
    known = values.drop_nulls().unique(maintain_order=True)
    codes = values.replace_strict(
        known, pl.Series(range(len(known)), dtype=pl.Int32), default=-1, return_dtype=pl.Int32
    )
    return codes.to_numpy(), known.to_list()


def _listed(snap: Snapshot, name: str) -> list[dict[str, Any]]:
    found = []
    for row in snap.frame(_sql(name)).iter_rows(named=True):
        age_s = (snap.as_of - row["newest_at"]).total_seconds()
        times = {k: None if v is None else iso(v) for k, v in row.items() if k.endswith("_at")}
        found.append({**row, **times, "age_s": age_s})
    return found


def _choose(known: Any, kind: str) -> str:
    named = ", ".join(list(known)[:12])
    return f"choose one of {named}" if named else f"import one: joulebook import {kind} FILE"


@cache
def _sql(name: str) -> str:
    return (resources.files("policies.fleet") / "sql" / name).read_text(encoding="utf-8")
