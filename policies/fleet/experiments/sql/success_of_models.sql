-- Share of right answers by model on one recorded set of outcomes, over the queries that every arm answered gradably.
WITH newest AS (
  SELECT * FROM core.outcome WHERE dataset = $dataset AND known_from <= $as_of
  QUALIFY row_number() OVER (PARTITION BY query_id, arm ORDER BY known_from DESC, source_id) = 1
), graded AS (
  SELECT * FROM newest WHERE correct IS NOT NULL
  QUALIFY count(*) OVER (PARTITION BY query_id) = (SELECT count(DISTINCT arm) FROM newest)
), arms AS (
  SELECT * FROM core.arm WHERE dataset = $dataset AND known_from <= $as_of
  QUALIFY row_number() OVER (PARTITION BY arm ORDER BY known_from DESC, source_id) = 1
)
SELECT lower(coalesce(a.energy_model, a.model, g.arm)) AS model, count(DISTINCT g.arm) AS arms, avg(g.correct) AS success
FROM graded g LEFT JOIN arms a USING (arm)
GROUP BY 1 ORDER BY 1
