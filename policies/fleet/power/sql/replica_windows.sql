-- Windows of a replica's meter against what its engines told over the same time, one row per window of the engines.
-- * energy: each metered window by the part of it that lies within; at least nine tenths of the time must be metered.
-- * concurrency: mean of the gauges at the start and at the end, added up over the engines; a frontend (engine ''
--   beside others) counts for all of them. An engine that is unknown makes the window unknown.
-- Parameters: as_of; model, hardware, provider (NULL: any).
WITH energy AS (
  SELECT *, date_diff('microsecond', window_start_at, window_end_at) / 1e6 AS duration_s
  FROM core.energy_observation
  WHERE workload = 'replica' AND backend_id IS NOT NULL AND energy_gross_j IS NOT NULL
    AND window_end_at > window_start_at AND known_from <= $as_of AND window_end_at <= $as_of
), told AS (
  SELECT *, max(engine) OVER (PARTITION BY backend_id, window_end_at) <> ''
            AND min(engine) OVER (PARTITION BY backend_id, window_end_at) = '' AS has_frontend
  FROM core.serving_window
  WHERE known_from <= $as_of AND window_end_at <= $as_of
  QUALIFY row_number() OVER (
    PARTITION BY backend_id, engine, model, window_end_at ORDER BY known_from DESC, source_id) = 1
), serving AS (
  SELECT backend_id, window_start_at, window_end_at, min(model) AS model, min(runtime) AS runtime,
         bool_and(gap_reason IS NULL AND output_tokens IS NOT NULL AND running_requests IS NOT NULL) AS known,
         sum(running_requests) AS running, sum(output_tokens) AS output_tokens, sum(prompt_tokens) AS prompt_tokens,
         sum(successes) AS successes, count(DISTINCT model) AS models,
         date_diff('microsecond', window_start_at, window_end_at) / 1e6 AS duration_s
  FROM told WHERE NOT has_frontend OR engine = ''
  GROUP BY backend_id, window_start_at, window_end_at
), between_scrapes AS (
  SELECT *, lag(running) OVER before AS running_at_start, lag(window_end_at) OVER before AS previous_end_at
  FROM serving WINDOW before AS (PARTITION BY backend_id ORDER BY window_end_at)
), overlapping AS (
  SELECT s.*, e.observation_id, e.hardware_model, e.hardware_count, e.meter_scope, e.relative_uncertainty,
         e.evidence_class, e.quality, e.method, e.source_id, e.provider, e.energy_gross_j / e.duration_s AS energy_w,
         date_diff('microsecond', greatest(s.window_start_at, e.window_start_at),
                   least(s.window_end_at, e.window_end_at)) / 1e6 AS overlap_s
  FROM between_scrapes s JOIN energy e
    ON e.backend_id = s.backend_id AND e.window_start_at < s.window_end_at AND e.window_end_at > s.window_start_at
  WHERE s.known AND s.models = 1 AND s.previous_end_at = s.window_start_at AND s.duration_s > 0
), joined AS (
  SELECT backend_id, window_start_at, window_end_at, model, runtime, hardware_model, hardware_count, meter_scope,
         provider, list(observation_id ORDER BY observation_id) AS observations,
         sum(energy_w * overlap_s) / sum(overlap_s) AS power_w, sum(overlap_s) / any_value(duration_s) AS metered,
         (any_value(running) + any_value(running_at_start)) / 2 AS concurrency,
         any_value(output_tokens) / any_value(duration_s) AS output_tokens_per_s,
         (any_value(prompt_tokens) + any_value(output_tokens)) / nullif(any_value(successes), 0) AS context_tokens,
         max(relative_uncertainty) AS relative_uncertainty, min(evidence_class) AS evidence_class,
         count(DISTINCT evidence_class) AS classes, list(DISTINCT quality) AS qualities, min(method) AS method,
         min(source_id) AS source_id
  FROM overlapping
  GROUP BY backend_id, window_start_at, window_end_at, model, runtime, hardware_model, hardware_count, meter_scope,
           provider
)
SELECT
  CAST(to_json(j.observations) AS VARCHAR) AS observations, j.provider, j.model AS logical_model,
  j.model AS deployable_model, CAST(NULL AS VARCHAR) AS deployable_version, j.hardware_model, j.hardware_count, j.meter_scope, j.runtime,
  b.runtime_version, b.config_version, j.window_start_at, j.window_end_at, j.concurrency, j.power_w,
  j.output_tokens_per_s, j.context_tokens, j.relative_uncertainty, j.evidence_class,
  CASE WHEN list_contains(j.qualities, 'LOW') THEN 'LOW' WHEN list_contains(j.qualities, 'FAIR') THEN 'FAIR'
       ELSE 'HIGH' END AS quality,
  j.method, j.source_id
FROM joined j LEFT JOIN core.backend b
  ON b.backend_id = j.backend_id AND b.valid_from <= j.window_start_at
  AND (b.valid_to IS NULL OR b.valid_to > j.window_start_at) AND b.known_from <= $as_of
WHERE j.metered >= 0.9 AND j.classes = 1
  AND (CAST($model AS VARCHAR) IS NULL OR j.model = $model)
  AND (CAST($hardware AS VARCHAR) IS NULL OR j.hardware_model = $hardware)
  AND (CAST($provider AS VARCHAR) IS NULL OR j.provider = $provider)
QUALIFY row_number() OVER (
  PARTITION BY j.backend_id, j.window_start_at, j.window_end_at ORDER BY b.known_from DESC, b.valid_from DESC) = 1
ORDER BY j.window_start_at, j.backend_id
