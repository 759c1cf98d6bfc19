-- The versions in force, for people. Policies use their own as-of SQL over core.
-- What is real rules over the sample, however old it is.

CREATE OR REPLACE VIEW mart.offer AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (PARTITION BY provider, offer_id
    ORDER BY source_id LIKE 'sample:%', valid_from DESC, known_from DESC) AS rank_
  FROM core.offer
) WHERE rank_ = 1;

CREATE OR REPLACE VIEW mart.price AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (
    PARTITION BY provider, offer_id, component, min_prompt_tokens
    ORDER BY source_id LIKE 'sample:%', valid_from DESC, known_from DESC) AS rank_
  FROM core.price
) WHERE rank_ = 1;

CREATE OR REPLACE VIEW mart.tariff AS
SELECT *, lead(valid_from) OVER (
  PARTITION BY provider, account, basis, source_id ORDER BY valid_from) AS superseded_at
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY provider, account, basis, source_id, valid_from ORDER BY known_from DESC) AS rank_
  FROM core.tariff
) WHERE rank_ = 1;

CREATE OR REPLACE VIEW mart.grid_intensity AS
SELECT * EXCLUDE (rank_) FROM (
  SELECT *, row_number() OVER (
    PARTITION BY zone, source_id, signal, basis, start_at, is_forecast
    ORDER BY version DESC NULLS LAST, known_from DESC) AS rank_
  FROM core.grid_intensity
) WHERE rank_ = 1;

-- Per model and workload: totals over all attempts, so that failures and retries weigh in.
-- energy figures only over one evidence class; coverage says how many requests had energy at all.
-- Grams have a class of their own: where the rows mix several, there is no sum here but one per class in
-- mart.model_carbon.
CREATE OR REPLACE VIEW mart.model_usage AS
SELECT
  provider, requested_offer AS offer_id, workload, evidence_class,
  count(*) AS billed_rows,
  sum(requests) AS requests,
  sum(attempts) AS attempts,
  sum(successes) AS successes,
  sum(energy_j) AS energy_j,
  -- Only rows that tell both: a request whose success is unknown is in neither sum.
  sum(energy_j) FILTER (WHERE successes IS NOT NULL)
    / nullif(sum(successes) FILTER (WHERE energy_j IS NOT NULL), 0) AS energy_j_per_success,
  sum(billed_cost_usd) AS billed_cost_usd,
  CAST(sum(billed_cost_usd) FILTER (WHERE successes IS NOT NULL) AS DOUBLE)
    / nullif(sum(successes) FILTER (WHERE billed_cost_usd IS NOT NULL), 0) AS billed_cost_usd_per_success,
  CASE WHEN count(DISTINCT carbon_evidence_class) = 1 THEN sum(carbon_g) END AS carbon_g,
  CASE WHEN count(DISTINCT carbon_evidence_class) = 1 THEN
    sum(carbon_g) FILTER (WHERE successes IS NOT NULL)
      / nullif(sum(successes) FILTER (WHERE carbon_g IS NOT NULL), 0) END AS carbon_g_per_success,
  CASE WHEN count(DISTINCT carbon_evidence_class) = 1 THEN min(carbon_evidence_class) END AS carbon_evidence_class,
  CAST(sum(requests_with_energy) AS DOUBLE) / nullif(sum(requests), 0) AS energy_coverage,
  min(period_start_at) AS first_at,
  max(period_end_at) AS last_at
FROM core.usage
WHERE grain = 'request'
GROUP BY provider, requested_offer, workload, evidence_class;

-- Grams per model and workload, one row per evidence class of the grams: never summed over several.
CREATE OR REPLACE VIEW mart.model_carbon AS
SELECT
  provider, requested_offer AS offer_id, workload, carbon_evidence_class,
  count(*) AS billed_rows,
  sum(requests) AS requests,
  sum(attempts) AS attempts,
  sum(successes) AS successes,
  sum(carbon_g) AS carbon_g,
  sum(carbon_g) FILTER (WHERE successes IS NOT NULL) / nullif(sum(successes), 0) AS carbon_g_per_success,
  sum(energy_j) AS energy_j,
  min(period_start_at) AS first_at,
  max(period_end_at) AS last_at
FROM core.usage
WHERE grain = 'request' AND carbon_g IS NOT NULL
GROUP BY provider, requested_offer, workload, carbon_evidence_class;
