-- Joules and successes of each backend over windows that ended after $since and are metered to nine tenths at least.
-- One row per backend and evidence class of the joules, so that classes are never added up.
WITH told AS (
  SELECT *, max(engine) OVER w <> '' AND min(engine) OVER w = '' AS has_frontend
  FROM core.serving_window
  WHERE known_from <= $as_of AND window_end_at <= $as_of AND window_end_at > $since AND window_end_at > window_start_at
  WINDOW w AS (PARTITION BY backend_id, window_end_at)
  QUALIFY row_number() OVER (
    PARTITION BY backend_id, engine, model, window_end_at ORDER BY known_from DESC, source_id) = 1
), served AS (
  SELECT backend_id, window_start_at, window_end_at, sum(successes) AS successes, sum(output_tokens) AS output_tokens,
         date_diff('microsecond', window_start_at, window_end_at) / 1e6 AS duration_s
  FROM told WHERE NOT has_frontend OR engine = ''
  GROUP BY backend_id, window_start_at, window_end_at
  HAVING bool_and(gap_reason IS NULL AND successes IS NOT NULL)
), energy AS (
  SELECT *, energy_gross_j / (date_diff('microsecond', window_start_at, window_end_at) / 1e6) AS power_w
  FROM core.energy_observation
  WHERE workload = 'replica' AND energy_gross_j IS NOT NULL AND window_end_at > window_start_at
    AND known_from <= $as_of AND window_end_at <= $as_of
), joined AS (
  SELECT s.backend_id, s.window_start_at, s.window_end_at, any_value(s.successes) AS successes,
         any_value(s.output_tokens) AS output_tokens, any_value(s.duration_s) AS duration_s,
         sum(date_diff('microsecond', greatest(s.window_start_at, e.window_start_at),
                       least(s.window_end_at, e.window_end_at)) / 1e6) AS metered_s,
         sum(e.power_w * date_diff('microsecond', greatest(s.window_start_at, e.window_start_at),
                                   least(s.window_end_at, e.window_end_at)) / 1e6) AS metered_j,
         min(e.evidence_class) AS evidence_class, count(DISTINCT e.evidence_class) AS classes
  FROM served s JOIN energy e
    ON e.backend_id = s.backend_id AND e.window_start_at < s.window_end_at AND e.window_end_at > s.window_start_at
  GROUP BY s.backend_id, s.window_start_at, s.window_end_at
)
SELECT backend_id, evidence_class, count(*) AS windows, min(window_start_at) AS from_at, max(window_end_at) AS to_at,
       sum(metered_j / metered_s * duration_s) AS energy_j, sum(successes) AS successes,
       sum(output_tokens) AS output_tokens, sum(duration_s) AS duration_s
FROM joined WHERE classes = 1 AND metered_s >= 0.9 * duration_s
GROUP BY backend_id, evidence_class ORDER BY backend_id, evidence_class
