"""What answers carry: plain JSON data whose times all say UTC in the same way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from app.operations.plain import plain


def test_every_time_is_written_in_utc_with_one_z() -> None:
    assert plain(datetime(2026, 1, 2, 3, 4, 5)) == "2026-01-02T03:04:05.000Z"
    assert plain(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000Z"
    east = timezone(timedelta(hours=2))
    assert plain([datetime(2026, 1, 2, 3, 4, 5, tzinfo=east)]) == ["2026-01-02T01:04:05.000Z"]


def test_what_json_cannot_say_is_null_and_money_stays_exact() -> None:
    assert plain({"a": float("nan"), "b": float("inf"), "c": Decimal("0.10")}) == {"a": None, "b": None, "c": "0.1"}
