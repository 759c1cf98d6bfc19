-- Requests per provider and day, and those with energy. Rows whose source does not tell are left out, and of each
-- account only its finest grain counts; a period of several days belongs to none.
WITH usage AS (
  SELECT provider, account, source_id, period_start_at, requests, requests_with_energy,
         list_position(['request', 'day'], grain) AS coarseness
  FROM core.usage
  WHERE known_from <= $as_of AND grain IN ('request', 'day') AND requests_with_energy IS NOT NULL
    AND source_id NOT LIKE 'sample:%'
), newest AS (
  SELECT provider, max(period_start_at) AS newest_at FROM usage GROUP BY provider
), recent AS (
  SELECT u.* FROM usage u JOIN newest n USING (provider) WHERE u.period_start_at > n.newest_at - INTERVAL 30 DAY
  QUALIFY coarseness = min(coarseness) OVER (PARTITION BY u.provider, u.account, u.source_id)
)
SELECT provider, CAST(period_start_at AS DATE) AS day, sum(requests)::BIGINT AS requests,
       sum(requests_with_energy)::BIGINT AS with_energy
FROM recent GROUP BY ALL ORDER BY provider, day DESC
