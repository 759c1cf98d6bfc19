-- Sources that are switched on and whose data is older than their own limits.
SELECT source_id, kind, title, transport, status, age_s, stale_after_s, expire_after_s, last_success_at, last_state,
       why, last_fix
FROM mart.freshness_at($as_of)
WHERE enabled AND NOT is_sample AND status IN ('stale', 'expired')
ORDER BY source_id
