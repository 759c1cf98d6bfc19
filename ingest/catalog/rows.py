"""What the catalog parsers share: duplicate rows, price rows, their origin, and the assembled result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Row, money
from ingest.read import shape_of
from warehouse.tables import frame

DEAREST_USD = {
    "token": Decimal(1),
    "character": Decimal(1),
    "pixel": Decimal(1),
    **dict.fromkeys(("request", "image", "search", "query", "second", "page"), Decimal(1000)),
}


@dataclass
class CatalogRows:
    """Offers and prices of one catalog, and what was refused."""

    provider: str
    seen_at: datetime
    origin: str = "live"  # of every price: see origin_of
    offers: list[dict[str, Any]] = field(default_factory=list)
    prices: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def add(self, row: Row, offer: Mapping[str, Any], prices: Iterable[Mapping[str, Any]]) -> None:
        common = {"provider": self.provider, "offer_id": row.key, "valid_from": self.seen_at}
        self.offers.append({**common, **offer})
        self.prices.extend({**common, "origin": self.origin, **price} for price in prices)
        self.rejects.extend(row.rejects)

    def parsed(self, *, rows_in: int, complete: bool, notes: Sequence[str] = ()) -> Parsed:
        return Parsed(
            primary="core.offer",
            tables={"core.offer": frame("core.offer", self.offers), "core.price": frame("core.price", self.prices)},
            rows_in=rows_in,
            rejects=tuple(self.rejects),
            complete=complete,
            notes=tuple(notes),
        )


def origin_of(payload: Payload) -> str:
    """live: its source answered just now · cached: a file that somebody kept · bundled: shipped with a program."""
    if payload.url.lower().startswith(("http://", "https://")):
        return "live"
    return "cached" if payload.url.lower().startswith("file:") else "bundled"


def distinct_rows(listed: Sequence[Any], rejects: list[Reject]) -> Iterator[Row]:
    """The readable rows of a catalog, the first of each id; the others become whole-row rejects."""
    first: dict[str, Any] = {}
    for row_no, data in enumerate(listed):
        if not isinstance(data, dict):
            bad = Row(row_no, {"row": data})
            bad.refuse(None, data, f"the row is {shape_of(data)}, not an object", whole_row=True)
            rejects.extend(bad.rejects)
            continue
        offer_id = data.get("id")
        row = Row(row_no, data, offer_id.strip() if isinstance(offer_id, str) else None)
        if not row.key:
            row.refuse("id", offer_id, "is missing or not text, so the offer cannot be named", whole_row=True)
        elif row.key in first:
            same = first[row.key] == data
            how = "an identical row" if same else "a row with other values"
            row.refuse("id", row.key, f"came twice; this is {how}, the first one was kept", whole_row=True)
        else:
            first[row.key] = data
            yield row
            continue
        rejects.extend(row.rejects)


def price_row(
    component: str, kind: str, usd: Decimal | None = None, *, unit: str = "token", tier: int = 0
) -> dict[str, Any]:
    """A core.price row without the columns that its catalog shares."""
    return {
        "component": component,
        "min_prompt_tokens": tier,
        "price_usd_per_unit": usd,
        "unit": unit,
        "price_kind": kind,
    }


def judged(row: Row, name: str, value: Any, usd: Decimal, unit: str) -> tuple[str, Decimal | None]:
    """(price_kind, USD per unit) of an amount that was read; an implausible one is refused and unknown."""
    if not usd.is_finite():
        row.refuse(name, value, f"is {usd}, not a finite price")
    elif usd < 0:
        row.refuse(name, value, "is a negative price")
    elif usd == 0:
        return "free", Decimal(0)
    elif usd > DEAREST_USD[unit]:
        row.refuse(name, value, f"is above {DEAREST_USD[unit]} USD per {unit}, which is not plausible; check its unit")
    elif (rounded := money(usd)) == 0:
        row.refuse(name, value, "is below 1e-12 USD, the smallest price that can be kept; check its unit")
    else:
        return "fixed", rounded
    return "unknown", None
