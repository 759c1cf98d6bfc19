"""Numbers, times and ages as an operator reads them: one formatter for every page.

Three significant digits, SI prefixes, a no-break space before the unit, a true minus sign. Unknown is
an em dash, never 0.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal
from typing import SupportsFloat

from warehouse.clock import utcnow

MISSING = "—"
NBSP = "\u00a0"
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_SCALED = {"J", "W", "Wh", "g", "s", "B"}  # units that take an SI prefix


def significant(value: float, digits: int = 3) -> str:
    """`value` in plain decimals to `digits` significant digits; integers keep all their digits."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - exponent)
    text = f"{value:,.{decimals}f}"
    # 9.996 rounds up to a fourth digit: format again with the exponent it now has.
    if decimals and math.floor(math.log10(abs(float(text.replace(",", ""))) or 1)) > exponent:
        text = f"{value:,.{decimals - 1}f}"
    return text.replace("-", "−")


def _number(value: SupportsFloat | None) -> float | None:
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _split(unit: str) -> tuple[str, str]:
    """`J/token` is a J that may be scaled, and what follows it."""
    head, slash, tail = unit.partition("/")
    return head, f"{slash}{tail}"


def scale(value: float, unit: str) -> tuple[float, str]:
    """`value` in the prefix that keeps it in 1..1000, and the unit with that prefix."""
    head, tail = _split(unit)
    if head not in _SCALED or value == 0:
        return value, unit
    if head == "s" and abs(value) >= 1:
        return value, unit  # nobody says kiloseconds
    # Three significant digits of 999.6 are 1000: the next prefix then.
    size = abs(float(f"{value:.2e}"))
    if head != "s" and 0.1 <= size < 1:
        return value, unit  # 0.41 J/token reads better than 410 mJ/token
    factor, prefix = next(((f, p) for f, p in _PREFIXES if size >= f), _PREFIXES[-1])
    return value / factor, f"{prefix}{head}{tail}"


def quantity(value: SupportsFloat | None, unit: str, digits: int = 3) -> str:
    """`211 J`, `1.41 MJ`, `0.41 J/token`, `$0.00041`, `98.7 %`; a dash when unknown."""
    number = _number(value)
    if number is None:
        return MISSING
    if unit == "USD" or unit.startswith("USD/"):
        return usd(number, digits) + (f"/{unit[4:]}" if "/" in unit else "")
    if unit == "%":
        return percent(number / 100)
    scaled, named = scale(number, unit)
    text = significant(scaled, digits)
    return f"{text}{NBSP}{named}" if named else text


def usd(value: SupportsFloat | Decimal | None, digits: int = 3) -> str:
    """`$12.30`, `$0.00041`, `$0.0000502`; amounts of a cent and more keep whole cents."""
    number = _number(value)
    if number is None:
        return MISSING
    sign = "−" if number < 0 else ""
    number = abs(number)
    if number == 0:
        return "$0"
    if number >= 1:
        return f"{sign}${number:,.2f}"
    if number < 1e-9:
        return f"{sign}${number:.{digits - 1}e}"
    return f"{sign}${significant(number, digits)}"


def per_million(price_usd_per_token: SupportsFloat | None) -> str:
    """A token price as catalogs write it: `$0.28/1M tokens`."""
    number = _number(price_usd_per_token)
    return MISSING if number is None else f"${number * 1e6:,.2f}/1M{NBSP}tokens"


def percent(share: SupportsFloat | None, *, signed: bool = False, decimals: int | None = None) -> str:
    """A share 0..1 as `98.7 %`; with `signed`, a relative change as `−14 %`."""
    number = _number(share)
    if number is None:
        return MISSING
    points = number * 100
    if decimals is None:
        decimals = 0 if signed and abs(points) >= 10 else 1
    text = f"{points:+,.{decimals}f}" if signed else f"{points:,.{decimals}f}"
    if signed and float(text.replace(",", "")) == 0:
        text = text.lstrip("+-")
    return f"{text.replace('-', '−')}{NBSP}%"


def points(difference: SupportsFloat | None, decimals: int = 1) -> str:
    """A difference of two shares as percentage points: `−0.1 pp`."""
    number = _number(difference)
    if number is None:
        return MISSING
    text = f"{number * 100:+.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return f"{text.replace('-', '−')}{NBSP}pp"


def signed(value: SupportsFloat | None, unit: str) -> str:
    """A difference with its sign: `+40 ms`."""
    number = _number(value)
    if number is None:
        return MISSING
    text = quantity(abs(number), unit)
    return text if number == 0 else f"{'+' if number > 0 else '−'}{text}"


def interval(low: SupportsFloat | None, high: SupportsFloat | None, unit: str) -> str:
    """`204–218 J`: both ends in the prefix of the upper one."""
    lower, upper = _number(low), _number(high)
    if lower is None or upper is None:
        return MISSING
    if unit == "USD":
        return f"{usd(lower)}–{usd(upper)}"
    if unit == "%":
        return f"{percent(lower / 100)[:-2]}–{percent(upper / 100)}"
    scaled, named = scale(upper, unit)
    factor = upper / scaled if scaled else 1.0
    text = f"{significant(lower / factor)}–{significant(scaled)}"
    return f"{text}{NBSP}{named}" if named else text


def count(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes: `1.61 MB`."""
    return quantity(value, "B")


def duration(seconds: float | None) -> str:
    """A length of time in its largest whole unit: `4 s`, `2 min`, `3 h`, `6 d`."""
    number = _number(seconds)
    if number is None:
        return MISSING
    number = abs(number)
    if number < 1:
        return quantity(number, "s", 2)
    for size_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        # Two days and up, two hours and up: below, the smaller unit tells more.
        if number >= size_s * (2 if unit != "min" else 1):
            return f"{number / size_s:.0f}{NBSP}{unit}"
    return f"{number:.0f}{NBSP}s"


def age(at: datetime | None, now: datetime | None = None) -> str:
    """How long ago `at` (naive UTC) was; a future instant reads `in 2 d`."""
    if at is None:
        return "never"
    seconds = ((now or utcnow()) - at).total_seconds()
    if -1 < seconds < 1:
        return f"0{NBSP}s"
    return duration(seconds) if seconds > 0 else f"in {duration(seconds)}"


def instant(at: datetime | None) -> str:
    """`2026-11-29 12:03:10 UTC`."""
    return MISSING if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def parse_instant(text: str | datetime | None) -> datetime | None:
    """A time of an operation's answer (ISO 8601, UTC) as naive UTC."""
    if text is None or isinstance(text, datetime):
        return text
    return datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=None)


_JOINER = "\u2060"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~$<>&:])")


def literal(text: object) -> str:
    """Text from outside for labels and captions: no Markdown in it takes effect, so no image is ever fetched.

    A word joiner keeps addresses from turning into links.
    """
    plain = " ".join(str(text).splitlines()).replace("://", f":{_JOINER}//").replace("www.", f"www{_JOINER}.")
    return _MARKDOWN.sub(r"\\\1", plain.replace("@", f"@{_JOINER}"))
