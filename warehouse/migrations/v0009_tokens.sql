-- Which targets a token may report for.

CREATE TABLE ops.token_target (            -- a token without a row here reports for every target
  token_id      VARCHAR NOT NULL,
  target        VARCHAR NOT NULL,
  bound_at      TIMESTAMP NOT NULL
);
