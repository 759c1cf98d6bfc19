"""Recommendations: what to change in the routing table, what it promises, and what became of it."""
