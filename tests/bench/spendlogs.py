"""Import of LiteLLM spend rows: the whole pipeline, every check on, against DuckDB's own read_json into a table.

Each import runs in a process of its own, so that its peak memory is its own: with all rows, and with a quarter
of them. The file is JSON lines with every column of LiteLLM_SpendLogs, about 1.1 kB a row.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.bench.timing import rounded

ROWS = 1_000_000
_ROOT = Path(__file__).resolve().parents[2]
_MODELS = (("openai/qwen3.6-35b", "qwen3.6-35b"), ("gpt-4o-mini", "gpt-4o-mini"), ("vertex_ai/gemini-2.5-pro", "g25"))
_SUBJECT = """
import json, resource, sys, time
from pathlib import Path
from ingest.kinds import kind
from ingest.stream import Stream, refresh_stream
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
warehouse = Warehouse.open(Path(sys.argv[2]))
about = Stream("bench", "litellm-spendlogs", Path(sys.argv[1]), utcnow(), {"zero_spend": "unknown"})
started = time.perf_counter()
told = refresh_stream(warehouse, kind("litellm-spendlogs"), about, trigger="import")
warehouse.close()
seconds = time.perf_counter() - started
assert told.state == "OK", told.error
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"rows": told.rows_loaded, "seconds": seconds, "peak_bytes": peak}))
"""
_FLOOR = """
import json, resource, sys, time
import duckdb
started = time.perf_counter()
db = duckdb.connect(sys.argv[2])
db.execute("CREATE TABLE spend AS SELECT * FROM read_json('" + sys.argv[1] + "')")
rows = db.execute("SELECT count(*) FROM spend").fetchone()[0]
db.close()
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"rows": rows, "seconds": seconds, "peak_bytes": peak}))
"""


def write_rows(path: Path, rows: int) -> None:
    """`rows` rows of the table as JSON lines."""
    made = random.Random(7)
    keys = [f"{made.getrandbits(256):064x}" for _ in range(40)]
    first_at = datetime(2026, 8, 1)
    with path.open("w") as out:
        for i in range(rows):
            out.write(json.dumps(_row(made, keys, first_at + timedelta(milliseconds=i * 250), i)) + "\n")


def _row(made: random.Random, keys: list[str], start_at: datetime, i: int) -> dict[str, Any]:
    prompt, completion = made.randrange(10, 20_000), made.randrange(1, 2_000)
    milliseconds = made.randrange(100, 90_000)
    model, group = _MODELS[i % len(_MODELS)]
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    details = {"cached_tokens": made.randrange(prompt), "audio_tokens": None}
    return {
        "request_id": f"chatcmpl-{made.getrandbits(64):016x}",
        "call_type": "acompletion",
        "api_key": keys[made.randrange(len(keys))],
        "spend": prompt * 1.25e-6 + completion * 1e-5,
        **told,
        "startTime": start_at.isoformat(timespec="milliseconds") + "Z",
        "endTime": (start_at + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds") + "Z",
        "request_duration_ms": milliseconds,
        "completionStartTime": start_at.isoformat(timespec="milliseconds") + "Z",
        "model": model,
        "model_id": "a1",
        "model_group": group,
        "custom_llm_provider": "openai",
        "api_base": "http://127.0.0.1:8000/v1",
        "user": "",
        "metadata": {"status": "success", "usage_object": {**told, "prompt_tokens_details": details}},
        "cache_hit": "False",
        "cache_key": "Cache OFF",
        "request_tags": ["team-a"],
        "team_id": None,
        "organization_id": None,
        "end_user": "",
        "requester_ip_address": None,
        "messages": {},
        "response": {},
        "session_id": None,
        "status": "success",
        "mcp_namespaced_tool_name": None,
        "agent_id": None,
        "proxy_server_request": {},
    }


def _measured(script: str, source: Path, folder: str) -> dict[str, Any]:
    target = Path(folder) / "target.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", script, str(source), str(target)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    for left in Path(folder).glob("target.duckdb*"):
        left.unlink()
    told: dict[str, Any] = json.loads(done.stdout[done.stdout.rindex("{") :])  # behind DuckDB's progress bar
    return told


def run(rows: int = ROWS, repeats: int = 3) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.jsonl", Path(folder) / "small.jsonl"
        write_rows(large, rows)
        write_rows(small, rows // 4)
        pairs = [(_measured(_SUBJECT, large, folder), _measured(_FLOOR, large, folder)) for _ in range(repeats)]
        quarter = _measured(_SUBJECT, small, folder)
        size = large.stat().st_size
    pairs.sort(key=lambda pair: pair[1]["seconds"] / pair[0]["seconds"])
    ours, floor = pairs[len(pairs) // 2]
    assert ours["rows"] == floor["rows"] == rows
    return rounded(
        {
            "rows": rows,
            "file_bytes": size,
            "import_s": ours["seconds"],
            "import_rows_per_s": rows / ours["seconds"],
            "floor_read_json_and_insert_s": floor["seconds"],
            "floor_rows_per_s": rows / floor["seconds"],
            "ratio_to_floor": floor["seconds"] / ours["seconds"],
            "peak_memory_bytes": ours["peak_bytes"],
            "peak_memory_bytes_of_a_quarter": quarter["peak_bytes"],
            "floor_peak_memory_bytes": floor["peak_bytes"],
        }
    )
