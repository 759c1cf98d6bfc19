SELECT dataset, benchmark, coalesce(split, '') AS split, count(*) AS queries, count(text) AS with_text,
       max(known_from) AS newest_at
FROM core.query WHERE known_from <= $as_of
GROUP BY ALL ORDER BY ALL
