"""Coming back: after a crash, a fatal error and a file that was cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warehouse.test_engine import run_python, score
from warehouse.engine import Warehouse
from warehouse.errors import WarehouseClosed, WarehouseCorrupt, WarehouseError, WarehouseFull


def test_a_warehouse_that_could_not_be_reopened_comes_back_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a fatal error the file may be unusable for a while: a full disk, until somebody frees it."""
    import duckdb

    from warehouse import engine

    warehouse, real = Warehouse.open(tmp_path / "w.duckdb"), engine._connect

    def full(path: Path) -> object:
        raise WarehouseFull("no space left")

    monkeypatch.setattr(engine, "_connect", full)
    with pytest.raises(WarehouseError), warehouse.transaction():
        raise duckdb.FatalException("FATAL Error: database has been invalidated")
    with pytest.raises(WarehouseFull):
        warehouse.scalar("SELECT 1")
    monkeypatch.setattr(engine, "_connect", real)
    assert warehouse.scalar("SELECT 1") == 1
    with warehouse.transaction() as tx:
        tx.append("core.score", score("after"))
    warehouse.close()
    with pytest.raises(WarehouseClosed):  # closed on purpose stays closed
        warehouse.scalar("SELECT 1")


def test_keys_hold_and_find_their_rows_after_a_crash_and_a_short_visit(tmp_path: Path) -> None:
    """duckdb/duckdb#23848: the log is replayed into indexes that are not loaded, and closing writes them empty.

    A killed console followed by one quick command was enough: keys could repeat, and look-ups found nothing.
    """
    path = tmp_path / "w.duckdb"
    done = run_python(
        """
        import os, sys, pathlib
        sys.path.insert(0, sys.argv[2])
        from warehouse.engine import Warehouse
        w = Warehouse.open(pathlib.Path(sys.argv[1]))
        for i in range(3):
            with w.transaction() as tx:
                tx.execute(
                    "INSERT INTO core.policy_version (policy_id, name, parameters, code_sha256, known_from) "
                    "VALUES ($i, 'p', '{}', 'x', now()::TIMESTAMP)", {"i": str(i)})
        os._exit(9)
        """,
        str(path),
        str(Path(__file__).resolve().parents[2]),
    )
    assert done.returncode == 9
    assert path.with_name("w.duckdb.wal").exists()
    Warehouse.open(path).close()
    warehouse = Warehouse.open(path)
    assert warehouse.scalar("SELECT count(*) FROM core.policy_version WHERE policy_id = '1'") == 1
    with pytest.raises(WarehouseError, match="Duplicate key"), warehouse.transaction() as tx:
        tx.execute("INSERT INTO core.policy_version SELECT * FROM core.policy_version WHERE policy_id = '1'")
    with warehouse.transaction() as tx:
        assert tx.execute("DELETE FROM core.policy_version") == 3
    warehouse.close()


@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_a_truncated_file_is_called_unreadable_and_is_left_alone(tmp_path: Path, share: float) -> None:
    path = tmp_path / "w.duckdb"
    whole = Warehouse.open(path)
    with whole.transaction() as tx:
        for i in range(20):
            tx.append("core.score", score(f"m{i}" + "x" * 50_000))
    whole.close()
    rest = path.read_bytes()[: int(path.stat().st_size * share)]
    path.write_bytes(rest)
    with pytest.raises(WarehouseCorrupt, match="restore it from a backup") as refusal:
        opened = Warehouse.open(path)
        opened.query("SELECT * FROM core.score")  # DuckDB may notice only when it reads that far
        opened.close()
    assert str(path) in str(refusal.value)
