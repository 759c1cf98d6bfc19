-- Every event of every recommendation that is not known to be over, in order of seq. Order and not time decides what was
-- before what: a clock may be set back.
SELECT seq, happened_at, kind, subject, revision, body
FROM ledger.event
WHERE kind LIKE 'recommendation.%'
  AND subject NOT IN (
    SELECT subject FROM ledger.event
    WHERE kind IN ('recommendation.dismissed', 'recommendation.expired', 'recommendation.superseded',
                   'recommendation.rejected_by_target')
  )
ORDER BY seq
