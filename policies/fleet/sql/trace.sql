-- Requests of one trace in the order of their arrival.
SELECT arrival_s, arrived_at, prompt_tokens, output_tokens, session_id, model, category
FROM core.request_trace
WHERE trace = $trace AND known_from <= $as_of AND arrival_s >= $from_s
  AND (CAST($to_s AS DOUBLE) IS NULL OR arrival_s < $to_s)
ORDER BY arrival_s, request_no
LIMIT coalesce(CAST($limit AS BIGINT), 9223372036854775807)
