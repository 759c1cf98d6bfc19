-- The newest scrape of each backend, added up over its engines; a frontend (engine '' beside others) counts for all.
WITH told AS (
  SELECT *, max(engine) OVER w <> '' AND min(engine) OVER w = '' AS has_frontend,
         max(window_end_at) OVER (PARTITION BY backend_id) AS newest_at
  FROM core.serving_window
  WHERE known_from <= $as_of AND window_end_at <= $as_of
  WINDOW w AS (PARTITION BY backend_id, window_end_at)
  QUALIFY row_number() OVER (
    PARTITION BY backend_id, engine, model, window_end_at ORDER BY known_from DESC, source_id) = 1
)
SELECT backend_id, CAST(to_json(list(DISTINCT model ORDER BY model)) AS VARCHAR) AS models, min(runtime) AS runtime,
       min(window_start_at) AS window_start_at,
       max(window_end_at) AS window_end_at,
       CASE WHEN count(running_requests) = count(*) THEN sum(running_requests) END AS running_requests,
       CASE WHEN count(waiting_requests) = count(*) THEN sum(waiting_requests) END AS waiting_requests,
       max(kv_cache_utilization) AS kv_cache_utilization, max(ttft_p99_low_s) AS ttft_p99_low_s,
       CASE WHEN count(ttft_p99_high_s) = count(*) THEN max(ttft_p99_high_s) END AS ttft_p99_high_s,
       max(e2e_p99_low_s) AS e2e_p99_low_s,
       CASE WHEN count(e2e_p99_high_s) = count(*) THEN max(e2e_p99_high_s) END AS e2e_p99_high_s,
       string_agg(DISTINCT gap_reason, ', ' ORDER BY gap_reason) AS gap_reason, max(evidence_class) AS evidence_class
FROM told
WHERE window_end_at = newest_at AND (NOT has_frontend OR engine = '')
GROUP BY backend_id ORDER BY backend_id
