-- As for queries. A model that is only the arm's own name is no news.
UPDATE staged_arm AS s SET
  model = CASE WHEN s.model <> s.arm THEN s.model ELSE coalesce(f.model, k.model, s.arm) END,
  effort = coalesce(s.effort, f.effort, k.effort),
  serving_class = coalesce(s.serving_class, f.serving_class, k.serving_class),
  energy_model = coalesce(s.energy_model, f.energy_model, k.energy_model),
  parameters_b = coalesce(s.parameters_b, f.parameters_b, k.parameters_b),
  input_price_usd_per_token =
    coalesce(s.input_price_usd_per_token, f.input_price_usd_per_token, k.input_price_usd_per_token),
  output_price_usd_per_token =
    coalesce(s.output_price_usd_per_token, f.output_price_usd_per_token, k.output_price_usd_per_token)
FROM (
  SELECT dataset, arm,
    arg_min(model, row_) FILTER (WHERE model <> arm) AS model,
    arg_min(effort, row_) FILTER (WHERE effort IS NOT NULL) AS effort,
    arg_min(serving_class, row_) FILTER (WHERE serving_class IS NOT NULL) AS serving_class,
    arg_min(energy_model, row_) FILTER (WHERE energy_model IS NOT NULL) AS energy_model,
    arg_min(parameters_b, row_) FILTER (WHERE parameters_b IS NOT NULL) AS parameters_b,
    arg_min(input_price_usd_per_token, row_) FILTER (WHERE input_price_usd_per_token IS NOT NULL)
      AS input_price_usd_per_token,
    arg_min(output_price_usd_per_token, row_) FILTER (WHERE output_price_usd_per_token IS NOT NULL)
      AS output_price_usd_per_token
  FROM staged_arm GROUP BY dataset, arm
) f LEFT JOIN core.arm k ON k.dataset = f.dataset AND k.arm = f.arm
WHERE s.dataset = f.dataset AND s.arm = f.arm
