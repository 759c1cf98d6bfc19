"""The audit trail: every command and every denied one leaves an event; the trail goes out as JSON lines.

Commands that change a recommendation, a token, the table or the sample write events of their own. Every other command
of a person or program leaves `command.done`; what the scheduler runs is in `ops.run`. A denied command leaves
`recommendation.refused` on its recommendation, else `command.denied`. Reading leaves nothing, a denied reading does.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import Field

from app.errors import AppError, BadRequest, Conflict, Forbidden
from app.operations import Actor, NoParams, Operation, Params, operation
from warehouse import ledger
from warehouse.clock import iso, utcnow
from warehouse.engine import Transaction
from warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from app.desk import Desk

DONE, DENIED = "command.done", "command.denied"
# Their handlers write what happened themselves.
OWN_EVENTS = ("recommend.", "token.", "sample.", "alert.ack", "routing.declare", "verify.accept")
# No read scope, because they show more than a reader should see; they change nothing.
ONLY_READ = frozenset(
    {"token.list", "sql.run", "import.progress", "replay.choices", "replay.training_set", "power.idle"}
)
_REPEATED_WITHIN = timedelta(days=1)
_MOST_A_DAY = 20  # denials of one actor on one command: nobody can make the ledger grow
_SHOWN_TEXT = 200
log = structlog.get_logger("joulebook.audit")


def address_class(address: str | None) -> str:
    """loopback | private | public | none: as much of an address as a trail should keep."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "none"
    if found.is_loopback:
        return "loopback"
    return "private" if found.is_private or found.is_link_local else "public"


# writing ----------------------------------------------------------------------------------------------


def done(desk: Desk, actor: Actor, found: Operation, params: Params, answer: dict[str, Any]) -> None:
    """Put a command on record that leaves no event of its own."""
    if found.scope not in ("operator", "local") or actor.role == "system":
        return  # what programs deliver has a run of its own
    if found.name in ONLY_READ or found.name.startswith(OWN_EVENTS):
        return
    result = {k: answer[k] for k in ("state", "run_id", "rows_loaded", "cancelled") if k in answer}
    body = {"command": {"name": found.name, "params": _brief(params)}, "result": result}
    _write(desk, actor, DONE, f"command:{found.name}", body)


def denied(desk: Desk, actor: Actor, name: str, subject: object, reason: str) -> None:
    """Put a denied command on record, once a day for the same actor and reason."""
    if actor.role == "system":
        return
    if name.startswith("recommend.") and isinstance(subject, str):
        from app.recommendations.store import record_refusal

        try:
            if record_refusal(desk, actor, subject, name.partition(".")[2], reason):
                return
        except (AppError, WarehouseError) as error:
            log.warning("a denied command could not be recorded", command=name, reason=str(error))
            return
    _write(desk, actor, DENIED, f"command:{name}", {"command": {"name": name}, "reason": reason[:500]}, seldom=True)


def stranger(desk: Desk, source: str, reason: str) -> None:
    """Put a command on record that came without a known token, once a day per class of address and reason."""
    nobody = Actor("unknown", "none", "api", source=source)
    _write(desk, nobody, DENIED, "command:api", {"reason": reason[:500], "source": source}, seldom=True)


def refused(desk: Desk, actor: Actor, found: Operation, params: Params, error: AppError) -> None:
    """A command that was let in and then refused: by its target, by the state of things."""
    own = found.name.startswith("recommend.")  # their conflicts are recorded where the state is known
    if found.scope != "read" and (isinstance(error, Forbidden) or (isinstance(error, Conflict) and not own)):
        denied(desk, actor, found.name, getattr(params, "id", None), error.message)


def _write(desk: Desk, actor: Actor, kind: str, subject: str, body: dict[str, Any], *, seldom: bool = False) -> None:
    """Never in the way of the command itself."""
    try:
        if ledger.behind(desk.warehouse) is not None:
            return  # nothing is added to a ledger that nobody has looked at since its restore
        with desk.command_lock:
            with desk.warehouse.transaction() as tx, ledger.about(source=actor.source):
                if seldom and _told_enough(tx, actor, subject, body):
                    return
                ledger.append(
                    tx, kind=kind, subject=subject, body=body, actor=actor.name, role=actor.role, channel=actor.channel
                )
            ledger.anchor(desk.warehouse)
    except (AppError, WarehouseError) as error:
        log.warning("a command could not be recorded", command=subject, reason=str(error))


def _told_enough(tx: Transaction, actor: Actor, subject: str, body: dict[str, Any]) -> bool:
    rows = tx.query(
        "SELECT body FROM ledger.event WHERE kind = $kind AND actor = $actor AND subject = $subject "
        "AND happened_at > $since",
        {"kind": DENIED, "actor": actor.name, "subject": subject, "since": utcnow() - _REPEATED_WITHIN},
    )["body"]
    told = [json.loads(text) for text in rows]
    same = [t for t in told if (t.get("reason"), t.get("source")) == (body["reason"], body.get("source", actor.source))]
    return bool(same) or len(told) >= _MOST_A_DAY


def _brief(params: Params) -> dict[str, Any]:
    """The parameters as far as they are short and plain; a trail is no copy of the data."""
    told = params.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {k: v[:_SHOWN_TEXT] if isinstance(v, str) else v for k, v in told.items() if len(json.dumps(v)) <= 1000}


# reading ----------------------------------------------------------------------------------------------


class ExportParams(Params):
    """Events after number `since`, at most `limit`; ask again with `next` while `more`."""

    since: int = Field(0, ge=0)
    limit: int = Field(5000, ge=1, le=20_000)


@operation("audit.export", scope="read", params=ExportParams)
def export(desk: Desk, actor: Actor, params: ExportParams) -> dict[str, Any]:
    """Hand out the ledger as JSON lines, with the head of the chain."""
    with desk.warehouse.reading() as reader:
        found = ledger.events(reader, after_seq=params.since, limit=params.limit + 1)
        seq, digest = ledger.head(reader)
    if params.since > seq:
        raise BadRequest(
            f"There is no event {params.since}: the ledger ends at {seq}.",
            fix=f"give a number up to {seq}; if it was there before, see `joulebook verify`",
        )
    shown = found[: params.limit]
    lines = [json.dumps({**asdict(e), "happened_at": iso(e.happened_at)}, ensure_ascii=False) for e in shown]
    return {
        "lines": lines,
        "more": len(found) > len(shown),
        "next": shown[-1].seq if shown else params.since,
        "head": {"seq": seq, "hash": digest, "at": iso(utcnow())},
    }


@operation("audit.anchor", scope="read", params=NoParams)
def anchor(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Tell the head of the chain, to be kept outside the warehouse."""
    behind = ledger.behind(desk.warehouse)
    if behind is not None:
        raise Conflict(
            f"The ledger is not anchored elsewhere while it does not hold: {behind}.",
            fix="see `joulebook verify`; after a restore `joulebook audit accept-restore REASON`",
        )
    with desk.warehouse.reading() as reader:
        seq, digest = ledger.head(reader)
    return {"head": {"seq": seq, "hash": digest, "at": iso(utcnow())}}
