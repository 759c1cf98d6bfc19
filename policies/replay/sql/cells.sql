-- The cells of some arms for a range of queries, in the order of the queries.
SELECT query_id, CAST(list_position($arms, arm) - 1 AS INTEGER) AS arm_no, correct,
       CASE WHEN $evidence_class IS NULL OR energy_evidence_class = $evidence_class THEN energy_j END AS energy_j,
       CASE WHEN $evidence_class IS NULL OR energy_evidence_class = $evidence_class THEN power_w END AS power_w,
       latency_s, CAST(output_tokens AS DOUBLE) AS output_tokens, CAST(prompt_tokens AS DOUBLE) AS prompt_tokens,
       CAST(cost_usd AS DOUBLE) AS cost_usd
FROM core.outcome
WHERE dataset = $dataset AND known_from <= $as_of AND list_contains(CAST($arms AS VARCHAR[]), arm)
  AND query_id BETWEEN $first AND $last
ORDER BY arm_no, query_id
