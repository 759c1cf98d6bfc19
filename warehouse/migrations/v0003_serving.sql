-- Serving telemetry as it was scraped; core.serving_window follows from it.

CREATE TABLE core.serving_scrape (         -- what one engine of a backend told at one instant
  backend_id    VARCHAR NOT NULL,
  engine        VARCHAR NOT NULL,          -- engine label of the telemetry; '' where it has none
  model         VARCHAR NOT NULL,          -- '' where the telemetry names none
  scraped_at    TIMESTAMP NOT NULL,
  runtime       VARCHAR NOT NULL,          -- vllm | sglang | tensorrt-llm
  running_requests DOUBLE,
  waiting_requests DOUBLE,
  kv_cache_utilization DOUBLE,             -- 0..1
  counters      VARCHAR NOT NULL,          -- cumulative counters and buckets as JSON text, with their metric names
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);
