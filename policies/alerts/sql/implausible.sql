-- Windows and requests whose energy was refused as impossible, learned since $since.
SELECT coalesce(device_uuid, provider || '/' || coalesce(offer_id, deployable_model, logical_model, source_id)) AS subject,
       any_value(provider) AS provider, any_value(source_id) AS source_id,
       count(*) FILTER (WHERE gap_reason = 'implausible') AS implausible, count(*) AS windows,
       max(window_end_at) FILTER (WHERE gap_reason = 'implausible') AS newest_at,
       arg_max(method, window_end_at) FILTER (WHERE gap_reason = 'implausible') AS method
FROM core.energy_observation
WHERE known_from <= $as_of AND known_from > $since AND source_id NOT LIKE 'sample:%'
GROUP BY 1 HAVING count(*) FILTER (WHERE gap_reason = 'implausible') > 0
ORDER BY 1
