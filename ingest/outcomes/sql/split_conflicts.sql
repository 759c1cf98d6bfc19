-- Queries that must not stay: told in two splits, or of a text that is in the other split under another id.
-- Of two staged queries with one text the held-out one goes; of a staged and a loaded one, the staged one.
WITH splits AS (
  SELECT dataset, query_id, min(split) AS split, count(DISTINCT split) AS n, any_value(text_sha256) AS text_sha256,
    min(row_) AS row_
  FROM staged_query WHERE split IS NOT NULL GROUP BY dataset, query_id
),
two AS (
  SELECT s.dataset, s.query_id, 'split' AS kind, s.row_,
    CASE WHEN s.n > 1 THEN 'the query is told in train and in test'
      ELSE 'the query is in ' || k.split || ' already and is told in ' || s.split END AS reason,
    CASE WHEN s.n > 1 THEN 'train, test' ELSE s.split END AS told
  FROM splits s LEFT JOIN core.query k ON k.dataset = s.dataset AND k.query_id = s.query_id
  WHERE s.n > 1 OR s.split <> k.split
),
sound AS (SELECT * FROM splits ANTI JOIN two USING (dataset, query_id)),
leaks AS (
  SELECT s.dataset, s.query_id, s.row_, s.split, o.query_id AS other
  FROM sound s JOIN sound o
    ON o.dataset = s.dataset AND o.text_sha256 = s.text_sha256 AND s.split = 'test' AND o.split = 'train'
  UNION ALL
  SELECT s.dataset, s.query_id, s.row_, s.split, o.query_id
  FROM sound s JOIN core.query o
    ON o.dataset = s.dataset AND o.text_sha256 = s.text_sha256 AND o.query_id <> s.query_id AND o.split <> s.split
)
SELECT dataset, query_id, kind, reason, told, row_ FROM two
UNION ALL
SELECT dataset, query_id, 'leak',
  'the text of this ' || any_value(split) || ' query is in the other part too, as ' || min(other), any_value(split),
  min(row_)
FROM leaks GROUP BY dataset, query_id
ORDER BY row_
