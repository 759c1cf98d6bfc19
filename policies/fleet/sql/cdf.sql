-- The knots of one distribution of lengths.
SELECT tokens, share, citation FROM core.length_cdf WHERE cdf = $cdf AND known_from <= $as_of ORDER BY tokens
