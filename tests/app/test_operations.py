"""Every operation is found by its name alone, and finding one does not import what the others need."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime

import pytest
from pydantic import ValidationError

from app.errors import NotFound, sentences
from app.operations import OPERATIONS, Params, find, load_all


def test_each_operation_is_registered_where_its_name_says() -> None:
    """In a process of its own: here others may have imported every module already."""
    load_all()
    code = """
import sys
from app.operations import OPERATIONS, find
for name in sys.argv[1:]:
    OPERATIONS.clear()
    for module in [m for m in sys.modules if m.startswith("app.operations.")]:
        del sys.modules[module]
    assert find(name).name == name
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *OPERATIONS], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_nobody_registered_is_answered_with_those_there_are() -> None:
    with pytest.raises(NotFound, match=r"There is no operation 'recommend\.guess'") as told:
        find("recommend.guess")
    assert "recommend.list" in told.value.fix and "sql.run" in told.value.fix


def test_a_time_that_is_none_is_answered_with_one_that_is() -> None:
    class Asked(Params):
        at: datetime

    with pytest.raises(ValidationError) as wrong:
        Asked.model_validate({"at": "yesterday"})
    assert sentences(wrong.value) == "at: is no time; give ISO 8601 with its zone, such as 2026-11-29T12:00Z"


@pytest.mark.parametrize("name", ["runs", "sql.run", "alert.list", "import", "rank"])
def test_a_light_operation_imports_no_statistics_and_no_kernels(name: str) -> None:
    code = f"""
import sys
from app.operations import find
find({name!r})
print(*sorted({{"numba", "scipy.stats", "statsmodels", "tokenizers", "streamlit"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_the_command_line_is_read_without_the_warehouse() -> None:
    """What a running console answers needs neither DuckDB nor polars here: `joulebook --help` is there at once."""
    code = "import app.cli, sys; print(*sorted({'duckdb', 'polars', 'numpy', 'scipy', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_nothing_that_is_slow_to_import_is_imported_before_it_is_used() -> None:
    """A start of the console imports every operation: statistics, optimisers come with first use."""
    code = """
import sys
from app.operations import load_all
load_all()
slow = {"numba", "scipy", "statsmodels", "tokenizers", "streamlit", "plotly"}
print(*sorted(slow & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
