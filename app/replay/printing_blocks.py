"""One condition of a replay run as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def block(told: Mapping[str, Any]) -> None:
    raise NotImplementedError
