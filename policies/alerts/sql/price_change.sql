-- Each price in force against the one that was known at $since; where none was, against the first known one.
-- Several small steps in one direction therefore add up, and a step that was taken back is none.
WITH version AS (
  SELECT provider, offer_id, component, min_prompt_tokens, unit, source_id, valid_from, known_from, origin,
         struct_pack(kind := price_kind, usd := price_usd_per_unit, at := valid_from) AS told
  FROM core.price
  WHERE known_from <= $as_of AND valid_from <= $as_of AND source_id NOT LIKE 'sample:%'
), compared AS (
  SELECT provider, offer_id, component, min_prompt_tokens,
         arg_max(unit, (valid_from, known_from)) AS unit,
         arg_max(source_id, (valid_from, known_from)) AS source_id,
         arg_max(origin, (valid_from, known_from)) AS origin,
         max(known_from) AS known_from,
         arg_max(told, (valid_from, known_from)) AS after,
         coalesce(arg_max(told, (valid_from, known_from)) FILTER (WHERE known_from <= $since),
                  arg_min(told, (valid_from, known_from))) AS before
  FROM version
  GROUP BY ALL
  HAVING max(known_from) > $since
)
SELECT c.provider, c.offer_id, component, min_prompt_tokens, unit, c.source_id, origin, c.known_from,
       before.kind AS kind_before, before.usd AS usd_before, before.at AS before_at,
       after.kind AS kind_after, after.usd AS usd_after, after.at AS after_at
FROM compared c
WHERE (before.kind <> after.kind OR before.usd IS DISTINCT FROM after.usd)
ORDER BY c.provider, c.offer_id, component, min_prompt_tokens
