-- One row per distribution of lengths.
SELECT cdf, count(*) AS knots, max(tokens) AS tokens_max, any_value(citation ORDER BY tokens) AS citation,
       list_sort(array_agg(DISTINCT source_id)) AS sources, max(known_from) AS newest_at
FROM core.length_cdf
WHERE known_from <= $as_of
GROUP BY cdf ORDER BY cdf
