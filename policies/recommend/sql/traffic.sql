-- Billed organic requests per offer in the seven days before $as_of.
SELECT coalesce(served_offer, requested_offer) AS offer_id, CAST(sum(requests) AS BIGINT) AS requests
FROM (
  SELECT * FROM core.usage
  WHERE grain = 'request' AND workload = 'organic' AND known_from <= $as_of
    AND period_end_at <= $as_of AND period_end_at >= $since
  QUALIFY row_number() OVER (
    PARTITION BY provider, account, usage_key ORDER BY known_from DESC, row_sha256 DESC
  ) = 1
)
GROUP BY 1
ORDER BY 1
