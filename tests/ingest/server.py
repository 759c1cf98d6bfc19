"""A real HTTP server on 127.0.0.1 whose answers, faults included, are scripted per request."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Gives the script's answers in order, the last one for ever."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.requests.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
            n = min(len(self.server.requests), len(self.server.script))
        self.close_connection = True
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client gave up: what some tests want
            self.server.script[n - 1](self)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the server lives."""
        self.server.closing.wait(seconds)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, script: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.requests: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/models"


@contextlib.contextmanager
def serving(*script: Answer) -> Iterator[Server]:
    server = Server(list(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def answer(status: int = 200, body: bytes = b'{"data": []}', *, length: int | None = None, **headers: str) -> Answer:
    """A plain answer; `length` is a Content-Length that lies."""

    def give(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        if status != 304:
            handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return give


def silence(seconds: float = 30) -> Answer:
    """Takes the request and says nothing."""
    return lambda handler: handler.pause(seconds)


def drip(*, headers_too: bool = False, every_s: float = 0.05, n: int = 2000) -> Answer:
    """Sends a byte now and then, always in time for a read time-out, never to the end."""

    def give(handler: Handler) -> None:
        start = b"HTTP/1.1 200 OK\r\n" + (b"X-Slow: " if headers_too else b"Content-Length: 9999\r\n\r\n")
        handler.wfile.write(start)
        until = time.monotonic() + every_s * n
        while time.monotonic() < until and not handler.server.closing.is_set():
            handler.wfile.write(b" " if not headers_too else b"x")
            handler.wfile.flush()
            handler.pause(every_s)

    return give


def endless(chunk: bytes = b"x" * 65536) -> Answer:
    """A body without a length that does not end."""

    def give(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not handler.server.closing.is_set():
            handler.wfile.write(chunk)

    return give


def hang_up() -> Answer:
    """Closes the connection without an answer."""
    return lambda handler: None
