"""The only door to DuckDB: one instance per process, a cursor per use, one writer at a time.

Why so: two threads on one connection hand each other's rows out (measured: 460 wrong of 1,200),
single-row commits are 700 times slower than batches, and a DuckDB file admits one process.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from warehouse.clock import utcnow
from warehouse.errors import (
    WarehouseClosed,
    WarehouseCorrupt,
    WarehouseError,
    WarehouseFull,
    WarehouseLocked,
)
from warehouse.ids import uuid7

Params = Mapping[str, Any] | Sequence[Any] | None

_LOCK_WAIT_S = 30.0
_COPY_CHUNK_BYTES = 4 * 1024 * 1024
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "python_enable_replacements": "false",  # a misspelt table must not become a Python variable
}


@dataclass(frozen=True)
class Capabilities:
    """What the backend can do; code asks this object, never the backend's name."""

    backend: str = "duckdb-file"
    enforces_keys: bool = True
    single_process: bool = True
    snapshot_copy: bool = True


def translate(error: duckdb.Error, path: Path) -> WarehouseError:
    """A DuckDB error as one of ours, naming the file and the fix."""
    text = str(error)
    low = text.lower()
    if "could not set lock" in low or "conflicting lock" in low:
        pid = re.search(r"PID (\d+)", text)
        holder = f"process {pid[1]}" if pid else "another process"
        return WarehouseLocked(
            f"The warehouse {path} is in use by {holder}.",
            fix="use the running console, or stop that process, or set JOULEBOOK_HOME to another folder",
        )
    if "no space left" in low or "file too large" in low or "disk full" in low or "could not write" in low:
        return WarehouseFull(
            f"The warehouse {path} could not be written: no space left.",
            fix="free disk space; what was not written is retried and nothing already stored is lost",
        )
    if any(
        s in low
        for s in (
            "not a valid duckdb",
            "serialization error",
            "corrupt",
            "checksum",
            "version number",
            "wal file",
            "not read enough bytes",
        )
    ):
        return WarehouseCorrupt(
            f"The file {path} cannot be read as a warehouse: {text.splitlines()[0]}",
            fix="restore it from a backup, or move it away and start with a new one; joulebook never overwrites it",
        )
    if "permission denied" in low or "read-only file system" in low:
        return WarehouseError(f"The warehouse {path} may not be written.", fix="check the permissions of its folder")
    return WarehouseError(f"The warehouse refused a statement: {text.splitlines()[0]}")


class Transaction:
    """One short write transaction; nothing of it is seen until it commits."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def execute(self, sql: str, params: Params = None) -> int:
        """Run a statement; the number of rows it changed, or 0 where it tells none."""
        result = self._cursor.execute(sql, params) if params is not None else self._cursor.execute(sql)
        row = result.fetchone() if result is not None and result.description else None
        return row[0] if row and isinstance(row[0], int) else 0

    def query(self, sql: str, params: Params = None) -> pl.DataFrame:
        return _frame(self._cursor, sql, params)

    @contextmanager
    def staged(self, frame: pl.DataFrame) -> Iterator[str]:
        """`frame` under a name that SQL of this transaction can read."""
        name = f"staged_{uuid7().replace('-', '')}"
        self._cursor.register(name, frame.to_arrow())
        try:
            yield name
        finally:
            self._cursor.unregister(name)

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Add every row of `frame` to `table`, by column name."""
        if frame.is_empty():
            return 0
        names = ", ".join(frame.columns)
        with self.staged(frame) as staged:
            return self.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {staged}")


def _frame(cursor: duckdb.DuckDBPyConnection, sql: str, params: Params) -> pl.DataFrame:
    table = cursor.execute(sql, params if params is not None else []).to_arrow_table()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


class Warehouse:
    """The store. Open with `Warehouse.open`, close when done; safe to share between threads."""

    def __init__(self, path: Path, root: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self.capabilities = Capabilities()
        self._root: duckdb.DuckDBPyConnection | None = root
        self._is_closed = False
        # Copies read through this one descriptor. A POSIX lock ends when its process closes *any* descriptor of the
        # file, so opening and closing the warehouse for a copy would let a second process in.
        self._file: int | None = os.open(path, os.O_RDONLY)
        self._write_lock = threading.RLock()
        self._copy_lock = threading.Lock()
        self._copied_at = 0.0
        self._copy_as_of: datetime | None = None

    @classmethod
    def open(cls, path: Path, *, migrate: bool = True) -> Warehouse:
        """Open or create the warehouse file and bring its schema up to date.

        Raises WarehouseLocked, WarehouseCorrupt, WarehouseFull or MigrationFailed; the file is never replaced.
        """
        from warehouse.ledger import begin  # both need Warehouse
        from warehouse.migrate import apply_migrations

        path.parent.mkdir(parents=True, exist_ok=True)
        warehouse = cls(path, _connect(path))
        try:
            if migrate:
                apply_migrations(warehouse)
                begin(warehouse)
        except BaseException:
            warehouse.close()
            raise
        return warehouse

    def close(self) -> None:
        """Checkpoint and release the file; harmless when already closed."""
        with self._write_lock:
            self._is_closed = True
            root, self._root = self._root, None
            if root is not None:
                root.close()
            file, self._file = self._file, None
            if file is not None:
                os.close(file)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        return self._open_root().cursor()

    def _open_root(self) -> duckdb.DuckDBPyConnection:
        """The instance; tries to come back where `_reopen` failed, so that freed disk space is all it takes."""
        root = self._root
        if root is not None:
            return root
        with self._write_lock:
            if self._is_closed:
                raise WarehouseClosed(f"The warehouse {self.path} is closed.", fix="open it again")
            if self._root is None:
                self._root = _connect(self.path)
            return self._root

    # reading ---------------------------------------------------------------------------------

    def query(self, sql: str, params: Params = None) -> pl.DataFrame:
        """Rows of a SELECT; each call sees the latest committed state."""
        with self._reading() as cursor:
            return _frame(cursor, sql, params)

    def scalar(self, sql: str, params: Params = None) -> Any:
        """The first value of the first row, or None."""
        frame = self.query(sql, params)
        return frame.item(0, 0) if frame.height else None

    @contextmanager
    def _reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._cursor()
        try:
            yield cursor
        except duckdb.Error as error:
            raise self._translated(error) from error
        finally:
            cursor.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Several reads of one and the same committed state (a read-only transaction)."""
        with self._reading() as cursor:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            try:
                yield Transaction(cursor)
            finally:
                cursor.execute("ROLLBACK")

    # writing ---------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One write transaction: commits at the end, rolls back on any error. Not re-entrant."""
        if not self._write_lock.acquire(timeout=_LOCK_WAIT_S):
            raise WarehouseLocked(
                f"Another write has held the warehouse for more than {_LOCK_WAIT_S:.0f} s.", fix="try again"
            )
        try:
            cursor = self._cursor()
            try:
                cursor.execute("BEGIN TRANSACTION")
                try:
                    yield Transaction(cursor)
                    cursor.execute("COMMIT")
                except BaseException:
                    _rollback(cursor)
                    raise
            except duckdb.Error as error:
                raise self._translated(error) from error
            finally:
                cursor.close()
        finally:
            self._write_lock.release()

    def _translated(self, error: duckdb.Error) -> WarehouseError:
        if isinstance(error, duckdb.FatalException) or "database has been invalidated" in str(error):
            self._reopen()
        return translate(error, self.path)

    def _reopen(self) -> None:
        """After a fatal error (a full disk in the middle of a commit) DuckDB wants a fresh instance."""
        with self._write_lock:
            if self._root is None:
                return
            try:
                self._root.close()
                self._root = _connect(self.path)
            except (duckdb.Error, WarehouseError):
                self._root = None

    # copies ----------------------------------------------------------------------------------

    def snapshot_copy(self, target: Path, *, max_age_s: float = 10.0) -> datetime:
        """A consistent copy of the file at `target`, at most `max_age_s` old; the instant it shows."""
        with self._copy_lock:
            fresh = time.monotonic() - self._copied_at < max_age_s and target.exists()
            if fresh and self._copy_as_of is not None:
                return self._copy_as_of
            temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._write_lock:
                with self._reading() as cursor:
                    cursor.execute("CHECKPOINT")
                as_of = utcnow()
                try:
                    self._copy_file(temporary)
                except OSError as error:
                    temporary.unlink(missing_ok=True)
                    raise WarehouseFull(
                        f"The snapshot copy {target} could not be written: {error.strerror}.", fix="free disk space"
                    ) from error
            os.chmod(temporary, 0o600)
            os.replace(temporary, target)
            self._copied_at, self._copy_as_of = time.monotonic(), as_of
            return as_of

    def _copy_file(self, target: Path) -> None:
        """The bytes of the file at `target`, read without opening the warehouse anew (see `_file`)."""
        file = self._file
        if file is None:
            raise WarehouseClosed(f"The warehouse {self.path} is closed.", fix="open it again")
        with target.open("wb") as out:
            offset = 0
            while chunk := os.pread(file, _COPY_CHUNK_BYTES, offset):
                out.write(chunk)
                offset += len(chunk)


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    crashed = path.with_name(f"{path.name}.wal").exists()
    try:
        root = duckdb.connect(str(path), config=_CONFIG)
        root.execute("SET TimeZone = 'UTC'")
        if crashed:
            # DuckDB 1.5.5 replays a log into indexes that it has not loaded yet; its checkpoint at closing then writes
            # them empty: keys repeat, look-ups by key find nothing (duckdb/duckdb#23848). One in a session loads them.
            root.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise translate(error, path) from error
    return root


def _rollback(cursor: duckdb.DuckDBPyConnection) -> None:
    with contextlib.suppress(duckdb.Error):  # DuckDB may have ended the transaction itself
        cursor.execute("ROLLBACK")
