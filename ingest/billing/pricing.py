"""What a request costs at list price, and how costs add up when some are unknown. Pure functions.

Rules, each from a public failure of a neighbouring tool (tests name them):
- cached tokens are part of the prompt tokens and are charged once, at the cache price;
- a tier re-prices the whole request, not the part above its threshold;
- a price that is unknown or dynamic makes the cost unknown, never 0 and never negative;
- a sum with unknown parts is a lower bound and says so;
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

TOKENS_PER_UNIT = {"token": 1, "1k": 1_000, "1m": 1_000_000}
_UNIT_NAMES = {
    "token": "token", "per_token": "token", "tokens": "token",
    "1k": "1k", "1k tokens": "1k", "1000 tokens": "1k", "per_1k": "1k",
    "1m": "1m", "1m tokens": "1m", "1000000 tokens": "1m", "per_1m": "1m", "mtok": "1m", "per_million": "1m",
}  # fmt: skip


@dataclass(frozen=True)
class RequestCost:
    """USD of one request; None with the reason where it cannot be known. `tier` is the threshold applied."""

    usd: Decimal | None
    reason: str | None = None
    tier: int = 0


@dataclass(frozen=True)
class Rollup:
    """A sum over costs of which some may be unknown.

    total_usd: None where nothing is priced · lower_bound: some are unpriced, so the truth is higher or equal
    · unpriced: how many · unpriced_token_share: 0..1, None where tokens were not given.
    """

    total_usd: Decimal | None
    n: int
    unpriced: int
    unpriced_token_share: float | None = None

    @property
    def lower_bound(self) -> bool:
        return self.unpriced > 0 and self.total_usd is not None

    @property
    def note(self) -> str | None:
        """What to print beside the total; None when every cost is known."""
        if not self.unpriced:
            return None
        kind = "lower bound" if self.lower_bound else "unpriced"
        return f"{kind}, {self.unpriced} of {self.n} unpriced"

    @property
    def alert(self) -> str | None:
        """The sentence of an alert; None where no token went unpriced."""
        share = self.unpriced_token_share
        return f"unpriced share {share * 100:.0f} % of tokens" if share else None


def request_cost(
    prices: Iterable[Mapping[str, Any]],
    prompt_tokens: int | None,
    completion_tokens: int | None,
    cached_tokens: int | None = 0,
) -> RequestCost:
    """List price of one request.

    prices: rows of core.price of one offer (component, min_prompt_tokens, price_usd_per_unit, unit,
    price_kind). cached_tokens are those of the prompt that came from the cache; None counts as none.
    Without a cache price, cached tokens cost what the others cost.
    """
    if prompt_tokens is None or completion_tokens is None:
        return RequestCost(None, "the token counts are not known")
    cached = cached_tokens or 0
    if min(prompt_tokens, completion_tokens, cached) < 0 or cached > prompt_tokens:
        return RequestCost(
            None,
            f"the token counts do not hold: {prompt_tokens} prompt, {cached} cached, {completion_tokens} completion",
        )
    by_component, tier = _in_tier(prices, prompt_tokens)
    fresh = "prompt"
    from_cache = "cache_read" if "cache_read" in by_component else fresh
    needed = [(fresh, prompt_tokens - cached), (from_cache, cached), ("completion", completion_tokens), ("request", 1)]
    usd = Decimal(0)
    for component, count in needed:
        row = by_component.get(component)
        if row is None:
            if component == "request" or not count:
                continue
            return RequestCost(None, f"the {component} price is not listed", tier)
        price = row["price_usd_per_unit"]
        if price is None or row["price_kind"] not in ("fixed", "free"):
            if not count:
                continue
            return RequestCost(None, f"the {component} price is {row['price_kind']}", tier)
        usd += price * count
    return RequestCost(usd, None, tier)


def _in_tier(prices: Iterable[Mapping[str, Any]], prompt_tokens: int) -> tuple[dict[str, Mapping[str, Any]], int]:
    """Per component the row of the highest tier that the prompt reaches, and that tier."""
    chosen: dict[str, Mapping[str, Any]] = {}
    tier = 0
    for row in sorted(prices, key=lambda r: int(r["min_prompt_tokens"])):
        if row["min_prompt_tokens"] <= prompt_tokens:
            chosen[row["component"]] = row
            tier = max(tier, row["min_prompt_tokens"])
    return chosen, tier


def rollup(costs: Sequence[Decimal | None], tokens: Sequence[int] | None = None) -> Rollup:
    """Add what is known and say what is not; `tokens` (as many as `costs`) weigh the unpriced share."""
    known = [c for c in costs if c is not None]
    share = None
    if tokens is not None:
        if len(tokens) != len(costs):
            raise ValueError(f"{len(tokens)} token counts for {len(costs)} costs")
        total = sum(tokens)
        lost = sum(t for t, c in zip(tokens, costs, strict=True) if c is None)
        share = lost / total if total else None
    return Rollup(sum(known, Decimal(0)) if known else None, len(costs), len(costs) - len(known), share)


def per_token(price: Decimal, unit: str) -> Decimal:
    """A token price in its declared `unit` as USD per token. Raises ValueError on an undeclared unit."""
    name = _UNIT_NAMES.get(unit.strip().lower())
    if name is None:
        raise ValueError(f"the price unit {unit!r} is not known; declare one of {', '.join(_UNIT_NAMES)}")
    return price / TOKENS_PER_UNIT[name]
