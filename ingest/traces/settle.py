"""What a staged trace or distribution must be compared with before it is loaded.

Experiments name the trace that they ran on, so a name means the same requests for ever: a file under a known name is
accepted where it tells the same requests, or the same and more after them, and refused where it tells others.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ingest.errors import PayloadError
from ingest.settle import Settled
from ingest.traces.lengths import CDF
from ingest.traces.lengths import TABLE as CDFS
from ingest.traces.requests import TABLE as TRACES
from ingest.traces.requests import TRACE
from warehouse.engine import Transaction

_SORT = """
UPDATE {staged} AS t SET request_no = s.place, arrival_s = t.arrival_s - s.base
FROM (SELECT row_, row_number() OVER (ORDER BY arrival_s, row_) - 1 AS place, min(arrival_s) OVER () AS base
      FROM {staged}) AS s
WHERE t.row_ = s.row_
"""
_UNSORTED = """
SELECT count(*) FROM (SELECT arrival_s < lag(arrival_s) OVER (ORDER BY row_) AS back FROM {staged}) WHERE back
"""
# kept rows that the file does not tell the same way
_OTHER = """
SELECT c.{name} AS name, count(*) AS kept, count(*) FILTER (s.{name} IS NULL) AS other
FROM {table} AS c LEFT JOIN {staged} AS s ON {same}
WHERE c.{name} IN (SELECT DISTINCT {name} FROM {staged})
GROUP BY ALL HAVING count(*) FILTER (s.{name} IS NULL) > 0 ORDER BY ALL
"""
_KEYS = {
    TRACES: (TRACE.name, ("trace", "request_no", "arrival_s", "prompt_tokens", "output_tokens")),
    CDFS: (CDF.name, ("cdf", "tokens", "share")),
}


def settle(tx: Transaction, staged: Mapping[str, str], primary: str) -> Settled:
    """Sort what the parser let through unsorted. Raises PayloadError for a known name with other content."""
    name, columns = _KEYS[primary]
    table = staged[primary]
    if primary == TRACES and tx.query(_UNSORTED.format(staged=table)).item():
        tx.execute(_SORT.format(staged=table))
    same = " AND ".join(f"s.{c} = c.{c}" for c in columns)
    other = tx.query(_OTHER.format(name=name, table=primary, staged=table, same=same))
    if primary == CDFS and other.is_empty():
        other = _more_knots(tx, table)
    if other.height:
        what, kept, differing = other.row(0)
        raise PayloadError(
            f"{what!r} is known with other content: {differing} of its {kept} kept rows differ",
            field=name,
            fix=f"import it under another name: --option {name}=NAME",
        )
    return Settled()


def _more_knots(tx: Transaction, staged: str) -> pl.DataFrame:
    """A distribution with knots between the kept ones is another one."""
    return tx.query(
        f"SELECT s.cdf AS name, count(c.tokens) AS kept, count(*) - count(c.tokens) AS other FROM {staged} AS s "
        f"LEFT JOIN {CDFS} AS c ON c.cdf = s.cdf AND c.tokens = s.tokens WHERE s.cdf IN (SELECT cdf FROM {CDFS}) "
        "GROUP BY ALL HAVING count(*) > count(c.tokens)"
    )
