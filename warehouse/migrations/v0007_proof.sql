-- Proof: what shadowing policies would have chosen, pairs of outcomes, and verdicts.

CREATE TABLE core.shadow_decision (        -- what a policy would have chosen for a logged request
  policy_id     VARCHAR NOT NULL,          -- as in core.policy_version
  request_id    VARCHAR NOT NULL,          -- provider/account/usage_key of the logged request, or an id that a router gave
  recommendation_id VARCHAR,               -- the recommendation that is being shadowed; NULL for a standing policy
  requested_at  TIMESTAMP NOT NULL,
  decided_at    TIMESTAMP NOT NULL,
  as_of         TIMESTAMP NOT NULL,        -- the snapshot that was read: that of the request's instant
  snapshot_digest VARCHAR NOT NULL,
  category      VARCHAR NOT NULL,
  tier          INTEGER NOT NULL,
  latency       VARCHAR NOT NULL,
  size_band     VARCHAR NOT NULL,          -- of prompt and output tokens, such as 512-2047; unknown where not told
  context_tokens BIGINT,
  incumbent     VARCHAR,                   -- what did serve it
  chosen        VARCHAR,                   -- NULL: handed back
  agrees        BOOLEAN NOT NULL,
  fallback      BOOLEAN NOT NULL,
  fallback_reason VARCHAR,
  eligible      VARCHAR NOT NULL,          -- JSON list of offers
  excluded      VARCHAR NOT NULL,          -- JSON: offer -> reasons
  propensity    DOUBLE,                    -- probability with which the logging policy chose what it chose
  expected_energy_j DOUBLE,                -- of the chosen offer, per success, by the reference workload
  expected_energy_low_j DOUBLE,
  expected_energy_high_j DOUBLE,
  expected_energy_evidence_class VARCHAR,
  expected_cost_usd DOUBLE,
  expected_carbon_g DOUBLE,
  expected_carbon_evidence_class VARCHAR,
  incumbent_energy_j DOUBLE,               -- the same estimate for the incumbent
  incumbent_cost_usd DOUBLE,
  incumbent_carbon_g DOUBLE,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.shadow_pair (            -- one request, answered by the incumbent and by the candidate
  pair_id       VARCHAR NOT NULL,          -- given by whoever ran it, unique within its source
  evidence_kind VARCHAR NOT NULL,          -- paired_replay | mirrored
  request_id    VARCHAR NOT NULL,
  control_offer VARCHAR NOT NULL,
  candidate_offer VARCHAR NOT NULL,
  observed_at   TIMESTAMP NOT NULL,
  cluster       VARCHAR,                   -- session or tenant; pairs of one cluster are not independent
  category      VARCHAR NOT NULL,
  size_band     VARCHAR NOT NULL,
  first_arm     VARCHAR,                   -- control | candidate: which ran first
  repeat_no     INTEGER NOT NULL,          -- 0 for the first run of a request
  meter_class   VARCHAR,                   -- what metered both arms, where it is the same for both
  evidence_class VARCHAR NOT NULL,         -- of the joules
  control_energy_j DOUBLE,                 -- over all attempts; NULL: unknown
  candidate_energy_j DOUBLE,
  control_success BOOLEAN,
  candidate_success BOOLEAN,
  control_attempts INTEGER,
  candidate_attempts INTEGER,
  control_latency_s DOUBLE,
  candidate_latency_s DOUBLE,
  control_cost_usd DECIMAL(28,12),
  candidate_cost_usd DECIMAL(28,12),
  control_carbon_g DOUBLE,
  candidate_carbon_g DOUBLE,
  carbon_evidence_class VARCHAR,
  violation     VARCHAR,                   -- a sampled hard constraint that the candidate broke, in words
  aborted       BOOLEAN NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.gate_report (            -- a verdict on a recommendation, with everything that was checked
  gate_id       VARCHAR NOT NULL,
  recommendation_id VARCHAR NOT NULL,
  revision      INTEGER NOT NULL,          -- that was judged
  content_hash  VARCHAR NOT NULL,
  stage         VARCHAR NOT NULL,          -- shadow | canary | full
  margins_sha256 VARCHAR NOT NULL,         -- stored before the stage began
  evidence_kind VARCHAR,                   -- the strongest kind that was there
  judged_at     TIMESTAMP NOT NULL,
  verdict       VARCHAR NOT NULL,          -- PASS | FAIL | INCONCLUSIVE
  n             BIGINT NOT NULL,
  planned_n     BIGINT,
  report        VARCHAR NOT NULL,          -- checks with estimate, interval, margin and words, as JSON text
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);
