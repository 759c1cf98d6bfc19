"""/v1/docs: the API in one small page of our own, without scripts or anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>joulebook API</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}}
code{{font-family:ui-monospace,monospace}}td{{padding:.3rem .8rem .3rem 0;vertical-align:top}}</style></head><body>
<h1>joulebook API {version}</h1>
<p>Bearer tokens: <code>joulebook token create NAME --scope read</code>. Errors are problem documents (RFC 9457).
Commands carry <code>If-Match</code> (the revision that was read) and <code>Idempotency-Key</code>.
Machine-readable: <a href="openapi.json"><code>openapi.json</code></a>.</p>
<table>{rows}</table></body></html>"""


@router.get("/v1/docs")
def docs(request: Request) -> HTMLResponse:
    """One line per route, from the OpenAPI document."""
    schema: dict[str, Any] = request.app.openapi()
    rows = "".join(
        f"<tr><td><code>{escape(method.upper())}</code></td><td><code>/api{escape(path)}</code></td>"
        f"<td>{escape(told.get('description') or told.get('summary', ''))}</td></tr>"
        for path, methods in schema["paths"].items()
        for method, told in methods.items()
    )
    return HTMLResponse(
        _PAGE.format(version=escape(schema["info"]["version"]), rows=rows),
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )
