-- Which grid zone a region lies in, as somebody declared it, and what generated the electricity of a zone.

CREATE TABLE core.zone_map (               -- bitemporal: a correction of a declared zone is a new version
  system        VARCHAR NOT NULL,          -- who names the region: gcp | aws | azure | a site list | ...
  region        VARCHAR NOT NULL,          -- the region's id in that system, as written there
  zone_system   VARCHAR NOT NULL,          -- who names the zone: electricitymaps | eia | entsoe | watttime | uk
  zone          VARCHAR NOT NULL,          -- as core.grid_intensity has it
  confidence    VARCHAR NOT NULL,          -- high | medium | low, as declared
  declared_by   VARCHAR NOT NULL,          -- the source that the table names for the row
  note          VARCHAR,
  known_from    TIMESTAMP NOT NULL,
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.grid_generation (        -- net generation of a zone by fuel; bitemporal, revised for days
  zone          VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  fuel          VARCHAR NOT NULL,          -- EIA fueltype or ENTSO-E psrType, as the source writes it
  flow          VARCHAR NOT NULL,          -- production | consumption (what pumps and batteries take)
  start_at      TIMESTAMP NOT NULL,        -- half-open [start, end)
  end_at        TIMESTAMP NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  energy_j      DOUBLE,                    -- NULL: not told; negative: storage filling, or a plant's own use
  role          VARCHAR NOT NULL,          -- generation | storage: only generation makes the mix
  method        VARCHAR NOT NULL,
  evidence_class VARCHAR NOT NULL,
  content_sha256 VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);
