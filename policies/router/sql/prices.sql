-- List prices per token (and per request, where an offer has such a fee) in force as of $as_of, one row
-- per price tier; NULL where the price is not a plain number.
-- A tier's price holds for the whole request from min_prompt_tokens on.
WITH versions AS (
  SELECT *
  FROM core.price
  WHERE known_from <= $as_of AND valid_from <= $as_of
    AND ((component IN ('prompt', 'completion') AND unit = 'token') OR (component = 'request' AND unit = 'request'))
  QUALIFY row_number() OVER (
    PARTITION BY provider, offer_id, component, min_prompt_tokens
    ORDER BY source_id LIKE 'sample:%', valid_from DESC, known_from DESC, content_sha256 DESC
  ) = 1
)
SELECT
  provider, offer_id, component, min_prompt_tokens, price_kind,
  CASE WHEN price_kind IN ('fixed', 'free') THEN price_usd_per_unit END AS price_usd_per_unit
FROM versions
WHERE valid_to IS NULL OR valid_to > $as_of
ORDER BY provider, offer_id, component, min_prompt_tokens
