-- Organic requests of the offers in [since, until), as sums from which ratios to successes and their intervals follow.
-- One row per offer, category (NULL: no label tells it) and size band: how many of $edges its tokens reach (NULL: unknown).
-- Parameters: as_of, since, until, offers (a list), edges (tokens, ascending), slo_s (NULL: no share over it is counted).
-- A row tells a ratio where it tells both parts; b: dollars, c: grams, e: joules, s: successes.
WITH used AS (
  SELECT *, coalesce(served_offer, requested_offer) AS offer_id
  FROM core.usage
  WHERE grain = 'request' AND workload = 'organic' AND known_from <= $as_of
    AND period_start_at >= $since AND period_end_at <= $until
  QUALIFY row_number() OVER (
    PARTITION BY provider, account, usage_key ORDER BY known_from DESC, row_sha256 DESC
  ) = 1
),
told AS (
  SELECT offer_id, requests, attempts, successes, duration_s, evidence_class, carbon_evidence_class,
         CAST(successes AS DOUBLE) AS s, energy_j AS e, CAST(billed_cost_usd AS DOUBLE) AS b, carbon_g AS c,
         l.category, len(list_filter($edges, edge -> u.prompt_tokens + u.completion_tokens >= edge)) AS reached,
         u.prompt_tokens + u.completion_tokens IS NOT NULL AS sized
  FROM used u
  LEFT JOIN mart.request_label_at($as_of) l ON l.request_id = u.provider || '/' || u.account || '/' || u.usage_key
  WHERE list_contains($offers, offer_id)
)
SELECT offer_id, category, CASE WHEN sized THEN CAST(reached AS INTEGER) END AS band,
       CAST(sum(requests) AS BIGINT) AS requests,
       CAST(sum(attempts) AS BIGINT) AS attempts,
       CAST(sum(attempts) FILTER (WHERE successes IS NOT NULL) AS BIGINT) AS attempts_told,
       CAST(sum(successes) AS BIGINT) AS successes,
       CAST(sum(requests) FILTER (WHERE duration_s IS NOT NULL) AS BIGINT) AS latency_n,
       CAST(sum(requests) FILTER (WHERE duration_s > $slo_s) AS BIGINT) AS over_slo,
       count(*) FILTER (WHERE e IS NOT NULL AND s IS NOT NULL) AS e_n,
       sum(e) FILTER (WHERE s IS NOT NULL) AS e_sum,
       sum(s) FILTER (WHERE e IS NOT NULL) AS e_units,
       sum(e * e) FILTER (WHERE s IS NOT NULL) AS e_squares,
       sum(s * s) FILTER (WHERE e IS NOT NULL) AS e_unit_squares,
       sum(e * s) AS e_products,
       CAST(sum(requests) FILTER (WHERE e IS NOT NULL) AS BIGINT) AS e_requests,
       string_agg(DISTINCT evidence_class, ',' ORDER BY evidence_class) FILTER (WHERE e IS NOT NULL) AS e_classes,
       count(*) FILTER (WHERE b IS NOT NULL AND s IS NOT NULL) AS b_n,
       sum(b) FILTER (WHERE s IS NOT NULL) AS b_sum,
       sum(s) FILTER (WHERE b IS NOT NULL) AS b_units,
       sum(b * b) FILTER (WHERE s IS NOT NULL) AS b_squares,
       sum(s * s) FILTER (WHERE b IS NOT NULL) AS b_unit_squares,
       sum(b * s) AS b_products,
       CAST(sum(requests) FILTER (WHERE b IS NOT NULL) AS BIGINT) AS b_requests,
       count(*) FILTER (WHERE c IS NOT NULL AND s IS NOT NULL) AS c_n,
       sum(c) FILTER (WHERE s IS NOT NULL) AS c_sum,
       sum(s) FILTER (WHERE c IS NOT NULL) AS c_units,
       sum(c * c) FILTER (WHERE s IS NOT NULL) AS c_squares,
       sum(s * s) FILTER (WHERE c IS NOT NULL) AS c_unit_squares,
       sum(c * s) AS c_products,
       CAST(sum(requests) FILTER (WHERE c IS NOT NULL) AS BIGINT) AS c_requests,
       string_agg(DISTINCT carbon_evidence_class, ',' ORDER BY carbon_evidence_class)
         FILTER (WHERE c IS NOT NULL) AS c_classes
FROM told
GROUP BY ALL
ORDER BY ALL
