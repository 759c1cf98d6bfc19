-- Which backend each metered window is of. Parameters: as_of.
SELECT observation_id, backend_id FROM core.energy_observation
WHERE workload = 'replica' AND backend_id IS NOT NULL AND known_from <= $as_of ORDER BY observation_id
