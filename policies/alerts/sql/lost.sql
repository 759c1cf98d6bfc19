-- Boards that the driver no longer reaches.
SELECT device_uuid, source_id, host, name, pci_bus_id, driver_version, updated_at
FROM core.device
WHERE state = 'lost' AND updated_at <= $as_of AND source_id NOT LIKE 'sample:%'
ORDER BY device_uuid, source_id
