-- The fleet: request traces, calibrated profiles, and what experiments said.

CREATE TABLE core.request_trace (          -- one request of a recorded trace, as it arrived
  trace         VARCHAR NOT NULL,          -- name of the trace
  request_no    BIGINT NOT NULL,           -- order in the trace, from 0
  arrival_s     DOUBLE NOT NULL,           -- seconds since the first request of the trace
  arrived_at    TIMESTAMP,                 -- NULL where the trace tells relative time only
  prompt_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  session_id    VARCHAR,                   -- requests of one conversation or one prefix share it
  model         VARCHAR,
  category      VARCHAR,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.length_cdf (             -- one knot of a cumulative distribution of request lengths
  cdf           VARCHAR NOT NULL,          -- name of the distribution
  tokens        BIGINT NOT NULL,           -- prompt and output together
  share         DOUBLE NOT NULL,           -- of requests that are not longer, 0..1
  citation      VARCHAR,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.calibration (            -- a profile fitted to measured windows; a new fit is a new row
  calibration_id VARCHAR NOT NULL,         -- content hash of its binding, its windows and its parameters
  quantity      VARCHAR NOT NULL,          -- power | throughput
  form          VARCHAR NOT NULL,          -- logistic_log2 | linear | table
  logical_model VARCHAR NOT NULL,
  hardware_model VARCHAR NOT NULL,
  hardware_count INTEGER NOT NULL,         -- boards of one instance; figures are per instance
  runtime       VARCHAR NOT NULL,
  runtime_version VARCHAR,
  config_version VARCHAR,
  parameters    VARCHAR NOT NULL,          -- canonical JSON, names with units
  covariance    VARCHAR,                   -- canonical JSON matrix in the order of the parameters
  n             BIGINT NOT NULL,           -- windows
  concurrency_min DOUBLE NOT NULL,         -- range of the windows; predictions outside are refused or marked
  concurrency_max DOUBLE NOT NULL,
  residual_relative DOUBLE,                -- root mean square of (observed - fitted) / observed
  holdout_error_relative DOUBLE,           -- leave-one-concurrency-out, mean absolute
  coverage      DOUBLE,                    -- share of held-out windows within the 95 % prediction interval
  basis_evidence_class VARCHAR NOT NULL,   -- weakest class of the windows
  quality       VARCHAR NOT NULL,          -- HIGH | FAIR | LOW
  observations  VARCHAR NOT NULL,          -- JSON list of observation ids
  fitted_at     TIMESTAMP NOT NULL,
  window_start_at TIMESTAMP NOT NULL,
  window_end_at TIMESTAMP NOT NULL,
  actor         VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.fleet_run (              -- one experiment on a modelled fleet
  fleet_run_id  VARCHAR NOT NULL,
  experiment    VARCHAR NOT NULL,          -- simulate | compare | size | flex | sensitivity
  started_at    TIMESTAMP NOT NULL,
  finished_at   TIMESTAMP NOT NULL,
  as_of         TIMESTAMP NOT NULL,        -- the snapshot that was read
  title         VARCHAR NOT NULL,
  scenario      VARCHAR NOT NULL,          -- canonical JSON: pools, profiles, workload, policies, limits
  scenario_sha256 VARCHAR NOT NULL,
  seeds         VARCHAR NOT NULL,          -- JSON list
  evidence_class VARCHAR NOT NULL,         -- of the joules: calibrated or modeled, never measured
  quality       VARCHAR NOT NULL,          -- lowest of the profiles
  report        VARCHAR NOT NULL,          -- the whole report as JSON text
  actor         VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.fleet_metric (           -- one figure of one case of an experiment
  fleet_run_id  VARCHAR NOT NULL,
  case_name     VARCHAR NOT NULL,          -- the policy, cap, size or input that the case varies
  pool          VARCHAR NOT NULL,          -- '' for the whole fleet
  metric        VARCHAR NOT NULL,
  unit          VARCHAR NOT NULL,
  value         DOUBLE,                    -- NULL: not identifiable (no success, unstable queue)
  low           DOUBLE,                    -- 95 % interval over paired seeds, where there are several
  high          DOUBLE,
  evidence_class VARCHAR,
  n             BIGINT,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);
