-- What a router knew of a billed request and a bill does not tell: the question, and how it was decided.

CREATE TABLE core.request_label (
  request_id    VARCHAR NOT NULL,          -- provider/account/usage_key of the billed request
  category      VARCHAR,                   -- NULL: not told
  tier          INTEGER,                   -- capability tier that was asked for
  latency       VARCHAR,                   -- interactive | batch
  required_context_tokens BIGINT,          -- as estimated before the request; NULL: its prompt
  residency     VARCHAR,                   -- tags that were required, comma separated
  session       VARCHAR,                   -- session or tenant; requests of one are not independent
  chosen        VARCHAR,                   -- offer that the router chose
  propensity    DOUBLE,                    -- probability with which it chose that, 0 to 1; 1: it had no choice
  propensities  VARCHAR,                   -- JSON: offer -> probability, of every offer it could have chosen
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);
