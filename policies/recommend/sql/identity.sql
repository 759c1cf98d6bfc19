-- What a proposal rests on beside its figures: the catalog and price rows and the billing rules of both providers that
-- are in force as of $as_of. Another catalog or tariff is another
-- proposal; a rule reconstructed to the same four digits is the same rule. Parameters: as_of, offers (a list).
SELECT 'catalog' AS what, offer_id, content_sha256 AS told
FROM core.offer
WHERE list_contains($offers, offer_id) AND known_from <= $as_of AND valid_from <= $as_of
QUALIFY row_number() OVER (PARTITION BY provider, offer_id ORDER BY valid_from DESC, known_from DESC, source_id) = 1
UNION ALL
SELECT 'price', offer_id,
       concat_ws('|', component, min_prompt_tokens, unit, price_kind, CAST(price_usd_per_unit AS VARCHAR))
FROM core.price
WHERE list_contains($offers, offer_id) AND known_from <= $as_of AND valid_from <= $as_of
QUALIFY row_number() OVER (
  PARTITION BY provider, offer_id, component, min_prompt_tokens ORDER BY valid_from DESC, known_from DESC, source_id
) = 1
UNION ALL
SELECT 'tariff', NULL,
       concat_ws('|', provider, account, basis, format('{:.4g}', CAST(usd_per_kwh AS DOUBLE)), format('{:.4g}', flex_multiplier),
                 format('{:.4g}', list_price_ceiling_multiple))
FROM core.tariff
WHERE known_from <= $as_of AND valid_from <= $as_of
  AND provider IN (SELECT provider FROM core.offer WHERE list_contains($offers, offer_id))
QUALIFY row_number() OVER (
  PARTITION BY provider, account, basis, source_id ORDER BY valid_from DESC, known_from DESC
) = 1
ORDER BY what, offer_id, told
