"""Page reruns at sample size and at 1,000,000 usage rows + 10,000,000 power samples.

A rerun is a whole run of the entry script for one page, in this process (Streamlit's AppTest). `cold`
clears the page caches first, `warm` finds them filled, as every rerun within their few seconds does.
Floor: a page of one line of text, run the same way in the same process.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.testing.v1 import AppTest

from app import desk as desks
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.settings import load_settings
from tests.bench.timing import rounded, seconds
from tests.console.pages import NAMES, open_page

_REPEATS = 3
USAGE_ROWS = 1_000_000
POWER_ROWS = 10_000_000
_DEVICES = 8

_USAGE = """
INSERT INTO core.usage BY NAME
SELECT u.* EXCLUDE (n_, of_) REPLACE (
    'bench-' || CAST(r.i AS VARCHAR) AS usage_key,
    u.period_start_at - to_seconds(r.i % 2592000) AS period_start_at,
    u.period_end_at - to_seconds(r.i % 2592000) AS period_end_at,
    sha256('bench' || CAST(r.i AS VARCHAR)) AS row_sha256)
FROM range($rows) r(i)
JOIN (SELECT *, row_number() OVER (ORDER BY usage_key) - 1 AS n_, count(*) OVER () AS of_
      FROM core.usage WHERE workload = 'organic') u ON u.n_ = r.i % u.of_
"""
_POWER = """
INSERT INTO core.power_sample
SELECT 'GPU-' || CAST(i % $devices AS VARCHAR),
       CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP) - to_milliseconds(CAST(200 * (i // $devices) AS BIGINT)),
       300 + 50 * sin(i / 1000.0), 1e9 - i, 'instant', NULL, 1, 'power:nvml', 'bench'
FROM range($rows) r(i)
"""
_DEVICE = """
INSERT INTO core.device
SELECT 'GPU-' || CAST(i AS VARCHAR), 'bench', NULL, 'H100', 'HOPPER', '580', 700, false, true, 'hopper', 'gpu', 'ok',
       CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP), 'power:nvml' FROM range($devices) r(i)
"""


@contextmanager
def _desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory() as folder:
        before = dict(os.environ)
        os.environ |= {"JOULEBOOK_HOME": folder, "JOULEBOOK_OFFLINE": "true"}
        desk = open_desk(load_settings())
        desks.set_current(desk)
        try:
            yield desk
        finally:
            desks.set_current(None)
            desk.close()
            os.environ.clear()
            os.environ.update(before)


def fill(desk: Desk, usage_rows: int, power_rows: int) -> None:
    """Grow the sample to `usage_rows` organic requests over 30 days and `power_rows` readings of 8 devices."""
    with desk.warehouse.transaction() as tx:
        tx.execute(_USAGE, {"rows": usage_rows})
        tx.execute(_DEVICE, {"devices": _DEVICES})
        tx.execute(_POWER, {"rows": power_rows, "devices": _DEVICES})


def _rerun(test: AppTest, *, cold: bool) -> float:
    times = []
    for _ in range(_REPEATS):
        if cold:
            st.cache_data.clear()
        times.append(seconds(test.run))
        if test.exception:
            raise RuntimeError(f"a page failed: {test.exception[0].message}")
    return statistics.median(times)


def _pages(label: str) -> dict[str, float]:
    figures = {}
    for name in NAMES:
        test = open_page(name)
        figures[f"{name}_{label}_cold_s"] = _rerun(test, cold=True)
        figures[f"{name}_{label}_warm_s"] = _rerun(test, cold=False)
    return figures


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        line = Path(folder) / "line.py"
        line.write_text('import streamlit as st\nst.write("hello")\n')
        floor_page = AppTest.from_file(str(line)).run()
        floor = _rerun(floor_page, cold=False)
    with _desk() as desk:
        call(desk, "sample.load", {}, local_operator("cli"))
        figures = _pages("sample")
        fill(desk, USAGE_ROWS, POWER_ROWS)
        figures |= _pages("large")
    ratios = {k.removesuffix("_s") + "_ratio_to_floor": v / floor for k, v in figures.items()}
    grown = {
        f"{name}_large_to_sample_cold_ratio": figures[f"{name}_large_cold_s"] / figures[f"{name}_sample_cold_s"]
        for name in NAMES
    }
    return rounded({"floor_one_line_page_s": floor, **figures, **ratios, **grown})
