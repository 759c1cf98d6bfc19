"""Queries of the recommendations, read through a snapshot."""
