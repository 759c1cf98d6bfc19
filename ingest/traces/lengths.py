"""`length-cdf`: a cumulative distribution of request lengths, prompt and output tokens together, JSON.

    [[64, 0.008], [128, 0.028], …, [65536, 1.0]]
    {"cdf": [[64, 0.008], …], "source": "where it comes from"}

One bad knot makes the others mean something else, so nothing is repaired: the whole file is refused.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from ingest.base import Parsed, Payload
from ingest.fields import Refused, number, whole
from ingest.kind import Option
from ingest.read import read_json, refuse, shape_of
from ingest.traces.requests import LARGEST_TOKENS, name_of
from warehouse.tables import frame

TABLE = "core.length_cdf"
CDF = Option("cdf", "name of the distribution; default: the file's name")
CITATION = Option("citation", "where the distribution comes from, if the file does not say")
OPTIONS = (CDF, CITATION)
_CLOSE = Decimal("0.000001")  # to 1, at the last knot
_MOST = 100_000


def parse(payload: Payload) -> Parsed:
    """The knots. Raises PayloadError where tokens do not rise, shares fall, or the last is not 1."""
    document = read_json(payload, allow_nan=True)
    knots = document.get("cdf") if isinstance(document, dict) else document
    if not isinstance(knots, list):
        refuse(payload, f"the payload holds {shape_of(knots)} where its knots should be", field="cdf",
               fix='send [[tokens, share], …] or {"cdf": [[tokens, share], …]}')  # fmt: skip
    if not 1 <= len(knots) <= _MOST:
        refuse(payload, f"the distribution has {len(knots)} knots", field="cdf", fix=f"send 1 to {_MOST}")
    file_name = unquote(PurePosixPath(urlsplit(payload.url).path).name)
    name = name_of(file_name, payload.source_id, CDF.name, payload.options.get(CDF.name))
    rows: list[dict[str, Any]] = []
    last = (0, Decimal(0))
    for place, knot in enumerate(knots):
        last = _knot(payload, place, knot, last)
        rows.append({"cdf": name, "tokens": last[0], "share": float(last[1]), "citation": _citation(payload, document)})
    if abs(last[1] - 1) > _CLOSE:
        refuse(payload, f"the last share is {last[1]}, so some requests have no length", field="cdf",
               fix="add the knot of the longest request, with share 1")  # fmt: skip
    rows[-1]["share"] = 1.0
    return Parsed(TABLE, {TABLE: frame(TABLE, rows)}, len(rows))


def _knot(payload: Payload, place: int, knot: Any, last: tuple[int, Decimal]) -> tuple[int, Decimal]:
    try:
        if not isinstance(knot, list) or len(knot) != 2:
            raise Refused("is not [tokens, share]")
        tokens, share = whole(knot[0], low=1, high=LARGEST_TOKENS), number(knot[1], low=0, high=1 + _CLOSE)
        if tokens is None or share is None:
            raise Refused("has no tokens or no share")
        if tokens <= last[0]:
            raise Refused(f"has {tokens} tokens after {last[0]}: they must rise")
        if share < last[1]:
            raise Refused(f"has share {share} after {last[1]}: a cumulative share never falls")
    except Refused as why:
        refuse(payload, f"knot {place} {why}", field="cdf", fix="export the distribution again")
    return tokens, min(share, Decimal(1))


def _citation(payload: Payload, document: Any) -> str | None:
    told = payload.options.get(CITATION.name)
    if told is None and isinstance(document, dict):
        parts = [document.get(k) for k in ("source", "provenance", "citation")]
        told = ": ".join(p.strip() for p in parts if isinstance(p, str) and p.strip())
    return (told or "").strip()[:1000] or None
