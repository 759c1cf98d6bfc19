"""The one process: pages, API, scheduler, sampler and the only read-write warehouse.

`st.App` runs our lifespan; the lifespan of a mounted FastAPI app would not run, so everything that
starts and stops does so here. Run by `joulebook up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import structlog
from starlette.middleware import Middleware
from starlette.routing import Mount
from streamlit.starlette import App

from app import desk as desks
from app import runtime
from app.api import create_api
from app.client import answers
from app.delivery import start_couriers
from app.desk import Desk, open_desk
from app.errors import AppError, ConfigError, Unavailable
from app.logs import configure_logging
from app.operations import SYSTEM, call
from app.operations.sampling import sample_is_half_loaded
from app.power import start_power
from app.scheduler import Jobs
from app.secret_store import secrets_file, sign_in_configured
from app.settings import Settings, config_path
from app.web import SecurityHeaders
from warehouse.errors import WarehouseError

_HERE = Path(__file__).parent
_RETRY_S = 3.0
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
log = structlog.get_logger("joulebook")


def create_app(settings: Settings) -> App:
    """The ASGI application for `settings`; the desk opens in its lifespan."""
    secret = runtime.new_secret()

    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[dict[str, Any]]:
        desk = open_desk(settings, tolerate_failure=True)
        desks.set_current(desk)
        recovering: asyncio.Task[None] | None = None
        if desk.usable:
            _start(desk)
            _publish(settings, secret, desk)
        else:
            assert desk.problem is not None
            log.error("the warehouse cannot be used", reason=desk.problem.message, fix=desk.problem.fix)
            recovering = asyncio.create_task(_recover(settings, secret))
        try:
            yield {}
        finally:
            if recovering is not None:
                recovering.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await recovering
            runtime.withdraw(settings)
            last = desks.current()
            desks.set_current(None)
            last.close()

    api = create_api(desks.current, lambda: secret)
    return App(
        str(_HERE / "main.py"),
        lifespan=lifespan,
        routes=[Mount("/api", app=api)],
        middleware=[Middleware(SecurityHeaders, hosts=_hosts(settings))],
        secrets=secrets_file(settings) or None,
    )


async def _recover(settings: Settings, secret: str) -> None:
    """A file that was locked, or is put back, becomes usable without a restart: a command may only have been busy.

    Until then nothing is published: the runtime file belongs to the process that holds the warehouse.
    """
    while True:
        await asyncio.sleep(_RETRY_S)
        desk = await asyncio.to_thread(open_desk, settings, tolerate_failure=True)
        if desk.usable:
            log.info("the warehouse can be used again")
            desks.set_current(desk)  # before it starts: whoever stops the process closes the current one
            await asyncio.to_thread(_start, desk)
            _publish(settings, secret, desk)
            return
        desks.set_current(desk)  # its problem may be another one by now


def _start(desk: Desk) -> None:
    """Sample data on a first start, then sampler and scheduler. None of them may keep the console down."""
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("sample data", lambda: _load_sample_when_new(desk)),
        ("power sampler", lambda: start_power(desk)),
    ]
    for what, step in steps:
        try:
            step()
        except (AppError, WarehouseError) as error:
            log.error(f"{what} could not start", reason=error.message, fix=error.fix)
    desk.couriers = start_couriers(desk)
    desk.jobs = Jobs(desk)
    desk.jobs.start()


def _load_sample_when_new(desk: Desk) -> None:
    """An empty warehouse without configuration gets the sample, so that there is something to see."""
    wanted = desk.settings.sample.load_when_empty
    if wanted is None:
        wanted = not config_path(desk.settings.home).exists()
    ledger_or_runs = desk.warehouse.scalar(
        "SELECT (SELECT count(*) FROM ops.run) + (SELECT count(*) FROM ledger.event)"
    )
    if wanted and (ledger_or_runs == 0 or sample_is_half_loaded(desk)):
        call(desk, "sample.load", {}, SYSTEM)


def _hosts(settings: Settings) -> frozenset[str] | None:
    """The names a console on loopback answers to; beyond it the operator's proxy decides."""
    return frozenset({"localhost", "127.0.0.1", "[::1]"}) if settings.server.address in _LOOPBACK else None


def _publish(settings: Settings, secret: str, desk: Desk) -> None:
    try:
        runtime.publish(
            settings,
            runtime.Runtime(
                pid=os.getpid(),
                address=settings.server.address if settings.server.address not in {"0.0.0.0", "::"} else "127.0.0.1",  # noqa: S104
                port=settings.server.port,
                secret=secret,
                started_at=desk.started_at.isoformat() + "Z",
                version=metadata.version("joulebook"),
            ),
        )
    except OSError as error:
        log.error("the runtime file could not be written: commands will not find this console", reason=error.strerror)


def check_address(settings: Settings) -> None:
    """Refuse to listen beyond loopback while anyone who can connect would be the operator."""
    if settings.server.address not in _LOOPBACK and not sign_in_configured(settings):
        raise ConfigError(
            f"joulebook does not listen on {settings.server.address} without sign-in: everyone who reaches it would be "
            "the operator.",
            fix="configure [auth] in .streamlit/secrets.toml and an operator under [auth.roles] in joulebook.toml "
            "(docs/operations.md), or listen on 127.0.0.1",
        )


def check_free(settings: Settings) -> None:
    """Refuse to start beside a console of the same home, or on a port that is taken. Raises Unavailable."""
    found = runtime.read(settings)
    if found is not None and runtime.is_alive(found) and answers(found):
        raise Unavailable(
            f"A console of {settings.home} runs already, at {found.base_url} (process {found.pid}).",
            fix="open it there, stop it first, or set JOULEBOOK_HOME to another folder",
        )
    address, port = settings.server.address, settings.server.port
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise Unavailable(
                f"joulebook cannot listen on {address}:{port}: {error.strerror}.",
                fix="set JOULEBOOK_PORT to a free port, or stop what listens there",
            ) from error


def streamlit_config(settings: Settings) -> dict[str, Any]:
    """The settings of `.streamlit/config.toml` next to the code, flattened, with address and port laid over."""
    flat: dict[str, Any] = {}

    def flatten(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                flatten(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat[prefix] = value

    shipped = _HERE.parent / ".streamlit" / "config.toml"
    if shipped.exists():
        flatten("", tomllib.loads(shipped.read_text()))
    address, port = settings.server.address, settings.server.port
    flat |= {"server.address": address, "server.port": port}
    hosts = _hosts(settings)
    if hosts is not None:
        flat["server.allowedHosts"] = sorted(hosts)  # the websocket's own check
    return flat


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError for an address that sign-in does not guard."""
    check_address(settings)
    configure_logging()
    create_app(settings).run(config=streamlit_config(settings))
