"""Zeus logs: joules per window and board; what Zeus writes where it has nothing is unknown, not zero or negative."""

from __future__ import annotations

from datetime import datetime

import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from tests.ingest.power_samples import GPU_A, GPU_B, ZEUS_LOG
from tests.ingest.samples import counts_add_up, payload, rows

HEADER = "start_time,window_name,elapsed_time,gpu0_energy\n"


def read(text: str, **options: str) -> Parsed:
    parsed = kind("zeus-csv").parse(payload(text, "zeus-csv", options=options))
    assert counts_add_up(parsed)
    return parsed


def test_a_line_is_a_window_of_each_gpu() -> None:
    parsed = read(ZEUS_LOG, devices=f"0={GPU_A},1={GPU_B}")
    assert parsed.rows_in == 6
    by_board = {r["device_uuid"]: r["energy_gross_j"] for r in rows(parsed) if r["usage_key"] == "zeus:epoch 1"}
    assert by_board == {GPU_A: 18150.25, GPU_B: 17890.0}


def test_times_are_unix_seconds() -> None:
    (row,) = rows(read(HEADER + "1785585600.25,w,60.5,18150.25\n"))
    assert (row["window_start_at"], row["window_end_at"]) == (
        datetime(2026, 8, 1, 12, 0, 0, 250_000), datetime(2026, 8, 1, 12, 1, 0, 750_000),
    )  # fmt: skip
    assert (row["evidence_class"], row["method"], row["workload"], row["meter_scope"]) == (
        "measured", "zeus_window", "device", "gpu",
    )  # fmt: skip
    assert row["quality"] in {"FAIR", "LOW"}


@pytest.mark.parametrize(
    ("energy", "elapsed", "reason"),
    [
        ("-7960.0", "10", "counter_reset"),  # zeus 0.16.0 on a counter that started anew
        ("0.0", "10", "below_resolution"),
        ("12.5", "0.05", "below_resolution"),  # or power x time, which is no measurement
        ("", "10", "unsupported"),
        ("30000", "10", "implausible"),
    ],
)
def test_what_zeus_could_not_measure_is_unknown_with_a_reason(energy: str, elapsed: str, reason: str) -> None:
    (row,) = rows(read(HEADER + f"1785585600.0,w,{elapsed},{energy}\n"))
    assert (row["energy_gross_j"], row["gap_reason"], row["quality"]) == (None, reason, "LOW")
    assert row["relative_uncertainty"] is None


def test_windows_within_windows_are_marked_so_that_nobody_adds_them() -> None:
    text = (
        HEADER + "1000000000,epoch,60,6000\n1000000010,step,5,500\n1000000060,next,60,6000\n1000000100,late,60,6000\n"
    )
    told = {r["usage_key"]: r["workload"] for r in rows(read(text))}
    assert told == {"zeus:epoch": "device", "zeus:step": "nested", "zeus:next": "device", "zeus:late": "nested"}


def test_the_same_board_and_window_eight_times_counts_once() -> None:
    # codecarbon 936, as eight ranks that each monitor the whole host would log it
    parsed = read(HEADER + "1785585600.0,w,60,6000\n" * 8)
    assert (parsed.tables[parsed.primary].height, parsed.rows_quarantined) == (1, 7)
    assert rows(parsed)[0]["energy_gross_j"] == 6000.0


def test_a_window_name_may_hold_commas() -> None:
    (row,) = rows(read(HEADER + "1785585600.0,step, one, two,60,6000\n"))
    assert row["usage_key"] == "zeus:step, one, two"


def test_gpu_numbers_are_of_the_host_unless_declared() -> None:
    text = HEADER + "1785585600.0,w,60,6000\n"
    assert rows(read(text, host="node-7"))[0]["device_uuid"] == "node-7/index:0"
    assert rows(read(text, devices=GPU_A))[0]["device_uuid"] == GPU_A
    two = "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n1785585600.0,w,60,6000,5000\n"
    assert {r["device_uuid"] for r in rows(read(two, devices=GPU_A))} == {"unknown/index:0", "unknown/index:1"}


@pytest.mark.parametrize(
    "line", ["1785585600.0,w,60", "soon,w,60,1", "1785585600.0,w,-1,1", "9e30,w,60,1", "1785585600.0,w,nan,1"]
)
def test_a_line_that_is_no_window_is_refused_and_its_siblings_load(line: str) -> None:
    parsed = read(HEADER + line + "\n1785585600.0,w,60,6000\n")
    assert (parsed.rows_in, parsed.rows_quarantined) == (2, 1)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "start_time,window_name,elapsed_time\n1,w,2\n", HEADER])
def test_what_is_no_log_of_zeus_is_refused_whole(text: str) -> None:
    with pytest.raises(PayloadError):
        read(text)
