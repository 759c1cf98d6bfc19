"""Hard constraints. Each candidate gets every reason that excludes it, in the order of `ORDER`.

Constraints are never weights: nothing that fails one can be bought back by a good score.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from policies.router.candidates import Candidates
from policies.router.parameters import Basis, Parameters
from policies.router.request import Latency, Request

LIFECYCLE = "lifecycle"
ACCESS = "access"
LATENCY = "latency"
CONTEXT = "context"
TIER = "tier"
TAGS = "tags"
UNPRICED = "unpriced"
EVIDENCE = "evidence"
ORDER = (LIFECYCLE, ACCESS, LATENCY, CONTEXT, TIER, TAGS, UNPRICED, EVIDENCE)

_DAY_S = 86_400


@dataclass(frozen=True)
class Reason:
    """Why a candidate is out: a stable code and a sentence with the numbers."""

    code: str
    text: str


def with_reasons(candidates: Candidates, request: Request, parameters: Parameters, basis: Basis) -> pl.DataFrame:
    """All offers with one column per filter, `out_<code>`: the reason as text, or NULL where it passes.

    Adds `list_cost_usd` and `cost_usd`, the figure that `basis` scores (Decimal, NULL where unknown).
    """
    keys = candidates.offers.select("provider", "offer_id").iter_rows()
    costs = [candidates.list_cost_usd((p, o), request.required_context_tokens, parameters) for p, o in keys]
    measured = basis is Basis.MEASURED
    frame = candidates.offers.with_columns(pl.Series("list_cost_usd", costs, dtype=pl.Decimal(28, 12)))
    frame = frame.with_columns(cost_usd=pl.col("billed_cost_usd" if measured else "list_cost_usd"))
    checks = {
        LIFECYCLE: _lifecycle(candidates),
        ACCESS: _access(request),
        LATENCY: _latency(request),
        CONTEXT: _context(request, parameters),
        TIER: _tier(request),
        TAGS: _tags(request),
        UNPRICED: _unpriced(measured),
        EVIDENCE: _evidence(parameters) if measured else pl.lit(None, dtype=pl.String),
    }
    return frame.with_columns(**{f"out_{code}": checks[code] for code in ORDER})


def passes(codes: tuple[str, ...] = ORDER) -> pl.Expr:
    """True where none of the filters `codes` excludes the candidate."""
    return pl.all_horizontal(pl.col(f"out_{code}").is_null() for code in codes)


def _lifecycle(candidates: Candidates) -> pl.Expr:
    as_of = pl.lit(candidates.as_of)
    return (
        pl.when(pl.col("lifecycle") == "removed")
        .then(pl.lit("removed from the catalog"))
        .when(pl.col("valid_to") <= as_of)
        .then(pl.format("no longer offered since {}", _day("valid_to")))
        .when(pl.col("expires_at") <= as_of)
        .then(pl.format("expired on {}", _day("expires_at")))
        .when(pl.col("lifecycle") != "active")
        .then(pl.format("{} by the provider", "lifecycle"))
    )


def _access(request: Request) -> pl.Expr:
    allowed = sorted(request.authorized_access)
    held = ", ".join(allowed) or "no access level"
    return pl.when(~pl.col("access_level").is_in(allowed)).then(
        pl.format("access level {} is not authorized; the account holds {}", "access_level", pl.lit(held))
    )


def _latency(request: Request) -> pl.Expr:
    if request.latency == Latency.BATCH:
        return pl.lit(None, dtype=pl.String)
    return pl.when(pl.col("latency_class") != "interactive").then(
        pl.format("{} serving may be held or preempted; the request is interactive", "latency_class")
    )


def _context(request: Request, parameters: Parameters) -> pl.Expr:
    effective = pl.col("effective_context_tokens")
    share = pl.format(
        "effective context is {} x {} - {} reserved = {} tokens, below the {} required",
        pl.min_horizontal("context_tokens", "endpoint_context_tokens"),
        "context_factor",
        pl.lit(parameters.reserved_output_tokens),
        effective,
        pl.lit(request.required_context_tokens),
    )
    both = pl.format(
        "advertised {} tokens but the endpoint serves {}; {}", "context_tokens", "endpoint_context_tokens", share
    )
    differ = (pl.col("context_tokens") != pl.col("endpoint_context_tokens")).fill_null(False)
    return (
        pl.when(effective.is_null())
        .then(pl.lit(f"context window is unknown; {request.required_context_tokens} tokens are required"))
        .when((effective < request.required_context_tokens) & differ)
        .then(both)
        .when(effective < request.required_context_tokens)
        .then(share)
    )


def _tier(request: Request) -> pl.Expr:
    return (
        pl.when(pl.col("tier").is_null())
        .then(pl.format("no capability tier is declared for {}", "base_model"))
        .when(pl.col("tier") < request.tier)
        .then(pl.format("tier {} is below the {} required", "tier", pl.lit(request.tier)))
    )


def _tags(request: Request) -> pl.Expr:
    required = pl.lit(sorted(request.residency), dtype=pl.List(pl.String))
    missing = required.list.set_difference(pl.col("tags")).list.sort()
    if not request.residency:
        return pl.lit(None, dtype=pl.String)
    return pl.when(missing.list.len() > 0).then(
        pl.format(
            "does not declare {}; declares {}",
            missing.list.join(", "),
            pl.when(pl.col("tags").list.len() > 0).then(pl.col("tags").list.join(", ")).otherwise(pl.lit("nothing")),
        )
    )


def _unpriced(measured: bool) -> pl.Expr:
    if not measured:
        return pl.when(pl.col("cost_usd").is_null()).then(
            pl.lit("unpriced: a list price is dynamic or unknown, and unknown is not free")
        )
    billed = pl.when((pl.col("n") > 0) & (pl.col("n_cost") == 0)).then(
        pl.format("unpriced: none of the {} reference runs has a billed cost", "n")
    )
    # Without evidence there is no bill to read; then an unknown list price is all there is to say.
    unknown = pl.when((pl.col("n") == 0) & pl.col("list_cost_usd").is_null()).then(
        pl.lit("unpriced: no billed reference run, and a list price is dynamic or unknown")
    )
    return pl.coalesce(billed, unknown)


def _evidence(parameters: Parameters) -> pl.Expr:
    limit = parameters.evidence_max_age.total_seconds() / _DAY_S
    age = (pl.col("age_s") / _DAY_S).round(1)
    return (
        pl.when(pl.col("newest_at").is_null())
        .then(pl.lit("no reference-workload observation is known"))
        .when(pl.col("n") == 0)
        .then(
            pl.format("newest reference-workload observation is {} d old, older than {} d", age, pl.lit(f"{limit:g}"))
        )
    )


def _day(column: str) -> pl.Expr:
    return pl.col(column).dt.strftime("%Y-%m-%d")
