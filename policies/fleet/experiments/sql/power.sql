-- The newest metered window of each backend's boards.
SELECT backend_id, observation_id, window_start_at, window_end_at, hardware_model, hardware_count, evidence_class,
       quality, method, meter_scope, relative_uncertainty, utilization, gap_reason,
       energy_gross_j / (date_diff('microsecond', window_start_at, window_end_at) / 1e6) AS power_w
FROM core.energy_observation
WHERE workload = 'replica' AND backend_id IS NOT NULL AND known_from <= $as_of AND window_end_at <= $as_of
  AND window_end_at > window_start_at
QUALIFY row_number() OVER (PARTITION BY backend_id ORDER BY window_end_at DESC, known_from DESC, observation_id) = 1
ORDER BY backend_id
