"""What every HTTP answer of the console passes: security headers, and doors of the framework that stay shut."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Streamlit draws with inline styles and evaluates its own chunks; nothing may come from, or go to, elsewhere.
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' ws: wss: data: blob:",
        "worker-src 'self' blob:",
        "frame-ancestors 'none'",
        "base-uri 'self'",
        "object-src 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}
# Open to anybody by default; ours are /api/healthz and /api/metrics.
_SHUT = ("/_stcore/metrics", "/_stcore/agent")


class SecurityHeaders:
    """Adds the headers above to every answer and keeps shut what must be shut.

    `hosts` are the names this console answers to; None: any. A page elsewhere whose name resolves to loopback
    (DNS rebinding) would otherwise read this console as if it were its own.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None = None) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self.hosts is not None and _host(scope) not in self.hosts:
            await PlainTextResponse("this console does not answer to that name", 403)(scope, receive, with_headers)
            return
        if scope["path"].startswith(_SHUT):
            await PlainTextResponse("not here", 404)(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)


def _host(scope: Scope) -> str:
    """The name of the Host header, without its port."""
    told = Headers(scope=scope).get("host", "").lower()
    name, colon, port = told.rpartition(":")
    return name if colon and port.isdigit() else told
