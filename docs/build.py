"""Write `docs/reference.md` from the code, or check that it is up to date (`--check`).

Settings, commands, tables, file kinds, API and operations are listed as they are, so that none can be
missing: `make docs` writes the page, a test fails when it lags.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

PAGE = Path(__file__).with_name("reference.md")
_HEAD = """# Reference

Written from the code by `make docs`; do not edit.
"""


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "\n".join([_row(*head), _row(*("---" for _ in head)), *(_row(*r) for r in rows)])


def _settings() -> str:
    from app.settings import Settings, SourceSettings

    rows: list[tuple[object, ...]] = []

    def walk(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                walk(kind, f"{prefix}{name}.")
            elif f"{prefix}{name}" == "sources":
                walk(SourceSettings, "sources.NAME.")
            else:
                default = "" if field.is_required() else f"`{_default(field)}`"
                rows.append((f"`{prefix}{name}`", default, field.description or ""))

    walk(Settings, "")
    return _table(("setting", "default", "meaning"), rows)


def _default(field: Any) -> object:
    value = field.get_default(call_default_factory=True)
    return "." if value == Path() else value


def _commands() -> str:
    from app.cli import app

    rows: list[tuple[object, ...]] = []
    for path, command in sorted(_walk(typer.main.get_command(app), "joulebook")):
        options = [
            param.opts[0] if param.opts[0].startswith("--") else param.name.upper()
            for param in command.params
            if param.name not in {"help", "json_"}
        ]
        rows.append((f"`{path}`", " ".join(options), (command.help or "").splitlines()[0]))
    return _table(("command", "arguments and options (every command takes --json)", "what it does"), rows)


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _walk(child, f"{path} {name}")


def _kinds() -> str:
    from ingest.kinds import KINDS

    rows: list[tuple[object, ...]] = [(f"`{k.name}`", k.title, k.docs) for k in KINDS.values()]
    return _table(("kind", "what", "format, units, limits"), rows)


def _tables() -> str:
    from warehouse.tables import tables

    parts = []
    for name, columns in tables().items():
        rows: list[tuple[object, ...]] = [
            (f"`{c.name}`", c.type, "may be NULL" if c.nullable else "", c.about) for c in columns
        ]
        parts.append(f"### {name}\n\n" + _table(("column", "type", "", "meaning"), rows))
    return "\n\n".join(parts)


def _api() -> str:
    from app.api import create_api
    from app.desk import current

    spec = create_api(current, lambda: "").openapi()
    rows: list[tuple[object, ...]] = [
        (f"`{method.upper()} /api{path}`", operation.get("summary", ""))
        for path, methods in spec["paths"].items()
        for method, operation in methods.items()
    ]
    return _table(("call", "what it does"), rows)


def build() -> str:
    """The whole page as text."""
    sections = [
        ("Settings (`joulebook.toml`)", _settings()),
        ("Commands", _commands()),
        ("File and payload kinds", _kinds()),
        ("API", _api()),
        ("Tables", _tables()),
    ]
    return _HEAD + "".join(f"\n## {title}\n\n{text}\n" for title, text in sections)


def main() -> int:
    text = build()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.stderr.write("docs/reference.md lags behind the code. Fix: make docs\n")
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
