-- Backends as of $as_of: what their operator declared, else what their telemetry or meter names. One row per backend.
WITH declared AS (
  SELECT * FROM core.backend
  WHERE known_from <= $as_of AND valid_from <= $as_of AND (valid_to IS NULL OR valid_to > $as_of)
  QUALIFY row_number() OVER (PARTITION BY backend_id ORDER BY known_from DESC, valid_from DESC) = 1
), named AS (
  SELECT backend_id FROM declared
  UNION SELECT backend_id FROM core.serving_window WHERE known_from <= $as_of
  UNION SELECT backend_id FROM core.energy_observation WHERE workload = 'replica' AND backend_id IS NOT NULL AND known_from <= $as_of
), metered AS (
  SELECT backend_id, hardware_model, hardware_count, logical_model FROM core.energy_observation
  WHERE workload = 'replica' AND backend_id IS NOT NULL AND known_from <= $as_of AND window_end_at <= $as_of
  QUALIFY row_number() OVER (PARTITION BY backend_id ORDER BY window_end_at DESC, observation_id) = 1
)
SELECT n.backend_id, d.pool, d.endpoint, d.runtime, d.runtime_version, d.config_version,
       coalesce(d.hardware_model, m.hardware_model) AS hardware_model,
       coalesce(d.hardware_count, m.hardware_count) AS hardware_count, d.region, d.zone, d.residency,
       d.max_concurrency, d.kv_capacity_tokens, d.source_id IS NOT NULL AS declared
FROM named n LEFT JOIN declared d USING (backend_id) LEFT JOIN metered m USING (backend_id)
ORDER BY n.backend_id
