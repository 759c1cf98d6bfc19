-- What a row leaves open is taken from the first row of its query that tells it, then from what is known.
-- The text's length is that of the text; without a text it is what the source says.
UPDATE staged_query AS s SET
  benchmark = CASE WHEN s.benchmark <> '' THEN s.benchmark ELSE coalesce(f.benchmark, k.benchmark, '') END,
  category = coalesce(s.category, f.category, k.category),
  split = coalesce(s.split, f.split, k.split),
  text = coalesce(s.text, f.text, k.text),
  text_sha256 = coalesce(s.text_sha256, f.text_sha256, k.text_sha256),
  prompt_tokens = coalesce(f.prompt_tokens, k.prompt_tokens),
  prompt_chars = coalesce(length(coalesce(s.text, f.text, k.text)), f.prompt_chars, k.prompt_chars)
FROM (
  SELECT dataset, query_id,
    arg_min(benchmark, row_) FILTER (WHERE benchmark <> '') AS benchmark,
    arg_min(category, row_) FILTER (WHERE category IS NOT NULL) AS category,
    arg_min(split, row_) FILTER (WHERE split IS NOT NULL) AS split,
    arg_min(text, row_) FILTER (WHERE text IS NOT NULL) AS text,
    arg_min(text_sha256, row_) FILTER (WHERE text_sha256 IS NOT NULL) AS text_sha256,
    arg_min(prompt_tokens, row_) FILTER (WHERE prompt_tokens IS NOT NULL) AS prompt_tokens,
    arg_min(prompt_chars, row_) FILTER (WHERE prompt_chars IS NOT NULL) AS prompt_chars
  FROM staged_query GROUP BY dataset, query_id
) f LEFT JOIN core.query k ON k.dataset = f.dataset AND k.query_id = f.query_id
WHERE s.dataset = f.dataset AND s.query_id = f.query_id
