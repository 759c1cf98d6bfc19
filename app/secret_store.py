"""Secrets: from the environment or `.streamlit/secrets.toml` of the home, never from joulebook.toml."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from app.errors import ConfigError

if TYPE_CHECKING:
    from app.settings import Settings


def secret(settings: Settings, name: str) -> SecretStr | None:
    """A secret by name, from JOULEBOOK_SECRET_<NAME> or `.streamlit/secrets.toml`, or None."""
    from_env = os.environ.get(f"JOULEBOOK_SECRET_{name.upper().replace('-', '_')}")
    if from_env:
        return SecretStr(from_env)
    value = secrets_file(settings).get("joulebook", {}).get(name)
    return SecretStr(str(value)) if value else None


def secrets_file(settings: Settings) -> dict[str, Any]:
    """`.streamlit/secrets.toml` of the home as a dict; empty where there is none."""
    path = settings.home / ".streamlit" / "secrets.toml"
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as TOML.", fix="correct the file") from error


def sign_in_configured(settings: Settings) -> bool:
    """Whether an OpenID Connect provider and at least one operator are set up."""
    auth = secrets_file(settings).get("auth", {})
    complete = all(auth.get(name) for name in ("client_id", "client_secret", "server_metadata_url", "cookie_secret"))
    return complete and "operator" in settings.auth.roles.values()
