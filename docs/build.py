"""Write `docs/reference.md` from the code, or check that it is up to date (`--check`).

Settings, commands, operations, kinds, API, metrics, events, errors, tables and views are listed as they
are, so that none can be missing: `make docs` writes the page, a test fails when it lags.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("reference.md")
_HEAD = """# Reference

Written from the code by `make docs`; do not edit. What the words mean: [concepts](concepts.md).
"""

# Views whose SQL has no comment of its own above it.
_VIEWS = {
    "mart.offer": "The version of each offer in force: greatest `valid_from`, then `known_from`.",
    "mart.price": "The version of each price component in force.",
    "mart.tariff": "Each tariff rule as known now; `superseded_at` is the start of the next rule.",
    "mart.grid_intensity": "The newest known value of each zone, source, signal, basis and interval.",
    "mart.freshness": "Age and status of each source at the instant of the snapshot.",
    "mart.audit": "Every event of the ledger.",
}


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "\n".join([_row(*head), _row(*("---" for _ in head)), *(_row(*r) for r in rows)])


# settings ---------------------------------------------------------------------------------------


def settings() -> list[tuple[str, str, str]]:
    """(dotted name, default as TOML, meaning) of every setting."""
    from app.sections import EnvironmentSettings, SourceSettings
    from app.settings import Settings

    rows: list[tuple[str, str, str]] = []

    def walk(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                walk(kind, f"{prefix}{name}.")
            elif f"{prefix}{name}" == "sources":
                walk(SourceSettings, "sources.NAME.")
            elif f"{prefix}{name}" == "environments":
                walk(EnvironmentSettings, "environments.NAME.")
            else:
                default = "required" if field.is_required() else _toml(field.get_default(call_default_factory=True))
                rows.append((f"{prefix}{name}", default, field.description or ""))

    walk(Settings, "")
    return rows


def _item(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "{" + ", ".join(f"{k} = {v!r}".replace("'", '"') for k, v in value.model_dump().items()) + "}"
    return f'"{value}"'


def _toml(value: Any) -> str:
    """A default as one would write it in the file."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Path):
        return '`"."`' if value == Path() else f'`"{value}"`'
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return "`[" + ", ".join(_item(v) for v in value) + "]`"
    return f"`{value}`"


def _settings() -> str:
    table = _table(("setting", "default", "meaning"), [(f"`{name}`", *rest) for name, *rest in settings()])
    return (
        "`joulebook.toml` in `JOULEBOOK_HOME`: a dot is a section, so `weights.cost` is `cost` under `[weights]`. "
        "Unknown names are refused. A duration is text with a unit: `ms`, `s`, `min`, `h` or `d`.\n\n" + table
    )


def _environment() -> str:
    from app.downstream_cli import TOKEN_VARIABLE

    rows: list[tuple[object, ...]] = [
        ("`JOULEBOOK_HOME`", "folder of configuration, warehouse and state; default: the working directory"),
        ("`JOULEBOOK_PORT`", "port; over `server.port`"),
        (
            "`JOULEBOOK_<SECTION>__<NAME>`",
            "any setting, over the file: `JOULEBOOK_OFFLINE=true`, `JOULEBOOK_WAREHOUSE__PATH=...`",
        ),
        (
            "`JOULEBOOK_SECRET_<NAME>`",
            "the secret NAME of a source or of the alerts; `-` is written `_`. Over `[joulebook]` in "
            "`.streamlit/secrets.toml`",
        ),
        (f"`{TOKEN_VARIABLE}`", "API token of `joulebook downstream --url`"),
        (
            "`JOULEBOOK_REQUIRE_BROWSER`, `JOULEBOOK_REQUIRE_CC`, `JOULEBOOK_REQUIRE_BROKER`",
            "`1`: tests fail instead of skipping (CI only)",
        ),
    ]
    return _table(("variable", "meaning"), rows)


# commands ---------------------------------------------------------------------------------------


def commands() -> dict[str, Any]:
    """Every command by its whole name, such as `joulebook recommend show`."""
    from app.cli import app

    return dict(sorted(_walk(typer.main.get_command(app), "joulebook")))


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _walk(child, f"{path} {name}")


def _commands() -> str:
    rows: list[tuple[object, ...]] = []
    for path, command in commands().items():
        words = [_usage(p) for p in command.params if p.name not in {"help", "json_"}]
        rows.append((f"`{' '.join([path, *words])}`", (command.help or "").splitlines()[0]))
    return (
        "Every command works while the console runs and while it does not, and takes `--json`.\n\n"
        + _table(("command", "what it does"), rows)
        + "\n\n"
        + _table(
            ("exit code", "meaning"),
            [
                (0, "done"),
                (1, "failed: refused, not found, a run that FAILED, a ledger that does not hold, a bad finding"),
                (2, "wrong usage: an unknown command, option, kind or value, a refused statement, a wrong setting"),
            ],
        )
    )


def _usage(param: Any) -> str:
    if not param.opts[0].startswith("--"):
        name = param.name.upper()
        return name if param.required else f"[{name}]"
    text = param.opts[0] if param.is_flag else f"{param.opts[0]} {param.name.rstrip('_').upper()}"
    return text if param.required else f"[{text}]"


def _operations() -> str:
    from app.operations import OPERATIONS, load_all

    load_all()
    rows: list[tuple[object, ...]] = [(f"`{o.name}`", o.scope, o.about) for _, o in sorted(OPERATIONS.items())]
    return (
        "Pages, API and command line all call these. Scope: `read`, `downstream`, `operator`, or `local`: only the "
        "same user on the same machine.\n\n" + _table(("operation", "scope", "what it does"), rows)
    )


# kinds, API, metrics ------------------------------------------------------------------------------


def _kinds() -> str:
    from ingest.kinds import KINDS

    rows: list[tuple[object, ...]] = [
        (
            f"`{k.name}`",
            k.docs,
            ", ".join(k.transports),
            f"{k.max_bytes // 2**20} MiB",
            _span(k.cadence_s) if k.cadence_s else "by hand",
            _span(k.stale_after_s),
            _span(k.expire_after_s),
        )
        for k in KINDS.values()
    ]
    heads = ("kind", "format and units", "comes by", "at most", "cadence", "stale after", "expired after")
    return "Details: [sources](sources.md).\n\n" + _table(heads, rows)


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def routes() -> list[tuple[str, str, str]]:
    """(METHOD, path with /api, what it does) of every documented route."""
    from app.api import create_api
    from app.desk import current

    spec = create_api(current, lambda: None).openapi()
    return [
        (method.upper(), f"/api{path}", " ".join((operation.get("description") or "").split()))
        for path, methods in spec["paths"].items()
        for method, operation in methods.items()
    ]


def _api() -> str:
    rows: list[tuple[object, ...]] = [(f"`{method} {path}`", about) for method, path, about in routes()]
    return (
        "Examples, scopes and headers: [API](api.md). Also `GET /api/v1/openapi.json` and `GET /api/v1/docs`.\n\n"
        + _table(("call", "what it does"), rows)
    )


def metrics() -> list[tuple[str, str, str]]:
    """(name as scraped, labels, meaning) of every Prometheus metric."""
    text = (ROOT / "app" / "api" / "metrics.py").read_text(encoding="utf-8")
    found = re.findall(
        r"(Gauge|Counter)MetricFamily\(\s*\"(\w+)\",\s*\"([^\"]+)\"(?:,\s*labels=\[([^\]]*)\])?", text, re.S
    )
    return [
        (name + ("_total" if kind == "Counter" else ""), ", ".join(re.findall(r"\w+", labels)), about)
        for kind, name, about, labels in found
    ]


def _metrics() -> str:
    rows: list[tuple[object, ...]] = [(f"`{name}`", labels, about) for name, labels, about in metrics()]
    return _table(("metric", "labels", "meaning"), rows)


# events and errors --------------------------------------------------------------------------------


def _events() -> str:
    from app.components.recs import _OTHER, _WORDS

    rows: list[tuple[object, ...]] = [
        (f"`recommendation.{kind}`", words.format(target="TARGET")) for kind, words in _WORDS.items()
    ]
    rows += [(f"`{kind}`", words) for kind, words in _OTHER.items()]
    rows += [("`token.created`", "API token created, without its text"), ("`token.revoked`", "API token revoked")]
    return _table(("kind", "what happened"), rows)


def _errors() -> str:
    import app.errors
    import ingest.errors
    import policies.errors
    import policies.recommend.errors
    import warehouse.errors

    parts = []
    for module in (app.errors, ingest.errors, warehouse.errors, policies.errors, policies.recommend.errors):
        title, _, rest = (inspect.getdoc(module) or "").partition("\n")
        tree, _, words = rest.strip("\n").partition("\n\n")
        parts.append(f"`{module.__name__}`: {title}\n\n```text\n{textwrap.dedent(tree)}\n```\n\n{words}".rstrip())
    return "Every error names the thing, the value and the fix.\n\n" + "\n\n".join(parts)


# tables -------------------------------------------------------------------------------------------


def _tables() -> str:
    from app.reads.schema import unit_of
    from warehouse.tables import tables

    parts = []
    for name, columns in tables().items():
        rows: list[tuple[object, ...]] = [
            (f"`{c.name}`", c.type, unit_of(c.name), "yes" if c.nullable else "", c.about) for c in columns
        ]
        parts.append(f"### {name}\n\n" + _table(("column", "type", "unit", "NULL", "meaning"), rows))
    return (
        "Written by migrations. Times are UTC without a zone. NULL means unknown, never 0. "
        "`ops.schema_version` holds the applied migrations. Closed to ad hoc SQL: `ops.api_token`, "
        "`landing.payload`.\n\n" + "\n\n".join(parts)
    )


def _about_view(name: str) -> str:
    """The comment right above a view's SQL, or the sentence given here."""
    for file in sorted((ROOT / "warehouse" / "views").glob("*.sql")):
        found = re.search(rf"((?:^--.*\n)+)CREATE OR REPLACE VIEW {re.escape(name)} ", file.read_text("utf-8"), re.M)
        if found:
            return " ".join(line.removeprefix("--").strip() for line in found[1].splitlines())
    if name not in _VIEWS:
        raise SystemExit(f"{name} is described nowhere. Fix: write a comment right above its CREATE in warehouse/views")
    return _VIEWS[name]


def _views() -> str:
    from app.reads.schema import schema
    from warehouse.engine import Warehouse

    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse.open(Path(folder) / "w.duckdb")
        try:
            views = {name: columns for name, columns in schema(warehouse).items() if name.startswith("mart.")}
        finally:
            warehouse.close()
    rows: list[tuple[object, ...]] = [
        (f"`{name}`", _about_view(name), ", ".join(f"`{c.name}`" for c in columns)) for name, columns in views.items()
    ]
    return "For people and ad hoc SQL.\n\n" + _table(("view", "what it holds", "columns"), rows)


def build() -> str:
    """The whole page as text."""
    sections = [
        ("Settings", _settings()),
        ("Environment", _environment()),
        ("Commands", _commands()),
        ("Operations", _operations()),
        ("File and payload kinds", _kinds()),
        ("API", _api()),
        ("Metrics", _metrics()),
        ("Ledger events", _events()),
        ("Errors", _errors()),
        ("Views", _views()),
        ("Tables", _tables()),
    ]
    return _HEAD + "".join(f"\n## {title}\n\n{text}\n" for title, text in sections)


def main() -> int:
    text = build()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.stderr.write("docs/reference.md lags behind the code. Fix: make docs\n")
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
