"""dcgm-exporter text: exact names, boards not slices, blanks unknown, counters differenced over scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.base import Parsed, Payload
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.pipeline import refresh
from tests.ingest.power_samples import GPU_A, GPU_B
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.support import shared
from warehouse.engine import Warehouse

POWER, ENERGY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def read(text: str) -> Parsed:
    parsed = kind("dcgm").parse(payload(text, "dcgm"))
    assert counts_add_up(parsed)
    return parsed


def metric(name: str, value: object, uuid: str = GPU_A, stamp: str = "", **labels: str) -> str:
    told = {"gpu": "0", "UUID": uuid, "modelName": "NVIDIA A30", "Hostname": "node-1", **labels}
    listed = ",".join(f'{k}="{v}"' for k, v in told.items() if v)
    return f"{name}{{{listed}}} {value}{' ' + stamp if stamp else ''}\n"


def test_power_is_in_watts_and_energy_in_millijoules() -> None:
    (row,) = rows(read(metric(POWER, 212.75) + metric(ENERGY, 126272101025)))
    assert (row["power_w"], row["energy_counter_j"], row["method"]) == (212.75, 126272101.025, "average")
    assert row["sampled_at"] == NOW  # without a stamp of its own: the scrape


def test_slices_of_a_board_are_one_board() -> None:
    # dcgm-exporter 317 and 353: four rows of one UUID are 52.7 W, not 210.8 W
    watts = (52.636, 52.636, 52.746, 52.746)
    text = "".join(metric(POWER, w, GPU_I_ID=str(i), GPU_I_PROFILE="1g.6gb") for i, w in enumerate(watts, 3))
    (row,) = rows(read(text))
    assert row["power_w"] == 52.746


def test_the_real_shape_of_a_split_board() -> None:
    parsed = read(shared("data/fixtures/dcgm_mig.prom").read_text())
    assert (parsed.rows_in, parsed.rejects) == (1, ())
    (row,) = rows(parsed)
    assert (row["power_w"], row["energy_counter_j"]) == (52.746, 126272106.318)
    (device,) = parsed.tables["core.device"].to_dicts()
    assert (device["name"], device["gpu_arch"], device["mig_enabled"]) == ("NVIDIA A30", "Ampere", True)
    assert device["sensor_class"] == "inst_100ms_win25ms"


@pytest.mark.parametrize(
    "blank",
    [2147483632, 2147483633, 2147483634, 2147483635, 9223372036854775792, 9223372036854775794, 140737488355328,
     "9.223372036854776e+18", "1.40737488355330e+14", "NaN"],
)  # fmt: skip
def test_blanks_of_dcgm_are_unknown_never_numbers(blank: object) -> None:
    # gpu-monitoring-tools 152: shown as 9223372036854776000 %
    parsed = read(metric(POWER, blank) + metric(ENERGY, 5000))
    (row,) = rows(parsed)
    assert (row["power_w"], row["energy_counter_j"], row["method"], parsed.rejects) == (None, 5.0, "unavailable", ())


@pytest.mark.parametrize("value", [3700, -5, 0, "+Inf"])
def test_impossible_power_is_refused_and_the_counter_stays(value: object) -> None:
    parsed = read(metric(POWER, value) + metric(ENERGY, 5000))
    assert (rows(parsed)[0]["power_w"], rows(parsed)[0]["energy_counter_j"]) == (None, 5.0)
    (reject,) = parsed.rejects
    assert (reject.whole_row, reject.field) == (False, POWER)


def test_the_limit_of_a_board_bounds_its_power() -> None:
    parsed = read(metric(POWER, 300) + metric("DCGM_FI_DEV_POWER_MGMT_LIMIT", 165))
    assert rows(parsed)[0]["power_w"] is None
    assert "above 198 W" in parsed.rejects[0].reason


def test_names_are_exact_never_prefixes() -> None:
    text = metric(POWER + "_VIOLATION", 1) + metric("DCGM_FI_DEV_POWER_USAGE_MAX", 2) + metric("X" + POWER, 3)
    assert [r["power_w"] for r in rows(read(text + metric(POWER, 4)))] == [4.0]
    with pytest.raises(PayloadError, match="has neither"):
        read(text)


def test_instant_power_comes_first_where_it_is_exported() -> None:
    (row,) = rows(read(metric(POWER, 100) + metric(POWER + "_INSTANT", 140)))
    assert (row["power_w"], row["method"]) == (140.0, "instant")


def test_a_stamp_of_its_own_counts() -> None:
    assert rows(read(metric(POWER, 100, stamp="1785585600250")))[0]["sampled_at"] == datetime(
        2026, 8, 1, 12, 0, 0, 250_000
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (metric(POWER, 50, uuid="MIG-3f1c"), "names a slice"),
        (metric(POWER, 50, uuid="", Hostname=""), "names no board"),
        (metric(POWER, "many"), "no number"),
        (metric(POWER, 50, stamp="-1"), "no time in ms"),
        (f'{POWER}{{UUID="{GPU_A}" 50\n', "no sample"),
        (f"{POWER}{{UUID=GPU}} 50\n", "cannot be read"),
        (metric(POWER, 51) * 2, "same series again"),
    ],
)
def test_a_line_that_tells_nothing_is_refused_and_its_siblings_load(line: str, reason: str) -> None:
    parsed = read(line + metric(POWER, 91.5, GPU_B))
    assert parsed.rows_quarantined == 1
    assert reason in parsed.rejects[-1].reason
    assert 91.5 in [r["power_w"] for r in rows(parsed)]


def test_labels_with_quotes_and_commas_are_read_whole() -> None:
    parsed = read(metric(POWER, 50, modelName='A \\"30\\", with \\\\ and {braces}', pod="a,b=c"))
    assert parsed.tables["core.device"]["name"].to_list() == ['A "30", with \\ and {braces}']


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    found = Warehouse.open(tmp_path / "w.duckdb")
    yield found
    found.close()


def scrape(warehouse: Warehouse, second: float, text: str, source: str = "node-1") -> None:
    at = NOW + timedelta(seconds=second)
    got = Payload(source, "dcgm", "http://node-1:9400/metrics", at, text.encode())
    outcome = refresh(warehouse, kind("dcgm"), source, lambda: got, trigger="schedule")
    assert outcome.state == "OK", outcome.error


def windows(warehouse: Warehouse) -> list[tuple[float | None, str | None]]:
    return warehouse.query(
        "SELECT energy_gross_j, gap_reason FROM core.energy_observation ORDER BY device_uuid, window_start_at"
    ).rows()


def test_a_counter_that_starts_anew_between_scrapes_gives_300_j_and_one_gap(warehouse: Warehouse) -> None:
    # codecarbon 1309, compute-runtime 938, sem-community 782
    for n, mj in enumerate((1_000_000, 1_200_000, 5_000, 105_000)):
        scrape(warehouse, n * 30, metric(POWER, 10) + metric(ENERGY, mj))
    assert windows(warehouse) == [(200.0, None), (None, "counter_reset"), (100.0, None)]


def test_windows_do_not_depend_on_how_often_a_scrape_is_loaded(warehouse: Warehouse) -> None:
    texts = [metric(POWER, 100) + metric(ENERGY, n * 500_000) for n in range(9)]
    for n, text in enumerate(texts):
        scrape(warehouse, n * 5, text)
        scrape(warehouse, n * 5, text)  # a retry: the same again
    assert warehouse.scalar("SELECT count(*) FROM core.power_sample") == 9
    assert windows(warehouse) == [(1000.0, None)] * 4  # 40 s in windows of 10 s


def test_a_pause_of_the_exporter_is_bridged_by_its_counter(warehouse: Warehouse) -> None:
    scrape(warehouse, 0, metric(ENERGY, 0))
    scrape(warehouse, 3600, metric(ENERGY, 360_000_000))
    assert windows(warehouse) == [(360_000.0, None)]


def test_power_without_counter_every_30_seconds_is_of_unknown_energy(warehouse: Warehouse) -> None:
    for n in range(3):
        scrape(warehouse, n * 30, metric(POWER, 100))
    assert windows(warehouse) == [(None, "below_resolution")] * 2


def test_a_late_sample_is_kept_and_changes_no_window(warehouse: Warehouse) -> None:
    for n in range(3):
        scrape(warehouse, n * 30, metric(ENERGY, n * 1_000_000))
    before = windows(warehouse)
    scrape(warehouse, 45, metric(ENERGY, 1_500_000))
    assert windows(warehouse) == before
    assert warehouse.scalar("SELECT count(*) FROM core.power_sample") == 4


def test_what_a_source_says_of_a_board_does_not_touch_what_another_says(warehouse: Warehouse) -> None:
    scrape(warehouse, 0, metric(POWER, 100))
    scrape(warehouse, 0, metric(POWER, 100, modelName=""), source="other")
    told = warehouse.query("SELECT source_id, name FROM core.device ORDER BY source_id").rows()
    assert told == [("node-1", "NVIDIA A30"), ("other", None)]
