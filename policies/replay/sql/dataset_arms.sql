WITH known AS (
  SELECT dataset, arm, count(*) AS cells, count(correct) AS graded, count(energy_j) AS with_energy,
         count(*) FILTER (output_tokens > 0) AS with_tokens,
         list_sort(list(DISTINCT coalesce(energy_evidence_class, '')) FILTER (energy_j IS NOT NULL)) AS classes,
         list_sort(list(DISTINCT source_id)) AS sources, max(known_from) AS newest_at
  FROM core.outcome WHERE known_from <= $as_of GROUP BY dataset, arm
), declared AS (
  SELECT dataset, arm, energy_model FROM core.arm WHERE known_from <= $as_of
)
SELECT dataset, arm, d.energy_model, coalesce(k.cells, 0) AS cells, coalesce(k.graded, 0) AS graded,
       coalesce(k.with_energy, 0) AS with_energy, coalesce(k.with_tokens, 0) AS with_tokens,
       coalesce(k.classes, []) AS classes, coalesce(k.sources, []) AS sources, k.newest_at
FROM declared d FULL JOIN known k USING (dataset, arm)
ORDER BY dataset, arm
