-- Quality scores in force as of $as_of: per model, category and component the newest.
SELECT model, category, component, score, n, valid_from
FROM core.score
WHERE known_from <= $as_of AND valid_from <= $as_of AND component IN ('leaderboard', 'self_eval')
QUALIFY row_number() OVER (
  PARTITION BY model, category, component ORDER BY valid_from DESC, known_from DESC, content_sha256 DESC
) = 1
ORDER BY model, category, component
