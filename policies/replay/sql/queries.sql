-- The queries of a data set by id: from core.query, and those that only their outcomes name.
-- `draw` is a number in [0, 1) that hangs on the seed and the query alone. Queries of one and the same text draw
-- together (by the first of their ids), so that no text comes into both parts of a split.
WITH told AS MATERIALIZED (
  SELECT query_id, benchmark, split, prompt_tokens,
         md5_number_lower(coalesce(text_sha256, sha256(text))) AS text_key
  FROM core.query q WHERE dataset = $dataset AND known_from <= $as_of
    -- a text that no arm was asked is no query of the table
    AND EXISTS (SELECT 1 FROM core.outcome o
                WHERE o.dataset = $dataset AND o.known_from <= $as_of AND o.query_id = q.query_id)
), repeated AS (
  SELECT text_key FROM told WHERE text_key IS NOT NULL GROUP BY text_key HAVING count(*) > 1
), twin AS (
  SELECT text_key, min(query_id) AS first_id FROM told SEMI JOIN repeated USING (text_key) GROUP BY text_key
), untold AS (
  SELECT DISTINCT query_id FROM core.outcome o
  WHERE dataset = $dataset AND known_from <= $as_of
    AND NOT EXISTS (SELECT 1 FROM told t WHERE t.query_id = o.query_id)
), every AS (
  SELECT q.query_id, q.benchmark, q.split, q.text_key, q.prompt_tokens, coalesce(t.first_id, q.query_id) AS key
  FROM told q LEFT JOIN twin t USING (text_key)
  UNION ALL
  SELECT query_id, '', NULL, NULL, NULL, query_id FROM untold
)
SELECT query_id, benchmark, split, CAST(prompt_tokens AS DOUBLE) AS prompt_tokens, text_key,
       md5_number_lower($salt || ':' || key) / 18446744073709551616.0 AS draw
FROM every
WHERE $benchmarks IS NULL OR list_contains(CAST($benchmarks AS VARCHAR[]), benchmark)
ORDER BY query_id
