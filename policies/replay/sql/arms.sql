-- The arms of a data set, and how much of each is known.
WITH cell AS (
  SELECT o.* FROM core.outcome o
  LEFT JOIN core.query q ON q.dataset = o.dataset AND q.query_id = o.query_id AND q.known_from <= $as_of
  WHERE o.dataset = $dataset AND o.known_from <= $as_of
    AND ($benchmarks IS NULL OR list_contains(CAST($benchmarks AS VARCHAR[]), coalesce(q.benchmark, '')))
), known AS (
  SELECT arm,
         count(*) AS cells,
         count(correct) AS graded,
         count(*) FILTER (output_tokens > 0) AS with_tokens,
         count(energy_j) AS with_energy,
         count(*) FILTER (correct IS NOT NULL AND output_tokens > 0) AS graded_with_tokens,
         count(*) FILTER (correct IS NOT NULL AND energy_j IS NOT NULL) AS graded_with_energy,
         count(*) FILTER (isnan(correct)) AS correct_nan,
         count(*) FILTER (isnan(energy_j)) AS energy_nan,
         list_sort(list(DISTINCT coalesce(energy_evidence_class, '')) FILTER (energy_j IS NOT NULL)) AS classes,
         list_sort(list(DISTINCT energy_method) FILTER (energy_j IS NOT NULL AND energy_method IS NOT NULL)) AS methods,
         list_sort(list(DISTINCT source_id)) AS sources,
         max(known_from) AS newest_at
  FROM cell GROUP BY arm
), declared AS (
  SELECT * FROM core.arm WHERE dataset = $dataset AND known_from <= $as_of
)
SELECT arm, coalesce(d.model, arm) AS model, d.effort, d.serving_class, d.energy_model, d.parameters_b,
       CAST(d.input_price_usd_per_token AS DOUBLE) AS input_price_usd_per_token,
       CAST(d.output_price_usd_per_token AS DOUBLE) AS output_price_usd_per_token,
       coalesce(k.cells, 0) AS cells, coalesce(k.graded, 0) AS graded,
       coalesce(k.with_tokens, 0) AS with_tokens, coalesce(k.with_energy, 0) AS with_energy,
       coalesce(k.graded_with_tokens, 0) AS graded_with_tokens,
       coalesce(k.graded_with_energy, 0) AS graded_with_energy,
       coalesce(k.correct_nan, 0) AS correct_nan, coalesce(k.energy_nan, 0) AS energy_nan,
       coalesce(k.classes, []) AS classes, coalesce(k.methods, []) AS methods, coalesce(k.sources, []) AS sources,
       k.newest_at
FROM declared d FULL JOIN known k USING (arm)
ORDER BY arm
