"""Queries of live backends."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def sql_text(name: str) -> str:
    """One of the queries, by file name."""
    return (resources.files("policies.fleet.experiments.sql") / name).read_text(encoding="utf-8")
