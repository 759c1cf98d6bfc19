-- Idle power of each board, scope, state and driver, by its newest explicit measurement. W; never the smallest seen.
CREATE OR REPLACE VIEW mart.idle_baseline AS
SELECT device_uuid, meter_scope, device_state, driver_version,
       energy_gross_j / (date_diff('microsecond', window_start_at, window_end_at) / 1e6) AS idle_w,
       relative_uncertainty, quality, method, window_end_at AS measured_at, source_id
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY device_uuid, meter_scope, device_state, driver_version ORDER BY window_end_at DESC, known_from DESC) AS rank_
  FROM core.energy_observation
  WHERE workload = 'idle' AND energy_gross_j IS NOT NULL AND device_uuid IS NOT NULL
    AND window_end_at > window_start_at
) WHERE rank_ = 1;

-- What is wrong with the power of each board, as of an instant: one row per board, source and condition, for alerts.
-- Conditions: gpu_lost, sensor_frozen, implausible, counter_reset, unsupported, doubtful, double_count. Looked at: the
-- hour before `instant`; a frozen sensor has told the same for a minute or more.
CREATE OR REPLACE MACRO mart.power_health_at(instant) AS TABLE
WITH device AS (
  SELECT * FROM core.device WHERE updated_at <= instant AND updated_at > instant - INTERVAL 1 HOUR
), observed AS (
  SELECT * FROM core.energy_observation
  WHERE device_uuid IS NOT NULL AND workload = 'device'
    AND window_end_at > instant - INTERVAL 1 HOUR AND window_end_at <= instant
), sampled AS (
  SELECT *, row_number() OVER newest AS from_newest,
         first_value(power_w) OVER newest AS newest_w, first_value(energy_counter_j) OVER newest AS newest_j,
         first_value(sensor_at) OVER newest AS newest_stamp
  FROM core.power_sample
  WHERE sampled_at > instant - INTERVAL 1 HOUR AND sampled_at <= instant
  WINDOW newest AS (PARTITION BY device_uuid, source_id ORDER BY sampled_at DESC)
), moved AS (
  -- Since when stamp, counter and power stand at their newest value: the last sample that was another, and the first.
  SELECT device_uuid, source_id, max(sampled_at) AS last_at, min(sampled_at) AS first_at,
         any_value(newest_w) AS newest_w, any_value(newest_j) AS newest_j, any_value(newest_stamp) AS newest_stamp,
         max(sampled_at) FILTER (WHERE sensor_at IS DISTINCT FROM newest_stamp) AS stamp_moved_at,
         max(sampled_at) FILTER (WHERE energy_counter_j IS DISTINCT FROM newest_j) AS counter_moved_at,
         max(sampled_at) FILTER (WHERE power_w IS DISTINCT FROM newest_w) AS power_moved_at
  FROM sampled GROUP BY device_uuid, source_id
), standing AS (
  SELECT *,
    CASE WHEN newest_stamp IS NOT NULL THEN coalesce(stamp_moved_at, first_at)
         WHEN newest_w IS NULL THEN NULL
         WHEN newest_j IS NOT NULL THEN coalesce(counter_moved_at, first_at)
         ELSE coalesce(power_moved_at, first_at) END AS since_at
  FROM moved
), frozen AS (
  SELECT s.device_uuid, s.source_id, s.since_at, s.last_at, count(*) AS n,
         CASE WHEN any_value(s.newest_stamp) IS NOT NULL THEN 'its own stamp stands still'
              WHEN any_value(s.newest_j) IS NOT NULL THEN 'its energy counter stands still while it reports power'
              ELSE 'every reading is the same number' END AS detail
  FROM standing s JOIN sampled p USING (device_uuid, source_id)
  WHERE s.last_at - s.since_at >= INTERVAL 60 SECOND AND p.sampled_at > s.since_at
  GROUP BY s.device_uuid, s.source_id, s.since_at, s.last_at
  HAVING count(*) >= 10
), twice AS (
  SELECT a.device_uuid, a.source_id, min(a.window_start_at) AS since_at, max(a.window_end_at) AS last_at, count(*) AS n,
         'the same board is measured by ' || any_value(b.source_id) || ' as well: do not add them' AS detail
  FROM observed a JOIN observed b
    ON a.device_uuid = b.device_uuid AND a.source_id < b.source_id
    AND a.window_start_at < b.window_end_at AND b.window_start_at < a.window_end_at
  WHERE a.energy_gross_j IS NOT NULL AND b.energy_gross_j IS NOT NULL
  GROUP BY a.device_uuid, a.source_id
), found AS (
  SELECT 'gpu_lost' AS condition, device_uuid, source_id, updated_at AS since_at, updated_at AS last_at, 1 AS n,
         'the driver does not reach it' AS detail
  FROM device WHERE state = 'lost'
  UNION ALL
  SELECT 'unsupported', device_uuid, source_id, updated_at, updated_at, 1, 'it tells neither power nor energy'
  FROM device WHERE state = 'unsupported'
  UNION ALL
  SELECT 'sensor_frozen', device_uuid, source_id, since_at, last_at, n, detail FROM frozen
  UNION ALL
  SELECT gap_reason, device_uuid, source_id, min(window_start_at), max(window_end_at), count(*),
         CASE gap_reason WHEN 'implausible' THEN 'windows whose energy cannot be' ELSE 'windows cut by a counter reset' END
  FROM observed WHERE gap_reason IN ('implausible', 'counter_reset') GROUP BY ALL
  UNION ALL
  SELECT 'doubtful', device_uuid, source_id, min(window_start_at), max(window_end_at), count(*),
         'counter and polled power are more than half apart, or the window is too short for its sensor'
  FROM observed WHERE quality = 'LOW' AND energy_gross_j IS NOT NULL GROUP BY ALL
  UNION ALL
  SELECT 'double_count', device_uuid, source_id, since_at, last_at, n, detail FROM twice
)
SELECT f.condition, f.device_uuid, d.host, d.name, f.source_id, f.since_at, f.last_at, f.n, f.detail
FROM found f LEFT JOIN core.device d USING (device_uuid, source_id);

-- What is wrong with the power of each board right now.
CREATE OR REPLACE VIEW mart.power_health AS
SELECT * FROM mart.power_health_at(CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP));
