"""Policy errors as the errors of the desk, so that operations raise nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import AppError, BadRequest, Conflict, PreconditionRequired
from policies.errors import PolicyError
from policies.recommend.errors import KeyReused, NotAllowed, RevisionMissing, RevisionStale


def as_desk_error(error: PolicyError) -> AppError:
    """The AppError that stands for a policy error."""
    if isinstance(error, RevisionMissing):
        return PreconditionRequired(error.message, fix=error.fix)
    if isinstance(error, RevisionStale | KeyReused | NotAllowed):
        return Conflict(error.message, fix=error.fix)
    return BadRequest(error.message, fix=error.fix)


@contextmanager
def policy_errors() -> Iterator[None]:
    """Within it a PolicyError leaves as an AppError."""
    try:
        yield
    except PolicyError as error:
        raise as_desk_error(error) from error
