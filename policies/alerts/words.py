"""Numbers and times as the titles of alerts say them: short, with units, and the same at every sight."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any


def percent(share: float) -> str:
    """A share or relative change: `12 %`, `0.4 %`, `100 %`."""
    points = share * 100
    return f"{points:.0f} %" if abs(points) >= 10 or points == int(points) else f"{points:.1f} %"


def signed_percent(change: float) -> str:
    return ("+" if change >= 0 else "−") + percent(abs(change))


def at(instant: datetime) -> str:
    """To the minute, so that a title does not change with every look."""
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def span(seconds: float) -> str:
    """A length of time in its largest whole unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def count(n: float) -> str:
    """`37.4M`, `365`: counts of tokens are large."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if n >= size:
            return f"{n / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{n:,.0f}"


def usd(value: Decimal | None, unit: str, kind: str) -> str:
    """A price as catalogs write it, or what it is instead of a number."""
    if kind == "free":
        return "free"
    if value is None:
        return kind
    if unit == "token":
        return f"${plain(value * 1_000_000)}/1M tokens"
    return f"${plain(value)}/{unit}"


def plain(value: Any) -> str:
    """An exact decimal without trailing zeros or an exponent."""
    return format(Decimal(str(value)).normalize(), "f")
