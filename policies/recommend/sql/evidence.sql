-- Reference-workload runs behind a promise, one row per billed request; the same rows that the router averages.
-- Parameters: as_of; fresh_after, the oldest instant whose observations still count.
WITH runs AS (
  SELECT *, coalesce(served_offer, requested_offer) AS offer_id
  FROM core.usage
  WHERE grain = 'request' AND workload = 'seed_reference' AND known_from <= $as_of AND period_end_at <= $as_of
  QUALIFY row_number() OVER (
    PARTITION BY provider, account, usage_key ORDER BY known_from DESC, row_sha256 DESC
  ) = 1
)
SELECT provider, offer_id, account, usage_key, requests, attempts, successes, energy_j, billed_cost_usd, carbon_g,
       evidence_class, carbon_evidence_class, method, source_id, period_end_at
FROM runs
WHERE period_end_at >= $fresh_after AND (energy_j IS NOT NULL OR billed_cost_usd IS NOT NULL)
ORDER BY provider, offer_id, period_end_at, account, usage_key
