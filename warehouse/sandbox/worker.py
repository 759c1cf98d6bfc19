"""The process that parses and runs one statement. Run as `python -I worker.py`, never imported.

It knows nothing of the project: standard library, duckdb and pyarrow only. It limits itself first,
then answers requests on stdin, each a line of JSON, on stdout: a header line of JSON with `status`
and `bytes`, then that many bytes.

    {"op": "parse", sql, database}                  -> status parsed: kinds of the statements, text; the tree
    {"op": "run", text, tables, schemas, denied, explain, row_cap}
                                                    -> status ok: truncated, elapsed_s, columns; an Arrow stream
                                                    -> status refused or error: message, fix
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shutil
import sys
import threading
import time
from typing import Any

ADDRESS_SPACE_BYTES = 2_684_354_560  # 2.5 GiB
PARSE_SPACE_BYTES = 805_306_368  # 0.75 GiB while parsing: an honest statement needs a quarter of it
RESIDENT_BYTES = 2_147_483_648
FILE_BYTES = 268_435_456
MAX_TREE_BYTES = 8_000_000
SCRATCH_PREFIX = "joulebook-sql-"  # of the working directory that the parent makes

# Types that have no faithful Arrow form; text keeps their meaning.
_UNSENDABLE = re.compile(r"\b(BIT|BIGNUM|UNION|VARIANT|GEOMETRY|UHUGEINT|TIME WITH TIME ZONE|INTERVAL)\b")


def limit_process() -> None:
    """Set every limit that this system knows; each on its own, as macOS refuses some."""
    limits = {
        "RLIMIT_AS": (PARSE_SPACE_BYTES, ADDRESS_SPACE_BYTES),
        "RLIMIT_FSIZE": (FILE_BYTES, FILE_BYTES),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (64, 64),
    }
    for name, values in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), values)
    with contextlib.suppress(OSError):
        os.nice(5)  # the console comes first


def limit_cpu(seconds: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def watch(parent: int, timeout_s: float, memory_exit_code: int) -> None:
    """End this process when its parent is gone, its time is over, or its memory is used up.

    The parent kills at the deadline and the address space is limited; this holds where the parent
    has died and on systems that do not enforce the limit.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    end = time.monotonic() + timeout_s + 2.0
    while time.monotonic() < end and os.getppid() == parent:
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit > RESIDENT_BYTES:
            os._exit(memory_exit_code)
        time.sleep(0.05)
    if os.path.basename(os.getcwd()).startswith(SCRATCH_PREFIX):
        shutil.rmtree(os.getcwd(), ignore_errors=True)  # nobody else is left to do it
    os._exit(1)


class Refused(Exception):
    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


def connect(path: str | None, memory_limit: str) -> Any:
    """The snapshot, read only (or an empty database for parsing alone), with nothing of the outside."""
    import duckdb

    here = os.getcwd()
    options: dict[str, Any] = {
        "threads": "1",
        "memory_limit": memory_limit,
        "temp_directory": os.path.join(here, "spill"),
        "max_temp_directory_size": "200MB",
        "extension_directory": here,
        "secret_directory": here,
        "home_directory": here,
        "allow_persistent_secrets": "false",
        "allow_community_extensions": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(path or ":memory:", read_only=path is not None, config=options)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def parse(connection: Any, sql: str) -> tuple[dict[str, Any], bytes]:
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except (duckdb.ParserException, duckdb.NotImplementedException) as error:
        raise Refused(str(error), "correct the SQL") from None
    kinds = [[str(s.type).rpartition(".")[2], bool(s.query.strip())] for s in statements]
    # A quoted literal, not a bound parameter: binding one imports pandas (0.3 s).
    quoted = sql.replace("'", "''")
    tree = connection.execute(f"SELECT json_serialize_sql('{quoted}')").fetchone()[0].encode()
    if len(tree) > MAX_TREE_BYTES:
        raise Refused("The statement is too large once parsed.", "shorten it; avoid repeated windows and cubes")
    raw = sql.encode()
    end = len(raw)
    tokens = duckdb.tokenize(sql)
    while tokens and raw[tokens[-1][0] :].lstrip()[:1] == b";":
        end = tokens.pop()[0]
    header = {"status": "parsed", "statements": kinds, "text": raw[:end].decode().strip()}
    return header, tree


def resolve(connection: Any, request: dict[str, Any]) -> list[str]:
    """The full names of the statement's tables; names without a schema must fit exactly one table."""
    marks = ", ".join("'" + schema.replace("'", "''") + "'" for schema in request["schemas"])
    rows = connection.execute(
        f"SELECT lower(table_schema), lower(table_name) FROM information_schema.tables WHERE table_schema IN ({marks})"
    ).fetchall()
    names = {f"{schema}.{table}" for schema, table in rows} - set(request["denied"])
    resolved = []
    for name in request["tables"]:
        if "." in name:
            resolved.append(name)
            continue
        found = sorted(full for full in names if full.partition(".")[2] == name)
        if not found:
            raise Refused(
                f"There is no table {name} that is open to SQL.",
                "write schema.table, such as core.offer; the schema browser lists them",
            )
        if len(found) > 1:
            raise Refused(f"The name {name} fits {', '.join(found)}.", f"write {' or '.join(found)}")
        resolved.append(found[0])
    return resolved


def check_bound(connection: Any, request: dict[str, Any], tables: list[str]) -> None:
    """The second wall: no closed table among what the binder really reads, except inside an open view.

    Should the syntax tree ever have left something out, this finds it.
    """
    closed = {
        name
        for name in bound_tables(connection, request["text"]) - set(request["tables"])
        if name in request["denied"] or name.partition(".")[0] not in request["schemas"]
    }
    for name in tables if closed else ():
        schema, _, table = name.partition(".")
        if name not in request["denied"]:
            closed -= bound_tables(connection, f'SELECT * FROM "{schema}"."{table}"')
    if closed:
        raise Refused(f"The statement reads {', '.join(sorted(closed))}, which is not open to SQL.", "use other tables")


def bound_tables(connection: Any, sql: str) -> set[str]:
    """The tables behind a SELECT, views resolved: `schema.table`, or as written where no schema is."""
    import duckdb

    try:
        names = connection.get_table_names(sql, qualified=True)  # such as "core.price AS p"
    except duckdb.Error:  # it does not know ASOF joins; the plan does
        return scanned_tables(connection, sql)
    return {name.split(maxsplit=1)[0].lower() for name in names}


def scanned_tables(connection: Any, sql: str) -> set[str]:
    """`schema.table` of every table scan in the plan."""
    plan = json.loads(connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()[1])
    todo, found = list(plan), set()
    while todo:
        node = todo.pop()
        table = node.get("extra_info", {}).get("Table")
        if table:
            found.add(str(table).partition(".")[2].lower())
        todo.extend(node.get("children", []))
    return found


def run(connection: Any, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Run the checked statement; at most row_cap rows and max_bytes bytes come back."""
    sys.modules.update({"numpy": None, "pandas": None})  # type: ignore[dict-item]  # not needed; saves 0.1 s
    import pyarrow as pa

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    tables = resolve(connection, request)
    present = {row[0] for row in connection.execute("SELECT schema_name FROM information_schema.schemata").fetchall()}
    path = [schema for schema in request["schemas"] if schema in present]
    if path:
        connection.execute("SET search_path = '" + ",".join(path) + "'")
    connection.execute("SET lock_configuration = true")
    kinds = [str(s.type) for s in connection.extract_statements(request["text"])]
    if kinds != ["StatementType.SELECT"]:
        raise Refused("The statement is not exactly one SELECT.", "send exactly one SELECT")
    check_bound(connection, request, tables)

    started = time.perf_counter()
    relation = connection.sql(("EXPLAIN " if request["explain"] else "") + request["text"])
    columns = [[name, str(kind)] for name, kind in zip(unique(relation.columns), relation.types, strict=True)]
    for name, kind in columns:
        if _UNSENDABLE.search(kind) and kind != "INTERVAL":
            raise Refused(f"The column {name} has the type {kind}, which has no table form.", "cast it to VARCHAR")
    batches, n_rows, n_bytes = [], 0, 0
    reader = relation.to_arrow_reader(min(request["row_cap"] + 1, 2048))
    for batch in reader:
        batches.append(batch)
        n_rows += batch.num_rows
        n_bytes += batch.nbytes
        if n_bytes > request["max_bytes"] // 2:
            raise Refused(
                f"The result is larger than {request['max_bytes'] // 2_000_000} MB.", "select fewer rows or columns"
            )
        if n_rows > request["row_cap"]:
            break
    table = pa.Table.from_batches(batches, schema=reader.schema).slice(0, request["row_cap"])
    table = with_text_intervals(table).rename_columns([name for name, _ in columns])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    header = {
        "status": "ok",
        "truncated": n_rows > request["row_cap"],
        "elapsed_s": time.perf_counter() - started,
        "columns": columns,
    }
    return header, sink.getvalue()


def unique(names: list[str]) -> list[str]:
    """Column names without duplicates: the second `a` becomes `a_1`."""
    seen: set[str] = set()
    result = []
    for name in names:
        fresh, count = name, 0
        while fresh in seen:
            count += 1
            fresh = f"{name}_{count}"
        seen.add(fresh)
        result.append(fresh)
    return result


def with_text_intervals(table: Any) -> Any:
    """Intervals as text: neither Parquet nor most readers of Arrow know their type."""
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        if field.type == pa.month_day_nano_interval():
            texts = [None if value is None else interval_text(*value) for value in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table


def interval_text(months: int, days: int, nanoseconds: int) -> str:
    """`1 year 2 months 3 days 04:05:06.5`, as DuckDB prints it."""
    years, months = (abs(months) // 12 * (1 if months >= 0 else -1), abs(months) % 12 * (1 if months >= 0 else -1))
    words = [
        f"{count} {unit}{'' if abs(count) == 1 else 's'}"
        for count, unit in ((years, "year"), (months, "month"), (days, "day"))
        if count
    ]
    if nanoseconds or not words:
        micros = abs(nanoseconds) // 1000
        seconds, micros = divmod(micros, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        words.append(("-" if nanoseconds < 0 else "") + clock + fraction)
    return " ".join(words)


def main() -> None:
    parent = os.getppid()
    limit_process()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but replies reaches the parent
    connection = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        body = b""
        try:
            if connection is None:
                limit_cpu(request["cpu_s"])
                watcher = (parent, request["timeout_s"], request["memory_exit_code"])
                threading.Thread(target=watch, args=watcher, daemon=True).start()
                connection = connect(request["database"], request["memory_limit"])
            header, body = parse(connection, request["sql"]) if request["op"] == "parse" else run(connection, request)
        except Refused as refused:
            header = {"status": "refused", "message": refused.message, "fix": refused.fix}
        except MemoryError:
            header = {"status": "error", "message": "Out of Memory Error: the statement needs more than is allowed"}
        except Exception as error:  # whatever DuckDB raises becomes a text; the process ends after it
            header = {"status": "error", "message": str(error) or type(error).__name__}
        header["message"] = str(header.get("message", ""))[:20_000]
        replies.write(json.dumps({**header, "bytes": len(body)}).encode() + b"\n" + body)
        replies.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # skip the clean-up of a large database; nothing is left to save
