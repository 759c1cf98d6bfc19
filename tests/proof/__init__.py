"""Proof: every estimator against its published or computed reference answer."""
