"""One row of a payload, field by field: what does not hold is collected as a Reject, its siblings stay.

Every reader returns None for "not told" and for "refused"; a refusal also leaves a Reject behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Reject
from ingest.read import shape_of
from warehouse.clock import parse_utc

MONEY_STEP = Decimal("1e-12")  # what DECIMAL(28,12) can tell apart
LARGEST_MONEY = Decimal("1e12")
LARGEST_INT = 2**53
J_PER_KWH = Decimal(3_600_000)
LARGEST_INTENSITY = 2000  # g/kWh; the dirtiest coal plants stay near 1100
_DIGITS = 30  # whatever is beyond 1e30 or below 1e-30, and not 0, is no measurement
_RAW_LIMIT = 4000
_VALUE_LIMIT = 200


class Refused(ValueError):
    """A value that must not become a fact; the message is the reason."""


def number(value: Any, *, low: Decimal | int | None = None, high: Decimal | int | None = None) -> Decimal | None:
    """A finite JSON number within [low, high]; None stays None. Raises Refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Refused(f"is {shape_of(value)}, not a number")
    if isinstance(value, Decimal) and not value.is_finite():
        raise Refused(f"is {value}, not a finite number")
    result = Decimal(value) if isinstance(value, int) else value
    if result and not -_DIGITS < result.adjusted() < _DIGITS:  # arithmetic on such exponents may not end well
        raise Refused("is larger or smaller than anything that can be measured")
    if low is not None and result < low:
        raise Refused("is negative" if low == 0 else f"is below {low}")
    if high is not None and result > high:
        raise Refused(f"is above {high}, which is not plausible")
    return result


def whole(value: Any, *, low: int = 0, high: int = LARGEST_INT) -> int | None:
    """A whole number within [low, high]. Raises Refused."""
    result = number(value, low=low, high=high)
    if result is None:
        return None
    if result != result.to_integral_value():
        raise Refused("is not a whole number")
    return int(result)


def money(value: Decimal) -> Decimal:
    """`value` at the resolution of the warehouse, DECIMAL(28,12)."""
    return value.quantize(MONEY_STEP)


def as_float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


@dataclass
class Row:
    """Reads the fields of one row of a payload."""

    row_no: int
    data: Mapping[str, Any]
    key: str | None = None
    rejects: list[Reject] = field(default_factory=list)

    def refuse(self, name: str | None, value: Any, reason: str, *, whole_row: bool = False) -> None:
        """Leave a Reject for the field `name`, or for the row."""
        self.rejects.append(
            Reject(
                reason=f"{name} {reason}" if name else reason,
                row_no=self.row_no,
                natural_key=self.key,
                field=name,
                value=None if value is None else plain_json(value)[:_VALUE_LIMIT],
                raw=plain_json(self.data)[:_RAW_LIMIT],
                whole_row=whole_row,
            )
        )

    def number(
        self, name: str, value: Any, *, low: Decimal | int | None = 0, high: Decimal | int | None = 10**15
    ) -> Decimal | None:
        try:
            return number(value, low=low, high=high)
        except Refused as refused:
            self.refuse(name, value, str(refused))
            return None

    def whole(self, name: str, value: Any, *, low: int = 0, high: int = LARGEST_INT) -> int | None:
        try:
            return whole(value, low=low, high=high)
        except Refused as refused:
            self.refuse(name, value, str(refused))
            return None

    def usd(self, name: str, value: Any) -> Decimal | None:
        """Money as the warehouse keeps it."""
        found = self.number(name, value, high=LARGEST_MONEY)
        return None if found is None else money(found)

    def text(self, name: str, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if not isinstance(value, str):
            self.refuse(name, value, f"is {shape_of(value)}, not text")
            return None
        return value.strip()

    def mapping(self, name: str, value: Any) -> Mapping[str, Any]:
        """An object; absent or refused becomes an empty one."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.refuse(name, value, f"is {shape_of(value)}, not an object")
        return {}

    def time(self, name: str, value: Any, *, assume_utc: bool = False) -> datetime | None:
        """An ISO 8601 time as naive UTC; one without a zone is refused unless the format declares UTC."""
        text = self.text(name, value)
        if text is None:
            return None
        try:
            return parse_utc(text, what=name, assume_utc=assume_utc)
        except (ValueError, OverflowError) as error:
            self.refuse(name, value, str(error).removeprefix(f"{name} "))
            return None


def plain_json(value: Any) -> str:
    """JSON text for people and for attributes: decimals as numbers, what is not finite as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        as_number = float(value) if value.is_finite() and abs(value.adjusted()) < 300 else None
        return str(value) if as_number is None else as_number
    return str(value)
