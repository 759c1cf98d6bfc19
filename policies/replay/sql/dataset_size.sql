SELECT dataset, count(DISTINCT query_id) AS queries
FROM core.outcome o WHERE known_from <= $as_of
  AND NOT EXISTS (SELECT 1 FROM core.query q WHERE q.dataset = o.dataset AND q.known_from <= $as_of)
GROUP BY dataset ORDER BY dataset
