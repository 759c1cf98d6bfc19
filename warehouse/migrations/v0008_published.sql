-- A publication does not always tell time and power of a point, and it tells some points by benchmark.

DROP INDEX IF EXISTS core.core_published_point_key;
CREATE TEMP TABLE published_before AS SELECT * FROM core.published_point;
DROP TABLE core.published_point;

CREATE TABLE core.published_point (        -- points that a publication reports; never measured here
  dataset       VARCHAR NOT NULL,          -- NAME-fixed-arms holds fixed arms that stand beside NAME
  policy        VARCHAR NOT NULL,
  accuracy      DOUBLE NOT NULL,
  reward        DOUBLE,
  energy_j      DOUBLE NOT NULL,           -- per query
  latency_s     DOUBLE,                    -- NULL: not told
  power_w       DOUBLE,                    -- mean of per-call power, not energy / time; NULL: not told
  n             BIGINT,
  evidence_class VARCHAR NOT NULL,
  method        VARCHAR NOT NULL,
  citation      VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

INSERT INTO core.published_point BY NAME SELECT * FROM published_before;
DROP TABLE published_before;

CREATE TABLE core.published_slice (        -- a published point on one benchmark
  dataset       VARCHAR NOT NULL,
  policy        VARCHAR NOT NULL,
  benchmark     VARCHAR NOT NULL,
  n             BIGINT,                    -- queries of the benchmark
  accuracy      DOUBLE NOT NULL,
  energy_j      DOUBLE,                    -- per query; NULL: not told
  evidence_class VARCHAR NOT NULL,
  method        VARCHAR NOT NULL,
  citation      VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);
