"""What a snapshot says about every offer: catalog facts, prices, reference evidence and quality scores.

Read once per snapshot; every question of a routing table is answered from the same frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

import polars as pl

from policies.errors import ReferenceMissing
from policies.router.parameters import Parameters, sql_text
from policies.router.score import blend
from warehouse.ids import content_hash, sha256

MONEY = pl.Decimal(28, 12)
_MONEY_STEP = Decimal("1e-12")

OfferKey = tuple[str, str]  # provider, offer_id


class Snapshot(Protocol):
    """The part of `warehouse.snapshots.Snapshot` that policies read through."""

    as_of: datetime

    def sql(self, text: str, **params: Any) -> pl.DataFrame: ...


@dataclass(frozen=True)
class PriceTier:
    """Prices of one component from `min_prompt_tokens` on; `usd` is None where there is no plain number."""

    min_prompt_tokens: int
    usd: Decimal | None


@dataclass(frozen=True)
class Candidates:
    """All offers as of one instant, sorted by (provider, offer_id).

    `inputs_digest` is a sha256 over everything that was read: equal inputs, equal digest, however
    often and in whatever order they were read.
    """

    as_of: datetime
    offers: pl.DataFrame
    prices: Mapping[OfferKey, Mapping[str, tuple[PriceTier, ...]]]
    proficiency: Mapping[tuple[str, str], float]  # (offer id or base model, category) -> 0..1
    inputs_digest: str

    def proficiency_of(self, offer_id: str, base_model: str, category: str) -> float | None:
        """The blended score in `category`, the offer's own before its base model's; None when unknown."""
        own = self.proficiency.get((offer_id, category))
        return self.proficiency.get((base_model, category)) if own is None else own

    def list_cost_usd(self, key: OfferKey, required_context_tokens: int, parameters: Parameters) -> Decimal | None:
        """What the reference request costs at list price, at the price tier of `required_context_tokens`.

        A price tier re-prices the whole request. None where a needed price is dynamic or unknown.
        """
        tokens = {
            "prompt": parameters.reference_prompt_tokens,
            "completion": parameters.reference_completion_tokens,
        }
        reach = max(required_context_tokens, parameters.reference_prompt_tokens)
        components = self.prices.get(key, {})
        total = Decimal(0)
        for component in ("prompt", "completion", "request"):
            tiers = [t for t in components.get(component, ()) if t.min_prompt_tokens <= reach]
            if not tiers:
                if component == "request":  # most offers have no fee per request
                    continue
                return None
            usd = tiers[-1].usd
            if usd is None:
                return None
            total += usd * tokens.get(component, 1)
        return total.quantize(_MONEY_STEP)


def load(snapshot: Snapshot, parameters: Parameters) -> Candidates:
    """Read offers, prices and scores as of the snapshot: three queries, whatever is asked of them later."""
    fresh_after = snapshot.as_of - parameters.evidence_max_age
    offers = snapshot.sql(sql_text("candidates.sql"), fresh_after=fresh_after)
    prices = snapshot.sql(sql_text("prices.sql"))
    scores = snapshot.sql(sql_text("scores.sql"))
    digest = content_hash(
        [snapshot.as_of, fresh_after, *(sha256(frame.write_csv().encode()) for frame in (offers, prices, scores))]
    )
    return Candidates(
        as_of=snapshot.as_of,
        offers=_with_declared(_with_mean_cost(offers), snapshot.as_of, parameters),
        prices=_price_tiers(prices),
        proficiency=_proficiency(scores, parameters),
        inputs_digest=digest,
    )


def validate_references(candidates: Candidates, named: Mapping[str, str]) -> None:
    """Refuse configuration that names offers which are not offered as of the snapshot.

    `named` maps an offer id to the place that names it. Raises ReferenceMissing naming every such id.
    """
    lifecycle = dict(candidates.offers.select("offer_id", "lifecycle").iter_rows())
    known = {*lifecycle, *candidates.offers["base_model"]}
    bad = [
        f"{offer} (in {where}) " + ("is removed" if lifecycle.get(offer) == "removed" else "is in no catalog")
        for offer, where in sorted(named.items())
        if offer not in known or lifecycle.get(offer) == "removed"
    ]
    if bad:
        raise ReferenceMissing("; ".join(bad) + ".", fix="name an offer of the catalog, or take the reference out")


def _with_mean_cost(offers: pl.DataFrame) -> pl.DataFrame:
    """Exact mean of the billed cost: a decimal sum over a count."""
    sums, counts = offers["billed_cost_sum_usd"].to_list(), offers["n_cost"].to_list()
    means = [None if s is None or not n else (s / n).quantize(_MONEY_STEP) for s, n in zip(sums, counts, strict=True)]
    return offers.with_columns(pl.Series("billed_cost_usd", means, dtype=MONEY)).drop("billed_cost_sum_usd")


def _with_declared(offers: pl.DataFrame, as_of: datetime, parameters: Parameters) -> pl.DataFrame:
    """Add what configuration declares (tier, tags, context factor) and what follows from it."""
    rows = list(offers.select("offer_id", "base_model", "catalog_tier", "residency").iter_rows())
    tiers = [parameters.tiers.get(o, parameters.tiers.get(b, tier)) for o, b, tier, _ in rows]
    factors = [
        parameters.context_factors.get(o, parameters.context_factors.get(b, parameters.context_factor))
        for o, b, _, _ in rows
    ]
    tags = [
        sorted(
            {t.strip() for t in (declared or "").split(",") if t.strip()}
            | parameters.tags.get(o, frozenset())
            | parameters.tags.get(b, frozenset())
        )
        for o, b, _, declared in rows
    ]
    usable = pl.min_horizontal("context_tokens", "endpoint_context_tokens")  # ignores NULLs
    return (
        offers.with_columns(
            pl.Series("tier", tiers, dtype=pl.Int32),
            pl.Series("context_factor", factors, dtype=pl.Float64),
            pl.Series("tags", tags, dtype=pl.List(pl.String)),
            age_s=(pl.lit(as_of) - pl.col("newest_at")).dt.total_microseconds() / 1e6,
        )
        .with_columns(
            effective_context_tokens=(usable * pl.col("context_factor")).floor().cast(pl.Int64)
            - parameters.reserved_output_tokens
        )
        .sort("provider", "offer_id")
    )


def _price_tiers(prices: pl.DataFrame) -> dict[OfferKey, dict[str, tuple[PriceTier, ...]]]:
    found: dict[OfferKey, dict[str, tuple[PriceTier, ...]]] = {}
    columns = ("provider", "offer_id", "component", "min_prompt_tokens", "price_usd_per_unit")
    for provider, offer, component, reach, usd in prices.select(columns).sort(columns[:4]).iter_rows():
        tiers = found.setdefault((provider, offer), {})
        tiers[component] = (*tiers.get(component, ()), PriceTier(reach, usd))
    return found


def _proficiency(scores: pl.DataFrame, parameters: Parameters) -> dict[tuple[str, str], float]:
    parts: dict[tuple[str, str], dict[str, tuple[float, int | None]]] = {}
    for model, category, component, score, n in scores.select(
        "model", "category", "component", "score", "n"
    ).iter_rows():
        parts.setdefault((model, category), {})[component] = (score, n)
    blended = {
        key: blend(
            leaderboard=found["leaderboard"][0] if "leaderboard" in found else None,
            self_eval=found["self_eval"][0] if "self_eval" in found else None,
            self_eval_n=found["self_eval"][1] if "self_eval" in found else None,
            parameters=parameters,
        )
        for key, found in parts.items()
    }
    return {key: value for key, value in blended.items() if value is not None}
