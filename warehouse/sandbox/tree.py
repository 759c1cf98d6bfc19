"""The allow-list walk over the syntax tree of one statement.

The tree is what DuckDB's `json_serialize_sql` gives: parsed, nothing bound, nothing run. Every node,
table reference and expression must be of a kind that is listed here; anything new is refused.

CTE names are resolved by scope as DuckDB does it: a CTE sees the ones before it, only the recursive
half of a recursive CTE sees itself. So in `WITH api_token AS (SELECT * FROM api_token)` the inner
name is the table, whatever the CTE is called. Names fold like DuckDB's, ASCII letters only.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from typing import Any

from warehouse.errors import SqlRefused
from warehouse.sandbox.functions import TABLE_FUNCTIONS, closest_function, known_functions, why_denied

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_FILE_READERS = ("read_", "parquet_", "sniff_", "glob", "csv_", "sqlite_", "iceberg_", "delta_")

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"})
_EXPRESSIONS = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "DEFAULT"),
        *("FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "WINDOW"),
    }
)
_OTHER_PARTS = frozenset(
    {
        *("ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"),
        *("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
        *("UNBOUND_TYPE_INFO", "DECIMAL_TYPE_INFO", "STRUCT_TYPE_INFO", "LIST_TYPE_INFO", "ARRAY_TYPE_INFO"),
        *("STRING_TYPE_INFO", "ENUM_TYPE_INFO", "GENERIC_TYPE_INFO"),
    }
)

Scope = frozenset[str]


def fold(name: str) -> str:
    """`name` as DuckDB compares it: ASCII letters in lower case, everything else as it is."""
    return name.translate(_ASCII_LOWER)


def parse_tree(text: str) -> dict[str, Any]:
    """The tree of the only statement in the output `text` of json_serialize_sql.

    Raises SqlRefused with DuckDB's own words where the text is no SELECT or no SQL at all.
    """
    try:
        parsed = json.loads(text)
    except RecursionError:
        raise SqlRefused("The statement is nested too deeply.", fix="split it into CTEs or shorten the chain") from None
    except ValueError as error:
        raise SqlRefused("The syntax tree of the statement could not be read.", fix="simplify it") from error
    if parsed.get("error"):
        message = " ".join(str(parsed.get("error_message", "unknown reason")).split())
        if parsed.get("error_type") == "parser":
            raise SqlRefused(f"The statement could not be parsed: {message[:400]}.", fix="correct the SQL")
        raise SqlRefused(f"The statement could not be checked: {message[:400]}.", fix="write it as a plain SELECT")
    statements = parsed.get("statements", [])
    if len(statements) != 1:
        raise SqlRefused(f"There are {len(statements)} statements, not one.", fix="send exactly one SELECT")
    tree: dict[str, Any] = statements[0]
    return tree


def check_tree(tree: Mapping[str, Any], *, allowed_schemas: frozenset[str], denied_tables: frozenset[str]) -> set[str]:
    """The tables that the statement reads, as `schema.name` or, unqualified, `name`; lower case.

    Raises SqlRefused at the first part that is not allowed, with its name and a fix.
    """
    walk = _Walk(allowed_schemas, denied_tables)
    return walk.run(tree)


class _Walk:
    """One pass over one tree; iterative, so that no depth of nesting can exhaust the stack."""

    def __init__(self, allowed_schemas: frozenset[str], denied_tables: frozenset[str]) -> None:
        self.allowed_schemas = allowed_schemas
        self.denied_tables = denied_tables
        self.denied_names = frozenset(table.rpartition(".")[2] for table in denied_tables)
        self.tables: set[str] = set()
        self.todo: list[tuple[Any, Scope]] = []

    def run(self, tree: Mapping[str, Any]) -> set[str]:
        self.todo.append((tree, frozenset()))
        while self.todo:
            value, scope = self.todo.pop()
            if isinstance(value, list):
                self.todo.extend((item, scope) for item in value)
            elif isinstance(value, dict):
                self._visit(value, scope)
        return self.tables

    def _visit(self, part: dict[str, Any], scope: Scope) -> None:
        if "cte_map" in part:
            self._query(part, scope)
        elif isinstance(part.get("class"), str):
            self._expression(part, scope)
        elif "query_location" in part and "sample" in part:
            self._table(part, scope)
        else:
            kind = part.get("type")
            if isinstance(kind, str) and kind not in _OTHER_PARTS:
                raise _unknown_part(kind)
            self._rest(part, scope)

    def _rest(self, part: Mapping[str, Any], scope: Scope, *, without: frozenset[str] = frozenset()) -> None:
        self.todo.extend((value, scope) for key, value in part.items() if key not in without)

    def _query(self, node: dict[str, Any], scope: Scope) -> None:
        if node.get("type") not in _QUERY_NODES:
            raise _unknown_part(str(node.get("type")))
        for entry in node["cte_map"]["map"]:
            self.todo.append((entry["value"], scope))
            scope = scope | {fold(entry["key"])}
        self._rest(node, scope, without=frozenset({"cte_map", "right"}))
        if node["type"] == "RECURSIVE_CTE_NODE":
            scope = scope | {fold(node["cte_name"])}
        self.todo.append((node.get("right"), scope))

    def _expression(self, expression: dict[str, Any], scope: Scope) -> None:
        kind = expression["class"]
        if kind == "PARAMETER":
            raise SqlRefused(
                "The statement has a parameter (? or $name), and there is nothing to fill it with.",
                fix="write the value itself",
            )
        if kind not in _EXPRESSIONS:
            raise _unknown_part(kind)
        if kind == "CONSTANT":
            return  # a literal value holds no further SQL
        if kind in ("FUNCTION", "WINDOW"):
            self._function(expression)
        self._rest(expression, scope)

    def _function(self, call: Mapping[str, Any]) -> None:
        name = fold(call["function_name"])
        reason = why_denied(name)
        if reason is not None:
            raise SqlRefused(f"The function {name} is not allowed here: {reason}.", fix="remove it from the statement")
        if name not in known_functions():
            near = closest_function(name)
            fix = f"did you mean {near}?" if near else "use a built-in function of DuckDB"
            raise SqlRefused(f"There is no function {name[:80]} to call here.", fix=fix)
        if call.get("export_state"):
            raise SqlRefused(f"EXPORT_STATE of {name} is not allowed here.", fix=f"call {name} without it")

    def _table(self, ref: dict[str, Any], scope: Scope) -> None:
        kind = ref["type"]
        if kind == "BASE_TABLE":
            self._base_table(ref, scope)
        elif kind == "TABLE_FUNCTION":
            self._table_function(ref["function"])
            call = ref["function"]
            self._rest(ref, scope, without=frozenset({"function"}))
            self._rest(call, scope)
            return
        elif kind == "SHOW_REF":
            # DESCRIBE and SUMMARIZE of a query are a query; SHOW TABLES lists what is not for everyone.
            if ref.get("query") is None:
                raise SqlRefused(
                    "SHOW is not available here.",
                    fix="use the schema browser for the list of tables, or DESCRIBE core.offer for one of them",
                )
        elif kind == "PIVOT":
            raise SqlRefused(
                "PIVOT and UNPIVOT are not available here.",
                fix="write one column per value, such as sum(x) FILTER (WHERE kind = 'a') AS a",
            )
        elif kind not in ("SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST"):
            raise _unknown_part(kind)
        self._rest(ref, scope)

    def _table_function(self, call: Mapping[str, Any]) -> None:
        name = fold(str(call.get("function_name", "")))
        if call.get("class") == "FUNCTION" and name in TABLE_FUNCTIONS:
            return
        if name.startswith(_FILE_READERS):
            fix = "load the file with `joulebook import KIND FILE` and query the table that it fills"
        elif name.startswith(("duckdb_", "pragma_", "pg_", "show_")):
            fix = "use the schema browser, or DESCRIBE core.offer"
        else:
            fix = f"read a table instead; in FROM only {', '.join(sorted(TABLE_FUNCTIONS))} may be called"
        raise SqlRefused(f"The table function {name[:80] or 'of this kind'} is not allowed here.", fix=fix)

    def _base_table(self, ref: Mapping[str, Any], scope: Scope) -> None:
        catalog, schema, table = (fold(ref.get(key) or "") for key in ("catalog_name", "schema_name", "table_name"))
        shown = ".".join(part for part in (catalog, schema, table) if part)[:120]
        schemas = ", ".join(sorted(self.allowed_schemas))
        if ref.get("at_clause") is not None:
            raise SqlRefused(f"AT (a table version) is not available for {shown}.", fix="read the table as it is")
        if catalog:
            raise SqlRefused(
                f'The table {shown} names a database ("{catalog[:60]}").',
                fix=f"write schema.table with a schema of {schemas}",
            )
        if not schema and table in scope:
            return
        if not _PLAIN_NAME.fullmatch(table):
            raise SqlRefused(
                f"{shown!r} is not the name of a table; files cannot be read here.",
                fix="load the file with `joulebook import KIND FILE` and query the table that it fills",
            )
        if schema and schema not in self.allowed_schemas:
            raise SqlRefused(f"The schema {schema[:60]} is not open to SQL (in {shown}).", fix=f"use {schemas}")
        if f"{schema}.{table}" in self.denied_tables or (not schema and table in self.denied_names):
            raise SqlRefused(
                f"The table {shown} is not open to SQL; it holds secrets or raw payloads.",
                fix="use the pages or the command line for it, or another table",
            )
        self.tables.add(f"{schema}.{table}" if schema else table)


def _unknown_part(kind: str) -> SqlRefused:
    words = kind.lower().replace("_", " ")
    return SqlRefused(f"A part of the statement is not allowed here: {words}.", fix="write it as a plain SELECT")
