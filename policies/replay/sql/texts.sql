SELECT query_id, text FROM core.query
WHERE dataset = $dataset AND known_from <= $as_of AND query_id BETWEEN $first AND $last
ORDER BY query_id
