-- The newest knowledge behind a proposal, per kind of evidence, as of $as_of.
SELECT 'catalog' AS what, max(known_from) AS newest_at FROM core.offer WHERE known_from <= $as_of
UNION ALL SELECT 'price', max(known_from) FROM core.price WHERE known_from <= $as_of
UNION ALL SELECT 'tariff', max(known_from) FROM core.tariff WHERE known_from <= $as_of
UNION ALL SELECT 'grid', max(known_from) FROM core.grid_intensity WHERE known_from <= $as_of
UNION ALL SELECT 'score', max(known_from) FROM core.score WHERE known_from <= $as_of
ORDER BY what
