-- Invoices, exchange rates, and what a provider says about an account as a whole.

CREATE TABLE core.charge_delivery (        -- which delivery of an invoice was known when; the newest one is in force
  provider      VARCHAR NOT NULL,
  account       VARCHAR NOT NULL,
  billing_period_start_at TIMESTAMP NOT NULL,
  billing_period_end_at TIMESTAMP NOT NULL,
  invoice_key   VARCHAR NOT NULL,          -- the invoice id; '' for lines that no invoice names yet
  delivered_at  TIMESTAMP NOT NULL,        -- how old the delivered file or answer is
  scope         VARCHAR NOT NULL,          -- invoice | open (not invoiced yet) | period (the format names no invoices)
  delivery_id   VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.charge (                 -- one line of one delivery of a bill that is not a request; see mart.charge
  delivery_id   VARCHAR NOT NULL,          -- sha256 of the file, or of the name declared for its parts
  line_key      VARCHAR NOT NULL,          -- the line within its delivery
  provider      VARCHAR NOT NULL,
  account       VARCHAR NOT NULL,          -- the account that is billed
  sub_account   VARCHAR,
  invoice_id    VARCHAR,                   -- NULL: not invoiced yet, or the format names none
  billing_period_start_at TIMESTAMP NOT NULL,  -- half-open [start, end)
  billing_period_end_at TIMESTAMP NOT NULL,
  charge_period_start_at TIMESTAMP NOT NULL,  -- half-open [start, end)
  charge_period_end_at TIMESTAMP NOT NULL,
  charge_category VARCHAR NOT NULL,        -- Usage | Purchase | Tax | Credit | Adjustment
  charge_class  VARCHAR,                   -- Correction: corrects an earlier billing period, and adds to its own
  billed_cost   DECIMAL(28,12) NOT NULL,   -- in `currency`; credits are negative
  effective_cost DECIMAL(28,12),
  list_cost     DECIMAL(28,12),
  contracted_cost DECIMAL(28,12),
  currency      VARCHAR NOT NULL,          -- ISO 4217; amounts of two currencies are never added without a dated rate
  service       VARCHAR,
  publisher     VARCHAR,
  sku_id        VARCHAR,
  sku_price_id  VARCHAR,
  description   VARCHAR,
  region        VARCHAR,
  consumed_quantity DECIMAL(28,12),
  consumed_unit VARCHAR,
  pricing_quantity DECIMAL(28,12),
  pricing_unit  VARCHAR,
  tokens        BIGINT,                    -- NULL unless the unit says tokens
  token_kind    VARCHAR,                   -- prompt | completion | cache_read | cache_write; NULL: not told
  energy_j      DOUBLE,                    -- NULL unless the unit says energy
  evidence_class VARCHAR,                  -- of energy_j; NULL with it
  offer_id      VARCHAR,                   -- the model, where the line tells it
  routing       VARCHAR,                   -- regional | global (cross-region), where the line tells it
  service_tier  VARCHAR,                   -- standard | flex | priority | batch, where the line tells it
  tags          VARCHAR,                   -- JSON text
  attributes    VARCHAR,                   -- further columns of the source as JSON text
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL
);

CREATE TABLE core.fx_rate (                -- what one unit of a currency was worth in another on a day, and who says so
  from_currency VARCHAR NOT NULL,
  to_currency   VARCHAR NOT NULL,
  rate_source   VARCHAR NOT NULL,          -- who published the rate
  rate_on_at    TIMESTAMP NOT NULL,        -- the day of the rate, at 00:00 UTC
  rate          DECIMAL(28,12) NOT NULL,   -- 1 from_currency = rate to_currency
  known_from    TIMESTAMP NOT NULL,
  content_sha256 VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL
);

CREATE TABLE core.account_balance (        -- what an account had left at an instant
  provider      VARCHAR NOT NULL,
  account       VARCHAR NOT NULL,
  snapshot_at   TIMESTAMP NOT NULL,
  accounting_method VARCHAR,               -- energy | token
  credits_remaining_usd DECIMAL(28,12),
  credits_total_usd DECIMAL(28,12),
  credits_used_usd DECIMAL(28,12),
  plan          VARCHAR,
  subscription_status VARCHAR,
  subscription_start_at TIMESTAMP,         -- of the running subscription period, half-open [start, end)
  subscription_end_at TIMESTAMP,
  energy_included_j DOUBLE,
  energy_used_j DOUBLE,
  energy_remaining_j DOUBLE,
  in_overage    BOOLEAN,
  overage_limit_usd DECIMAL(28,12),
  key_name      VARCHAR,                   -- the name of the API key that asked, never the key
  key_period    VARCHAR,
  key_limit_usd DECIMAL(28,12),
  key_spent_usd DECIMAL(28,12),
  key_remaining_usd DECIMAL(28,12),
  key_blocked   BOOLEAN,
  month_cost_usd DECIMAL(28,12),
  month_requests BIGINT,
  month_tokens  BIGINT,
  month_energy_j DOUBLE,
  lifetime_cost_usd DECIMAL(28,12),
  lifetime_requests BIGINT,
  lifetime_tokens BIGINT,
  lifetime_energy_j DOUBLE,
  evidence_class VARCHAR NOT NULL,         -- of the energies: allocated
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  row_sha256    VARCHAR NOT NULL
);

CREATE TABLE core.account_usage (          -- what a provider's own totals say; to check core.usage by, never to add to it
  provider      VARCHAR NOT NULL,
  account       VARCHAR NOT NULL,
  usage_key     VARCHAR NOT NULL,
  report        VARCHAR NOT NULL,          -- energy | summary | by-model: totals of several reports overlap
  grain         VARCHAR NOT NULL,          -- period | day
  period_start_at TIMESTAMP NOT NULL,      -- half-open [start, end)
  period_end_at TIMESTAMP NOT NULL,
  offer_id      VARCHAR,                   -- NULL: the whole account
  requests      BIGINT,
  requests_with_energy BIGINT,
  prompt_tokens BIGINT,
  completion_tokens BIGINT,
  cached_tokens BIGINT,
  total_tokens  BIGINT,
  billed_cost_usd DECIMAL(28,12),
  energy_j      DOUBLE,                    -- consumed
  energy_charged_j DOUBLE,                 -- after the flex multiplier
  accounting_method VARCHAR,
  evidence_class VARCHAR NOT NULL,         -- of the energies
  method        VARCHAR NOT NULL,
  source_id     VARCHAR NOT NULL,
  run_id        VARCHAR NOT NULL,
  known_from    TIMESTAMP NOT NULL,
  row_sha256    VARCHAR NOT NULL
);
