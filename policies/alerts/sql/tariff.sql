-- Every billing rule as known now, oldest first.
SELECT provider, account, basis, source_id, valid_from, known_from, usd_per_kwh, flex_multiplier,
       list_price_ceiling_multiple, evidence_class, n, residual_relative
FROM core.tariff
WHERE known_from <= $as_of AND valid_from <= $as_of AND source_id NOT LIKE 'sample:%'
QUALIFY row_number() OVER (
  PARTITION BY provider, account, basis, source_id, valid_from ORDER BY known_from DESC) = 1
ORDER BY provider, account, basis, source_id, valid_from
