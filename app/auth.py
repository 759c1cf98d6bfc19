"""Who acts: bearer tokens at the API, the signed-in person or the local operator in the console."""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING

from app.desk import current, local_operator
from app.errors import Forbidden, Unauthenticated
from app.operations import Actor
from app.operations.auditing import address_class
from app.secret_store import sign_in_configured
from app.settings import Settings
from warehouse.ids import sha256

if TYPE_CHECKING:
    from app.desk import Desk

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# What each scope of a token opens. Nobody can decide without seeing.
_OPENS = {
    "read": frozenset({"read"}),
    "downstream": frozenset({"downstream", "read"}),
    "operator": frozenset({"operator", "read"}),
}
_ROLES = {"operator": frozenset({"operator", "read"}), "reader": frozenset({"read"})}
_HOW = "send `Authorization: Bearer TOKEN`; make a token with `joulebook token create`"


def authenticate(desk: Desk, authorization: str | None, source: str | None = None) -> Actor:
    """The actor behind an Authorization header, who asks from an address of the class `source`.

    Raises Unauthenticated without a known, unrevoked bearer token. The token is found by its hash, and the
    comparison takes the same time wherever it differs.
    """
    scheme, _, clear = (authorization or "").strip().partition(" ")
    clear = clear.strip()
    if not authorization:
        raise Unauthenticated("This address needs an API token.", fix=_HOW)
    if scheme.lower() != "bearer" or not clear:
        raise Unauthenticated("The Authorization header is not a bearer token.", fix=_HOW)
    digest = sha256(clear.encode())
    rows = desk.warehouse.query(
        "SELECT token_id, name, token_sha256, scopes, revoked_at, created_by FROM ops.api_token ORDER BY token_id"
    )
    found = None
    for row in rows.iter_rows(named=True):
        if hmac.compare_digest(row["token_sha256"], digest):
            found = row
    if found is None:
        raise Unauthenticated("The API token is not known.", fix=_HOW)
    if found["revoked_at"] is not None:
        raise Unauthenticated(
            f"The API token {found['name']!r} was revoked at {found['revoked_at']:%Y-%m-%d %H:%M} UTC.", fix=_HOW
        )
    told = found["scopes"].split(",")
    scopes = frozenset().union(*(_OPENS.get(s, frozenset()) for s in told))
    role = next((r for r in ("operator", "downstream") if r in scopes), "reader")
    bound = desk.warehouse.query(
        "SELECT target FROM ops.token_target WHERE token_id = $id ORDER BY target", {"id": found["token_id"]}
    )["target"].to_list()
    targets = frozenset(bound) if bound else None
    return Actor(
        f"token:{found['name']}", role, "api", scopes, owner=found["created_by"], targets=targets, source=source
    )


def console_actor() -> Actor:
    """The person of this console session.

    Without sign-in, on loopback, that is the local operator. Raises Unauthenticated before sign-in and
    Forbidden for a person without a role, or when the console is open to others without sign-in.
    """
    settings = current().settings
    if not sign_in_configured(settings):
        if settings.server.address not in LOOPBACK:
            raise Forbidden(
                f"The console listens on {settings.server.address} without sign-in, so nobody may act.",
                fix="configure [auth] in .streamlit/secrets.toml, or listen on 127.0.0.1",
            )
        return local_operator("console")
    import streamlit as st

    if not st.user.is_logged_in:
        raise Unauthenticated("You are not signed in.", fix="sign in with your organisation's account")
    ends = st.user.get("exp")
    if isinstance(ends, int | float) and ends < time.time():
        # Streamlit keeps its cookie for 30 days whatever the provider says.
        raise Unauthenticated("Your sign-in has ended.", fix="sign in again")
    return person(settings, st.user.get("email"), verified=st.user.get("email_verified"), source=_browser())


def _browser() -> str:
    """The class of the address of this session's browser; Streamlit tells none for this very machine."""
    import streamlit as st

    address = st.context.ip_address
    return address_class(address) if address else "loopback"


def person(settings: Settings, email: object, verified: object = None, source: str | None = None) -> Actor:
    """The actor for a signed-in e-mail address, with the role that configuration gives it."""
    if not isinstance(email, str) or not email:
        raise Forbidden("Your account tells no e-mail address.", fix="ask the identity provider to release it")
    if verified is False:
        raise Forbidden(f"The address {email} is not verified.", fix="verify it with your identity provider")
    roles = {address.casefold(): role for address, role in settings.auth.roles.items()}
    role = roles.get(email.casefold())
    if role is None:
        raise Forbidden(
            f"{email} has no role here.", fix=f'an operator adds "{email}" under [auth.roles] in joulebook.toml'
        )
    return Actor(email, role, "console", _ROLES[role], source=source)


def require(role: str) -> Actor:
    """The person of this session, who must have `role` (reader or operator). Raises Forbidden."""
    actor = console_actor()
    needed = "operator" if role == "operator" else "read"
    if not actor.may(needed):
        raise Forbidden(f"{actor.name} is {actor.role}; this needs the role {role}.", fix="ask an operator")
    return actor
