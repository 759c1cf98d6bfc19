-- Tokens per provider over the window that ends with its newest usage, and those that nobody has priced: no bill (or a
-- bill of 0), no list cost, and no price of the offer that is fixed or free. Of each account only its finest grain.
WITH usage AS (
  SELECT provider, account, source_id, requested_offer, coalesce(served_offer, requested_offer) AS offer_id,
         requests, billed_cost_usd, list_cost_usd, period_end_at, evidence_class,
         CASE WHEN prompt_tokens IS NULL AND completion_tokens IS NULL THEN NULL
              ELSE coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0) END AS tokens,
         list_position(['request', 'day', 'period'], grain) AS coarseness
  FROM core.usage
  WHERE known_from <= $as_of AND source_id NOT LIKE 'sample:%'
), newest AS (
  SELECT provider, max(period_end_at) AS newest_at FROM usage GROUP BY provider
), recent AS (
  SELECT u.* FROM usage u JOIN newest n USING (provider)
  WHERE u.period_end_at > n.newest_at - to_seconds(CAST($window_s AS BIGINT))
  QUALIFY coarseness = min(coarseness) OVER (PARTITION BY u.provider, u.account, u.source_id)
), priced AS (
  SELECT DISTINCT provider, offer_id FROM (
    SELECT provider, offer_id, price_kind FROM core.price
    WHERE known_from <= $as_of AND valid_from <= $as_of
    QUALIFY row_number() OVER (
      PARTITION BY provider, offer_id, component, min_prompt_tokens ORDER BY valid_from DESC, known_from DESC) = 1)
  WHERE price_kind IN ('fixed', 'free')
), judged AS (
  SELECT r.*, coalesce(billed_cost_usd, 0) = 0 AND list_cost_usd IS NULL
              AND NOT EXISTS (SELECT 1 FROM priced p WHERE p.provider = r.provider
                              AND p.offer_id IN (r.offer_id, r.requested_offer)) AS unpriced
  FROM recent r
), by_offer AS (
  SELECT provider, requested_offer, sum(tokens)::BIGINT AS tokens, sum(requests)::BIGINT AS requests, unpriced,
         min(period_end_at) AS first_at, max(period_end_at) AS last_at
  FROM judged GROUP BY ALL
)
SELECT provider, sum(tokens)::BIGINT AS tokens, sum(tokens) FILTER (WHERE unpriced)::BIGINT AS unpriced_tokens,
       sum(requests)::BIGINT AS requests, sum(requests) FILTER (WHERE unpriced)::BIGINT AS unpriced_requests,
       CAST(to_json(list(requested_offer ORDER BY tokens DESC NULLS LAST, requested_offer) FILTER (WHERE unpriced))
            AS VARCHAR) AS offers,
       max(last_at) AS newest_at
FROM by_offer GROUP BY provider ORDER BY provider
