"""The engine: threads, transactions, locks, crashes, copies."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from warehouse.clock import utcnow
from warehouse.constraints import KEYS, broken_keys
from warehouse.engine import Warehouse
from warehouse.errors import (
    MigrationFailed,
    WarehouseClosed,
    WarehouseCorrupt,
    WarehouseError,
    WarehouseLocked,
)
from warehouse.tables import tables


def score(model: str, value: float = 0.5) -> pl.DataFrame:
    now = utcnow()
    return pl.DataFrame(
        {
            "model": [model],
            "category": ["general_chat"],
            "component": ["leaderboard"],
            "valid_from": [now],
            "known_from": [now],
            "score": [value],
            "content_sha256": [model],
            "source_id": ["test"],
            "run_id": ["r"],
        }
    )


def run_python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args], capture_output=True, text=True, timeout=60, check=False
    )


def test_t46_a_second_process_is_told_who_holds_the_file(warehouse: Warehouse) -> None:
    done = run_python(
        """
        import sys, pathlib
        from warehouse.engine import Warehouse
        from warehouse.errors import WarehouseLocked
        try:
            Warehouse.open(pathlib.Path(sys.argv[1]))
        except WarehouseLocked as error:
            print(error)
        """,
        str(warehouse.path),
    )
    assert "in use by process" in done.stdout
    assert "Fix:" in done.stdout


def test_a_corrupt_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    path.write_bytes(b"this is no warehouse" * 1000)
    before = path.read_bytes()
    with pytest.raises(WarehouseCorrupt, match="cannot be read as a warehouse"):
        Warehouse.open(path)
    assert path.read_bytes() == before


def test_a_truncated_file_is_refused_with_our_own_error(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    Warehouse.open(path).close()
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(WarehouseError):
        Warehouse.open(path)


def test_threads_never_see_each_others_rows(warehouse: Warehouse) -> None:
    """Trap: one shared connection handed out another thread's row in 460 of 1,200 reads."""

    def read(i: int) -> bool:
        return all(warehouse.scalar("SELECT $n", {"n": i * 1000 + k}) == i * 1000 + k for k in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))


def test_writers_and_readers_run_together_without_loss(warehouse: Warehouse) -> None:
    stop = threading.Event()
    seen: list[list[int]] = [[], []]

    def reader(mine: list[int]) -> None:
        while not stop.is_set():
            mine.append(warehouse.scalar("SELECT count(*) FROM core.score"))

    def writer(i: int) -> None:
        for k in range(20):
            with warehouse.transaction() as tx:
                tx.append("core.score", score(f"m{i}-{k}"))

    readers = [threading.Thread(target=reader, args=(mine,)) for mine in seen]
    for thread in readers:
        thread.start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(writer, range(4)))
    stop.set()
    for thread in readers:
        thread.join()
    assert warehouse.scalar("SELECT count(*) FROM core.score") == 80
    assert all(mine == sorted(mine) for mine in seen)  # a reader never sees the past again


def test_a_failed_transaction_leaves_nothing(warehouse: Warehouse) -> None:
    with pytest.raises(RuntimeError, match="cut"), warehouse.transaction() as tx:
        tx.append("core.score", score("half"))
        raise RuntimeError("cut")
    assert warehouse.scalar("SELECT count(*) FROM core.score") == 0
    with warehouse.transaction() as tx:  # and the lock is free again
        tx.append("core.score", score("whole"))
    assert warehouse.scalar("SELECT count(*) FROM core.score") == 1


def test_reading_sees_one_committed_state(warehouse: Warehouse) -> None:
    with warehouse.reading() as reader:
        before = reader.query("SELECT count(*) FROM core.score").item()
        with warehouse.transaction() as tx:
            tx.append("core.score", score("new"))
        assert reader.query("SELECT count(*) FROM core.score").item() == before == 0
    assert warehouse.scalar("SELECT count(*) FROM core.score") == 1


def test_reading_refuses_to_write(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseError), warehouse.reading() as reader:
        reader.append("core.score", score("never"))


def test_a_misspelt_table_never_becomes_a_python_variable(warehouse: Warehouse) -> None:
    secret_frame = score("secret")
    assert secret_frame.height == 1
    with pytest.raises(WarehouseError):
        warehouse.query("SELECT * FROM secret_frame")


@pytest.mark.parametrize("sql", ["COPY core.score TO '{}'", "SELECT * FROM read_csv('/etc/passwd')"])
def test_the_engine_reads_and_writes_no_other_file(warehouse: Warehouse, tmp_path: Path, sql: str) -> None:
    target = tmp_path / "out.csv"
    with pytest.raises(WarehouseError):
        warehouse.query(sql.format(target))
    assert not target.exists()


def test_a_closed_warehouse_says_so(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w.duckdb")
    warehouse.close()
    warehouse.close()
    with pytest.raises(WarehouseClosed):
        warehouse.query("SELECT 1")


def test_a_snapshot_copy_is_consistent_while_writes_go_on(warehouse: Warehouse, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            with warehouse.transaction() as tx:  # two rows at a time: an odd count would be half a commit
                tx.append("core.score", pl.concat([score(f"a{n}"), score(f"b{n}")]))
            n += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for i in range(5):
            copy = tmp_path / f"copy{i}.duckdb"
            warehouse.snapshot_copy(copy, max_age_s=0)
            opened = Warehouse.open(copy, migrate=False)
            assert opened.scalar("SELECT count(*) FROM core.score") % 2 == 0
            opened.close()
    finally:
        stop.set()
        thread.join()


def test_a_young_snapshot_copy_is_used_again(warehouse: Warehouse, tmp_path: Path) -> None:
    copy = tmp_path / "copy.duckdb"
    first = warehouse.snapshot_copy(copy)
    assert warehouse.snapshot_copy(copy) == first
    assert warehouse.snapshot_copy(copy, max_age_s=0) > first


def test_a_killed_writer_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    """kill -9 in the middle of commits; what was printed as committed is there after reopening."""
    path = tmp_path / "w.duckdb"
    code = """
        import sys, pathlib, itertools
        sys.path.insert(0, sys.argv[2])
        from warehouse.engine import Warehouse
        from tests.warehouse.test_engine import score
        w = Warehouse.open(pathlib.Path(sys.argv[1]))
        for i in itertools.count():
            with w.transaction() as tx:
                tx.append("core.score", score(f"m{i}"))
            print(i, flush=True)
    """
    root = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(path), root], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last >= 20:
            break
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.stdout.close()
    process.wait()
    last = max([last, *(int(x) for x in rest.split())])
    reopened = Warehouse.open(path)
    kept = reopened.scalar("SELECT count(*) FROM core.score")
    reopened.close()
    assert kept in (last + 1, last + 2)  # one commit may have been made and not yet printed


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    """The file size limit of the process stands in for the disk."""
    done = run_python(
        """
        import sys, pathlib, resource, signal
        sys.path.insert(0, sys.argv[2])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        from warehouse.engine import Warehouse
        from warehouse.errors import WarehouseError, WarehouseFull
        from tests.warehouse.test_engine import score
        import os, polars as pl
        path = pathlib.Path(sys.argv[1])
        w = Warehouse.open(path)
        with w.transaction() as tx:
            tx.append("core.score", score("kept"))
        w.close(); w = Warehouse.open(path)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 200_000, resource.RLIM_INFINITY))
        rows = 2 * size // 800 + 2000  # more than twice the file, whose free blocks take some of it
        names = [f"{i}-{os.urandom(400).hex()}" for i in range(rows)]
        big = pl.concat([score("x")] * rows).with_columns(model=pl.Series(names))
        try:
            with w.transaction() as tx:
                tx.append("core.score", big)
            print("no error")
        except WarehouseFull as error:
            print("FULL", error)
        except WarehouseError as error:
            print("OTHER", error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with w.transaction() as tx:
            tx.append("core.score", score("after"))
        print(sorted(w.query("SELECT model FROM core.score")["model"]))
        """,
        str(tmp_path / "w.duckdb"),
        str(Path(__file__).resolve().parents[2]),
    )
    assert "FULL" in done.stdout, done.stdout + done.stderr
    assert "['after', 'kept']" in done.stdout, done.stdout + done.stderr


def test_migrations_run_once_and_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    first = Warehouse.open(path)
    applied = first.query("SELECT name FROM ops.schema_version ORDER BY name")["name"].to_list()
    first.close()
    again = Warehouse.open(path)
    assert again.query("SELECT name FROM ops.schema_version ORDER BY name")["name"].to_list() == applied
    with again.transaction() as tx:
        tx.execute("INSERT INTO ops.schema_version VALUES ('v9999_future.sql', 'x', now()::TIMESTAMP)")
    again.close()
    with pytest.raises(MigrationFailed, match="newer joulebook"):
        Warehouse.open(path)


def test_an_edited_migration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    opened = Warehouse.open(path)
    with opened.transaction() as tx:
        tx.execute("UPDATE ops.schema_version SET sha256 = 'other' WHERE name LIKE 'v0001%'")
    opened.close()
    with pytest.raises(MigrationFailed, match="edited"):
        Warehouse.open(path)


def test_every_table_of_the_migrations_exists_with_the_columns_that_are_read_from_them(warehouse: Warehouse) -> None:
    for table, columns in tables().items():
        schema, name = table.split(".")
        found = warehouse.query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = $s AND table_name = $n "
            "ORDER BY ordinal_position",
            {"s": schema, "n": name},
        )["column_name"].to_list()
        assert found == [c.name for c in columns]


def test_keys_are_declared_for_every_table_and_hold(warehouse: Warehouse) -> None:
    assert set(KEYS) == set(tables())
    assert broken_keys(warehouse) == []
    with warehouse.transaction() as tx:
        row = {c.name: [None] for c in tables()["core.power_sample"]}
        row |= {"device_uuid": ["GPU-1"], "sampled_at": [utcnow()], "method": ["instant"], "epoch": [0]}
        row |= {"source_id": ["s"], "run_id": ["r"]}
        schema = {c.name: c.polars for c in tables()["core.power_sample"]}
        twice = pl.DataFrame(row, schema=schema)
        tx.append("core.power_sample", pl.concat([twice, twice]))
    assert "core.power_sample" in broken_keys(warehouse)[0]


def test_lock_errors_are_transient_and_corruption_is_not() -> None:
    assert WarehouseLocked("x").transient
    assert not WarehouseCorrupt("x").transient
