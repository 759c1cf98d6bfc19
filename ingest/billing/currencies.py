"""Amounts of several currencies: subtotals always, one sum only through dated rates that are shown with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class FxRate:
    """One `from_currency` was `rate` `to_currency` on `day`, as `source` says."""

    from_currency: str
    to_currency: str
    rate: Decimal
    day: date
    source: str

    def __post_init__(self) -> None:
        if not self.rate.is_finite() or self.rate <= 0:
            raise ValueError(f"the rate {self.from_currency} to {self.to_currency} is {self.rate}; it must be above 0")


@dataclass(frozen=True)
class Part:
    """A subtotal, and what it is in the common currency; rate None where it is that currency itself."""

    currency: str
    amount: Decimal
    converted: Decimal | None
    rate: FxRate | None = None


@dataclass(frozen=True)
class CurrencyTotal:
    """Subtotals per currency; `total` in `into` only where every currency is it or has a rate of `on` or before."""

    into: str
    on: date
    parts: tuple[Part, ...]
    total: Decimal | None
    missing: tuple[str, ...]

    @property
    def note(self) -> str | None:
        """What to print beside the figure: the rates with their dates, or why there is no sum."""
        if self.missing:
            return f"no sum: no rate to {self.into} on or before {self.on} for {', '.join(self.missing)}"
        used = [p.rate for p in self.parts if p.rate is not None]
        told = [f"1 {r.from_currency} = {r.rate.normalize():f} {r.to_currency} on {r.day} ({r.source})" for r in used]
        return "; ".join(told) or None


def total_in(into: str, on: date, subtotals: Mapping[str, Decimal], rates: Iterable[FxRate]) -> CurrencyTotal:
    """The sum of `subtotals` in `into`, by the newest rate not after `on`.

    A rate is used as quoted, or turned round where only the other direction is quoted; never through a
    third currency, because nobody published that rate. Of two rates of one day the first in order of
    source is taken.
    """
    known = [r for r in sorted(rates, key=lambda r: (-r.day.toordinal(), r.source)) if r.day <= on]
    parts, missing = [], []
    for currency, amount in sorted(subtotals.items()):
        if currency == into:
            parts.append(Part(currency, amount, amount))
            continue
        quoted = next((r for r in known if {r.from_currency, r.to_currency} == {currency, into}), None)
        if quoted is None:
            parts.append(Part(currency, amount, None))
            missing.append(currency)
        elif quoted.from_currency == currency:
            parts.append(Part(currency, amount, amount * quoted.rate, quoted))
        else:
            parts.append(Part(currency, amount, amount / quoted.rate, quoted))
    converted = [p.converted for p in parts if p.converted is not None]
    total = sum(converted, Decimal(0)) if parts and not missing else None
    return CurrencyTotal(into, on, tuple(parts), total, tuple(missing))
