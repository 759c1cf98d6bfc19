"""Pairs of outcomes (one request, answered by incumbent and candidate), and what a router knew of logged requests."""
