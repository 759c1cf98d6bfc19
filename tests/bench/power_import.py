"""Import of 10,000,000 power samples from an nvidia-smi log: the whole load against DuckDB's own read and insert.

Floor: `read_csv` with declared types and one `INSERT` of the same rows, all nine columns, into a table like
core.power_sample in a database file, without any check, window, staging or landing. Both run in turns in processes
of their own, so that each one's peak memory can be told. A smaller log of the same kind shows whether memory
grows with the file. JOULEBOOK_BENCH_SAMPLES sets another number of rows.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from tests.bench.timing import rounded
from tests.support import ROOT

_ROWS = 10_000_000
_GPUS = 8
_PERIOD_MS = 200
_TURNS = 2
_TICKS_AT_ONCE = 100_000


def write_log(path: Path, rows: int) -> None:
    """An nvidia-smi log of 8 boards every 200 ms, about 80 bytes a row."""
    boards = pl.DataFrame({"board": range(_GPUS)}).with_columns(
        uuid=pl.format("GPU-{}1c9814-6156-355b-e589-ff2064894f16", pl.col("board").cast(pl.String).str.zfill(2))
    )
    with path.open("wb") as file:
        file.write(b"timestamp, index, uuid, power.draw [W]\n")
        for first in range(0, rows // _GPUS, _TICKS_AT_ONCE):
            ticks = pl.DataFrame({"tick": range(first, min(first + _TICKS_AT_ONCE, rows // _GPUS))})
            stamp = (pl.lit(datetime(2026, 8, 1)) + pl.duration(milliseconds=pl.col("tick") * _PERIOD_MS)).dt
            centiwatts = 30_000 + (pl.col("tick") * 7919 + pl.col("board") * 104_729) % 40_000
            lines = ticks.join(boards, how="cross").select(
                pl.format(
                    "{}, {}, {}, {}.{} W",
                    stamp.strftime("%Y/%m/%d %H:%M:%S%.3f"),
                    "board",
                    "uuid",
                    centiwatts // 100,
                    (centiwatts % 100).cast(pl.String).str.zfill(2),
                )
            )
            file.write(("\n".join(lines.to_series().to_list()) + "\n").encode())


_SUBJECT = """
import json, resource, sys, time
from datetime import datetime
from pathlib import Path
from ingest.kinds import kind
from ingest.stream import Stream, refresh_stream
from warehouse.engine import Warehouse
log, database = map(Path, sys.argv[1:3])
warehouse = Warehouse.open(database)
about = Stream("bench", "nvidia-smi-csv", log, datetime(2026, 8, 20), {"timezone": "UTC"})
started = time.perf_counter()
told = refresh_stream(warehouse, kind("nvidia-smi-csv"), about, trigger="import")
seconds = time.perf_counter() - started
assert told.state == "OK", told.error
windows = warehouse.scalar("SELECT count(*) FROM core.energy_observation WHERE energy_gross_j IS NOT NULL")
warehouse.close()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "rows": told.rows_loaded, "windows": windows, "peak_mib": peak}))
"""
_FLOOR = """
import json, resource, sys, time
import duckdb
log, database = sys.argv[1:3]
raw = duckdb.connect(database)
raw.execute(
    "CREATE TABLE sample (device_uuid VARCHAR NOT NULL, sampled_at TIMESTAMP NOT NULL, power_w DOUBLE, "
    "energy_counter_j DOUBLE, method VARCHAR NOT NULL, sensor_at TIMESTAMP, epoch INTEGER NOT NULL, "
    "source_id VARCHAR NOT NULL, run_id VARCHAR NOT NULL)"
)
started = time.perf_counter()
raw.execute(
    "INSERT INTO sample SELECT uuid, \\"timestamp\\", CAST(replace(power, ' W', '') AS DOUBLE), NULL, 'average', NULL, "
    "0, 'bench', '01a228b1-4d04-7000-8600-23237f99b8d9' FROM read_csv($log, header = true, delim = ', ', "
    "columns = {'timestamp': 'TIMESTAMP', 'index': 'INTEGER', 'uuid': 'VARCHAR', 'power': 'VARCHAR'}, "
    "timestampformat = '%Y/%m/%d %H:%M:%S.%g')", {"log": log}
)
seconds = time.perf_counter() - started
rows = raw.execute("SELECT count(*) FROM sample").fetchone()[0]
raw.close()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "rows": rows, "peak_mib": peak}))
"""


def _once(code: str, log: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, str(log), str(Path(folder) / "w.duckdb")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def run() -> dict[str, Any]:
    rows = int(os.environ.get("JOULEBOOK_BENCH_SAMPLES", _ROWS)) // _GPUS * _GPUS
    with tempfile.TemporaryDirectory() as folder:
        small, log = Path(folder) / "small.csv", Path(folder) / "log.csv"
        write_log(small, rows // 5)
        few = _once(_SUBJECT, small)
        small.unlink()
        write_log(log, rows)
        size_mib = log.stat().st_size / 2**20
        pairs = [(_once(_SUBJECT, log), _once(_FLOOR, log)) for _ in range(_TURNS)]
    assert all(s["rows"] == f["rows"] == rows for s, f in pairs)
    subject_s, floor_s = (statistics.median(pair[side]["seconds"] for pair in pairs) for side in (0, 1))
    peak_mib = max(s["peak_mib"] for s, _ in pairs)
    return rounded(
        {
            "samples": rows,
            "file_mib": size_mib,
            "windows_with_energy": pairs[0][0]["windows"],
            "import_s": subject_s,
            "import_rows_per_s": rows / subject_s,
            "floor_read_csv_and_insert_s": floor_s,
            "floor_rows_per_s": rows / floor_s,
            "rows_per_s_ratio_to_floor": floor_s / subject_s,
            "peak_memory_mib": peak_mib,
            "peak_memory_mib_of_a_fifth_of_the_rows": few["peak_mib"],
            "floor_peak_memory_mib": max(f["peak_mib"] for _, f in pairs),
        }
    )
