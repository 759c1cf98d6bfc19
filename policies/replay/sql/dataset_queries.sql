SELECT dataset, benchmark, coalesce(split, '') AS split, count(*) AS queries, count(text) AS with_text,
       max(known_from) AS newest_at
FROM core.query q
WHERE known_from <= $as_of AND EXISTS (
  SELECT 1 FROM core.outcome o WHERE o.dataset = q.dataset AND o.query_id = q.query_id AND o.known_from <= $as_of
)
GROUP BY ALL ORDER BY ALL
