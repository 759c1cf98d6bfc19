-- The last six loads of each source: rows that came, and rows of them in quarantine, whole or in a field.
WITH loads AS (
  SELECT source_id, run_id, payload_id, started_at, rows_in,
         row_number() OVER (PARTITION BY source_id ORDER BY started_at DESC, run_id DESC) AS back
  FROM ops.run
  WHERE state IN ('OK', 'PARTIAL') AND NOT not_modified AND rows_in > 0 AND started_at <= $as_of
    AND source_id NOT LIKE 'sample:%'
  QUALIFY back <= 6
), refused AS (
  SELECT source_id, payload_id, CASE WHEN payload_id IS NULL THEN run_id END AS run_id,
         count(DISTINCT coalesce(CAST(row_no AS VARCHAR), natural_key, quarantine_id)) AS n,
         mode(reason ORDER BY reason) AS reason
  FROM ops.quarantine GROUP BY ALL
)
SELECT l.source_id, l.run_id, l.started_at, l.rows_in, coalesce(r.n, 0) AS refused, r.reason, l.back
FROM loads l
LEFT JOIN refused r ON r.source_id = l.source_id
  AND (r.payload_id = l.payload_id OR (r.payload_id IS NULL AND r.run_id = l.run_id))
ORDER BY l.source_id, l.back
