-- What each engine last told, and what a backend makes of its engines.

-- The newest window per backend, engine and model, whichever source told it.
CREATE OR REPLACE MACRO mart.serving_at(instant) AS TABLE
SELECT
  *,
  date_diff('millisecond', window_start_at, window_end_at) / 1000.0 AS window_s,
  prompt_tokens / nullif(date_diff('millisecond', window_start_at, window_end_at) / 1000.0, 0) AS prompt_tokens_per_s,
  output_tokens / nullif(date_diff('millisecond', window_start_at, window_end_at) / 1000.0, 0) AS output_tokens_per_s,
  date_diff('millisecond', window_end_at, instant) / 1000.0 AS age_s
FROM core.serving_window
WHERE window_end_at <= instant
QUALIFY row_number() OVER (
  PARTITION BY backend_id, engine, model ORDER BY window_end_at DESC, known_from DESC, source_id
) = 1;

-- What each engine did in its newest window, with rates and age.
CREATE OR REPLACE VIEW mart.serving_latest AS
SELECT * FROM mart.serving_at(CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP));

-- One row per backend and model. Of engines that were scraped together:
-- - requests and tokens are added up, and unknown where one engine's are; a frontend (engine '' beside others, as
--   SGLang has it) counts for all of them;
-- - the use of the caches is the highest of them, never a sum;
-- - a percentile over all requests lies between the lowest and the highest of the engines' own: intervals widen, they
--   are neither added nor averaged.
-- An engine that is no longer told (the newest scrape lacks it) is no part of the sum.
CREATE OR REPLACE MACRO mart.serving_backend_at(instant) AS TABLE
WITH latest AS (
  SELECT * FROM mart.serving_at(instant)
  QUALIFY window_end_at = max(window_end_at) OVER (PARTITION BY backend_id, model)
),
parted AS (
  SELECT *, engine = '' AND count(*) OVER (PARTITION BY backend_id, model) > 1 AS frontend FROM latest
)
SELECT
  backend_id, model,
  any_value(runtime) AS runtime,
  count(*) FILTER (WHERE NOT frontend) AS engines,
  min(window_start_at) AS window_start_at,
  max(window_end_at) AS window_end_at,
  min(age_s) AS age_s,
  coalesce(max(running_requests) FILTER (WHERE frontend), CASE WHEN count(running_requests) FILTER (WHERE NOT frontend)
    = count(*) FILTER (WHERE NOT frontend) THEN sum(running_requests) FILTER (WHERE NOT frontend) END) AS running_requests,
  coalesce(max(waiting_requests) FILTER (WHERE frontend), CASE WHEN count(waiting_requests) FILTER (WHERE NOT frontend)
    = count(*) FILTER (WHERE NOT frontend) THEN sum(waiting_requests) FILTER (WHERE NOT frontend) END) AS waiting_requests,
  max(kv_cache_utilization) AS kv_cache_utilization_max,
  coalesce(max(prompt_tokens) FILTER (WHERE frontend), CASE WHEN count(prompt_tokens) FILTER (WHERE NOT frontend)
    = count(*) FILTER (WHERE NOT frontend) THEN sum(prompt_tokens) FILTER (WHERE NOT frontend) END) AS prompt_tokens,
  coalesce(max(output_tokens) FILTER (WHERE frontend), CASE WHEN count(output_tokens) FILTER (WHERE NOT frontend)
    = count(*) FILTER (WHERE NOT frontend) THEN sum(output_tokens) FILTER (WHERE NOT frontend) END) AS output_tokens,
  coalesce(max(successes) FILTER (WHERE frontend), CASE WHEN count(successes) FILTER (WHERE NOT frontend)
    = count(*) FILTER (WHERE NOT frontend) THEN sum(successes) FILTER (WHERE NOT frontend) END) AS successes,
  coalesce(max(aborts) FILTER (WHERE frontend), CASE WHEN count(aborts) FILTER (WHERE NOT frontend)
    = count(*) FILTER (WHERE NOT frontend) THEN sum(aborts) FILTER (WHERE NOT frontend) END) AS aborts,
  CASE WHEN count(gap_reason) = 0 THEN min(ttft_p95_low_s) END AS ttft_p95_low_s,
  CASE WHEN count(gap_reason) = 0 AND count(ttft_p95_high_s) = count(ttft_p95_low_s)
    THEN max(ttft_p95_high_s) END AS ttft_p95_high_s,
  CASE WHEN count(gap_reason) = 0 THEN min(e2e_p95_low_s) END AS e2e_p95_low_s,
  CASE WHEN count(gap_reason) = 0 AND count(e2e_p95_high_s) = count(e2e_p95_low_s)
    THEN max(e2e_p95_high_s) END AS e2e_p95_high_s,
  CASE WHEN count(gap_reason) = 0 THEN min(tpot_p95_low_s) END AS tpot_p95_low_s,
  CASE WHEN count(gap_reason) = 0 AND count(tpot_p95_high_s) = count(tpot_p95_low_s)
    THEN max(tpot_p95_high_s) END AS tpot_p95_high_s,
  string_agg(DISTINCT gap_reason, ', ' ORDER BY gap_reason) AS gap_reasons,
  min(evidence_class) AS evidence_class
FROM parted
GROUP BY backend_id, model;

-- The same per backend and model: summed only where a sum means something.
CREATE OR REPLACE VIEW mart.serving_backend_latest AS
SELECT * FROM mart.serving_backend_at(CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP));
