-- Serving telemetry, backends, and alerts.

CREATE TABLE core.backend (                -- a serving endpoint, as its operator or its telemetry names it
  backend_id    VARCHAR NOT NULL,
  valid_from    TIMESTAMP NOT NULL,
  valid_to      TIMESTAMP,
  known_from    TIMESTAMP NOT NULL,
  pool          VARCHAR,
  endpoint      VARCHAR,
  runtime       VARCHAR,                   -- vllm | sglang | tensorrt-llm | ...
  runtime_version VARCHAR,
  config_version VARCHAR,
  hardware_model VARCHAR,
  hardware_count INTEGER,
  region        VARCHAR,
  zone          VARCHAR,                   -- grid zone, declared, never guessed from a location
  residency     VARCHAR,
  max_concurrency BIGINT,
  kv_capacity_tokens BIGINT,
  attributes    VARCHAR,
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.serving_window (         -- what one engine of a backend did in a window, from counter differences
  backend_id    VARCHAR NOT NULL,
  engine        VARCHAR NOT NULL,          -- engine label of the telemetry; '' where it has none
  model         VARCHAR NOT NULL,
  window_start_at TIMESTAMP NOT NULL,      -- half-open [start, end); equal to the end for a single scrape
  window_end_at TIMESTAMP NOT NULL,
  runtime       VARCHAR NOT NULL,
  running_requests DOUBLE,                 -- gauge at the end of the window
  waiting_requests DOUBLE,
  kv_cache_utilization DOUBLE,             -- 0..1
  prompt_tokens BIGINT,                    -- NULL: unknown (first scrape, counter reset)
  output_tokens BIGINT,
  cached_prompt_tokens BIGINT,
  successes     BIGINT,
  aborts        BIGINT,
  preemptions   BIGINT,
  ttft_p50_low_s DOUBLE,                   -- percentiles from buckets are intervals (low, high]; high NULL: no bound
  ttft_p50_high_s DOUBLE,
  ttft_p95_low_s DOUBLE,
  ttft_p95_high_s DOUBLE,
  ttft_p99_low_s DOUBLE,
  ttft_p99_high_s DOUBLE,
  tpot_p95_low_s DOUBLE,
  tpot_p95_high_s DOUBLE,
  e2e_p50_low_s DOUBLE,
  e2e_p50_high_s DOUBLE,
  e2e_p95_low_s DOUBLE,
  e2e_p95_high_s DOUBLE,
  e2e_p99_low_s DOUBLE,
  e2e_p99_high_s DOUBLE,
  queue_p95_low_s DOUBLE,
  queue_p95_high_s DOUBLE,
  gap_reason    VARCHAR,                   -- counter_reset | first_scrape | NULL
  evidence_class VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE ops.alert (                   -- one condition of one subject, from first to last sight
  alert_id      VARCHAR NOT NULL,          -- sha256(kind, subject, first_seen_at)
  kind          VARCHAR NOT NULL,
  subject       VARCHAR NOT NULL,
  severity      VARCHAR NOT NULL,          -- warning | bad
  title         VARCHAR NOT NULL,
  detail        VARCHAR NOT NULL,          -- JSON text: before, after, limits, evidence
  first_seen_at TIMESTAMP NOT NULL,
  last_seen_at  TIMESTAMP NOT NULL,
  times_seen    BIGINT NOT NULL,
  cleared_at    TIMESTAMP,                 -- NULL: still so
  acknowledged_at TIMESTAMP,
  acknowledged_by VARCHAR,
  delivered     VARCHAR NOT NULL,          -- JSON text: channel -> time of delivery or last error
  version       INTEGER NOT NULL
);
