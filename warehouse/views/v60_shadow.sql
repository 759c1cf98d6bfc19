-- What requests were, as shadows and outcomes read it.

-- One label per request, as known at an instant: a real one before that of the sample, then the newest.
CREATE OR REPLACE MACRO mart.request_label_at(known_at) AS TABLE
SELECT * FROM core.request_label WHERE known_from <= known_at
QUALIFY row_number() OVER (
  PARTITION BY request_id ORDER BY source_id LIKE 'sample:%', known_from DESC, source_id
) = 1;
