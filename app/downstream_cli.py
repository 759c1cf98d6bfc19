"""`joulebook downstream`: the reference downstream, through the console of this home or one elsewhere."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.client import Client
from app.downstream import Done, OperationDoor, follow, run
from app.errors import BadRequest
from app.logs import configure_logging
from app.settings import Settings, load_settings

TOKEN_VARIABLE = "JOULEBOOK_SECRET_DOWNSTREAM_TOKEN"  # noqa: S105


def keep_in_step(apply_to: Path, *, target: str, url: str | None, once: bool, poll_s: float) -> dict[str, Any]:
    """Follow the desk until SIGTERM or SIGINT, or once; what was done, as counts. Raises AppError."""
    _check(apply_to, url)
    configure_logging()
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
    if url is None:
        settings = load_settings()
        door = OperationDoor(lambda name, params: _call(settings, name, params, target), target)
        return _told(follow(door, apply_to, once=once, poll_s=poll_s, stop_event=stop))
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise BadRequest(
            "A console elsewhere needs an API token.",
            fix=f"make one there with `joulebook token create NAME --scope downstream --target {target}` and set "
            f"{TOKEN_VARIABLE}",
        )
    return _told(run(url, token, apply_to, target=target, once=once, poll_s=poll_s, stop_event=stop))


def _check(apply_to: Path, url: str | None) -> None:
    """Refuse at once what no later poll could mend."""
    if apply_to.is_dir():
        raise BadRequest(f"{apply_to} is a folder.", fix="name the routing table file in it")
    try:
        told = urlsplit(url) if url is not None else None
        if told is not None and (told.scheme not in ("http", "https") or not told.hostname or told.port == 0):
            raise ValueError
    except ValueError:
        raise BadRequest(f"{url!r} is no address of a console.", fix="give http://HOST:PORT or https://HOST") from None


def _call(settings: Settings, name: str, params: dict[str, Any], target: str) -> dict[str, Any]:
    """Each call finds the desk anew, so that a console may start or stop between two polls."""
    with Client(settings) as client:
        return client.call(name, params, target=target)


def _told(done: Done) -> dict[str, Any]:
    return done.to_dict()
