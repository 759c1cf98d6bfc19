"""Scenario files of an operator."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from app.errors import BadRequest
from app.operations.plain import plain

_MOST_BYTES = 8 * 2**20


def read_scenario(path: Path | None) -> dict[str, Any]:
    """The document in a scenario file. Raises BadRequest, naming the file and the place."""
    if path is None:
        return {}
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadRequest(
                f"{path.name} has more than {_MOST_BYTES} bytes.", fix="name traces instead of writing them"
            )
        text = path.read_text(encoding="utf-8")
        told = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.", fix="name a file that is there") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path.name} is no UTF-8 text.", fix="save it as UTF-8") from error
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise BadRequest(f"{path.name} is no valid {kind}: {error}.", fix="correct that place") from error
    if not isinstance(told, dict):
        raise BadRequest(f"{path.name} is no scenario.", fix="write an object with pools and workload")
    found: dict[str, Any] = plain(told)
    return found
