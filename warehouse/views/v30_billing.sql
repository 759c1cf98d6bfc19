-- Bills: the lines in force, as known at an instant. The newest delivery of an invoice is in force; what no
-- invoice names yet (open), or a format without invoices delivered (period), gives way to whatever is delivered
-- next for the same billing period, and so does every invoice of a period that is delivered as a whole.

CREATE OR REPLACE MACRO mart.charge_at(instant) AS TABLE
WITH known AS (
  SELECT *, source_id LIKE 'sample:%' AS is_sample FROM core.charge_delivery WHERE known_from <= instant
), newest AS (
  SELECT * FROM known QUALIFY row_number() OVER (
    PARTITION BY is_sample, provider, account, billing_period_start_at, billing_period_end_at, invoice_key
    ORDER BY delivered_at DESC, known_from DESC) = 1
), in_force AS (
  SELECT n.* FROM newest n WHERE NOT EXISTS (
    SELECT 1 FROM known k
    WHERE k.is_sample = n.is_sample AND k.provider = n.provider AND k.account = n.account
      AND k.billing_period_start_at = n.billing_period_start_at AND k.billing_period_end_at = n.billing_period_end_at
      AND k.delivery_id <> n.delivery_id
      AND (k.delivered_at > n.delivered_at OR (k.delivered_at = n.delivered_at AND k.known_from > n.known_from))
      AND (k.scope = 'period' OR n.scope <> 'invoice'))
)
SELECT c.* EXCLUDE (known_from), f.delivered_at, f.known_from
FROM core.charge c JOIN in_force f
  ON c.delivery_id = f.delivery_id AND c.provider = f.provider AND c.account = f.account
  AND c.billing_period_start_at = f.billing_period_start_at AND c.billing_period_end_at = f.billing_period_end_at
  AND coalesce(c.invoice_id, '') = f.invoice_key AND (c.source_id LIKE 'sample:%') = f.is_sample
WHERE c.known_from <= instant;

-- Every charge line of the newest delivery of each invoice.
CREATE OR REPLACE VIEW mart.charge AS SELECT * FROM mart.charge_at(TIMESTAMP '9999-12-31');

-- Subtotals: one row per currency, category and class, so that credits, tax and corrections stay apart and two
-- currencies never meet. tokens are of the lines that tell them.
CREATE OR REPLACE VIEW mart.charge_total AS
SELECT provider, account, billing_period_start_at, billing_period_end_at, currency, charge_category, charge_class,
  count(*) AS lines,
  sum(billed_cost) AS billed_cost,
  sum(effective_cost) AS effective_cost,
  sum(list_cost) AS list_cost,
  sum(contracted_cost) AS contracted_cost,
  CAST(sum(tokens) AS BIGINT) AS tokens,
  min(charge_period_start_at) AS first_at,
  max(charge_period_end_at) AS last_at
FROM mart.charge
GROUP BY ALL;

-- Days of a time zone: a line, and a request, belongs to the one day in which it begins, so days add up to any
-- range of days. The zone is an IANA name such as America/New_York.
CREATE OR REPLACE MACRO mart.charge_by_day(zone) AS TABLE
SELECT CAST(timezone(zone, timezone('UTC', charge_period_start_at)) AS DATE) AS day, provider, account, currency,
  charge_category, charge_class, count(*) AS lines, sum(billed_cost) AS billed_cost, CAST(sum(tokens) AS BIGINT) AS tokens
FROM mart.charge
GROUP BY ALL;

CREATE OR REPLACE MACRO mart.usage_by_day(zone) AS TABLE
SELECT CAST(timezone(zone, timezone('UTC', period_start_at)) AS DATE) AS day, provider, account, requested_offer,
  count(*) AS billed_rows, sum(requests) AS requests, sum(billed_cost_usd) AS billed_cost_usd,
  count(*) FILTER (WHERE billed_cost_usd IS NULL) AS unpriced_rows,
  CAST(sum(prompt_tokens) AS BIGINT) AS prompt_tokens, CAST(sum(completion_tokens) AS BIGINT) AS completion_tokens
FROM core.usage
WHERE grain = 'request'
GROUP BY ALL;

-- The last thing known about each account.
CREATE OR REPLACE VIEW mart.account_balance AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (PARTITION BY provider, account, source_id LIKE 'sample:%' ORDER BY snapshot_at DESC)
    AS rank_
  FROM core.account_balance
) WHERE rank_ = 1;

-- The newest known rate of each currency pair, source and day.
CREATE OR REPLACE VIEW mart.fx_rate AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (
    PARTITION BY from_currency, to_currency, rate_source, rate_on_at ORDER BY known_from DESC) AS rank_
  FROM core.fx_rate
) WHERE rank_ = 1;
