"""A real HTTP server on 127.0.0.1 that answers POSTs as scripted and keeps what it got."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.got.append(Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            script = self.server.script
            status = script[min(len(self.server.got), len(script)) - 1]
        if status == 0:
            self.server.closing.wait(20)  # takes the request and says nothing
            return
        self.send_response(status)
        if status in (301, 307):
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, script: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.got: list[Got] = []
        self.lock = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook/path-secret-5521"


@contextlib.contextmanager
def receiving(*script: int) -> Iterator[Receiver]:
    """Statuses in order, the last one for ever; 0: no answer."""
    server = Receiver(list(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
