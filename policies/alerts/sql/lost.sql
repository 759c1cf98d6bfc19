-- Boards that the driver no longer reaches, by word of the last day: an old log that is imported today tells history.
SELECT device_uuid, source_id, host, name, pci_bus_id, driver_version, updated_at
FROM core.device
WHERE state = 'lost' AND updated_at <= $as_of AND updated_at > $as_of - INTERVAL 24 HOUR
  AND source_id NOT LIKE 'sample:%'
ORDER BY device_uuid, source_id
