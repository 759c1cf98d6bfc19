-- Every instant at which something that a decision reads began or ceased to hold, up to $as_of.
-- $max_age: an interval in microseconds after which a reference run no longer counts.
SELECT DISTINCT instant FROM (
  SELECT unnest([known_from, valid_from, valid_to, expires_at]) AS instant FROM core.offer
  UNION ALL
  SELECT unnest([known_from, valid_from, valid_to]) FROM core.price
  UNION ALL
  SELECT unnest([known_from, valid_from]) FROM core.score
  UNION ALL
  SELECT unnest([known_from, period_end_at, period_end_at + to_microseconds($max_age + 1)])
  FROM core.usage WHERE grain = 'request' AND workload = 'seed_reference'
)
WHERE instant IS NOT NULL AND instant <= $as_of
ORDER BY instant
