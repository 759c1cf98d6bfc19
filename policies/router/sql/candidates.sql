-- Every offer known as of $as_of, with the reference-workload evidence about it.
-- Version in force: among rows known and valid by then, per key the greatest (valid_from, known_from); what is
-- real rules over the sample.
-- Only seed_reference requests steer decisions; organic traffic varies with the shape of its requests.
-- Grams are a mean only over one evidence class of their own; where the fresh runs mix several there is none.
-- Sums run over values in sorted order, so that the storage order of rows cannot change a bit.
-- Parameters: as_of; fresh_after, the oldest instant whose observations still count.
WITH offers AS (
  SELECT *
  FROM core.offer
  WHERE known_from <= $as_of AND valid_from <= $as_of
  QUALIFY row_number() OVER (
    PARTITION BY provider, offer_id
    ORDER BY source_id LIKE 'sample:%', valid_from DESC, known_from DESC, content_sha256 DESC
  ) = 1
),
runs AS (
  SELECT
    *,
    coalesce(served_offer, requested_offer) AS observed_offer,
    CASE WHEN billed_cost_usd > 0 THEN billed_cost_usd::DOUBLE END AS positive_cost, -- ln knows no zero
    CASE WHEN energy_j > 0 THEN energy_j END AS positive_energy,
    CASE WHEN carbon_g > 0 THEN carbon_g END AS positive_carbon
  FROM core.usage
  WHERE grain = 'request' AND workload = 'seed_reference' AND known_from <= $as_of AND period_end_at <= $as_of
  QUALIFY row_number() OVER (
    PARTITION BY provider, account, usage_key ORDER BY known_from DESC, row_sha256 DESC
  ) = 1
),
newest AS (
  SELECT provider, observed_offer, max(period_end_at) AS newest_at
  FROM runs
  WHERE energy_j IS NOT NULL OR billed_cost_usd IS NOT NULL
  GROUP BY provider, observed_offer
),
fresh AS (
  SELECT
    provider,
    observed_offer,
    count(*) AS n,
    count(billed_cost_usd) AS n_cost,
    sum(billed_cost_usd) AS billed_cost_sum_usd,
    list_sum(list(energy_j ORDER BY energy_j)) / nullif(count(energy_j), 0) AS energy_j,
    list_sum(list(carbon_g ORDER BY carbon_g)) / nullif(count(carbon_g), 0) AS mean_carbon_g,
    string_agg(DISTINCT carbon_evidence_class, ', ' ORDER BY carbon_evidence_class) AS carbon_classes,
    count(DISTINCT carbon_evidence_class) = 1 AS one_carbon_class,
    -- Of the logarithms: count, mean and sample standard deviation, for the intervals of the means.
    count(positive_cost) AS cost_log_n,
    list_avg(list(ln(positive_cost) ORDER BY positive_cost)) AS cost_log_mean,
    list_stddev_samp(list(ln(positive_cost) ORDER BY positive_cost)) AS cost_log_sd,
    count(positive_energy) AS energy_log_n,
    list_avg(list(ln(positive_energy) ORDER BY positive_energy)) AS energy_log_mean,
    list_stddev_samp(list(ln(positive_energy) ORDER BY positive_energy)) AS energy_log_sd,
    count(positive_carbon) AS carbon_log_n,
    list_avg(list(ln(positive_carbon) ORDER BY positive_carbon)) AS carbon_log_mean,
    list_stddev_samp(list(ln(positive_carbon) ORDER BY positive_carbon)) AS carbon_log_sd,
    -- The weakest class among the inputs names the mean.
    CASE max(CASE evidence_class WHEN 'measured' THEN 0 WHEN 'allocated' THEN 1 WHEN 'calibrated' THEN 2 ELSE 3 END)
      WHEN 0 THEN 'measured' WHEN 1 THEN 'allocated' WHEN 2 THEN 'calibrated' ELSE 'modeled' END AS evidence_class
  FROM runs
  WHERE period_end_at >= $fresh_after AND (energy_j IS NOT NULL OR billed_cost_usd IS NOT NULL)
  GROUP BY provider, observed_offer
)
SELECT
  o.provider, o.offer_id, o.display_name, o.base_model, o.latency_class, o.reasoning_mode, o.context_variant,
  o.access_level, o.lifecycle, o.expires_at, o.valid_to, o.alias_of, o.context_tokens, o.endpoint_context_tokens,
  o.max_output_tokens, o.tier AS catalog_tier, o.residency, o.source_id,
  newest.newest_at,
  coalesce(f.n, 0) AS n, coalesce(f.n_cost, 0) AS n_cost, f.billed_cost_sum_usd, f.energy_j,
  f.carbon_classes,
  CASE WHEN f.one_carbon_class THEN f.carbon_classes END AS carbon_evidence_class,
  CASE WHEN f.one_carbon_class THEN f.mean_carbon_g END AS carbon_g,
  f.cost_log_n, f.cost_log_mean, f.cost_log_sd,
  f.energy_log_n, f.energy_log_mean, f.energy_log_sd,
  CASE WHEN f.one_carbon_class THEN f.carbon_log_n END AS carbon_log_n,
  f.carbon_log_mean, f.carbon_log_sd,
  f.evidence_class
FROM offers o
LEFT JOIN newest ON newest.provider = o.provider AND newest.observed_offer = o.offer_id
LEFT JOIN fresh f ON f.provider = o.provider AND f.observed_offer = o.offer_id
ORDER BY o.provider, o.offer_id
