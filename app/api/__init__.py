"""The HTTP API, mounted at /api by `app.asgi`. Its lifespan never runs there, so it has none."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from fastapi import FastAPI

from app.api import alerts, docs, fleet, health, internal, problems, recommendations, replay, routing, shadow
from app.api.guard import Guard
from app.desk import Desk


def create_api(get_desk: Callable[[], Desk], get_secret: Callable[[], str | None] = lambda: None) -> FastAPI:
    """The API over `get_desk()`, which may raise AppError while there is no desk.

    `get_secret()` is the per-start secret of the private door; without one that door stays shut.
    """
    api = FastAPI(
        title="joulebook",
        version=metadata.version("joulebook"),
        description="Energy-aware routing: read recommendations, decide, carry out, report back.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )
    api.state.get_desk = get_desk
    for module in (health, recommendations, routing, shadow, replay, fleet, alerts, internal, docs):
        api.include_router(module.router)
    problems.install(api)
    api.add_middleware(Guard, get_desk=get_desk, get_secret=get_secret)
    return api
