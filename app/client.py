"""How a command reaches the desk: through the running console of its home, or by opening the warehouse itself.

Both ways run the same operation, so results, audit trail and errors are the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from app import runtime
from app.errors import (
    AppError,
    BadRequest,
    Conflict,
    ConsoleUnreachable,
    Forbidden,
    NotFound,
    PreconditionRequired,
    Unauthenticated,
    Unavailable,
)
from app.runtime import Runtime
from app.settings import Settings, load_settings

if TYPE_CHECKING:
    from app.desk import Desk  # and what reads the warehouse: imported only where no console answers

_BY_STATUS: dict[int, type[AppError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: BadRequest,
    428: PreconditionRequired,
    503: Unavailable,
}
_TIMEOUT = httpx.Timeout(600.0, connect=5.0)  # an import of a large file takes as long as it takes
_LOCK_WAIT_S = 5.0


class Client:
    """Use as a context manager; holds the warehouse only while no console does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._desk: Desk | None = None
        self._remote: Runtime | None = None

    def __enter__(self) -> Client:
        found = runtime.read(self.settings)
        if found is not None and runtime.is_alive(found) and answers(found):
            self._remote = found
        else:
            self._desk = _open_waiting(self.settings, found)
        return self

    def __exit__(self, *_: object) -> None:
        if self._desk is not None:
            self._desk.close()
            self._desk = None

    @property
    def console(self) -> Runtime | None:
        """The running console, where there is one."""
        return self._remote

    def call(self, name: str, params: Mapping[str, Any] | None = None, *, target: str | None = None) -> dict[str, Any]:
        """Run an operation as the local operator, or as the downstream `target`. Raises AppError."""
        given = {k: v for k, v in (params or {}).items() if v is not None}
        if self._desk is not None:
            from app.desk import local_downstream, local_operator
            from app.operations import call

            return call(self._desk, name, given, local_downstream(target) if target else local_operator("cli"))
        assert self._remote is not None
        return _post(self._remote, name, given, target)


def ask(name: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer of the operation `name`, of the running console or of the warehouse itself. Raises AppError."""
    with Client(load_settings()) as client:
        return client.call(name, params)


def answers(found: Runtime) -> bool:
    """Whether the console of the runtime file answers to its secret; a recycled pid or port does not."""
    try:
        answer = httpx.post(
            f"{found.base_url}/api/internal/call/ping",
            json={},
            headers={"X-Joulebook-Secret": found.secret},
            timeout=5.0,
            trust_env=False,
        )
    except httpx.HTTPError:
        return False
    return answer.status_code == 200


def _open_waiting(settings: Settings, found: Runtime | None) -> Desk:
    """Another command may hold the file for a moment; a console that does not answer holds it for good."""
    from app.desk import open_desk

    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            return open_desk(settings)
        except Unavailable as error:
            if " is in use by " not in error.message or time.monotonic() > deadline:
                if found is not None and runtime.is_alive(found):
                    raise ConsoleUnreachable(
                        f"The console at {found.base_url} (process {found.pid}) holds the warehouse "
                        "but does not answer.",
                        fix="look at its log, or stop it and try again",
                    ) from error
                raise
            time.sleep(0.1)


def _post(found: Runtime, name: str, params: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    headers = {"X-Joulebook-Secret": found.secret, **({"X-Joulebook-Target": target} if target else {})}
    try:
        answer = httpx.post(
            f"{found.base_url}/api/internal/call/{name}",
            json=dict(params),
            headers=headers,
            timeout=_TIMEOUT,
            trust_env=False,
        )
        told = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ConsoleUnreachable(
            f"The console at {found.base_url} did not answer: {type(error).__name__}.",
            fix="see whether it is still running, then try again; commands are safe to repeat",
        ) from error
    if answer.status_code == 200:
        result: dict[str, Any] = told
        return result
    kind = _BY_STATUS.get(answer.status_code, AppError)
    raise kind(str(told.get("detail") or told.get("title") or "the console refused"), fix=str(told.get("fix") or ""))
