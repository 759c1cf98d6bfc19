SELECT dataset, list(DISTINCT policy ORDER BY policy) AS policies, max(n) AS n,
       list_sort(list(DISTINCT evidence_class)) AS classes, list_sort(list(DISTINCT source_id)) AS sources,
       max(known_from) AS newest_at
FROM core.published_point WHERE known_from <= $as_of
GROUP BY dataset ORDER BY dataset
