"""What every request passes before a route sees it: size, origin, who asks; and no traceback ever leaves.

A plain ASGI layer, because FastAPI would parse a body before it asks for a token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.auth import authenticate
from app.desk import Desk, local_downstream, local_operator
from app.errors import AppError, Forbidden, Unauthenticated
from app.operations import Actor, as_app_error
from app.operations.auditing import address_class, stranger
from warehouse.errors import WarehouseError

MAX_BODY_BYTES = 1024 * 1024
_OPEN = ("/healthz", "/metrics", "/v1/openapi.json", "/v1/docs")
_SAFE = ("GET", "HEAD", "OPTIONS")
TARGET_HEADER = "X-Joulebook-Target"  # the reference downstream of the same user names itself
SECRET_HEADER = "X-Joulebook-Secret"  # noqa: S105


class Guard:
    """Puts the actor into `scope["state"]["actor"]`, or answers with a problem document itself."""

    def __init__(self, app: ASGIApp, *, get_desk: Callable[[], Desk], get_secret: Callable[[], str | None]) -> None:
        self.app = app
        self.get_desk, self.get_secret = get_desk, get_secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path, started = scope["path"], False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            response = await self._refusal(scope)
            if response is None:
                body = await _body(Headers(scope=scope), receive)
                if body is None:
                    response = problems.respond(
                        problems.document(
                            413,
                            f"The body is larger than {MAX_BODY_BYTES} bytes.",
                            path=path,
                            fix="send less; import large files with `joulebook import`",
                        )
                    )
                else:
                    await self.app(scope, _replay(body, receive), sending)
                    return
            await response(scope, receive, send)
        except Exception as error:  # whatever it is, a caller gets a problem document and no traceback
            if started:
                raise
            await problems.of_unexpected(error, path)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        """A problem document for a request that may not pass; None lets it through with its actor set."""
        headers = Headers(scope=scope)
        root = scope.get("root_path", "")
        full: str = scope["path"]
        path = full[len(root) :] if root and full.startswith(root) else full
        client = scope.get("client")
        source = address_class(client[0] if client else None)
        try:
            _same_site(scope["method"], headers)
            if path not in _OPEN:
                actor = await to_thread.run_sync(self._actor, path, headers, source)
                scope.setdefault("state", {})["actor"] = actor
        except Unauthenticated as error:
            if scope["method"] not in _SAFE:
                await to_thread.run_sync(self._stranger, source, error.message)
            return problems.of_app_error(error, full)
        except AppError as error:
            return problems.of_app_error(error, full)
        except WarehouseError as error:
            return problems.of_app_error(as_app_error(error), full)
        return None

    def _stranger(self, source: str, reason: str) -> None:
        desk = self.get_desk()
        if desk.usable:
            stranger(desk, source, reason)

    def _actor(self, path: str, headers: Headers, source: str) -> Actor:
        if path.startswith("/internal/"):
            secret, told = self.get_secret(), headers.get(SECRET_HEADER, "")
            if not secret or not hmac.compare_digest(secret.encode(), told.encode()):
                raise Unauthenticated("This door is for the command line of the same user.", fix="use /api/v1")
            if headers.get("origin"):
                raise Forbidden("This door is not for browsers.", fix="use /api/v1")
            target = headers.get(TARGET_HEADER)
            return local_downstream(target) if target else local_operator("cli")
        return authenticate(self.get_desk(), headers.get("authorization"), source)


def _same_site(method: str, headers: Headers) -> None:
    """Refuse a write that a page of another site makes a browser send."""
    origin = headers.get("origin")
    if origin is None or method in _SAFE:
        return
    if urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise Forbidden(
            f"A page of {origin[:200]} may not send commands here.", fix="call the API from a program, with a token"
        )


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body; None where it is larger than allowed, told before or found while reading."""
    told = headers.get("content-length", "")
    if told.isdigit() and int(told) > MAX_BODY_BYTES:
        return None
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    done = False

    async def replay() -> Message:
        nonlocal done
        if not done:
            done = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
