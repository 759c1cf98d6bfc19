-- The first schema. Written so that the same statements run on a DuckDB file and on DuckLake:
-- no sequences, enums, generated columns, RETURNING or ON CONFLICT. Keys are declared in
-- warehouse/constraints.py, not here, and emitted as unique indexes on the native file.
-- All *_at columns are TIMESTAMP in UTC. Every fact names its source and the run that loaded it.

CREATE SCHEMA IF NOT EXISTS landing;
CREATE SCHEMA IF NOT EXISTS core;
CREATE SCHEMA IF NOT EXISTS ledger;
CREATE SCHEMA IF NOT EXISTS ops;
CREATE SCHEMA IF NOT EXISTS mart;

-- landing: payloads as they came ------------------------------------------------------------
CREATE TABLE landing.payload (
  payload_id    VARCHAR NOT NULL,          -- sha256(source_id, kind, body sha256): the same payload lands once
  source_id     VARCHAR NOT NULL,
  kind          VARCHAR NOT NULL,
  url           VARCHAR NOT NULL,          -- http(s)://, file:// or device://; never with a secret in it
  fetched_at    TIMESTAMP NOT NULL,
  http_status   INTEGER,                   -- NULL for files and devices
  content_type  VARCHAR,
  etag          VARCHAR,
  last_modified VARCHAR,
  sha256        VARCHAR NOT NULL,
  size_bytes    BIGINT NOT NULL,
  encoding      VARCHAR NOT NULL,          -- zlib
  body          BLOB NOT NULL,
  run_id        VARCHAR NOT NULL
);

-- ops: runs, sources, quarantine ----------------------------------------------------------------
CREATE TABLE ops.source (                  -- the sources that configuration and imports have named
  source_id     VARCHAR NOT NULL,
  kind          VARCHAR NOT NULL,
  title         VARCHAR NOT NULL,
  transport     VARCHAR NOT NULL,          -- http | file | device | generated
  url           VARCHAR,
  cadence_s     DOUBLE,                    -- NULL: only by hand
  stale_after_s DOUBLE NOT NULL,
  expire_after_s DOUBLE NOT NULL,
  enabled       BOOLEAN NOT NULL,
  is_sample     BOOLEAN NOT NULL,
  updated_at    TIMESTAMP NOT NULL
);

CREATE TABLE ops.run (                     -- one attempt to refresh one source
  run_id        VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  kind          VARCHAR NOT NULL,
  trigger       VARCHAR NOT NULL,          -- schedule | manual | import | retry | sample
  attempt       INTEGER NOT NULL,
  scheduled_for TIMESTAMP,
  started_at    TIMESTAMP NOT NULL,
  finished_at   TIMESTAMP,
  state         VARCHAR NOT NULL,          -- RUNNING | OK | PARTIAL | FAILED | MISSED | SKIPPED | ABORTED
  not_modified  BOOLEAN NOT NULL,          -- the source confirmed that nothing changed (304 or same bytes)
  rows_in       BIGINT,
  rows_loaded   BIGINT,
  rows_unchanged BIGINT,
  rows_quarantined BIGINT,
  payload_id    VARCHAR,
  options       VARCHAR,                   -- what a person declared about the payload, as JSON text
  data_at       TIMESTAMP,                 -- newest instant of the world that the payload speaks of
  error_class   VARCHAR,
  error_text    VARCHAR,
  error_fix     VARCHAR,
  host          VARCHAR NOT NULL,
  pid           INTEGER NOT NULL,
  code_version  VARCHAR NOT NULL
);

CREATE TABLE ops.quarantine (              -- a row that failed its schema or a plausibility rule
  quarantine_id VARCHAR NOT NULL,          -- sha256(payload_id or source, row_no, field, reason, raw): idempotent
  run_id        VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  kind          VARCHAR NOT NULL,
  payload_id    VARCHAR,
  row_no        BIGINT,
  natural_key   VARCHAR,
  field         VARCHAR,
  value         VARCHAR,
  reason        VARCHAR NOT NULL,
  raw           VARCHAR,                   -- the row as JSON text
  quarantined_at TIMESTAMP NOT NULL
);

CREATE TABLE ops.api_token (
  token_id      VARCHAR NOT NULL,
  name          VARCHAR NOT NULL,
  token_sha256  VARCHAR NOT NULL,
  scopes        VARCHAR NOT NULL,          -- comma separated: read, downstream, operator
  created_at    TIMESTAMP NOT NULL,
  created_by    VARCHAR NOT NULL,
  revoked_at    TIMESTAMP,
  version       INTEGER NOT NULL
);

-- core: typed facts ----------------------------------------------------------------------------
CREATE TABLE core.offer (                  -- append-only versions; the latest known one is in force
  provider      VARCHAR NOT NULL,
  offer_id      VARCHAR NOT NULL,
  valid_from    TIMESTAMP NOT NULL,
  valid_to      TIMESTAMP,
  known_from    TIMESTAMP NOT NULL,
  display_name  VARCHAR,
  description   VARCHAR,
  base_model    VARCHAR NOT NULL,          -- the logical model: offer_id without its serving-class suffixes
  latency_class VARCHAR NOT NULL,          -- interactive | flex
  reasoning_mode VARCHAR NOT NULL,         -- standard | fast
  context_variant VARCHAR NOT NULL,        -- full | short
  access_level  VARCHAR NOT NULL,          -- open | gated | canary
  lifecycle     VARCHAR NOT NULL,          -- active | deprecated | removed
  expires_at    TIMESTAMP,
  alias_of      VARCHAR,                   -- moving aliases name what they stand for, where known
  context_tokens BIGINT,                   -- advertised
  endpoint_context_tokens BIGINT,          -- of the top endpoint, where the source tells both
  max_output_tokens BIGINT,
  tier          INTEGER,                   -- declared capability tier 1..3; NULL: not declared
  residency     VARCHAR,                   -- comma separated zones or tags; NULL: not declared
  attributes    VARCHAR,                   -- the remaining source fields as JSON text
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.price (                  -- one price component of an offer
  provider      VARCHAR NOT NULL,
  offer_id      VARCHAR NOT NULL,
  component     VARCHAR NOT NULL,          -- prompt | completion | cache_read | cache_write | request | image | ...
  min_prompt_tokens BIGINT NOT NULL,       -- 0: base tier; a higher tier re-prices the whole request
  valid_from    TIMESTAMP NOT NULL,
  valid_to      TIMESTAMP,
  known_from    TIMESTAMP NOT NULL,
  price_usd_per_unit DECIMAL(28,12),       -- NULL unless price_kind is fixed or free
  unit          VARCHAR NOT NULL,          -- token | request | image | search
  price_kind    VARCHAR NOT NULL,          -- fixed | free | dynamic | unknown
  origin        VARCHAR NOT NULL,          -- live | cached | bundled
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.tariff (                 -- an account's billing rule in force
  provider      VARCHAR NOT NULL,
  account       VARCHAR NOT NULL,
  valid_from    TIMESTAMP NOT NULL,
  valid_to      TIMESTAMP,
  known_from    TIMESTAMP NOT NULL,
  usd_per_kwh   DECIMAL(28,12),
  flex_multiplier DOUBLE,                  -- charged energy / consumed energy of flex traffic
  list_price_ceiling_multiple DOUBLE,      -- bill <= multiple x list token price; NULL: none known
  basis         VARCHAR NOT NULL,          -- declared | reconstructed
  evidence_class VARCHAR NOT NULL,
  n             BIGINT,                    -- billed rows behind a reconstruction
  residual_relative DOUBLE,                -- largest |bill - rule| / bill in the reconstruction
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.usage (                  -- a billed request, or a billed day or period where only that is known
  provider      VARCHAR NOT NULL,
  account       VARCHAR NOT NULL,
  usage_key     VARCHAR NOT NULL,
  grain         VARCHAR NOT NULL,          -- request | day | period
  workload      VARCHAR NOT NULL,          -- seed_reference | organic
  period_start_at TIMESTAMP NOT NULL,      -- half-open [start, end)
  period_end_at TIMESTAMP NOT NULL,
  requested_offer VARCHAR NOT NULL,
  served_offer  VARCHAR,
  service_tier  VARCHAR,                   -- standard | flex, as billed
  prompt_tokens BIGINT,
  completion_tokens BIGINT,
  cached_tokens BIGINT,
  requests      BIGINT NOT NULL,
  attempts      BIGINT NOT NULL,
  successes     BIGINT,                    -- NULL: the source does not tell success
  requests_with_energy BIGINT,
  billed_cost_usd DECIMAL(28,12),          -- what the bill says; never the list price
  list_cost_usd DECIMAL(28,12),            -- tokens x list price, a projection
  upstream_cost_usd DECIMAL(28,12),        -- what a provider behind this one bills to the account's own key, on top
  energy_j      DOUBLE,                    -- consumed (allocated) energy
  energy_charged_j DOUBLE,                 -- what the bill charges, after a flex multiplier
  energy_uncapped_j DOUBLE,                -- before the provider's attribution cap
  carbon_g      DOUBLE,                    -- energy_j x intensity_g_per_kwh, as its source worked it out
  carbon_evidence_class VARCHAR,           -- of carbon_g: the weaker of energy and intensity; NULL with it
  intensity_g_per_kwh DOUBLE,
  zone          VARCHAR,
  duration_s    DOUBLE,
  evidence_class VARCHAR NOT NULL,         -- of energy_j; carbon_g has its own
  method        VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  row_sha256    VARCHAR NOT NULL           -- of the content: a restatement differs
);

CREATE TABLE core.energy_observation (     -- the observation contract (design section 4)
  observation_id VARCHAR NOT NULL,
  provider      VARCHAR NOT NULL,
  offer_id      VARCHAR,                   -- NULL: a window of a device that serves several
  backend_id    VARCHAR,
  pool          VARCHAR,
  hardware_model VARCHAR,
  hardware_count INTEGER,
  gpu_arch      VARCHAR,
  driver_version VARCHAR,
  device_uuid   VARCHAR,
  meter_scope   VARCHAR,                   -- what the meter covers: gpu (board) | module (superchip: CPU and GPU) | cpu | ram | host
  device_state  VARCHAR,                   -- empty (no process) | loaded (a process holds the GPU); NULL: not known
  logical_model VARCHAR,
  deployable_model VARCHAR,
  deployable_version VARCHAR,
  runtime       VARCHAR,
  runtime_version VARCHAR,
  config_version VARCHAR,
  window_start_at TIMESTAMP NOT NULL,
  window_end_at TIMESTAMP NOT NULL,
  utilization   DOUBLE,
  concurrency   DOUBLE,
  evidence_class VARCHAR NOT NULL,         -- measured | allocated | calibrated | modeled
  method        VARCHAR NOT NULL,          -- counter | integrated_instant | integrated_average | provider attribution name | ...
  quality       VARCHAR NOT NULL,          -- HIGH | FAIR | LOW
  calibration_id VARCHAR,
  energy_gross_j DOUBLE,                   -- NULL: unknown (reset, lost device, unsupported)
  energy_net_j  DOUBLE,                    -- gross minus idle, where an idle baseline is known
  relative_uncertainty DOUBLE,             -- one standard deviation / value
  gap_reason    VARCHAR,                   -- why energy is NULL: counter_reset | gpu_lost | unsupported | below_resolution | implausible
  attribution_share DOUBLE,
  attribution_capped BOOLEAN,
  energy_uncapped_j DOUBLE,
  prompt_tokens BIGINT,
  output_tokens BIGINT,
  attempts      BIGINT,
  successes     BIGINT,
  latency_mean_s DOUBLE,
  latency_p95_s DOUBLE,
  slo_share_over DOUBLE,
  coverage      DOUBLE,                    -- share of requests with energy, 0..1
  billed_cost_usd DECIMAL(28,12),
  carbon_g      DOUBLE,                    -- energy_gross_j x intensity_g_per_kwh, as its source worked it out
  carbon_evidence_class VARCHAR,           -- of carbon_g: the weaker of energy and intensity; NULL with it
  intensity_g_per_kwh DOUBLE,
  zone          VARCHAR,
  workload      VARCHAR NOT NULL,          -- seed_reference | organic | benchmark | idle | device | replica | host | nested | remainder
  usage_key     VARCHAR,
  attributes    VARCHAR,                   -- the remaining source fields as JSON text
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.device (                 -- what one source says about one device
  device_uuid   VARCHAR NOT NULL,
  host          VARCHAR NOT NULL,
  pci_bus_id    VARCHAR,
  name          VARCHAR,
  gpu_arch      VARCHAR,
  driver_version VARCHAR,
  power_limit_w DOUBLE,
  mig_enabled   BOOLEAN,
  counter_supported BOOLEAN,
  sensor_class  VARCHAR,                   -- what the power reading means on this architecture and driver
  power_scope   VARCHAR,                   -- gpu (board) | module (CPU and GPU of a superchip): a CPU figure is never added on top
  state         VARCHAR NOT NULL,          -- ok | lost | unsupported
  updated_at    TIMESTAMP NOT NULL,
  source_id     VARCHAR NOT NULL
);

CREATE TABLE core.power_sample (           -- one reading of one device
  device_uuid   VARCHAR NOT NULL,
  sampled_at    TIMESTAMP NOT NULL,
  power_w       DOUBLE,
  energy_counter_j DOUBLE,
  method        VARCHAR NOT NULL,          -- instant | average | unavailable
  sensor_at     TIMESTAMP,                 -- the sensor's own stamp, where it gives one
  epoch         INTEGER NOT NULL,          -- grows with every counter reset or re-init: never difference across it; 0: a scrape, which knows of no other
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.grid_intensity (         -- bitemporal: the world restates intensity for months
  zone          VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  signal        VARCHAR NOT NULL,          -- average | marginal
  basis         VARCHAR NOT NULL,          -- lifecycle | direct
  start_at      TIMESTAMP NOT NULL,        -- half-open [start, end)
  end_at        TIMESTAMP NOT NULL,
  is_forecast   BOOLEAN NOT NULL,
  is_estimated  BOOLEAN NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  intensity_g_per_kwh DOUBLE,
  method        VARCHAR NOT NULL,          -- e.g. national average, static factor 2024 (Ember)
  estimation_method VARCHAR,               -- how an estimated value was made, as its source names it
  forecast_made_at TIMESTAMP,              -- when a forecast was issued; the horizon is start_at minus this
  version       VARCHAR,                   -- the source's own version: its updatedAt or the date of its model
  evidence_class VARCHAR NOT NULL,
  content_sha256 VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.score (                  -- one quality score component
  model         VARCHAR NOT NULL,          -- base model or offer id
  category      VARCHAR NOT NULL,
  component     VARCHAR NOT NULL,          -- leaderboard | self_eval
  valid_from    TIMESTAMP NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  score         DOUBLE NOT NULL,           -- 0..1
  n             BIGINT,                    -- self-eval sample size
  source_name   VARCHAR,                   -- the leaderboard or evaluation, as the file names it
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.published_point (        -- points that a publication reports; never measured here
  dataset       VARCHAR NOT NULL,
  policy        VARCHAR NOT NULL,
  accuracy      DOUBLE NOT NULL,
  reward        DOUBLE,
  energy_j      DOUBLE NOT NULL,           -- per query
  latency_s     DOUBLE NOT NULL,
  power_w       DOUBLE NOT NULL,           -- mean of per-call power, not energy / time
  n             BIGINT,
  evidence_class VARCHAR NOT NULL,
  method        VARCHAR NOT NULL,
  citation      VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.policy_version (
  policy_id     VARCHAR NOT NULL,          -- sha256(name, parameters, code)
  name          VARCHAR NOT NULL,
  parameters    VARCHAR NOT NULL,          -- canonical JSON
  code_sha256   VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

-- ledger ---------------------------------------------------------------------------------------
CREATE TABLE ledger.event (                -- append-only, hash-chained; see warehouse/ledger.py
  seq           BIGINT NOT NULL,
  event_id      VARCHAR NOT NULL,
  happened_at   TIMESTAMP NOT NULL,
  kind          VARCHAR NOT NULL,
  subject       VARCHAR NOT NULL,          -- recommendation id, or routing-table, policy, sample, token
  revision      INTEGER,
  actor         VARCHAR NOT NULL,
  role          VARCHAR NOT NULL,          -- operator | downstream | system
  channel       VARCHAR NOT NULL,          -- console | api | cli | scheduler
  idempotency_key VARCHAR,
  body          VARCHAR NOT NULL,          -- canonical JSON
  prev_hash     VARCHAR NOT NULL,
  hash          VARCHAR NOT NULL
);
