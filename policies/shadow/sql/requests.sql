-- Logged requests with what a router knew of them, oldest first, as known at $as_of.
-- A request of the sample has no past: nothing was known before it was loaded, so it is asked as of then.
-- $policy_id: only requests that this policy has not been asked about; NULL: all.
-- $cells: only requests that $standing has placed in one of these cells; NULL: all.
-- $request_id: only this one; NULL: all. $share: sampled by the hash of the id, so that it is the same for all policies.
WITH billed AS (
  SELECT *, provider || '/' || account || '/' || usage_key AS request_id
  FROM core.usage
  WHERE grain = 'request' AND workload = 'organic' AND known_from <= $as_of
    AND period_start_at >= $since AND period_start_at <= $as_of
)
SELECT
  u.request_id, u.provider, coalesce(u.served_offer, u.requested_offer) AS incumbent,
  u.period_start_at AS requested_at,
  CASE WHEN u.source_id LIKE 'sample:%' THEN greatest(u.period_start_at, u.known_from) ELSE u.period_start_at END AS asked_at,
  u.prompt_tokens, u.prompt_tokens + u.completion_tokens AS tokens,
  u.attempts, u.successes, u.energy_j, u.evidence_class, u.billed_cost_usd, u.carbon_g, u.carbon_evidence_class,
  u.duration_s, u.source_id,
  l.category, l.tier, l.latency, l.required_context_tokens, l.residency, l.session, l.propensity, l.propensities,
  l.request_id IS NOT NULL AS labelled
FROM billed u
LEFT JOIN mart.request_label_at($as_of) l USING (request_id)
WHERE md5_number_lower(u.request_id) % 1000000 < $share * 1000000
  AND ($request_id IS NULL OR u.request_id = $request_id)
  AND ($policy_id IS NULL OR NOT EXISTS (
    SELECT 1 FROM core.shadow_decision d WHERE d.policy_id = $policy_id AND d.request_id = u.request_id
  ))
  AND ($cells IS NULL OR EXISTS (
    SELECT 1 FROM core.shadow_decision s
    WHERE s.policy_id = $standing AND s.request_id = u.request_id
      AND list_contains($cells, s.category || '/' || s.tier || '/' || s.latency)
  ))
ORDER BY requested_at, request_id
LIMIT $most
