-- Offers that served or were asked for in the last 30 days.
SELECT DISTINCT unnest([requested_offer, served_offer]) AS offer_id
FROM core.usage
WHERE known_from <= $as_of AND period_end_at <= $as_of AND period_end_at > $as_of - INTERVAL 30 DAY
  AND source_id NOT LIKE 'sample:%'
ORDER BY offer_id
