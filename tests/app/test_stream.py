"""Large loads: chunk by chunk into staging, one step into the core tables, nothing half when cut or cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed, Reject
from ingest.kind import Kind
from ingest.pipeline import RunOutcome, refresh
from ingest.stream import Progress, Stream, chunks_of_lines, refresh_stream, whole
from warehouse import landing
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.staging import drop_orphans
from warehouse.tables import frame

T0 = datetime(2026, 1, 1)


def lines(stream: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """A toy kind: one JSON object per line, {"key", "cost"}; a line without key is refused."""
    for first, block in chunks_of_lines(file, 200):
        rows: list[dict[str, Any]] = []
        rejects: list[Reject] = []
        for offset, text in enumerate(block.splitlines()):
            told = json.loads(text)
            if "key" not in told:
                rejects.append(Reject("no key", row_no=first + offset, raw=text.decode()))
                continue
            rows.append(
                {
                    "provider": "p",
                    "account": "a",
                    "usage_key": told["key"],
                    "grain": "request",
                    "workload": "organic",
                    "period_start_at": T0,
                    "period_end_at": T0 + timedelta(seconds=1),
                    "requested_offer": "m",
                    "requests": 1,
                    "attempts": 1,
                    "prompt_tokens": told["cost"],
                    "evidence_class": "allocated",
                    "method": "none",
                }
            )
        yield Parsed("core.usage", {"core.usage": frame("core.usage", rows)}, len(rows) + len(rejects), tuple(rejects))


TOY = Kind(
    name="toy",
    title="Toy",
    parse=whole(lines),
    docs="",
    transports=("file",),
    max_bytes=1 << 20,
    stale_after_s=60,
    expire_after_s=600,
    stream=lines,
)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def load(warehouse: Warehouse, path: Path, progress: Progress | None = None) -> RunOutcome:
    stream = Stream("s", "toy", path, utcnow())
    return refresh_stream(warehouse, TOY, stream, trigger="import", progress=progress)


def staged(warehouse: Warehouse) -> int:
    return int(warehouse.scalar("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'stage'"))


def test_many_chunks_load_as_one_and_a_second_time_change_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    path = write(tmp_path / "f", [{"key": f"k{i}", "cost": i} for i in range(100)] + [{"cost": 1}])
    progress = Progress()
    told = load(warehouse, path, progress)
    assert (told.state, told.rows_in, told.rows_loaded, told.rows_quarantined) == ("PARTIAL", 101, 100, 1)
    assert progress.done_bytes == progress.total_bytes == path.stat().st_size
    again = load(warehouse, path)
    assert (again.rows_loaded, again.rows_unchanged, again.rows_quarantined) == (0, 100, 1)
    assert warehouse.scalar("SELECT count(*) FROM ops.quarantine") == 1
    assert staged(warehouse) == 0


def test_repeats_across_chunks_are_counted_and_differing_ones_refused(warehouse: Warehouse, tmp_path: Path) -> None:
    rows = [{"key": f"k{i}", "cost": i} for i in range(50)]
    told = load(warehouse, write(tmp_path / "f", [*rows, rows[0], {"key": "k1", "cost": 999}]))
    assert (told.rows_in, told.rows_loaded, told.rows_unchanged, told.rows_quarantined) == (52, 50, 1, 1)
    assert warehouse.scalar("SELECT prompt_tokens FROM core.usage WHERE usage_key = 'k1'") == 1


def test_a_cancelled_load_keeps_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    path = write(tmp_path / "f", [{"key": f"k{i}", "cost": i} for i in range(100)])
    told = load(warehouse, path, Progress(cancelled=True))
    assert told.state == "FAILED"
    assert told.error_class == "Cancelled"
    assert warehouse.scalar("SELECT count(*) FROM core.usage") == 0
    assert staged(warehouse) == 0


def test_a_file_that_breaks_in_the_middle_keeps_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    path = write(tmp_path / "f", [{"key": f"k{i}", "cost": i} for i in range(100)])
    path.write_bytes(path.read_bytes() + b"{broken\n")
    assert load(warehouse, path).state == "FAILED"
    assert warehouse.scalar("SELECT count(*) FROM core.usage") == 0


def test_what_a_killed_process_left_staged_is_dropped_at_the_next_start(warehouse: Warehouse, tmp_path: Path) -> None:
    from warehouse.staging import Staging

    staging = Staging(warehouse, "run-1")
    staging.add({"core.usage": frame("core.usage", [])})
    assert staged(warehouse) == 1
    assert drop_orphans(warehouse) == 1
    assert staged(warehouse) == 0


def test_a_missing_file_fails_in_words(warehouse: Warehouse, tmp_path: Path) -> None:
    told = load(warehouse, tmp_path / "absent")
    assert told.state == "FAILED"
    assert "absent cannot be read" in (told.error or "")


def test_streamed_and_whole_loads_agree(warehouse: Warehouse, tmp_path: Path) -> None:
    from ingest.base import Payload

    path = write(tmp_path / "f", [{"key": f"k{i}", "cost": i} for i in range(40)] + [{"cost": 1}])
    load(warehouse, path)
    payload = Payload("s", "toy", "file:///x", utcnow(), path.read_bytes())
    told = refresh(warehouse, TOY, "s", lambda: payload, trigger="import")
    assert (told.rows_loaded, told.rows_unchanged, told.rows_quarantined) == (0, 40, 1)


def test_a_large_file_is_kept_by_reference(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest import stream as module

    monkeypatch.setattr(module, "_LAND_WHOLE_BYTES", 10)
    path = write(tmp_path / "f", [{"key": "k", "cost": 1}])
    load(warehouse, path)
    row = warehouse.query("SELECT payload_id, url, encoding, size_bytes FROM landing.payload").row(0, named=True)
    assert (row["encoding"], row["url"], row["size_bytes"]) == ("reference", path.as_uri(), path.stat().st_size)
    assert landing.read_body(warehouse, row["payload_id"]) is None


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" ")), max_size=60), st.integers(1, 64))
def test_lines_come_out_whole_and_numbered_whatever_the_chunk(content: list[bytes], size: int) -> None:
    import io

    data = b"\n".join(content)
    seen = list(chunks_of_lines(io.BytesIO(data), size))
    assert b"".join(block for _, block in seen) == data
    number = 0
    for first, block in seen:
        assert first == number
        number += block.count(b"\n")
        assert block.endswith(b"\n") or block is seen[-1][1]
