"""The rules for one statement of the SQL lab: exactly one SELECT over open tables, nothing else.

Parsing itself is not safe in this process (see the package's docstring), so `validate` starts a
worker that parses under limits and hands back the syntax tree; the decision is made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warehouse.errors import SqlFailed, SqlRefused
from warehouse.sandbox.process import Worker
from warehouse.sandbox.tree import check_tree, parse_tree

ALLOWED_SCHEMAS = frozenset({"core", "mart", "ledger", "ops", "landing"})
DENIED_TABLES = frozenset({"ops.api_token", "landing.payload"})  # token hashes; raw payloads
MAX_SQL_BYTES = 50_000
PARSE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Validated:
    """A statement that may run.

    `sql` is the text without trailing semicolons, `tables` what it reads: `schema.name`, or `name`
    where the text gives no schema (the worker then requires it to be unambiguous), in lower case.
    `is_explain` says that the plan is wanted, not the rows.
    """

    sql: str
    tables: frozenset[str]
    is_explain: bool = False


def validate(
    sql: str,
    *,
    allowed_schemas: frozenset[str] = ALLOWED_SCHEMAS,
    denied_tables: frozenset[str] = DENIED_TABLES,
    explain: bool = False,
) -> Validated:
    """Check one statement without a database.

    Raises SqlRefused with the offending thing and a fix; SqlTimeout or SqlFailed where the statement
    is too large to parse within limits. Takes about 0.1 s, most of it the start of the worker.
    """
    check_text(sql)
    with Worker(timeout_s=PARSE_TIMEOUT_S) as worker:
        header, body = worker.exchange({"op": "parse", "sql": sql, "database": None})
    return check_parsed(header, body, allowed_schemas=allowed_schemas, denied_tables=denied_tables, explain=explain)


def check_text(sql: str) -> None:
    """Refuse what is no text of a statement before any process is started."""
    if not isinstance(sql, str):
        raise SqlRefused(f"The statement is a {type(sql).__name__}, not text.", fix="send the SQL as text")
    if not sql.strip():
        raise SqlRefused("The statement is empty.", fix="write a SELECT, such as SELECT * FROM core.offer LIMIT 20")
    try:
        size_bytes = len(sql.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise SqlRefused(
            f"The statement has a broken character at position {error.start}.", fix="type that part again"
        ) from None
    if size_bytes > MAX_SQL_BYTES:
        raise SqlRefused(
            f"The statement has {size_bytes} bytes; at most {MAX_SQL_BYTES} are accepted.", fix="shorten it"
        )
    if "\x00" in sql:
        raise SqlRefused(
            f"The statement has a NUL character at position {sql.index(chr(0))}.", fix="remove that character"
        )


def check_parsed(
    header: dict[str, Any],
    body: bytes,
    *,
    allowed_schemas: frozenset[str],
    denied_tables: frozenset[str],
    explain: bool,
) -> Validated:
    """The decision about a worker's parse reply: `header` with statement kinds, `body` with the tree.

    Raises SqlRefused, and SqlFailed where the worker could not open its database or ran out of memory.
    """
    if header["status"] == "refused":
        raise SqlRefused(header["message"], fix=header["fix"])
    if header["status"] != "parsed":
        raise SqlFailed(header["message"], fix="shorten the statement; if that does not help, refresh the snapshot")
    try:
        _check_kinds(header["statements"])
        tree = parse_tree(body.decode("utf-8"))
        tables = check_tree(tree, allowed_schemas=allowed_schemas, denied_tables=denied_tables)
        return Validated(sql=str(header["text"]), tables=frozenset(tables), is_explain=explain)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # Not a tree as DuckDB writes it: a part that is not understood is never allowed.
        raise SqlRefused("The syntax tree of the statement could not be understood.", fix="simplify it") from error


def _check_kinds(statements: list[list[Any]]) -> None:
    """`statements` are pairs of kind and whether the user wrote it (PIVOT adds statements of its own)."""
    if not statements:
        raise SqlRefused("There is no statement, only comments or semicolons.", fix="write a SELECT")
    if any(not written for _, written in statements):
        raise SqlRefused(
            "PIVOT and UNPIVOT are not available here.",
            fix="write one column per value, such as sum(x) FILTER (WHERE kind = 'a') AS a",
        )
    if len(statements) > 1:
        kinds = ", ".join(kind for kind, _ in statements[:5])
        raise SqlRefused(f"There are {len(statements)} statements ({kinds}).", fix="send exactly one SELECT")
    kind = statements[0][0]
    if kind == "EXPLAIN":
        raise SqlRefused(
            "EXPLAIN is not part of the statement here.", fix="send the SELECT alone and ask for its plan (Explain)"
        )
    if kind != "SELECT":
        raise SqlRefused(
            f"Only SELECT is accepted, and this is {kind}.",
            fix="write a SELECT; data and settings are changed through the pages and the command line",
        )
