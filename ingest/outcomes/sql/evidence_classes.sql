-- Classes of the joules that each data set would hold: of the staged cells, and of those that they do not replace.
SELECT DISTINCT dataset, energy_evidence_class AS class FROM staged_outcome WHERE energy_j IS NOT NULL
UNION
SELECT DISTINCT k.dataset, k.energy_evidence_class
FROM core.outcome k
WHERE k.energy_j IS NOT NULL
  AND k.dataset IN (SELECT DISTINCT dataset FROM staged_outcome WHERE energy_j IS NOT NULL)
  AND NOT EXISTS (
    SELECT 1 FROM staged_outcome s WHERE s.dataset = k.dataset AND s.query_id = k.query_id AND s.arm = k.arm
  )
ORDER BY ALL
