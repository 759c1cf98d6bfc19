"""Queries of the shadow, read through a snapshot."""
