"""A deadline over one HTTP attempt that also ends a source which drips bytes or headers for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any


class Deadline:
    """Ends an attempt that takes too long, even while it waits for bytes, by shutting its socket down."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self.expired = False

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._socket = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """httpcore's trace hook: learns the socket once it is connected."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self.watch(info["return_value"])

    def watch(self, stream: Any) -> None:
        """Watch the socket of a network stream of httpcore, which may be one that was kept alive."""
        if stream is not None:
            with self._lock:
                self._socket = stream.get_extra_info("socket")

    def check(self) -> None:
        if self.expired or time.monotonic() >= self._end:
            self.expired = True
            raise TimeoutError("deadline")

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # closed already
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
