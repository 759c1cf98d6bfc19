"""What routes share: the desk, the actor, and calling an operation with the revision and key of a request."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPBearer

from app.desk import Desk
from app.errors import BadRequest, PreconditionRequired
from app.operations import Actor, call

# Only for the OpenAPI document: app/api/guard.py has authenticated before any route runs.
BEARER = Security(HTTPBearer(auto_error=False, description="A token made with `joulebook token create`."))


class Caller:
    """The actor of this request and the desk it acts on."""

    def __init__(self, request: Request) -> None:
        self.actor: Actor = request.state.actor
        self.desk: Desk = request.app.state.get_desk()

    def call(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        """Run an operation; a denied one leaves a trace."""
        return call(self.desk, name, params, self.actor)


Called = Annotated[Caller, Depends(Caller)]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="The ETag that was read: the revision this command is based on.")
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", description="New for each command, the same for its retry; at most 200 characters."
    ),
]


def seen_tag(if_match: str | None) -> str | None:
    """The bare tag of an If-Match header. Raises PreconditionRequired for `*`: it does not say what was seen."""
    if if_match is None:
        return None
    tag = if_match.strip().removeprefix("W/").strip('"')
    if tag == "*":
        raise PreconditionRequired(
            "If-Match: * does not say which revision was seen.", fix="send the ETag that was read"
        )
    return tag


def seen_revision(if_match: str | None, in_body: int | None) -> int | None:
    """The revision that a command saw, from header or body; they must not contradict each other."""
    tag = seen_tag(if_match)
    if tag is None:
        return in_body
    if not tag.isdigit():
        raise BadRequest(f"If-Match is {tag[:50]!r}, not the ETag of a recommendation.", fix='send it as read: "3"')
    if in_body is not None and in_body != int(tag):
        raise BadRequest(f"If-Match names revision {tag}, the body {in_body}.", fix="send one of them")
    return int(tag)


def one_key(header: str | None, in_body: str | None) -> str | None:
    if header and in_body and header != in_body:
        raise BadRequest("Idempotency-Key and idempotency_key differ.", fix="send one of them")
    return header or in_body
