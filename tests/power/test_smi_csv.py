"""nvidia-smi logs: units, words in place of values, zones, headers that come again, boards that are lost."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.power import smi_csv
from ingest.stream import Stream, refresh_stream
from tests.ingest.power_samples import GPU_A, GPU_B, SMI_LOG
from tests.ingest.samples import counts_add_up, payload, rows
from tests.support import shared
from warehouse.engine import Warehouse

KIND = "nvidia-smi-csv"
HEADER = "timestamp, uuid, power.draw [W]\n"


def read(text: str | bytes, **options: str) -> Parsed:
    parsed = kind(KIND).parse(payload(text, KIND, options={"timezone": "UTC", **options}))
    assert counts_add_up(parsed)
    return parsed


def line(second: float, watts: str, uuid: str = GPU_A, *, day: str = "2026/08/01", hour: int = 12) -> str:
    whole, ms = divmod(round(second * 1000), 1000)
    return f"{day} {hour + whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{ms:03d}, {uuid}, {watts}\n"


def energies(parsed: Parsed) -> list[float | None]:
    return parsed.tables["core.energy_observation"]["energy_gross_j"].to_list()


def test_a_row_is_a_sample_of_one_board_in_watts() -> None:
    parsed = read(HEADER + line(0.25, "212.75 W") + line(0.25, "91.50 W", GPU_B))
    assert rows(parsed) == [
        {
            "device_uuid": uuid, "sampled_at": datetime(2026, 8, 1, 12, 0, 0, 250_000), "power_w": watts,
            "energy_counter_j": None, "method": "average", "sensor_at": None, "epoch": rows(parsed)[0]["epoch"],
        }
        for uuid, watts in ((GPU_A, 212.75), (GPU_B, 91.5))
    ]  # fmt: skip


def test_steady_power_over_ten_seconds_is_its_energy() -> None:
    parsed = read(HEADER + "".join(line(i * 0.5, "300.00 W") for i in range(41)))
    (first, second) = parsed.tables["core.energy_observation"].to_dicts()
    assert (first["energy_gross_j"], second["energy_gross_j"]) == (3000.0, 3000.0)
    assert (first["method"], first["evidence_class"], first["workload"]) == ("integrated_average", "measured", "device")
    assert first["meter_scope"] == "gpu"


def test_nounits_has_the_unit_in_the_header_alone() -> None:
    assert rows(read(HEADER + line(0, "212.75")))[0]["power_w"] == 212.75


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Not Supported]", "[Insufficient Permissions]"])
def test_words_for_no_value_are_unknown_and_no_fault(word: str) -> None:
    parsed = read(HEADER + line(0, word))
    assert (rows(parsed)[0]["power_w"], rows(parsed)[0]["method"], parsed.rejects) == (None, "unavailable", ())


@pytest.mark.parametrize("text", ["3700.00 W", "-5.00 W", "0.00 W", "nan", "inf", "1e9", "abc", "12,5"])
def test_a_value_that_cannot_be_power_is_refused_and_its_row_stays(text: str) -> None:
    parsed = read(HEADER + line(0, text.replace(",", ".") + ("x" if "," in text else "")))
    assert rows(parsed)[0]["power_w"] is None
    (reject,) = parsed.rejects
    assert (reject.whole_row, reject.field, reject.row_no, reject.natural_key) == (False, "power.draw", 2, GPU_A)


def test_the_boards_limit_bounds_what_is_believed() -> None:
    head = "timestamp, uuid, power.draw [W], enforced.power.limit [W]\n"
    parsed = read(head + line(0, "419.00 W, 350.00 W") + line(1, "421.00 W, 350.00 W"))
    assert [r["power_w"] for r in rows(parsed)] == [419.0, None]
    assert "above 420 W" in parsed.rejects[0].reason


def test_instant_power_comes_before_the_drivers_average() -> None:
    head = "timestamp, uuid, power.draw [W], power.draw.average [W], power.draw.instant [W]\n"
    parsed = read(head + line(0, "1.00 W, 2.00 W, 3.00 W") + line(1, "1.00 W, 2.00 W, [N/A]"))
    assert [(r["power_w"], r["method"]) for r in rows(parsed)] == [(3.0, "instant"), (1.0, "average")]


def test_a_superchip_whose_gpu_tells_nothing_is_a_module_throughout() -> None:
    head = "timestamp, uuid, power.draw [W], module.power.draw.instant [W]\n"
    told = line(0, "[N/A], 520.00 W") + line(1, "99.00 W, 530.00 W")
    parsed = read(head + told)
    assert [r["power_w"] for r in rows(parsed)] == [520.0, 530.0]
    assert parsed.tables["core.device"]["power_scope"].to_list() == ["module"]
    gpu = read(head + line(0, "99.00 W, 530.00 W") + line(1, "[N/A], 520.00 W"))
    assert [r["power_w"] for r in rows(gpu)] == [99.0, None]


def test_a_header_that_comes_again_may_have_other_columns() -> None:
    text = HEADER + line(0, "100.00 W") + "power.draw [W], timestamp, uuid\n"
    parsed = read(text + f"101.00 W, 2026/08/01 12:00:01.000, {GPU_A}\n" + HEADER + line(2, "102.00 W"))
    assert [r["power_w"] for r in rows(parsed)] == [100.0, 101.0, 102.0]
    assert parsed.rejects == ()


def test_a_log_without_header_needs_its_columns_declared() -> None:
    with pytest.raises(PayloadError, match="no header"):
        read(line(0, "100.00 W"))
    assert rows(read(line(0, "100.00 W"), columns="timestamp,uuid,power.draw"))[0]["power_w"] == 100.0


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("timestamp, uuid\n", "there is no power"),
        ("timestamp, uuid, power.draw [mW]\n", "is in 'mW', not in W"),
        ("timestamp, power.draw [W], power.draw [W]\n", "named twice"),
    ],
)
def test_a_header_that_will_not_do_is_refused_whole(head: str, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        read(head + line(0, "100.00 W"))


@pytest.mark.parametrize("body", [b"", b"\n \n", "timestamp, uuid, power.draw [W]\n".encode("utf-16"), b"\x1f\x8b..."])
def test_what_is_no_log_is_refused_whole(body: bytes) -> None:
    with pytest.raises(PayloadError):
        read(body)


# time -------------------------------------------------------------------------------------------


def stamps(parsed: Parsed) -> list[str]:
    return [f"{r['sampled_at']:%d %H:%M:%S}" for r in rows(parsed)]


def test_naive_stamps_are_of_the_declared_zone() -> None:
    assert stamps(read(HEADER + line(0, "1.00 W"), timezone="Europe/Helsinki")) == ["01 09:00:00"]
    assert stamps(read(HEADER + line(0, "1.00 W"), timezone="-05:30")) == ["01 17:30:00"]
    with pytest.raises(PayloadError, match="is no time zone"):
        read(HEADER + line(0, "1.00 W"), timezone="Helsinki time")
    with pytest.raises(PayloadError, match="is no time zone"):
        kind(KIND).parse(payload(SMI_LOG, KIND, options={}))


def test_the_hour_that_comes_twice_is_told_apart_by_the_order_of_the_log() -> None:
    # 2026-10-25: clocks in Helsinki go from 04:00 summer time back to 03:00 winter time, at 01:00 UTC
    walls = ["02:59:30", "03:00:30", "03:30:00", "03:59:30", "03:00:30", "03:59:30", "04:00:30"]
    text = HEADER + "".join(f"2026/10/25 {wall}.000, {GPU_A}, 100.00 W\n" for wall in walls)
    parsed = read(text, timezone="Europe/Helsinki")
    told = [f"{r['sampled_at']:%H:%M:%S}" for r in rows(parsed)]
    assert told == ["23:59:30", "00:00:30", "00:30:00", "00:59:30", "01:00:30", "01:59:30", "02:00:30"]


def test_a_log_that_begins_within_the_doubled_hour_does_not_tell_which() -> None:
    walls = ["03:30:00", "03:59:30", "03:00:30", "04:00:30"]
    text = HEADER + "".join(f"2026/10/25 {wall}.000, {GPU_A}, 100.00 W\n" for wall in walls)
    parsed = read(text, timezone="Europe/Helsinki")
    assert [f"{r['sampled_at']:%H:%M:%S}" for r in rows(parsed)] == ["01:00:30", "02:00:30"]
    assert [r.row_no for r in parsed.rejects] == [2, 3]


def test_a_stamp_that_the_zone_skipped_is_refused() -> None:
    text = HEADER + f"2026/03/29 03:30:00.000, {GPU_A}, 100.00 W\n"
    parsed = read(text, timezone="Europe/Helsinki")
    assert "its zone does not have" in parsed.rejects[0].reason


# boards -----------------------------------------------------------------------------------------


def test_an_index_is_a_board_only_as_declared_or_of_its_host() -> None:
    text = "timestamp, index, power.draw [W]\n2026/08/01 12:00:00.000, 1, 100.00 W\n"
    assert rows(read(text))[0]["device_uuid"] == "unknown/index:1"
    assert rows(read(text, host="node-7"))[0]["device_uuid"] == "node-7/index:1"
    assert rows(read(text, devices=f"0={GPU_B},1={GPU_A}"))[0]["device_uuid"] == GPU_A
    with pytest.raises(PayloadError, match="declares no GPU"):
        read(text, devices="1=first")


def test_a_row_that_names_no_board_is_refused_unless_one_is_declared() -> None:
    text = "timestamp, power.draw [W]\n2026/08/01 12:00:00.000, 100.00 W\n"
    assert "names no GPU" in read(text).rejects[0].reason
    assert rows(read(text, devices=GPU_A))[0]["device_uuid"] == GPU_A


def test_what_the_log_says_of_a_board_makes_its_sensor_class() -> None:
    head = "timestamp, uuid, power.draw [W], name, driver_version, pci.bus_id, mig.mode.current\n"
    parsed = read(head + line(0, "100.00 W, NVIDIA A100-SXM4-80GB, 570.86.10, 00000000:01:00.0, Enabled"))
    (device,) = parsed.tables["core.device"].to_dicts()
    assert (device["name"], device["gpu_arch"], device["sensor_class"]) == (
        "NVIDIA A100-SXM4-80GB", "Ampere", "inst_100ms_win25ms",
    )  # fmt: skip
    assert (device["mig_enabled"], device["pci_bus_id"], device["state"]) == (True, "00000000:01:00.0", "ok")


def test_another_driver_begins_a_new_epoch() -> None:
    head = "timestamp, uuid, power.draw [W], driver_version\n"
    text = head + "".join(line(i, "100.00 W, 570.1") for i in range(12))
    parsed = read(text + "timestamp, uuid, power.draw [W], driver_version\n" + line(12, "100.00 W, 580.2"))
    epochs = [r["epoch"] for r in rows(parsed)]
    assert epochs[-1] == epochs[0] + 1


@pytest.mark.parametrize(
    "message",
    [
        "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover it",
        "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error",
        f"GPU is lost: {GPU_A}",
    ],
)
def test_a_message_that_a_gpu_is_lost_ends_its_window_and_is_kept_in_quarantine(message: str) -> None:
    # prometheus-slurm-exporter pull request 34: the text broke the parser
    head = "timestamp, uuid, power.draw [W], pci.bus_id\n"
    a, b = ", 00000000:01:00.0", ", 00000000:02:00.0"
    text = (
        head
        + "".join(line(i, f"100.00 W{a}") + line(i, f"200.00 W{b}", GPU_B) for i in range(5))
        + f"{message}\n"
        + "".join(line(i, f"200.00 W{b}", GPU_B) for i in range(5, 12))
    )
    parsed = read(text)
    (reject,) = parsed.rejects
    assert (reject.natural_key, reject.row_no, reject.raw) == (GPU_A, 12, message)
    states = dict(parsed.tables["core.device"].select("device_uuid", "state").iter_rows())
    assert states == {GPU_A: "lost", GPU_B: "ok"}
    assert 400.0 in energies(parsed)


def test_a_lost_board_that_comes_back_leaves_a_gap_not_a_zero() -> None:
    text = HEADER + "".join(line(i, "100.00 W") for i in range(5))
    text += "".join(line(i, "[GPU is lost]") for i in range(5, 8)) + "".join(line(i, "100.00 W") for i in range(8, 13))
    found = read(text).tables["core.energy_observation"].sort("window_start_at").to_dicts()
    assert [(w["energy_gross_j"], w["gap_reason"]) for w in found] == [
        (400.0, None), (None, "gpu_lost"), (400.0, None),
    ]  # fmt: skip


def test_the_last_line_may_be_cut_off() -> None:
    assert "not the columns" in read(HEADER + line(0, "100.00 W") + "2026/08/01 12:0").rejects[0].reason
    cut = read(HEADER + line(0, "100.00 W") + line(1, "12")[:-1])
    assert "cut off within its power" in cut.rejects[0].reason
    assert read(HEADER + line(0, "100.00 W") + line(1, "120.00 W")[:-1]).rejects == ()


def test_rows_further_apart_than_two_seconds_give_windows_of_unknown_energy() -> None:
    found = read(HEADER + "".join(line(i * 5, "100.00 W") for i in range(5))).tables["core.energy_observation"]
    assert set(found["energy_gross_j"]) == {None}
    assert set(found["gap_reason"]) == {"below_resolution"}


# as a stream ------------------------------------------------------------------------------------


@given(st.integers(40, 400))
@settings(max_examples=25, deadline=None)
def test_where_chunks_are_cut_changes_nothing(size: int) -> None:
    whole_file = read(SMI_LOG)
    before = smi_csv.CHUNK_BYTES
    smi_csv.CHUNK_BYTES = size
    try:
        cut = read(SMI_LOG)
    finally:
        smi_csv.CHUNK_BYTES = before
    assert cut.tables["core.power_sample"].equals(whole_file.tables["core.power_sample"])
    key = ["device_uuid", "window_start_at"]
    left, right = (p.tables["core.energy_observation"].sort(key) for p in (cut, whole_file))
    assert left.drop("energy_gross_j", "relative_uncertainty").equals(
        right.drop("energy_gross_j", "relative_uncertainty")
    )
    assert left["energy_gross_j"].to_list() == pytest.approx(right["energy_gross_j"].to_list())


@pytest.fixture
def warehouse(tmp_path: Path) -> Any:
    found = Warehouse.open(tmp_path / "w.duckdb")
    yield found
    found.close()


def load(warehouse: Warehouse, path: Path, source: str = "log", **options: str) -> Any:
    about = Stream(source, KIND, path, datetime(2026, 8, 2), {"timezone": "UTC", **options})
    outcome = refresh_stream(warehouse, kind(KIND), about, trigger="import")
    assert outcome.state in {"OK", "PARTIAL"}, outcome.error
    assert outcome.rows_in == outcome.rows_loaded + outcome.rows_unchanged + outcome.rows_quarantined
    return outcome


def test_the_same_log_twice_changes_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(SMI_LOG)
    assert load(warehouse, path).rows_loaded == 48
    tables = ("core.power_sample", "core.energy_observation", "core.device")
    before = [warehouse.query(f"SELECT * FROM {t} ORDER BY ALL") for t in tables]
    again = load(warehouse, path)
    assert (again.rows_loaded, again.rows_unchanged) == (0, 48)
    assert all(
        f.equals(warehouse.query(f"SELECT * FROM {t} ORDER BY ALL")) for f, t in zip(before, tables, strict=True)
    )


def test_eight_processes_that_log_the_same_board_count_once(warehouse: Warehouse, tmp_path: Path) -> None:
    # codecarbon 936: eight trackers on one host, each logs every GPU
    log = HEADER + "".join(line(i * 0.5, "300.00 W") for i in range(41))
    for number in range(8):
        path = tmp_path / f"rank{number}.csv"
        path.write_text(log)
        load(warehouse, path, source=f"rank-{number}")
    assert warehouse.scalar("SELECT count(*) FROM core.power_sample") == 41
    assert warehouse.scalar("SELECT sum(energy_gross_j) FROM core.energy_observation") == pytest.approx(6000.0)


def test_one_log_with_every_line_eight_times_counts_once(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "".join(line(i * 0.5, "300.00 W") * 8 for i in range(41)))
    outcome = load(warehouse, path)
    assert (outcome.rows_in, outcome.rows_loaded, outcome.rows_unchanged) == (328, 41, 287)
    assert warehouse.scalar("SELECT sum(energy_gross_j) FROM core.energy_observation") == pytest.approx(6000.0)


def test_a_log_whose_clock_was_set_back_keeps_its_samples(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "".join(line(s, "300.00 W") for s in (10, 11, 12, 5, 6, 7, 13)))
    assert load(warehouse, path).rows_loaded == 7


@pytest.mark.parametrize(("board", "meter_j", "smi_j"), [("A100", 1155.3, 1147.9), ("3090", 2689.0, 2530.5)])
def test_published_traces_read_as_logs_give_the_published_energy(board: str, meter_j: float, smi_j: float) -> None:
    # arXiv 2312.02741: square wave of about 10 s; the board's own sensor by trapezoid against an external meter
    points = list(csv.DictReader(shared(f"data/nvidia_smi_vs_powermeter/{board}_smi.csv").read_text().splitlines()))
    zero = datetime(2026, 8, 1, 12)
    text = HEADER + "".join(
        f"{zero + timedelta(milliseconds=float(p['t_ms'])):%Y/%m/%d %H:%M:%S.%f}"[:-3]
        + f", {GPU_A}, {p['power_w']} W\n"
        for p in points
        if float(p["t_ms"]) >= 0
    )
    parsed = read(text)
    assert parsed.rejects == ()
    found = parsed.tables["core.energy_observation"]
    spent_s = sum((e - s).total_seconds() for s, e in found.select("window_start_at", "window_end_at").iter_rows())
    energy_j = float(found["energy_gross_j"].fill_null(0).sum())
    # the trace ends a little off the published window: compare mean power
    assert energy_j / spent_s == pytest.approx(smi_j / 10.0, rel=0.03)
    assert energy_j / spent_s == pytest.approx(meter_j / 10.0, rel=0.09)
