"""Logging: structlog to stderr, one line per event, with anything that looks like a secret blanked."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog

_SECRET = re.compile(
    r"(?i)(bearer\s+|jbk_|(?:api[_-]?key|token|secret|password|authorization)[\"']?\s*[=:]\s*[\"']?(?:bearer\s+)?)([A-Za-z0-9._~+/=-]{6,})"
)


def redact(text: str) -> str:
    """`text` with the value of anything that looks like a secret replaced."""
    return _SECRET.sub(lambda m: f"{m[1]}[hidden]", text)


def _redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact(value)
    return event


class _RedactingFilter(logging.Filter):
    """The same for libraries that log by themselves."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = redact(record.getMessage())
        record.args = None
        return True


class _Stderr(io.TextIOBase):
    """Whatever standard error is at the time of writing; a command's stdout belongs to its answer."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send our own events to standard error, with secrets blanked."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _redacted,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # the rich one prints local variables, tokens too
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=cast("TextIO", _Stderr())),
        cache_logger_on_first_use=False,
    )


def configure_logging(level: int = logging.INFO) -> None:
    """Set up logging of a long-running process: our events, and warnings of libraries."""
    log_to_stderr(level)
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_RedactingFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # A fetch names its source in ops.run; httpx would log every URL again.
    logging.getLogger("httpx").setLevel(logging.WARNING)
