"""Which code made a decision: a hash over the lab's own files, and the identity of a policy with its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from warehouse.ids import content_hash, sha256


def policy_id(name: str, parameters: Mapping[str, Any]) -> str:
    """sha256 over name, parameters and code, as core.policy_version keeps it."""
    return content_hash({"name": name, "parameters": dict(parameters), "code_sha256": code_sha256()})


@cache
def code_sha256() -> str:
    """sha256 over the Python and SQL files of policies/replay, in every folder of it."""
    root = resources.files("policies.replay")
    return content_hash(sorted([name, sha256(f.read_bytes().replace(b"\r\n", b"\n"))] for name, f in _files(root, "")))


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for item in folder.iterdir():
        if item.is_dir() and item.name != "__pycache__":
            yield from _files(item, f"{prefix}{item.name}/")
        elif item.name.endswith((".py", ".sql")):
            yield prefix + item.name, item
