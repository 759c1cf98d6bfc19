"""Commands on recommendations: check and append in one transaction, replay by idempotency key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from app.errors import BadRequest, NotFound, PreconditionRequired
from app.operations import Actor
from app.policy_errors import as_desk_error
from app.recommendations.shown import detail
from policies.errors import PolicyError
from policies.recommend import guardrails
from policies.recommend.errors import KeyReused, NotAllowed
from policies.recommend.fold import advance, fold
from policies.recommend.governance import Governance, Stage
from policies.recommend.lifecycle import Command, Draft, decide
from policies.recommend.state import PREFIX, LedgerEvent, RecState
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import sha256

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

_MOST_REFUSALS = 50  # of one actor on one revision
Prepare = Callable[[RecState, Sequence[LedgerEvent], Transaction], tuple[Command, str | None]]


def limits(settings: Settings) -> guardrails.Limits:
    told = settings.guardrails
    return guardrails.Limits(
        min_gain=told.min_gain,
        expires_after=timedelta(seconds=told.expires_after),
        min_dwell=timedelta(seconds=told.min_dwell),
        max_changes_per_day=told.max_changes_per_day,
        max_changes_per_pool=told.max_changes_per_pool,
        backoff=timedelta(seconds=told.backoff),
        backoff_max=timedelta(seconds=told.backoff_max),
        freeze=settings.approval_policy.freeze,
        slo_s=settings.shadow.margins.slo_s,
        targets=told.targets,
        governance=governance(settings),
    )


def governance(settings: Settings) -> Governance:
    """The approval policy of this desk's environment, as it is frozen into what is proposed."""
    told = settings.approval_policy
    return Governance(
        environment=settings.environment,
        require_pass=told.require_pass,
        approvals=told.approvals,
        roles=told.roles,
        self_approval=told.self_approval,
        approval_expires_s=told.approval_expires,
        stages=tuple(Stage(s.name, s.share) for s in told.stages),
        max_step=told.max_step,
        auto_rollback=told.auto_rollback,
        acknowledge_within_s=told.acknowledge_within,
        actuate_within_s=told.actuate_within,
    )


# reading ----------------------------------------------------------------------------------------------


def all_events(source: Warehouse | Transaction) -> list[ledger.Event]:
    """Every event of every recommendation, in order of seq."""
    names = ", ".join(ledger.Event.__dataclass_fields__)
    frame = source.query(f"SELECT {names} FROM ledger.event WHERE kind LIKE '{PREFIX}%' ORDER BY seq")
    return [ledger.Event(**row) for row in frame.iter_rows(named=True)]


def states(events: Iterable[ledger.Event]) -> list[RecState]:
    """The state of every recommendation, oldest first."""
    grouped: dict[str, list[ledger.Event]] = {}
    for event in events:
        grouped.setdefault(event.subject, []).append(event)
    folded = [fold(own) for own in grouped.values()]
    return sorted((s for s in folded if s is not None), key=lambda s: (len(s.id), s.id))


def one(source: Warehouse | Transaction, rec_id: str) -> tuple[RecState, list[ledger.Event]]:
    """State and events of one recommendation. Raises NotFound."""
    events = ledger.events(source, subject=rec_id)
    state = fold(events)
    if state is None:
        raise NotFound(f"There is no recommendation {rec_id!r}.", fix="list the recommendations to see their ids")
    return state, events


def gate_report(source: Warehouse | Transaction, state: RecState) -> dict[str, Any] | None:
    """What the gate before any traffic found, in full; None where it has not judged."""
    if state.gate is None or state.gate.gate_id is None:
        return None
    found = source.query("SELECT report FROM core.gate_report WHERE gate_id = $id", {"id": state.gate.gate_id})
    told: dict[str, Any] | None = json.loads(found.item(0, 0)) if found.height else None
    return told


def proved_success(source: Warehouse | Transaction, states: Sequence[RecState]) -> dict[str, dict[str, Any]]:
    """By recommendation: the difference of success rates that its gate before any traffic found, where it found one.

    `value`, `low`, `high`: shares, candidate less incumbent, at the confidence of the gate; `evidence_class`, `n`.
    """
    judged = {s.gate.gate_id: s.id for s in states if s.gate is not None and s.gate.gate_id is not None}
    if not judged:
        return {}
    rows = source.query(
        "SELECT gate_id, report FROM core.gate_report WHERE list_contains($ids, gate_id)", {"ids": list(judged)}
    )
    told = {}
    for gate_id, report in rows.iter_rows():
        check = next((c for c in json.loads(report)["checks"] if c["name"] == "success"), None)
        if check is not None and check["estimate"] is not None and check["low"] is not None:
            told[judged[gate_id]] = {
                "value": check["estimate"], "low": check["low"], "high": check["high"],
                "evidence_class": check["evidence_class"], "n": check["n"],
            }  # fmt: skip
    return told


# writing ----------------------------------------------------------------------------------------------


def append(
    tx: Transaction,
    actor: Actor,
    subject: str,
    drafts: Iterable[Draft],
    *,
    key: str | None = None,
    command: Mapping[str, Any] | None = None,
) -> list[ledger.Event]:
    """Append the drafts of one command; each event names the command that made it, and what was before and after."""
    told = {"command": dict(command)} if command else {}
    state, written = fold(ledger.events(tx, subject=subject)), []
    for draft in drafts:
        moved = {} if draft.kind == f"{PREFIX}refused" else _moved(state, subject, draft)
        event = ledger.append(
            tx,
            kind=draft.kind,
            subject=subject,
            body={**draft.body, **moved, **told},
            actor=actor.name,
            role=actor.role,
            channel=actor.channel,
            revision=draft.revision,
            idempotency_key=key,
        )
        state = advance(state, event)
        written.append(event)
    return written


@dataclass(frozen=True)
class _Expected:
    """An event as it will be, for the fold."""

    seq: int
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    data: dict[str, Any]


def _moved(state: RecState | None, subject: str, draft: Draft) -> dict[str, Any]:
    after = advance(state, _Expected(0, utcnow(), draft.kind, subject, draft.revision, dict(draft.body)))
    return {"before": _standing(state), "after": _standing(after)}


def _standing(state: RecState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    told = {"state": state.state.value, "revision": state.revision, "content_hash": state.content_hash}
    return {**told, "pending": state.pending, "stage": state.stage.name, "approvals": len(state.approvals)}


class CommandParams(Protocol):
    """What every command carries: its subject, the revision that was seen, and its idempotency key."""

    @property
    def id(self) -> str: ...
    @property
    def revision(self) -> int | None: ...
    @property
    def idempotency_key(self) -> str | None: ...
    def model_dump_json(self, *, exclude: set[str]) -> str: ...


def execute(desk: Desk, actor: Actor, name: str, params: CommandParams, prepare: Prepare) -> dict[str, Any]:
    """Run one command on one recommendation exactly once and answer with the state it left.

    The same key with the same command returns the first answer and writes nothing. Raises AppError:
    PreconditionRequired without a revision, Conflict for a stale one or a state that forbids the command.
    """
    rec_id, revision, key = params.id, params.revision, params.idempotency_key
    if not key:
        raise BadRequest(
            f"The command {name} of {rec_id} has no idempotency key.",
            fix="send a new unique idempotency_key with each command, and the same one when you retry it",
        )
    warehouse = desk.warehouse
    identity = {"name": name, "fingerprint": sha256(params.model_dump_json(exclude={"idempotency_key"}).encode())}
    with desk.command_lock:
        try:
            with warehouse.transaction() as tx:
                earlier = ledger.by_idempotency_key(tx, key)
                if earlier:
                    return _replayed(tx, earlier, rec_id, identity, key)
                state, events = one(tx, rec_id)
                if revision is None:
                    raise PreconditionRequired(
                        f"The command {name} of {rec_id} does not say which revision it saw.",
                        fix=f"read {rec_id} and send its revision (If-Match: {state.etag})",
                    )
                command, blocked = prepare(state, events, tx)
                drafts = decide(state, command, now=utcnow(), blocked=blocked)
                written = append(tx, actor, rec_id, drafts, key=key, command=identity)
        except NotAllowed as refusal:
            record_refusal(desk, actor, rec_id, name, refusal.message)
            raise as_desk_error(refusal) from refusal
        except PolicyError as error:
            raise as_desk_error(error) from error
        ledger.anchor(warehouse)
        return _answer([*events, *written])


def _replayed(
    tx: Transaction, earlier: Sequence[ledger.Event], rec_id: str, identity: Mapping[str, Any], key: str
) -> dict[str, Any]:
    first, last = earlier[0], earlier[-1]
    told = first.data.get("command") or {}
    if first.subject != rec_id or told != identity:
        raise KeyReused(
            f"The idempotency key {key!r} already stands for the command {told.get('name')} of {first.subject}"
            + (" with another content." if (first.subject, told.get("name")) == (rec_id, identity["name"]) else "."),
            fix="use a new key for a new command; repeat a command only with the very same content",
        )
    return _answer([e for e in ledger.events(tx, subject=rec_id) if e.seq <= last.seq])


def _answer(events: Sequence[ledger.Event]) -> dict[str, Any]:
    """The state that a command left, with its timeline: a function of the ledger up to then."""
    state = fold(events)
    assert state is not None
    return detail(state, events)


def record_refusal(desk: Desk, actor: Actor, rec_id: str, name: str, reason: str) -> bool:
    """Leave a trace of a denied command on an existing recommendation; False where there is none of that id.

    The same refusal of the same actor is written once per state, so that nobody can make the ledger grow.
    """
    with desk.command_lock:
        with desk.warehouse.transaction() as tx, ledger.about(source=actor.source):
            events = ledger.events(tx, subject=rec_id)
            state = fold(events)
            if state is None:
                return False
            body = {"command": {"name": name}, "reason": reason}
            mine = [e for e in events if e.kind == f"{PREFIX}refused" and e.actor == actor.name]
            told = [e.data for e in mine if e.revision == state.revision]
            if any(t.get("command") == body["command"] and t.get("reason") == reason for t in told):
                return True
            if len(told) >= _MOST_REFUSALS:
                return True
            append(tx, actor, rec_id, [Draft(f"{PREFIX}refused", body, state.revision)])
        ledger.anchor(desk.warehouse)
    return True
