"""The ledger: append-only, hash-chained events, with its head anchored outside the file.

hash(n) = sha256(canonical JSON of event n without `hash`, with prev_hash = hash(n - 1)).
An edited, dropped, inserted or reordered event breaks the chain; a cut tail, or a chain rewritten
from some point on, no longer contains the anchored head.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import canonical_json, content_hash, uuid7
from warehouse.tables import columns

GENESIS = "0" * 64
_COLUMNS = [c.name for c in columns("ledger.event")]


@dataclass(frozen=True)
class Event:
    """One fact of the ledger; `body` is canonical JSON text."""

    seq: int
    event_id: str
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    actor: str
    role: str
    channel: str
    idempotency_key: str | None
    body: str
    prev_hash: str
    hash: str

    @property
    def data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.body)
        return loaded


# What every event of the command that is running says about where it came from.
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default={})  # noqa: B039  never changed in place


@contextlib.contextmanager
def about(**facts: Any) -> Iterator[None]:
    """Within it each appended event carries `facts` in its body, such as the class of the address it came from."""
    token = _about.set({k: v for k, v in facts.items() if v is not None})
    try:
        yield
    finally:
        _about.reset(token)


@dataclass(frozen=True)
class Verification:
    ok: bool
    events: int
    head: str
    problems: list[str] = field(default_factory=list)


def _digest(row: dict[str, Any]) -> str:
    return content_hash({k: v for k, v in row.items() if k != "hash"})


def append(
    tx: Transaction,
    *,
    kind: str,
    subject: str,
    body: dict[str, Any],
    actor: str,
    role: str,
    channel: str,
    revision: int | None = None,
    idempotency_key: str | None = None,
    at: datetime | None = None,
) -> Event:
    """Add one event at the head of the chain, within the caller's transaction."""
    last = tx.query("SELECT seq, hash FROM ledger.event ORDER BY seq DESC LIMIT 1")
    seq, prev = (last.item(0, 0) + 1, last.item(0, 1)) if last.height else (1, GENESIS)
    row: dict[str, Any] = {
        "seq": seq,
        "event_id": uuid7(),
        "happened_at": at or utcnow(),
        "kind": kind,
        "subject": subject,
        "revision": revision,
        "actor": actor,
        "role": role,
        "channel": channel,
        "idempotency_key": idempotency_key,
        "body": canonical_json({**_about.get(), **body}),
        "prev_hash": prev,
    }
    row["hash"] = _digest(row)
    schema = {c.name: c.polars for c in columns("ledger.event")}
    tx.append("ledger.event", pl.DataFrame([row], schema=schema, orient="row"))
    return Event(**row)


_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM ledger.event"


def events(
    source: Warehouse | Transaction,
    *,
    subject: str | None = None,
    kind: str | None = None,
    after_seq: int = 0,
    limit: int | None = None,
) -> list[Event]:
    """Events in order of seq, of one subject or kind where given; the first `limit` of them."""
    clauses, params = ["seq > $after"], {"after": after_seq}
    if subject is not None:
        clauses.append("subject = $subject")
        params["subject"] = subject  # type: ignore[assignment]
    if kind is not None:
        clauses.append("kind = $kind")
        params["kind"] = kind  # type: ignore[assignment]
    only = f" LIMIT {int(limit)}" if limit is not None else ""
    frame = source.query(f"{_SELECT} WHERE {' AND '.join(clauses)} ORDER BY seq{only}", params)
    return [Event(**row) for row in frame.iter_rows(named=True)]


def by_idempotency_key(source: Warehouse | Transaction, key: str) -> list[Event]:
    """The events that a command with this key has written, oldest first."""
    frame = source.query(f"{_SELECT} WHERE idempotency_key = $key ORDER BY seq", {"key": key})
    return [Event(**row) for row in frame.iter_rows(named=True)]


# the anchor -----------------------------------------------------------------------------------


def anchor_path(warehouse: Warehouse) -> Path:
    return warehouse.path.with_name(warehouse.path.name + ".head")


def begin(warehouse: Warehouse) -> None:
    """Anchor an empty ledger, so that a missing anchor beside events is always a lost one."""
    empty = not warehouse.scalar("SELECT count(*) FROM ledger.event")
    if empty and not anchor_path(warehouse).exists():
        _write_anchor(warehouse, {"seq": 0, "hash": GENESIS})


def anchor(warehouse: Warehouse) -> None:
    """Write the head of the chain beside the warehouse, atomically. Called after each commit that appended.

    An anchor that the ledger no longer contains is left as it is: moving on would hide a cut or rewritten chain.
    One that was lost is begun anew, and says from which event on it vouches.
    """
    head = warehouse.query("SELECT seq, hash FROM ledger.event ORDER BY seq DESC LIMIT 1")
    if not head.height:
        return
    path = anchor_path(warehouse)
    now: dict[str, Any] = {"seq": head.item(0, 0), "hash": head.item(0, 1)}
    if not path.exists():
        now["lost_before"] = now["seq"]
    elif not _contains(warehouse, path):
        return
    elif lost := _lost_before(path):
        now["lost_before"] = lost
    _write_anchor(warehouse, now)


def accept(warehouse: Warehouse, *, reason: str, actor: str, role: str, channel: str) -> Event:
    """Anchor the ledger as it stands, after a restore or a lost anchor, and put on record who accepted what.

    A chain that is broken in itself stays broken: accepting moves the anchor, not the events.
    """
    problems = verify(warehouse).problems
    # How many events are gone cannot be told once the ledger went on; the anchor's number is never too small.
    known = _told(anchor_path(warehouse)) if behind(warehouse) is not None else None
    lost_events = known[0] if known else 0
    with warehouse.transaction() as tx:
        event = append(
            tx,
            kind="ledger.accepted",
            subject="ledger",
            body={"reason": reason, "problems": problems, "lost": lost_events},
            actor=actor,
            role=role,
            channel=channel,
        )
    _write_anchor(warehouse, {"seq": event.seq, "hash": event.hash})
    return event


def _write_anchor(warehouse: Warehouse, told: dict[str, Any]) -> None:
    path = anchor_path(warehouse)
    temporary = path.with_name(path.name + ".tmp")
    # A full disk must not undo a committed event: the anchor then lags, which verify allows.
    with contextlib.suppress(OSError):
        temporary.write_text(json.dumps(told))
        os.replace(temporary, path)


def _lost_before(path: Path) -> int | None:
    """The event at which a lost anchor was begun anew, or None where it never was lost."""
    try:
        lost = json.loads(path.read_text()).get("lost_before")
    except (ValueError, AttributeError, OSError):
        return None
    return lost if isinstance(lost, int) else None


def _told(path: Path) -> tuple[int, str] | None:
    """(seq, hash) of the anchor file, or None where it cannot be read."""
    try:
        told = json.loads(path.read_text())
        return int(told["seq"]), str(told["hash"])
    except (ValueError, KeyError, TypeError, OSError):
        return None


def _contains(warehouse: Warehouse, path: Path) -> bool:
    told = _told(path)
    if told is None:
        return False
    if told == (0, GENESIS):
        return True
    known = warehouse.scalar("SELECT hash FROM ledger.event WHERE seq = $seq", {"seq": told[0]})
    return bool(known == told[1])


def behind(warehouse: Warehouse) -> str | None:
    """Why this ledger is not the one that its anchor knows (cut, rewritten, an old copy restored); None where it is.

    Two small reads, so that it can be asked before every command. A lost anchor is no reason: it is told by `verify`.
    """
    path = anchor_path(warehouse)
    if not path.exists() or _contains(warehouse, path):
        return None
    told = _told(path)
    if told is None:
        return f"the anchor {path.name} cannot be read"
    newest = warehouse.scalar("SELECT max(seq) FROM ledger.event") or 0
    if told[0] > newest:
        return (
            f"the anchor {path.name} knows event {told[0]}, and the ledger ends at {newest}: an old copy was restored"
        )
    return f"event {told[0]} differs from the anchor {path.name}: the chain was rewritten, or continued after a restore"


def lost(source: Warehouse | Transaction) -> int:
    """At most how many events were lost in restores that somebody accepted: as many ids may have been given away."""
    return sum(int(e.data.get("lost") or 0) for e in events(source, kind="ledger.accepted"))


def head(source: Warehouse | Transaction) -> tuple[int, str]:
    """(seq, hash) of the newest event; (0, GENESIS) of an empty ledger."""
    found = source.query("SELECT seq, hash FROM ledger.event ORDER BY seq DESC LIMIT 1")
    return (found.item(0, 0), found.item(0, 1)) if found.height else (0, GENESIS)


def against(warehouse: Warehouse, heads: Iterable[tuple[int, str]]) -> list[str]:
    """Compare with heads that were kept elsewhere; every one that the ledger does not contain becomes a sentence."""
    problems = []
    for seq, digest in heads:
        if (seq, digest) == (0, GENESIS):
            continue
        known = warehouse.scalar("SELECT hash FROM ledger.event WHERE seq = $seq", {"seq": seq})
        if known is None:
            problems.append(
                f"event {seq}, anchored elsewhere, is not in the ledger: the tail was cut, or an old copy restored"
            )
        elif known != digest:
            problems.append(f"event {seq} differs from what was anchored elsewhere: the chain was rewritten")
    return problems


def verify(warehouse: Warehouse) -> Verification:
    """Walk the chain and compare it with the anchor; every break becomes one sentence."""
    problems: list[str] = []
    prev, expected, hashes = GENESIS, 1, {0: GENESIS}
    for event in events(warehouse, after_seq=-(2**62)):
        row = asdict(event)
        if event.seq != expected:
            problems.append(f"event {event.seq} follows {expected - 1}: {_gap(event.seq, expected)}")
            expected = event.seq
        if event.prev_hash != prev:
            problems.append(f"event {event.seq} does not continue the event before it (dropped, inserted or reordered)")
        if _digest(row) != event.hash:
            problems.append(f"event {event.seq} ({event.kind} of {event.subject}) was edited after it was written")
        hashes[event.seq] = event.hash
        prev, expected = event.hash, expected + 1
    count = len(hashes) - 1
    problems += _against_anchor(warehouse, hashes)
    return Verification(ok=not problems, events=count, head=prev, problems=problems)


def _gap(seq: int, expected: int) -> str:
    return f"{seq - expected} events are missing" if seq > expected else "numbers repeat or run backwards"


def _against_anchor(warehouse: Warehouse, hashes: dict[int, str]) -> list[str]:
    path = anchor_path(warehouse)
    if not path.exists():
        return [f"the anchor {path.name} is missing although there are events"] if len(hashes) > 1 else []
    told = _told(path)
    if told is None:
        return [f"the anchor {path.name} cannot be read"]
    seq, digest = told
    if seq not in hashes:
        return [f"the anchor names event {seq}, which is not in the ledger: the tail was cut, or an old copy restored"]
    if hashes[seq] != digest:
        return [f"event {seq} differs from the anchor: the chain was rewritten"]
    if lost := _lost_before(path):
        return [
            f"the anchor was lost and begun anew at event {lost}: nothing outside the file vouches for what is older"
        ]
    return []
