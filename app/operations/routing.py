"""Routing: the table in force, declaring it, and asking what a request would be routed to (a dry run)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime, Field

from app.errors import BadRequest, Conflict, PreconditionRequired
from app.operations import Actor, NoParams, Params, operation
from app.policy_errors import policy_errors
from policies.recommend.fold import fold
from policies.recommend.state import IN_FLIGHT, cell_key
from policies.recommend.table import (
    ASSUMED,
    DECLARED,
    TABLE_KINDS,
    Route,
    Table,
    check_fallbacks,
    fold_table,
    parse_key,
)
from policies.router import DECLARED_TIERS, Basis, Parameters, Ranking, Request, Weights, load, rank, routing_table
from policies.router import validate_references as validate
from warehouse import ledger
from warehouse.clock import iso, to_utc, utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

TABLE_CONTEXT_TOKENS = 8192  # the prompt size that a whole routing table is made for


# what the settings mean to the router -----------------------------------------------------------


def router_parameters(settings: Settings, basis: Basis = Basis.MEASURED) -> Parameters:
    """The router's parameters as configured; weights are made to sum to 1. Raises BadRequest for all-zero weights."""
    w = settings.weights
    total = w.cost + w.eco + w.prof
    if total <= 0:
        raise BadRequest("All weights are 0.", fix="set at least one of weights.cost, weights.eco, weights.prof")
    with policy_errors():
        return Parameters(
            name="router" if basis is Basis.MEASURED else "list-price",
            basis=basis,
            weights=Weights(w.cost / total, w.eco / total, w.prof / total),
            context_factor=settings.policy.context_factor,
            context_factors=settings.policy.context_factors,
            reserved_output_tokens=settings.policy.reserved_output_tokens,
            self_eval_min_n=settings.policy.self_eval_min_n,
            evidence_max_age=timedelta(seconds=settings.policy.evidence_max_age),
            tiers={**DECLARED_TIERS, **settings.policy.tiers},
        )


def ranked_cells(
    snap: Snapshot, settings: Settings, table: Table | None, basis: Basis = Basis.MEASURED
) -> dict[tuple[str, int, str], Ranking]:
    """A decision per (category, tier, latency), ties going to the incumbents of `table`."""
    parameters = router_parameters(settings, basis)
    incumbents = {parse_key(key): route.offer_id for key, route in table.routes.items()} if table else {}
    found: dict[tuple[str, int, str], Ranking] = {}
    for latency in settings.routing.latencies:
        decided = routing_table(
            snap,
            parameters,
            latency=latency,
            incumbent_table={(c, t): offer for (c, t, lat), offer in incumbents.items() if lat == latency},
            required_context_tokens=TABLE_CONTEXT_TOKENS,
            authorized_access=frozenset(settings.policy.allowed_access),
        )
        found |= {(c, t, latency): ranking for (c, t), ranking in decided.decisions.items()}
    return found


# the table in force -------------------------------------------------------------------------------


def table_events(source: Warehouse | Transaction, as_of: datetime | None = None) -> list[ledger.Event]:
    """The ledger events that make the table, in order of seq."""
    events = [e for kind in TABLE_KINDS for e in ledger.events(source, kind=kind)]
    return sorted((e for e in events if as_of is None or e.happened_at <= as_of), key=lambda e: e.seq)


def known_table(source: Warehouse | Transaction, settings: Settings, as_of: datetime | None = None) -> Table:
    """What was declared or actuated; where nothing is declared the cells that nobody touched are absent."""
    return fold_table(table_events(source, as_of), _file_table(settings) or Table({}, ASSUMED))


def current_table(
    source: Warehouse | Transaction, settings: Settings, snap: Snapshot, *, past: datetime | None = None
) -> Table:
    """The table in force now, or as of `past`.

    Now is the end of the ledger, whatever the clock says: one that was set back must not undo what is in force.
    Without a declared incumbent the documented energy-oblivious policy (list price) is assumed to be routing.
    """
    events = table_events(source, past)
    baseline = _file_table(settings)
    if baseline is None and not any(e.kind == "routing.declared" for e in events):
        ranked = ranked_cells(snap, settings, None, Basis.LIST_PRICE)
        routes = {
            cell_key({"category": c, "tier": t, "latency": lat}): Route(r.chosen_offer_id, "assumed")
            for (c, t, lat), r in ranked.items()
        }
        baseline = Table(routes, ASSUMED)
    return fold_table(events, baseline or Table({}, DECLARED))


def _file_table(settings: Settings) -> Table | None:
    told = settings.routing.incumbent_file
    if told is None:
        return None
    path = settings.home / told
    if not path.exists():  # a reference downstream may create it on its first change
        return None
    routes, fallbacks = read_routes(path)
    return Table(
        {key: Route(offer, DECLARED) for key, offer in routes.items()}, f"{DECLARED} in {path.name}", fallbacks
    )


def read_routes(path: Path) -> tuple[dict[str, str | None], dict[str, str]]:
    """`{"routes": {"category/tier/latency": offer}, "fallbacks": {offer: offer}}` from a JSON file, checked."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadRequest(f"The routing table {path} cannot be read as JSON.", fix="correct or restore it") from error
    if not isinstance(told, dict) or not isinstance(told.get("routes"), dict):
        raise BadRequest(
            f'The routing table {path} has no "routes".', fix='write {"routes": {"category/tier/latency": offer}}'
        )
    return _checked(told["routes"], told.get("fallbacks") or {})


def _checked(routes: Mapping[str, Any], fallbacks: Mapping[str, Any]) -> tuple[dict[str, str | None], dict[str, str]]:
    plain: dict[str, str | None] = {}
    with policy_errors():
        for key, offer in routes.items():
            category, tier, latency = parse_key(key)
            if offer is not None and not isinstance(offer, str):
                raise BadRequest(f"{key} routes to {type(offer).__name__}, not to an offer id.", fix="write its id")
            plain[cell_key({"category": category, "tier": tier, "latency": latency})] = offer
        chain = {str(k): str(v) for k, v in fallbacks.items()}
        check_fallbacks(chain)
    return plain, chain


def table_json(table: Table, as_of: datetime) -> dict[str, Any]:
    """The table as plain JSON; `version` is what a declaration has to quote."""
    cells = []
    for key, route in sorted(table.routes.items()):
        category, tier, latency = parse_key(key)
        cells.append(
            {
                "key": key,
                "category": category,
                "tier": tier,
                "latency": latency,
                "offer_id": route.offer_id,
                "since": iso(route.since) if route.since else None,
                "by": route.by,
            }
        )
    return {
        "version": table.version,
        "basis": table.basis,
        "as_of": iso(as_of),
        "declared_at": iso(table.declared_at) if table.declared_at else None,
        "declared_by": table.declared_by,
        "cells": cells,
        "routes": table.offers,
        "fallbacks": dict(table.fallbacks),
    }


# operations -----------------------------------------------------------------------------------------


@operation("routing.table", scope="read", params=NoParams)
def table(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Read the routing table in force."""
    with policy_errors(), snapshot(desk.warehouse) as snap:
        return table_json(current_table(desk.warehouse, desk.settings, snap), snap.as_of)


class Cell(Params):
    category: str
    tier: int
    latency: str = "interactive"
    offer_id: str | None


class DeclareParams(Params):
    """`version` is the table's version that was seen; `cells` None takes them from routing.incumbent_file."""

    cells: tuple[Cell, ...] | None = Field(None, min_length=1)
    fallbacks: dict[str, str] = Field(default_factory=dict)
    version: str | None = None
    reason: str | None = Field(None, max_length=2000)


@operation("routing.declare", scope="operator", params=DeclareParams)
def declare(desk: Desk, actor: Actor, params: DeclareParams) -> dict[str, Any]:
    """Declare what routes today, as the incumbent that proposals are compared with."""
    routes, fallbacks = _declared_routes(desk.settings, params)
    with desk.command_lock, policy_errors():
        with snapshot(desk.warehouse) as snap:
            before = current_table(desk.warehouse, desk.settings, snap)
            named = {offer: key for key, offer in routes.items() if offer}
            named |= {o: "fallbacks" for pair in fallbacks.items() for o in pair}
            validate(load(snap, router_parameters(desk.settings)), named)
        if params.version is None:
            raise PreconditionRequired(
                "The declaration does not say which version of the routing table it saw.",
                fix="read the routing table and send its version (If-Match)",
            )
        if params.version != before.version:
            raise Conflict(
                f"The routing table has changed: it is at version {before.version[:12]}, the declaration saw "
                f"{params.version[:12]}. Nothing was written.",
                fix="read the routing table again",
            )
        with desk.warehouse.transaction() as tx:
            _refuse_in_flight(tx)
            event = ledger.append(
                tx,
                kind="routing.declared",
                subject="routing-table",
                body={"routes": routes, "fallbacks": fallbacks, "before": before.offers, "reason": params.reason},
                actor=actor.name,
                role=actor.role,
                channel=actor.channel,
            )
        ledger.anchor(desk.warehouse)
        return table_json(fold_table([event], before), event.happened_at)


def _declared_routes(settings: Settings, params: DeclareParams) -> tuple[dict[str, str | None], dict[str, str]]:
    if params.cells is not None:
        return _checked({f"{c.category}/{c.tier}/{c.latency}": c.offer_id for c in params.cells}, params.fallbacks)
    told = settings.routing.incumbent_file
    if told is None:
        raise BadRequest(
            "Neither cells nor a file with the routing table are given.",
            fix="send cells, or set routing.incumbent_file",
        )
    return read_routes(settings.home / told)


def _refuse_in_flight(tx: Transaction) -> None:
    subjects = {e.subject for e in ledger.events(tx, kind="recommendation.approved")}
    for subject in sorted(subjects):
        state = fold(ledger.events(tx, subject=subject))
        if state and (state.pending or (state.state in IN_FLIGHT and state.state != "OBSERVING")):
            raise Conflict(
                f"{subject} is {state.label}; the table cannot be declared while it is being changed.",
                fix="wait until every target has reported, or roll it back",
            )


class RouteParams(Params):
    """`residency`: tags that an offer must declare. `as_of`: decide with what was known then."""

    category: str
    tier: int
    required_context_tokens: int = Field(ge=0)
    latency: str = "interactive"
    residency: tuple[str, ...] = ()
    as_of: AwareDatetime | None = None


@operation("routing.route", scope="read", params=RouteParams)
def route(desk: Desk, actor: Actor, params: RouteParams) -> dict[str, Any]:
    """Ask where a request would be routed, without routing it."""
    at = to_utc(params.as_of, what="as_of") if params.as_of else utcnow()
    with policy_errors():
        request = Request(
            params.category,
            params.tier,
            params.required_context_tokens,
            params.latency,
            frozenset(params.residency),
            frozenset(desk.settings.policy.allowed_access),
        )
        with snapshot(desk.warehouse, at) as snap:
            in_force = current_table(desk.warehouse, desk.settings, snap, past=at if params.as_of else None)
            key = cell_key({"category": request.category, "tier": request.tier, "latency": request.latency})
            incumbent = in_force.routes.get(key)
            parameters = router_parameters(desk.settings)
            ranking = rank(snap, request, parameters, incumbent.offer_id if incumbent else None)
    return {
        **ranking.to_dict(),
        "routes_now_to": incumbent.offer_id if incumbent else None,
        "table_basis": in_force.basis,
        "parameters": parameters.describe(),
    }


@operation("rank", scope="read", params=RouteParams)
def rank_offers(desk: Desk, actor: Actor, params: RouteParams) -> dict[str, Any]:
    """Rank the offers for a request: the eligible best first, then the excluded with reasons."""
    return route(desk, actor, params)
