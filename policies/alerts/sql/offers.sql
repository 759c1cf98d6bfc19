-- Offers in force that end: deprecated, removed, with a date of expiry. `absent_polls` counts the good polls of the
-- source that have confirmed a removal, the one that found it included: requests by run, files by distinct content.
WITH current AS (
  SELECT provider, offer_id, lifecycle, expires_at, valid_from, known_from, source_id, run_id
  FROM core.offer
  WHERE known_from <= $as_of AND valid_from <= $as_of AND source_id NOT LIKE 'sample:%'
  QUALIFY row_number() OVER (PARTITION BY provider, offer_id ORDER BY valid_from DESC, known_from DESC) = 1
), poll AS (
  SELECT r.source_id, r.run_id, r.started_at, coalesce(s.transport = 'file', false) AS is_file, r.payload_id,
         p.fetched_at
  FROM ops.run r LEFT JOIN ops.source s USING (source_id) LEFT JOIN landing.payload p USING (payload_id)
  WHERE r.state IN ('OK', 'PARTIAL') AND r.started_at <= $as_of
), absent AS (
  SELECT c.provider, c.offer_id,
         count(DISTINCT CASE WHEN p.is_file THEN p.payload_id ELSE p.run_id END) AS polls
  FROM current c
  JOIN ops.run found ON found.run_id = c.run_id
  JOIN poll p ON p.source_id = c.source_id
    AND (CASE WHEN p.is_file THEN p.fetched_at >= c.valid_from ELSE p.started_at >= found.started_at END)
  WHERE c.lifecycle = 'removed'
  GROUP BY ALL
)
SELECT c.provider, c.offer_id, lifecycle, expires_at, valid_from, known_from, source_id,
       coalesce(a.polls, 0) AS absent_polls
FROM current c LEFT JOIN absent a USING (provider, offer_id)
WHERE lifecycle <> 'active' OR expires_at IS NOT NULL
ORDER BY c.provider, c.offer_id
