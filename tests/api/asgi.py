"""Calling an ASGI application as a client would, in this process and without a port."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount


def mounted(api: FastAPI) -> Starlette:
    """The API where the console has it: under /api, its lifespan never run."""
    return Starlette(routes=[Mount("/api", app=api)])


class AsgiClient:
    """Synchronous requests to an ASGI application; errors that escape it are raised."""

    def __init__(self, app: Any, token: str | None = None, **headers: str) -> None:
        self._app = app
        self._headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **headers}

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self._headers, **options.pop("headers", {})}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8501") as client:
                return await client.request(method, path, headers=headers, **options)

        return asyncio.run(send())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)
