-- Successes per run of the reference workload, of the same fresh runs that the router averages, as of $as_of.
-- NULL where a run does not tell success: then nothing can be said per success.
WITH runs AS (
  SELECT *, coalesce(served_offer, requested_offer) AS offer_id
  FROM core.usage
  WHERE grain = 'request' AND workload = 'seed_reference' AND known_from <= $as_of AND period_end_at <= $as_of
  QUALIFY row_number() OVER (
    PARTITION BY provider, account, usage_key ORDER BY known_from DESC, row_sha256 DESC
  ) = 1
)
SELECT provider, offer_id,
  CASE WHEN count(successes) = count(*) THEN sum(successes)::DOUBLE / count(*) END AS successes_per_run
FROM runs
WHERE period_end_at >= $fresh_after AND (energy_j IS NOT NULL OR billed_cost_usd IS NOT NULL)
GROUP BY provider, offer_id
ORDER BY provider, offer_id
