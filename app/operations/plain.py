"""Frames and values as plain JSON data: times as ISO 8601 with Z, decimals as exact text, NaN refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def plain(value: Any) -> Any:
    """`value` as JSON data. Naive datetimes are UTC, as everywhere in the warehouse."""
    if isinstance(value, datetime):
        utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return utc.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return [plain(row) for row in frame.iter_rows(named=True)]
