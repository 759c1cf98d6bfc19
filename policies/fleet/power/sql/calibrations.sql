-- Stored calibrations as of $as_of, each with its number within what it is bound to, newest first.
-- Parameters: as_of; quantity, model, hardware, calibration (NULL: any).
SELECT *, row_number() OVER (
    PARTITION BY quantity, form, logical_model, hardware_model, hardware_count, runtime, runtime_version, config_version
    ORDER BY fitted_at, calibration_id) AS version_no
FROM core.calibration
WHERE known_from <= $as_of
  AND (CAST($quantity AS VARCHAR) IS NULL OR quantity = $quantity)
  AND (CAST($model AS VARCHAR) IS NULL OR logical_model = $model)
  AND (CAST($hardware AS VARCHAR) IS NULL OR hardware_model = $hardware)
QUALIFY CAST($calibration AS VARCHAR) IS NULL OR calibration_id = $calibration
ORDER BY fitted_at DESC, calibration_id
