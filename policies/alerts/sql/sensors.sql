-- What each sensor said in the span before the snapshot: how often it told another value.
SELECT p.device_uuid, p.source_id, any_value(d.name) AS name, any_value(d.host) AS host,
       count(*) AS n, count(power_w) AS n_power, count(DISTINCT power_w) AS powers,
       count(energy_counter_j) AS n_counter, count(DISTINCT energy_counter_j) AS counters,
       count(sensor_at) AS n_stamp, count(DISTINCT sensor_at) AS stamps,
       min(power_w) AS power_low_w, max(power_w) AS power_high_w, max(energy_counter_j) AS energy_counter_j,
       max(sensor_at) AS sensor_at, max(sampled_at) AS newest_at,
       date_diff('millisecond', min(sampled_at), max(sampled_at)) / 1000.0 AS span_s
FROM core.power_sample p LEFT JOIN core.device d USING (device_uuid, source_id)
WHERE sampled_at > $since AND sampled_at <= $as_of AND p.source_id NOT LIKE 'sample:%'
GROUP BY p.device_uuid, p.source_id ORDER BY p.device_uuid, p.source_id
