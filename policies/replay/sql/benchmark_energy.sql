-- Published joules per output token by model, hardware and batch.
SELECT observation_id, logical_model, deployable_version, hardware_model, hardware_count, config_version, concurrency,
       energy_gross_j / output_tokens AS j_per_token, method, evidence_class, attributes
FROM core.energy_observation
WHERE workload = 'benchmark' AND known_from <= $as_of AND logical_model IS NOT NULL AND hardware_model IS NOT NULL
  AND concurrency > 0 AND energy_gross_j > 0 AND output_tokens > 0
ORDER BY observation_id
