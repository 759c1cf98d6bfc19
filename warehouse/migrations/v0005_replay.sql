-- The replay lab: recorded outcomes (queries x arms), and what policies would have made of them.

CREATE TABLE core.query (                  -- one query of a replay data set
  dataset       VARCHAR NOT NULL,
  query_id      VARCHAR NOT NULL,
  benchmark     VARCHAR NOT NULL,          -- '' where the source names none
  category      VARCHAR,                   -- of the router's categories, where one is declared
  split         VARCHAR,                   -- train | test, where the source fixes it
  text          VARCHAR,                   -- the prompt, where the source tells it
  text_sha256   VARCHAR,                   -- of the prompt, so that a test query in train is seen without the text
  prompt_tokens BIGINT,
  prompt_chars  BIGINT,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.arm (                    -- one choice of a replay data set: model x effort x serving class
  dataset       VARCHAR NOT NULL,
  arm           VARCHAR NOT NULL,
  model         VARCHAR NOT NULL,
  effort        VARCHAR,                   -- reasoning effort, where the source tells it
  serving_class VARCHAR,
  energy_model  VARCHAR,                   -- logical model of the energy observations that stand for this arm
  parameters_b  DOUBLE,                    -- 1e9 parameters
  input_price_usd_per_token DECIMAL(28,12),
  output_price_usd_per_token DECIMAL(28,12),
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.outcome (                -- one cell: what this arm did with this query
  dataset       VARCHAR NOT NULL,
  query_id      VARCHAR NOT NULL,
  arm           VARCHAR NOT NULL,
  correct       DOUBLE,                    -- 0..1; NULL: not graded
  answered      BOOLEAN,
  energy_j      DOUBLE,                    -- of this very call, where its source tells it; NULL: unknown
  energy_evidence_class VARCHAR,           -- NULL with energy_j
  energy_method VARCHAR,
  power_w       DOUBLE,                    -- mean power of this call, where its source tells it
  latency_s     DOUBLE,
  prompt_tokens BIGINT,
  output_tokens BIGINT,
  output_chars  BIGINT,
  cost_usd      DECIMAL(28,12),            -- as the source tells it
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.replay_run (             -- one evaluation of policies on a data set under one condition
  replay_run_id VARCHAR NOT NULL,
  dataset       VARCHAR NOT NULL,
  started_at    TIMESTAMP NOT NULL,
  finished_at   TIMESTAMP NOT NULL,
  as_of         TIMESTAMP NOT NULL,        -- the snapshot that was read
  dataset_sha256 VARCHAR NOT NULL,         -- of the outcome table as evaluated
  gpu           VARCHAR,                   -- condition: NULL where the outcomes carry energy of their own
  batch         DOUBLE,                    -- condition: mean concurrent requests of the backend
  zone          VARCHAR,
  intensity_at  TIMESTAMP,                 -- condition: the hour of the grid intensity
  intensity_g_per_kwh DOUBLE,
  evidence_class VARCHAR,                  -- of the joules
  carbon_evidence_class VARCHAR,
  embedder      VARCHAR,
  seed          BIGINT NOT NULL,
  n_train       BIGINT NOT NULL,
  n_test        BIGINT NOT NULL,
  coverage      DOUBLE,                    -- share of the held-out cells that are known
  choices_sha256 VARCHAR NOT NULL,         -- of all policies' choices, taken before outcomes were joined
  reference_accuracy DOUBLE,               -- reference point of the hypervolume
  reference_energy_j DOUBLE,
  reference_version VARCHAR,
  hypervolume   DOUBLE,                    -- accuracy x joules per query
  report        VARCHAR NOT NULL,          -- the whole report as JSON text
  actor         VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.replay_metric (          -- one figure of a policy in a replay run
  replay_run_id VARCHAR NOT NULL,
  policy        VARCHAR NOT NULL,
  benchmark     VARCHAR NOT NULL,          -- '' over all benchmarks
  metric        VARCHAR NOT NULL,
  unit          VARCHAR NOT NULL,
  value         DOUBLE,                    -- NULL: not identifiable (missing cells, no success)
  low           DOUBLE,                    -- 95 % interval
  high          DOUBLE,
  evidence_class VARCHAR,
  n             BIGINT,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.replay_choice (          -- what a policy chose for a held-out query
  replay_run_id VARCHAR NOT NULL,
  policy        VARCHAR NOT NULL,
  query_id      VARCHAR NOT NULL,
  arm           VARCHAR,                   -- NULL: handed back, or a mixture (see probability_json)
  probability_json VARCHAR,                -- arm -> probability, where the policy mixes
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.trained_policy (         -- a policy trained from outcomes, ready to route or to be replayed
  trained_policy_id VARCHAR NOT NULL,      -- content hash of name, parameters, data and weights
  name          VARCHAR NOT NULL,
  dataset       VARCHAR NOT NULL,
  dataset_sha256 VARCHAR NOT NULL,
  parameters    VARCHAR NOT NULL,          -- canonical JSON
  embedder      VARCHAR,
  seed          BIGINT NOT NULL,
  n_train       BIGINT NOT NULL,
  trained_at    TIMESTAMP NOT NULL,
  training_s    DOUBLE NOT NULL,
  training_energy_j DOUBLE,                -- NULL: no meter and no declared power of the machine
  training_energy_evidence_class VARCHAR,
  training_energy_method VARCHAR,
  weights       BLOB NOT NULL,             -- numpy .npz
  history       VARCHAR NOT NULL,          -- per step: reward, accuracy, energy, entropy, as JSON text
  actor         VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);
