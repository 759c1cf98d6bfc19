-- Observations that tell their own concurrency, one row each. Power of all boards: energy over duration, else as the
-- source tells it. Parameters: as_of; model, hardware, provider (NULL: any).
SELECT
  CAST(to_json([observation_id]) AS VARCHAR) AS observations, provider, logical_model, deployable_model,
  deployable_version, hardware_model, hardware_count, meter_scope, runtime, runtime_version, config_version, window_start_at, window_end_at, concurrency,
  coalesce(
    CASE WHEN window_end_at > window_start_at
         THEN energy_gross_j / (date_diff('microsecond', window_start_at, window_end_at) / 1e6) END,
    try_cast(json_extract_string(attributes, '$.power_w') AS DOUBLE)
  ) AS power_w,
  coalesce(
    try_cast(json_extract_string(attributes, '$.output_tokens_per_s') AS DOUBLE),
    CASE WHEN window_end_at > window_start_at
         THEN output_tokens / (date_diff('microsecond', window_start_at, window_end_at) / 1e6) END
  ) AS output_tokens_per_s,
  try_cast(json_extract_string(attributes, '$.context_tokens') AS DOUBLE) AS context_tokens,
  relative_uncertainty, evidence_class, quality, method, source_id
FROM core.energy_observation
WHERE known_from <= $as_of AND window_end_at <= $as_of AND concurrency IS NOT NULL
  AND (CAST($model AS VARCHAR) IS NULL OR logical_model = $model)
  AND (CAST($hardware AS VARCHAR) IS NULL OR hardware_model = $hardware)
  AND (CAST($provider AS VARCHAR) IS NULL OR provider = $provider)
ORDER BY window_start_at, observation_id
