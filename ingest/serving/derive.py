"""The windows that follow from the scrapes of a source, within the transaction that loads them.

Only what a load can have changed is worked out again: the windows that end at its scrapes, and the one after them,
since a scrape that comes late cuts a longer window in two. So any order of loading ends in the same windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from ingest.serving.windows import Scrape, windows
from warehouse.tables import frame

if TYPE_CHECKING:
    from warehouse.engine import Transaction

# The scrapes of the newest run of a source, from the one before them to the one after them, engine by engine.
_AROUND = """
WITH own AS (SELECT * FROM core.serving_scrape WHERE source_id = $source),
touched AS (
  SELECT backend_id, engine, model, min(scraped_at) AS first_at, max(scraped_at) AS last_at
  FROM own WHERE run_id = (SELECT max(run_id) FROM own)
  GROUP BY ALL
),
earlier AS (
  SELECT o.backend_id, o.engine, o.model, max(o.scraped_at) AS before_at
  FROM own o JOIN touched t USING (backend_id, engine, model)
  WHERE o.scraped_at < t.first_at
  GROUP BY ALL
),
later AS (
  SELECT o.backend_id, o.engine, o.model, min(o.scraped_at) AS after_at
  FROM own o JOIN touched t USING (backend_id, engine, model)
  WHERE o.scraped_at > t.last_at
  GROUP BY ALL
)
SELECT o.*, o.scraped_at >= t.first_at AS wanted
FROM own o
JOIN touched t USING (backend_id, engine, model)
LEFT JOIN earlier USING (backend_id, engine, model)
LEFT JOIN later USING (backend_id, engine, model)
WHERE o.scraped_at BETWEEN coalesce(before_at, t.first_at) AND coalesce(after_at, t.last_at)
ORDER BY o.backend_id, o.engine, o.model, o.scraped_at
"""


def windows_of_source(tx: Transaction, source_id: str) -> Mapping[str, pl.DataFrame]:
    """core.serving_window rows for the newest load of `source_id`, as seen within `tx`."""
    rows = tx.query(_AROUND, {"source": source_id}).to_dicts()
    wanted = {(r["backend_id"], r["engine"], r["model"], r["scraped_at"]) for r in rows if r["wanted"]}
    found = windows(Scrape.of(row) for row in rows)
    kept = [w for w in found if (w["backend_id"], w["engine"], w["model"], w["window_end_at"]) in wanted]
    return {"core.serving_window": frame("core.serving_window", kept)}
