"""Files of an export: the mapping that is read, and the documents that are written."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.errors import AppError, BadRequest

MAPPING_NAME = "exports.toml"  # in JOULEBOOK_HOME
_LARGEST = 1 << 20  # an object of a cluster is never larger


def home_mapping(home: Path) -> dict[str, Any] | None:
    """The mapping of this home; None where there is no such file."""
    path = home / MAPPING_NAME
    return read_mapping(path) if path.exists() else None


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping of a TOML or JSON file, with the objects that its `object_file` name (relative to it) read in.

    Raises BadRequest naming the file.
    """
    text = _read(path, "mapping")
    try:
        told = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # of json and tomllib alike
        raise BadRequest(f"The mapping {path} cannot be read: {error}.", fix="correct that place") from error
    if not isinstance(told, dict):
        raise BadRequest(f"The mapping {path} is no table.", fix="write [offers...] and [entries...]")
    entries = told.get("entries")
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("object_file"), str):
            if "object" in entry:
                raise BadRequest(f"entries.{name} has an object and an object_file.", fix="keep one of them")
            entry["object"] = _read(path.parent / entry.pop("object_file"), f"object of {name}")
    return told


def _read(path: Path, what: str) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise BadRequest(f"The {what} {path} is larger than 1 MiB.", fix="give the one object")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadRequest(f"The {what} {path} cannot be read: {why}.", fix="correct its path") from error


def write_files(folder: Path, files: Iterable[Mapping[str, Any]]) -> list[Path]:
    """Write each file whole or not at all, the manifest last; what is there by the same name is replaced."""
    written = []
    if folder.exists() and not folder.is_dir():
        raise BadRequest(f"{folder} is a file.", fix="name a folder of yours")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            path = folder / file["name"]
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            temporary.write_bytes(file["text"].encode())
            os.replace(temporary, path)
            written.append(path)
    except OSError as error:
        raise AppError(
            f"{folder} could not be written: {error.strerror}.", fix="check free space and permissions"
        ) from error
    return written
