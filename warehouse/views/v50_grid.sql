-- What may answer for the intensity of a zone at an instant, as known at another; best first within one
-- zone, signal and basis, which are never mixed. warehouse/intensity.py and mart.grid_now read it.
--   actual    a figure for an interval that covers the instant
--   forecast  a projection for such an interval
--   carried   the last actual figure, ended at most a day before
--   static    a factor for a month or longer, of the year of the instant or of the newest year before it
-- Where a source numbers its versions, its newest one known then is in force, in whichever order they came.
-- A version whose figure is NULL withdraws the figure before it.
CREATE OR REPLACE MACRO mart.grid_candidates(instant, known_at) AS TABLE
WITH told AS (
  SELECT *, row_number() OVER (
    PARTITION BY zone, source_id, signal, basis, start_at, is_forecast
    ORDER BY version DESC NULLS LAST, known_from DESC) AS rank_
  FROM core.grid_intensity
  WHERE known_from <= known_at AND start_at <= instant
    AND (end_at > instant - INTERVAL 1 DAY OR end_at - start_at >= INTERVAL 28 DAY)
), standing AS (
  SELECT *,
    CASE WHEN end_at - start_at >= INTERVAL 28 DAY THEN 'static'
         WHEN end_at > instant AND NOT is_forecast THEN 'actual'
         WHEN end_at > instant THEN 'forecast'
         WHEN NOT is_forecast THEN 'carried' END AS standing
  FROM told WHERE rank_ = 1 AND intensity_g_per_kwh IS NOT NULL
)
SELECT zone, signal, basis, standing, intensity_g_per_kwh, evidence_class, is_estimated, estimation_method, method,
       source_id, start_at, end_at, known_from, forecast_made_at, version, run_id,
       greatest(0, date_diff('millisecond', end_at, instant) / 1000.0) AS behind_s,
       date_diff('millisecond', known_from, known_at) / 1000.0 AS age_s,
       date_diff('millisecond', forecast_made_at, start_at) / 1000.0 AS horizon_s,
       row_number() OVER (
         PARTITION BY zone, signal, basis
         ORDER BY list_position(['actual', 'forecast', 'carried', 'static'], standing),
                  source_id LIKE 'sample:%',
                  CASE WHEN standing IN ('carried', 'static') THEN end_at END DESC NULLS LAST,
                  is_estimated, end_at - start_at,
                  list_position(['measured', 'allocated', 'calibrated', 'modeled'], evidence_class),
                  known_from DESC, source_id) AS place
FROM standing WHERE standing IS NOT NULL;

-- The best answer per zone, signal and basis, beside the yearly factor of the zone.
CREATE OR REPLACE MACRO mart.grid_at(instant, known_at) AS TABLE
WITH candidate AS (SELECT * FROM mart.grid_candidates(instant, known_at)),
yearly AS (
  SELECT zone, signal, basis, intensity_g_per_kwh AS yearly_g_per_kwh, method AS yearly_method
  FROM candidate WHERE standing = 'static'
  QUALIFY row_number() OVER (PARTITION BY zone, signal, basis ORDER BY place) = 1
)
SELECT c.* EXCLUDE (place), c.standing = 'static' AS is_fallback, y.yearly_g_per_kwh, y.yearly_method,
       c.intensity_g_per_kwh / nullif(y.yearly_g_per_kwh, 0) AS ratio_to_yearly
FROM candidate c LEFT JOIN yearly y USING (zone, signal, basis)
WHERE c.place = 1;

-- The intensity of every zone now, per signal and basis, with its standing (actual, forecast, carried, static).
CREATE OR REPLACE VIEW mart.grid_now AS
SELECT * FROM mart.grid_at(CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP), CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP));

-- The declared zone of each region, as known now.
CREATE OR REPLACE VIEW mart.zone_map AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (
    PARTITION BY system, region, zone_system, source_id ORDER BY known_from DESC) AS rank_
  FROM core.zone_map
) WHERE rank_ = 1;

-- Net generation by zone, fuel and hour, as known now.
CREATE OR REPLACE VIEW mart.grid_generation AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (
    PARTITION BY zone, source_id, fuel, flow, start_at ORDER BY known_from DESC) AS rank_
  FROM core.grid_generation
) WHERE rank_ = 1;
