"""Time as the warehouse stores it: naive datetimes that mean UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def utcnow() -> datetime:
    """Now, as a naive UTC datetime."""
    return datetime.now(UTC).replace(tzinfo=None)


def iso(value: datetime) -> str:
    """A naive UTC time as ISO 8601 text that says so."""
    return value.isoformat() + "Z"


def to_utc(value: datetime, *, what: str) -> datetime:
    """An aware datetime as naive UTC; a naive one is refused, because its zone is a guess."""
    if value.tzinfo is None:
        raise ValueError(
            f"{what} is {value.isoformat()}, a time without a zone; write it with an offset, such as "
            f"{value.isoformat()}Z"
        )
    return value.astimezone(UTC).replace(tzinfo=None)


def parse_utc(text: str, *, what: str, assume_utc: bool = False) -> datetime:
    """ISO 8601 text as naive UTC. `assume_utc` is for sources whose zone is declared in their docs."""
    try:
        value = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{what} is {text!r}, not an ISO 8601 time") from error
    if value.tzinfo is None and assume_utc:
        return value
    return to_utc(value, what=what)
