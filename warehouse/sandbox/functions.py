"""Which functions a statement of the SQL lab may call.

Allowed is what the pinned DuckDB itself lists as a scalar function, aggregate or simple macro, minus
what reaches outside the rows of the query: settings, sequences, logs, time to waste, SQL inside
strings, catalog look-ups, and the building blocks that trust hand-made bytes. Unknown names are
refused, so a function that a later version adds is looked at before it is allowed.
"""

from __future__ import annotations

import difflib
from functools import cache

import duckdb

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})

# Part of the grammar or of windows, so absent from duckdb_functions().
_GRAMMAR = frozenset(
    {
        *("unnest", "unlist", "grouping", "grouping_id", "row_number", "rank", "dense_rank", "rank_dense"),
        *("percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "fill"),
    }
)

_SETTINGS = "it reads settings, not data"
_STATE = "it reads or changes the state of the database, not data"
_SQL_TEXT = "it runs or plans SQL that is hidden in a text"
_CATALOG = "it reads the catalog of the database"
_INTERNAL = "it is an internal building block"
_LOG = "it writes to or reads the log of the database"
_WAIT = "it only wastes time"

DENIED: dict[str, str] = {
    **dict.fromkeys(("current_setting", "getvariable", "getenv", "set_config", "setseed"), _SETTINGS),
    **dict.fromkeys(("nextval", "currval", "lastval", "setval", "stats", "add_parquet_key"), _STATE),
    **dict.fromkeys(("txid_current", "current_transaction_id", "current_connection_id", "current_query_id"), _STATE),
    **dict.fromkeys(("query", "query_table", "current_query", "json_execute_serialized_sql"), _SQL_TEXT),
    **dict.fromkeys(("json_serialize_sql", "json_deserialize_sql", "json_serialize_plan"), _SQL_TEXT),
    **dict.fromkeys(("current_schemas", "in_search_path", "get_block_size", "format_type"), _CATALOG),
    **dict.fromkeys(("write_log", "parse_duckdb_log_message"), _LOG),
    **dict.fromkeys(("sleep_ms", "pg_sleep"), _WAIT),
    **dict.fromkeys(("finalize", "combine", "vector_type", "create_sort_key", "remap_struct"), _INTERNAL),
    **dict.fromkeys(("variant_bytes_to_variant", "variant_to_parquet_variant", "timetz_byte_comparable"), _INTERNAL),
}
_DENIED_PREFIXES = {
    "pg_": _CATALOG,
    "duckdb_": _CATALOG,
    "pragma_": _CATALOG,
    "has_": _CATALOG,
    "__internal": _INTERNAL,
    "read_": "it reads files",
    "write_": "it writes files",
}
_NOT_REALLY_DENIED = frozenset({"pg_typeof", "pg_size_pretty"})

_KNOWN_FUNCTIONS = """
    SELECT DISTINCT lower(function_name) FROM duckdb_functions()
    WHERE function_type IN ('scalar', 'aggregate')
       OR (function_type = 'macro' AND schema_name = 'main' AND NOT contains(macro_definition, ' FROM '))
"""


@cache
def known_functions() -> frozenset[str]:
    """Lower-case names of all built-in scalar functions, aggregates and simple macros.

    Asked of a fresh in-memory database once; no text of a user is involved.
    """
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    try:
        rows = connection.execute(_KNOWN_FUNCTIONS).fetchall()
    finally:
        connection.close()
    return frozenset(row[0] for row in rows) | _GRAMMAR | _NOT_REALLY_DENIED


def why_denied(name: str) -> str | None:
    """The reason why the scalar function or aggregate `name` (lower case) is denied; None: it is not."""
    if name in _NOT_REALLY_DENIED:
        return None
    if name in DENIED:
        return DENIED[name]
    for prefix, reason in _DENIED_PREFIXES.items():
        if name.startswith(prefix):
            return reason
    return None


def closest_function(name: str) -> str | None:
    """An allowed function whose name resembles `name`, for the text of an error."""
    allowed = [known for known in known_functions() if known[0].isalpha() and why_denied(known) is None]
    found = difflib.get_close_matches(name, sorted(allowed), n=1, cutoff=0.75)
    return found[0] if found else None
