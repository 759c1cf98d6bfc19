"""Identifiers made in Python: UUIDv7 for events, content hashes for facts, canonical JSON for both."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import uuid
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from warehouse.clock import iso

_lock = threading.Lock()
_last_ms = 0
_counter = 0


def uuid7() -> str:
    """A UUIDv7 (RFC 9562): sorts by time, and within one process strictly by call."""
    global _last_ms, _counter
    with _lock:
        now_ms = time.time_ns() // 1_000_000
        if now_ms > _last_ms:
            _last_ms, _counter = now_ms, 0
        else:  # the same millisecond, or a clock that went backwards: keep counting up
            _counter += 1
            if _counter > 0xFFF:
                _last_ms, _counter = _last_ms + 1, 0
        value = (_last_ms << 80) | (0x7 << 76) | (_counter << 64) | (0b10 << 62)
        value |= int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    return str(uuid.UUID(int=value))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value) if value.tzinfo is None else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and exact decimals; NaN and infinity are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def content_hash(value: Any) -> str:
    """sha256 of the canonical JSON of `value`, in hex."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
