-- Idle power of each board of one hardware model and state, by its newest explicit measurement as of $as_of.
SELECT device_uuid, device_state, driver_version, meter_scope, quality, evidence_class, window_end_at, observation_id,
       energy_gross_j / (date_diff('microsecond', window_start_at, window_end_at) / 1e6) AS idle_w
FROM core.energy_observation
WHERE workload = 'idle' AND energy_gross_j IS NOT NULL AND device_state IS NOT NULL AND device_uuid IS NOT NULL
  AND window_end_at > window_start_at AND hardware_model = $hardware
  AND known_from <= $as_of AND window_end_at <= $as_of
QUALIFY row_number() OVER (
  PARTITION BY device_uuid, device_state ORDER BY window_end_at DESC, known_from DESC, observation_id) = 1
ORDER BY device_state, device_uuid
