"""What can go wrong between a person or machine and the desk; each becomes a problem document or an exit code.

AppError                    status  exit
├── BadRequest               422     2    the words of a call are off
│   └── ConfigError          500     2    joulebook.toml or a secret is wrong
├── NotFound                 404     1
├── Unauthenticated          401     1
├── Forbidden                403     1    the role or scope does not allow it
├── Conflict                 409     1    a stale revision, or a state that forbids the command
├── PreconditionRequired     428     1    a command without the revision it saw
├── Unavailable              503     1    the warehouse is locked, corrupt or full
├── ConsoleUnreachable       503     1    a console is running but does not answer
└── DeliveryFailed           503     1    a broker or webhook did not take an alert
"""

from __future__ import annotations

from pydantic import ValidationError


class AppError(Exception):
    status = 500
    exit_code = 1

    def __init__(self, message: str, *, fix: str = "", **extra: object) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.message} Fix: {self.fix}" if self.fix else self.message


class BadRequest(AppError):
    status = 422
    exit_code = 2


class ConfigError(BadRequest):
    status = 500


class NotFound(AppError):
    status = 404


class Unauthenticated(AppError):
    status = 401


class Forbidden(AppError):
    status = 403


class Conflict(AppError):
    status = 409


class PreconditionRequired(AppError):
    status = 428


class Unavailable(AppError):
    status = 503


class ConsoleUnreachable(Unavailable):
    pass


class DeliveryFailed(Unavailable):
    """`transient`: trying the very same later may help."""

    def __init__(self, message: str, *, fix: str = "", transient: bool = True) -> None:
        super().__init__(message, fix=fix)
        self.transient = transient


# Mistakes that are told with the value that was given: a choice, a number, a name of a given shape.
_WITH_VALUE = (
    "enum",
    "literal_error",
    "string_pattern_mismatch",
    "greater_than",
    "less_than",
    "int_",
    "float_",
    "bool_",
)
_LONGEST_VALUE = 60


def sentences(error: ValidationError, *, values: bool = False) -> str:
    """A pydantic error in words: one `field: what` per mistake.

    values: with what was given where it is short and plain. Without it no value is echoed, because it may be a secret.
    """
    return "; ".join(
        f"{'.'.join(str(p) for p in item['loc']) or 'parameters'}: {_what(item['type'], item['msg'])}"
        + (_given(item["type"], item["input"]) if values else "")
        for item in error.errors()
    )


def _given(kind: str, value: object) -> str:
    plain = isinstance(value, (str, int, float)) and len(str(value)) <= _LONGEST_VALUE
    return f", not {value!r}" if plain and kind.startswith(_WITH_VALUE) else ""


def _what(kind: str, message: str) -> str:
    if kind.startswith(("datetime", "timezone")):
        lacks = "has no timezone" if kind == "timezone_aware" else "is no time"
        return f"{lacks}; give ISO 8601 with its zone, such as 2026-11-29T12:00Z"
    return message.removeprefix("Value error, ")
