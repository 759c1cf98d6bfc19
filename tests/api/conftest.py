"""The API over a small desk, mounted under /api, with one token per scope."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from app.api import create_api
from app.desk import Desk
from tests.api.asgi import AsgiClient, mounted
from tests.recommend.desks import OPERATOR, Driver, make_desk

SECRET = "the-secret-of-this-start"


@dataclass
class Api:
    desk: Desk
    driver: Driver
    app: Any
    tokens: dict[str, str]

    def as_(self, scope: str | None) -> AsgiClient:
        """A client with the token of a scope; None: without any."""
        return AsgiClient(self.app, self.tokens[scope] if scope else None)


@pytest.fixture
def desk(own_home: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Nothing is proposed, unless the test asks for the `api`."""
    proposed = "api" in request.fixturenames
    made = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n", proposed=proposed)
    yield made
    made.close()


@pytest.fixture
def api(desk: Desk) -> Api:
    """R-0001 is proposed."""
    driver = Driver(desk)
    tokens = {
        scope: driver.call("token.create", {"name": scope, "scopes": [scope]}, OPERATOR)["token"]
        for scope in ("read", "downstream", "operator")
    }
    return Api(desk, driver, mounted(create_api(lambda: desk, lambda: SECRET)), tokens)


@pytest.fixture
def url(api: Api) -> Iterator[str]:
    """The API on a port of its own."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(api.app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    listening.close()
    assert not thread.is_alive()


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
