"""The warehouse file stays locked against other processes for as long as it is open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warehouse.engine import Warehouse

_OTHER = """
import sys
import duckdb
try:
    duckdb.connect(sys.argv[1]).close()
except duckdb.IOException as error:
    print("locked" if "lock" in str(error).lower() else error)
else:
    print("opened")
"""


def as_another_process(path: Path) -> str:
    ran = subprocess.run([sys.executable, "-c", _OTHER, str(path)], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_a_snapshot_copy_does_not_let_another_process_into_the_file(tmp_path: Path) -> None:
    """POSIX locks end when their process closes any descriptor of the file, also one it only read through."""
    warehouse = Warehouse.open(tmp_path / "w.duckdb")
    try:
        assert as_another_process(warehouse.path) == "locked"
        warehouse.snapshot_copy(tmp_path / "copy.duckdb", max_age_s=0)
        assert as_another_process(warehouse.path) == "locked"
    finally:
        warehouse.close()


def test_a_closed_warehouse_is_free_for_the_next_process(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w.duckdb")
    warehouse.snapshot_copy(tmp_path / "copy.duckdb", max_age_s=0)
    warehouse.close()
    assert as_another_process(warehouse.path) == "opened"
