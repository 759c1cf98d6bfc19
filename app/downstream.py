"""The reference downstream: collect, acknowledge, write the routing table file atomically, report back.

Safe to kill anywhere. The file is replaced whole or not at all; what was not reported is collected again;
idempotency keys follow from what is reported, so a repeated report is the same report.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
import structlog

from app.downstream_table import TableNotWritten, TableRefused, changed_table, check_command, read_table, write_table
from app.errors import BadRequest, Conflict, ConsoleUnreachable, Forbidden, NotFound, Unauthenticated
from warehouse.ids import content_hash

log = structlog.get_logger("joulebook.downstream")

_TIMEOUT = httpx.Timeout(10.0, connect=5.0)  # the API may wait seconds behind a busy console
_TRIES = 4
_FIRST_WAIT_S = 0.5
_ERRORS: dict[int, type[BadRequest | Conflict | Forbidden | NotFound | Unauthenticated]] = {
    400: BadRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: BadRequest,
    428: BadRequest,
}


@dataclass
class Done:
    """What a downstream has carried out. `refused`: reported as rejected; `overtaken`: decided anew meanwhile."""

    applied: int = 0
    rolled_back: int = 0
    refused: int = 0
    overtaken: int = 0
    told: set[tuple[str, str, str]] = field(default_factory=set)  # refusals that were counted and logged

    def to_dict(self) -> dict[str, int]:
        return {k: v for k, v in asdict(self).items() if k != "told"}


class Door(Protocol):
    """The console as one target sees it. Both raise AppError."""

    target: str

    def collect(self) -> list[dict[str, Any]]: ...
    def report(self, command: Mapping[str, Any], step: str, **body: Any) -> dict[str, Any]:
        """`step` is acknowledge, actuate or rolled_back."""
        ...


def run(
    base_url: str,
    token: str,
    apply_to: Path,
    target: str = "router",
    once: bool = False,
    poll_s: float = 2.0,
    stop_event: threading.Event | None = None,
) -> Done:
    """Keep `apply_to` in step with what is approved at `base_url` (without /api), until `stop_event`, or once."""
    stop = stop_event or threading.Event()
    with httpx.Client(base_url=base_url, timeout=_TIMEOUT, trust_env=False) as http:
        return follow(HttpDoor(http, token, target, stop), apply_to, once=once, poll_s=poll_s, stop_event=stop)


def follow(
    door: Door, apply_to: Path, *, once: bool = False, poll_s: float = 2.0, stop_event: threading.Event | None = None
) -> Done:
    """The same through any door.

    Raises Unauthenticated or Forbidden for a wrong token. A console that does not answer or hands nothing out (its
    ledger was restored and nobody has looked at it), and a file that cannot be written, raise with `once`; without it
    they are logged and tried again.
    """
    stop, done, path = stop_event or threading.Event(), Done(), apply_to.resolve()
    while not stop.is_set():
        try:
            for command in door.collect():
                carry_out(door, command, path, done)
        except (ConsoleUnreachable, TableNotWritten, Conflict) as error:
            if once:
                raise
            log.warning("tried again later", reason=error.message)
        if once:
            break
        stop.wait(poll_s)
    return done


def carry_out(door: Door, command: Mapping[str, Any], path: Path, done: Done) -> None:
    """One command, from acknowledgement to report. Every step may be repeated after a crash."""
    rec_id, kind = command["id"], command["kind"]
    try:
        try:
            check_command(command)
            changed = changed_table(read_table(path), command)
        except TableRefused as refusal:
            door.report(command, "acknowledge", rejection=str(refusal))
            seen = (rec_id, kind, str(refusal))
            if seen not in done.told:
                done.told.add(seen)
                done.refused += 1
                log.warning("refused", recommendation=rec_id, command=kind, reason=str(refusal))
            return
        if not _acknowledged(command, door.target):
            door.report(command, "acknowledge")
        if changed is not None:
            write_table(path, changed)
        detail = f"sha256 of the table: {content_hash(read_table(path) or {})}"
        door.report(command, "actuate" if kind == "apply" else "rolled_back", detail=detail)
        done.applied += kind == "apply"
        done.rolled_back += kind == "rollback"
        log.info("carried out", recommendation=rec_id, command=kind)
    except Conflict as conflict:
        # Somebody decided anew while this was carried out; the next poll brings what holds now.
        done.overtaken += 1
        log.info("overtaken", recommendation=rec_id, command=kind, reason=conflict.message)


def _acknowledged(command: Mapping[str, Any], target: str) -> bool:
    """Whether this command was acknowledged before: a restart in the middle need not report it twice."""
    mine: Mapping[str, Any] = next((t for t in command["targets"] if t["target"] == target), {})
    stamp = "acknowledged_at" if command["kind"] == "apply" else "rollback_acknowledged_at"
    return mine.get(stamp) is not None


# the doors ----------------------------------------------------------------------------------------------


def _report(command: Mapping[str, Any], step: str, target: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """One report. Its key follows from what is reported, so a replay is recognised as such."""
    revision = command["decision_revision"]
    if "rejection" not in body:  # what is carried out is said, not implied
        body = {**body, "content_hash": command["content_hash"]}
    digest = content_hash({"target": target, **body})[:24]
    return {
        "target": target,
        "revision": revision,
        "idempotency_key": f"{command['id']}/{revision}/{step}/{digest}",
        **body,
    }


class OperationDoor:
    """The desk itself, by its operations: for a downstream on the machine of the console."""

    def __init__(self, call: Callable[[str, dict[str, Any]], dict[str, Any]], target: str = "router") -> None:
        self._call, self.target = call, target

    def collect(self) -> list[dict[str, Any]]:
        commands: list[dict[str, Any]] = self._call("recommend.collect", {"target": self.target})["commands"]
        return commands

    def report(self, command: Mapping[str, Any], step: str, **body: Any) -> dict[str, Any]:
        return self._call(f"recommend.{step}", {"id": command["id"], **_report(command, step, self.target, body)})


class HttpDoor:
    """The console's API with a bearer token: retries, and problem documents as errors."""

    def __init__(self, http: httpx.Client, token: str, target: str, stop: threading.Event) -> None:
        self._http, self._stop, self.target = http, stop, target
        self._headers = {"Authorization": f"Bearer {token}"}

    def collect(self) -> list[dict[str, Any]]:
        commands: list[dict[str, Any]] = self._post("/api/v1/downstream/collect", {"target": self.target})["commands"]
        return commands

    def report(self, command: Mapping[str, Any], step: str, **body: Any) -> dict[str, Any]:
        path = f"/api/v1/recommendations/{command['id']}/{step.replace('_', '-')}"
        return self._post(path, _report(command, step, self.target, body))

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        wait, last = _FIRST_WAIT_S, "no answer"
        for attempt in range(_TRIES):
            if attempt:
                self._stop.wait(wait)
                wait *= 2
            try:
                answer = self._http.post(path, json=dict(body), headers=self._headers)
                told = answer.json()
            except (httpx.HTTPError, ValueError) as error:
                last = type(error).__name__
                continue
            if answer.status_code == 200:
                result: dict[str, Any] = told
                return result
            last = str(told.get("detail") or answer.status_code)
            if answer.status_code in _ERRORS:
                raise _ERRORS[answer.status_code](last, fix=str(told.get("fix") or ""))
        raise ConsoleUnreachable(
            f"The console did not take {path}: {last}.", fix="see whether it runs; what was not reported is repeated"
        )
