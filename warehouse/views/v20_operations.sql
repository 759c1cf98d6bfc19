-- Freshness per source: a failed refresh never makes anything younger.

CREATE OR REPLACE MACRO mart.freshness_at(instant) AS TABLE
WITH payloads AS (
  SELECT payload_id, fetched_at FROM landing.payload
), attempts AS (
  -- A file is as old as the file, not as its import.
  SELECT r.source_id,
         max(started_at) AS last_attempt_at,
         max(CASE WHEN state IN ('OK', 'PARTIAL')
             THEN CASE WHEN s.transport = 'file' THEN p.fetched_at ELSE finished_at END END) AS last_success_at,
         arg_max(state, started_at) AS last_state,
         arg_max(coalesce(error_text, ''), started_at) AS last_error,
         arg_max(coalesce(error_fix, ''), started_at) AS last_fix,
         max(CASE WHEN state IN ('OK', 'PARTIAL') THEN data_at END) AS data_at
  FROM ops.run r JOIN ops.source s USING (source_id) LEFT JOIN payloads p USING (payload_id)
  WHERE started_at <= instant AND state NOT IN ('SKIPPED', 'MISSED')
  GROUP BY r.source_id
), aged AS (
  SELECT s.source_id, s.kind, s.title, s.transport, s.is_sample, s.enabled, s.cadence_s, s.stale_after_s,
         s.expire_after_s, a.last_attempt_at, a.last_success_at, a.last_state, a.last_error, a.last_fix, a.data_at,
         date_diff('millisecond', a.last_success_at, instant) / 1000.0 AS age_s
  FROM ops.source s LEFT JOIN attempts a USING (source_id)
)
SELECT *,
  CASE WHEN last_success_at IS NULL THEN 'never'
       WHEN age_s > expire_after_s THEN 'expired'
       WHEN age_s > stale_after_s THEN 'stale'
       ELSE 'fresh' END AS status,
  CASE WHEN last_attempt_at IS NULL AND NOT enabled THEN 'switched off in the configuration'
       WHEN last_attempt_at IS NULL THEN 'not tried yet'
       WHEN last_state = 'FAILED' THEN last_error
       WHEN last_state = 'ABORTED' THEN 'the last run was cut off'
       WHEN last_success_at IS NULL THEN 'no run has succeeded yet'
       WHEN age_s > stale_after_s THEN 'no refresh for longer than ' || CAST(CAST(stale_after_s AS BIGINT) AS VARCHAR) || ' s'
       ELSE 'refreshed within its limit' END AS why
FROM aged;

CREATE OR REPLACE VIEW mart.freshness AS
SELECT * FROM mart.freshness_at(CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP));

-- The latest state of every recommendation, as its last state-changing event told it.
CREATE OR REPLACE VIEW mart.recommendation AS
SELECT subject AS recommendation_id,
       arg_max(json_extract_string(body, '$.state'), seq) FILTER (WHERE json_extract_string(body, '$.state') IS NOT NULL) AS state,
       max(revision) AS revision,
       min(happened_at) AS proposed_at,
       max(happened_at) AS last_event_at,
       arg_min(json_extract_string(body, '$.content.title'), seq) AS title,
       count(*) AS events
FROM ledger.event
WHERE kind LIKE 'recommendation.%'
GROUP BY subject;

CREATE OR REPLACE VIEW mart.audit AS
SELECT seq, happened_at, kind, subject, revision, actor, role, channel, idempotency_key, body, hash
FROM ledger.event;
