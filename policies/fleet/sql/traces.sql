-- One row per trace: what it holds and how old it is.
SELECT trace, count(*) AS requests, max(arrival_s) - min(arrival_s) AS duration_s,
       min(arrived_at) AS first_at, max(arrived_at) AS last_at,
       avg(prompt_tokens) AS prompt_tokens_mean, avg(output_tokens) AS output_tokens_mean,
       max(prompt_tokens + output_tokens) AS tokens_max,
       count(DISTINCT session_id) AS sessions,
       coalesce(list_sort(array_agg(DISTINCT model) FILTER (model IS NOT NULL)), []) AS models,
       coalesce(list_sort(array_agg(DISTINCT category) FILTER (category IS NOT NULL)), []) AS categories,
       list_sort(array_agg(DISTINCT source_id)) AS sources,
       max(known_from) AS newest_at
FROM core.request_trace
WHERE known_from <= $as_of
GROUP BY trace ORDER BY trace
