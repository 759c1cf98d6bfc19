"""The margins that a gate is held to, as configured or as somebody asked for, and how many pairs they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from app.errors import BadRequest, sentences
from app.sections import MarginSettings
from policies.proof.margins import Margins
from warehouse.ids import content_hash

if TYPE_CHECKING:
    from app.settings import Settings


def configured(settings: Settings) -> Margins:
    return Margins.from_dict(settings.shadow.margins.model_dump())


def asked(settings: Settings, changes: Mapping[str, Any]) -> Margins:
    """The configured margins with `changes` over them. Raises BadRequest naming what is wrong."""
    try:
        told = MarginSettings.model_validate({**settings.shadow.margins.model_dump(), **changes})
    except ValidationError as error:
        raise BadRequest(
            f"The margins are wrong: {sentences(error, values=True)}.",
            fix=f"use {', '.join(MarginSettings.model_fields)}",
        ) from error
    return Margins.from_dict(told.model_dump())


def digest(told: Margins) -> str:
    return content_hash(told.to_dict())


def shadow_data(told: Margins, person: str | None, mix: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the command `shadow` writes down before any evidence that counts; `mix`: that of `app.shadow.mixes`."""
    data = {"margins": told.to_dict(), "margins_sha256": digest(told), "planned_n": told.n, **(mix or {})}
    return {**data, "person": person} if person else data
