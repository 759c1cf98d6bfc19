"""Starting, talking to and ending one worker process of the SQL lab.

The worker gets an empty environment, an own session (so that its whole group can be killed), an own
empty working directory that is removed afterwards, and one deadline for its whole life. What it may
send back is capped. Nothing it says is trusted beyond that: a header line of JSON, then bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from warehouse.errors import SqlFailed, SqlTimeout

MAX_WORKERS = 4  # each may take up to 2.5 GB of address space and one core
MAX_HEADER_BYTES = 256_000
MAX_BODY_BYTES = 64_000_000
MEMORY_LIMIT = "512MB"
MEMORY_EXIT_CODE = 77  # worker.py ends itself with it when its memory is used up

_SCRIPT = Path(__file__).with_name("worker.py")
_slots = threading.BoundedSemaphore(MAX_WORKERS)
_TOO_BIG = "read fewer rows or columns, aggregate earlier, or avoid huge lists and texts"


class Worker:
    """A context manager around one process. Raises SqlTimeout and SqlFailed, never anything of the system."""

    def __init__(self, *, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._received = bytearray()

    def __enter__(self) -> Worker:
        if not _slots.acquire(timeout=self.timeout_s):
            raise SqlTimeout(
                f"{MAX_WORKERS} statements were already running for {self.timeout_s:g} s.",
                fix="wait for one of them to end and try again",
            )
        try:
            self._scratch = tempfile.TemporaryDirectory(prefix="joulebook-sql-", ignore_cleanup_errors=True)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-X", "utf8", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd=self._scratch.name,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._end()
            raise SqlFailed(
                f"The SQL worker could not be started ({error.strerror or type(error).__name__}).",
                fix="free memory, disk space or processes and try again",
            ) from None
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def exchange(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Send one request and wait for its reply: the header, and the bytes that it announces."""
        full = {
            **request,
            "timeout_s": self.timeout_s,
            "cpu_s": math.ceil(self.timeout_s) + 1,
            "memory_limit": MEMORY_LIMIT,
            "memory_exit_code": MEMORY_EXIT_CODE,
            "max_bytes": MAX_BODY_BYTES,
        }
        self._send(json.dumps(full).encode() + b"\n")
        while (newline := self._received.find(b"\n")) < 0:
            self._receive()
            if len(self._received) > MAX_HEADER_BYTES and b"\n" not in self._received:
                raise self._babble()
        try:
            header = json.loads(self._received[:newline])
            size_bytes = int(header["bytes"])
            str(header["status"])
        except (ValueError, KeyError, TypeError):
            raise self._babble() from None
        if not 0 <= size_bytes <= MAX_BODY_BYTES:
            raise self._babble()
        del self._received[: newline + 1]
        while len(self._received) < size_bytes:
            self._receive()
        body = bytes(self._received[:size_bytes])
        del self._received[:size_bytes]
        return header, body

    def _send(self, data: bytes) -> None:
        pipe = cast(IO[bytes], cast("subprocess.Popen[bytes]", self._process).stdin)
        os.set_blocking(pipe.fileno(), False)
        left = memoryview(data)
        while left:
            self._wait(pipe, selectors.EVENT_WRITE)
            try:
                left = left[os.write(pipe.fileno(), left) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._death() from None

    def _receive(self) -> None:
        pipe = cast(IO[bytes], cast("subprocess.Popen[bytes]", self._process).stdout)
        self._wait(pipe, selectors.EVENT_READ)
        chunk = os.read(pipe.fileno(), 1 << 20)
        if not chunk:
            raise self._death()
        self._received += chunk

    def _wait(self, pipe: IO[bytes], event: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not selector.select(max(0.0, self._deadline - time.monotonic())):
                raise SqlTimeout(
                    f"The statement did not finish within {self.timeout_s:g} s and was stopped.",
                    fix="read fewer rows, filter earlier or allow more time",
                )

    def _death(self) -> SqlFailed | SqlTimeout:
        """Why the process ended before its reply, in words."""
        process = cast("subprocess.Popen[bytes]", self._process)
        try:
            code = process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return self._babble()
        if code in (MEMORY_EXIT_CODE, -signal.SIGKILL):
            return SqlFailed("The statement needed more memory than allowed and was stopped.", fix=_TOO_BIG)
        if code == -signal.SIGXCPU:
            return SqlTimeout("The statement used more CPU time than allowed and was stopped.", fix=_TOO_BIG)
        return SqlFailed(
            f"The statement ended its worker process (code {code}). Nothing else was harmed.", fix=_TOO_BIG
        )

    @staticmethod
    def _babble() -> SqlFailed:
        return SqlFailed("The SQL worker sent a reply that could not be understood.", fix="try a simpler statement")

    def _end(self) -> None:
        """Kill the process group, whatever state it is in, and remove its directory."""
        try:
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    if pipe is not None:
                        pipe.close()
            if self._scratch is not None:
                self._scratch.cleanup()
        finally:
            self._process = None
            self._scratch = None
            _slots.release()
