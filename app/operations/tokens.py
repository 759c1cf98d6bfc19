"""API tokens: made and shown once, stored hashed, revoked for good. Each change is an event without the secret."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import polars as pl
from pydantic import Field, StringConstraints, field_validator

from app.errors import BadRequest, Conflict, NotFound
from app.operations import Actor, NoParams, Params, operation
from app.recommendations import store
from warehouse import ledger
from warehouse.clock import iso, utcnow
from warehouse.ids import sha256, uuid7
from warehouse.tables import columns

if TYPE_CHECKING:
    from app.desk import Desk

PREFIX = "jbk_"
Scope = Literal["read", "downstream", "operator"]
_COLUMNS = "token_id, name, scopes, created_at, created_by, revoked_at"


class CreateParams(Params):
    """`scopes`: read; downstream (collect and report, includes read); operator (decide, includes read).

    `targets`: the only ones that a downstream token collects and reports for. Where none is told it is bound to the
    target there is; where there are several, one has to be told, or `all_targets`.
    """

    name: Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]
    scopes: tuple[Scope, ...] = Field(min_length=1)
    targets: tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...] = Field((), max_length=100)
    all_targets: bool = False

    @field_validator("scopes", "targets")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


@operation("token.create", scope="local", params=CreateParams)
def create(desk: Desk, actor: Actor, params: CreateParams) -> dict[str, Any]:
    """Create an API token and show it once."""
    targets = _bound_to(desk, params)
    clear = PREFIX + secrets.token_urlsafe(32)
    row = {
        "token_id": uuid7(),
        "name": params.name,
        "token_sha256": sha256(clear.encode()),
        "scopes": ",".join(params.scopes),
        "created_at": utcnow(),
        "created_by": actor.name,
        "revoked_at": None,
        "version": 1,
    }
    schema = {c.name: c.polars for c in columns("ops.api_token")}
    with desk.command_lock:
        with desk.warehouse.transaction() as tx:
            same = "SELECT token_id FROM ops.api_token WHERE name = $name AND revoked_at IS NULL"
            if tx.query(same, {"name": params.name}).height:
                raise Conflict(
                    f"There is a token {params.name!r} already.", fix="choose another name, or revoke that token first"
                )
            tx.append("ops.api_token", pl.DataFrame([row], schema=schema, orient="row"))
            _bind(tx, str(row["token_id"]), targets)
            told = {"name": params.name, "scopes": params.scopes, "targets": targets or "all"}
            _event(tx, actor, "token.created", str(row["token_id"]), told)
        ledger.anchor(desk.warehouse)
    return {**_plain(row, targets), "token": clear}


def _bound_to(desk: Desk, params: CreateParams) -> tuple[str, ...]:
    """The targets that the token speaks for; none: all, because somebody asked for that. Raises BadRequest.

    One that leaked or lies must not acknowledge for the others. A name that no recommendation will ever carry would
    make a token that can do nothing.
    """
    if "downstream" not in params.scopes:
        if params.targets or params.all_targets:
            raise BadRequest("Targets bind only a token with the scope downstream.", fix="add --scope downstream")
        return ()
    if params.all_targets:
        if params.targets:
            raise BadRequest(
                f"The token {params.name!r} is to speak for all targets and for {', '.join(params.targets)} only.",
                fix="name targets, or leave them out and take all",
            )
        return ()
    known = {*desk.settings.guardrails.targets}
    known |= {t.target for s in store.states(store.all_events(desk.warehouse)) for t in s.targets}
    if not params.targets:
        if len(known) == 1:
            return (*known,)
        raise BadRequest(
            f"There are {len(known)} targets ({', '.join(sorted(known))}), and the token {params.name!r} names none.",
            fix="add --target NAME, one token for each; --all-targets makes one that speaks for all of them",
        )
    unknown = sorted(set(params.targets) - known)
    if unknown:
        raise BadRequest(
            f"There is no target {', '.join(unknown)}.",
            fix=f"use one of {', '.join(sorted(known))}, or add it to guardrails.targets first",
        )
    return params.targets


def _bind(tx: Any, token_id: str, targets: tuple[str, ...]) -> None:
    schema = {c.name: c.polars for c in columns("ops.token_target")}
    rows = [{"token_id": token_id, "target": t, "bound_at": utcnow()} for t in targets]
    tx.append("ops.token_target", pl.DataFrame(rows, schema=schema, orient="row"))


@operation("token.list", scope="local", params=NoParams)
def list_(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """List the API tokens, without their text."""
    frame = desk.warehouse.query(f"SELECT {_COLUMNS} FROM ops.api_token ORDER BY created_at, token_id")
    bound: dict[str, list[str]] = {}
    for token_id, target in desk.warehouse.query(
        "SELECT token_id, target FROM ops.token_target ORDER BY token_id, target"
    ).iter_rows():
        bound.setdefault(token_id, []).append(target)
    return {"tokens": [_plain(row, bound.get(row["token_id"], ())) for row in frame.iter_rows(named=True)]}


class RevokeParams(Params):
    id: Annotated[str, StringConstraints(min_length=1, max_length=100)]


@operation("token.revoke", scope="local", params=RevokeParams)
def revoke(desk: Desk, actor: Actor, params: RevokeParams) -> dict[str, Any]:
    """Revoke an API token, by id or name; it is refused from now on."""
    with desk.command_lock:
        with desk.warehouse.transaction() as tx:
            found = tx.query(
                "SELECT token_id, name, version, revoked_at FROM ops.api_token WHERE token_id = $id OR name = $id "
                "ORDER BY revoked_at IS NULL DESC, created_at DESC LIMIT 1",
                {"id": params.id},
            )
            if not found.height:
                raise NotFound(f"There is no token {params.id!r}.", fix="list the tokens to see their ids")
            token_id, name, version, revoked_at = found.row(0)
            if revoked_at is None:
                tx.execute(
                    "UPDATE ops.api_token SET revoked_at = $at, version = version + 1 "
                    "WHERE token_id = $id AND version = $version",
                    {"at": utcnow(), "id": token_id, "version": version},
                )
                _event(tx, actor, "token.revoked", token_id, {"name": name})
        ledger.anchor(desk.warehouse)
    return list_(desk, actor, NoParams())


def _event(tx: Any, actor: Actor, kind: str, token_id: str, body: dict[str, Any]) -> None:
    ledger.append(
        tx,
        kind=kind,
        subject=f"token:{token_id}",
        body=body,
        actor=actor.name,
        role=actor.role,
        channel=actor.channel,
    )


def _plain(row: dict[str, Any], targets: Sequence[str]) -> dict[str, Any]:
    scopes = row["scopes"].split(",")
    in_words = (", ".join(targets) or "all") if "downstream" in scopes else "none: it does not report"

    def when(value: datetime | None) -> str | None:
        return iso(value) if value else None

    return {
        "id": row["token_id"],
        "name": row["name"],
        "scopes": scopes,
        "targets": list(targets),
        "targets_in_words": in_words,
        "created_at": when(row["created_at"]),
        "created_by": row["created_by"],
        "revoked_at": when(row["revoked_at"]),
    }
