"""What a sensor means by architecture and driver, and how far a window can be trusted."""

from __future__ import annotations

import csv
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.power.boards import arch_of_name
from ingest.power.sensors import (
    implausible_power,
    power_ceiling_w,
    relative_uncertainty,
    sensor_class,
    uncertainty_of_polls,
)
from tests.support import shared

H100, A100, RTX = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090"


@pytest.mark.parametrize(
    ("arch", "name", "driver", "method", "expected"),
    [
        # arXiv 2312.02741, result matrix
        ("Hopper", H100, "570.86.10", "instant", "inst_100ms_win25ms"),
        ("Hopper", H100, "570.86.10", "average", "avg_1s"),
        ("Ampere", A100, "470.57.02", "average", "inst_100ms_win25ms"),
        ("Ampere", A100, "570.86.10", "instant", "inst_100ms_win25ms"),
        ("Ampere", "NVIDIA A30", "570.86.10", "instant", "inst_100ms_win25ms"),
        ("Ampere", RTX, "470.57.02", "average", "avg_1s"),
        ("Ampere", RTX, "530.30.02", "average", "inst_100ms_win100ms"),
        ("Ampere", RTX, "570.86.10", "average", "avg_1s"),
        ("Ampere", RTX, "570.86.10", "instant", "inst_100ms_win100ms"),
        ("Ampere", "NVIDIA A10", "570.86.10", "average", "avg_1s"),  # not a GA100
        ("Volta", "Tesla V100", None, "average", "inst_20ms_win10ms"),
        ("Maxwell", "GeForce GTX 980", "470.57.02", "average", "log_100ms"),
        # newer than the matrix, or nothing known
        ("Blackwell", "NVIDIA B200", "580.95.05", "instant", "unknown"),
        ("Ampere", RTX, None, "average", "unknown"),
        (None, None, None, "instant", "unknown"),
        ("Hopper", H100, "570.86.10", "unavailable", "unknown"),
    ],
)
def test_sensor_class(arch: str, name: str, driver: str, method: str, expected: str) -> None:
    assert sensor_class(arch, name, driver, method) == expected


def test_sensor_classes_agree_with_the_published_matrix() -> None:
    rows = csv.DictReader(shared("data/gpu_sensor_matrix/nvidia_power_sensor_matrix.csv").read_text().splitlines())
    names = {"Hopper_GH100": ("Hopper", H100), "Ampere_nonGA100": ("Ampere", RTX), "GA100": ("Ampere", A100)}
    checked = 0
    for row in rows:
        arch, name = names.get(row["architecture"], (row["architecture"], ""))
        for column, driver, method in (
            ("pre530_power_draw", "470.57.02", "average"),
            ("drv530_power_draw", "530.30.02", "average"),
            ("post530_power_draw", "570.86.10", "average"),
            ("post530_instant", "570.86.10", "instant"),
        ):
            if row[column].startswith(("avg", "inst", "log")) and not arch.startswith("Kepler"):
                assert sensor_class(arch, name, driver, method) == row[column], (row["architecture"], column)
                checked += 1
    assert checked == 30


def test_a_short_window_of_a_part_time_sensor_is_noise_and_a_long_one_is_not() -> None:
    # sub-windows of the public A100 trace: sd 35 % at 100 ms, 29 % at 1 s
    assert relative_uncertainty("inst_100ms_win25ms", "integrated_instant", 0.1) == pytest.approx(0.35, abs=0.01)
    assert relative_uncertainty("inst_100ms_win25ms", "integrated_instant", 1.0) == pytest.approx(0.29, abs=0.01)
    assert relative_uncertainty("inst_100ms_win25ms", "integrated_instant", 10.0) < 0.07


def test_sparse_polls_cost_trust() -> None:
    # thinning the same trace to one poll in 2 s: up to 25 %
    dense = relative_uncertainty("inst_100ms_win100ms", "integrated_instant", 10.0, 0.1)
    sparse = relative_uncertainty("inst_100ms_win100ms", "integrated_instant", 10.0, 2.0)
    assert dense < 0.07
    assert sparse == pytest.approx(0.257, abs=0.005)


SENSORS = ["avg_1s", "inst_100ms_win25ms", "inst_100ms_win100ms", "inst_20ms_win10ms", "log_100ms", "unknown"]
METHODS = ["counter", "integrated_instant", "integrated_average"]


@given(st.sampled_from(SENSORS), st.sampled_from(METHODS), st.floats(0.05, 1e5), st.floats(1.0, 100.0))
def test_uncertainty_is_bounded_and_never_grows_with_the_window(
    sensor: str, method: str, duration_s: float, factor: float
) -> None:
    short = relative_uncertainty(sensor, method, duration_s, 0.2)
    long = relative_uncertainty(sensor, method, duration_s * factor, 0.2)
    assert 0.05 <= long <= short <= 1.0


def test_a_window_without_length_has_no_uncertainty() -> None:
    with pytest.raises(ValueError, match="duration_s is 0"):
        relative_uncertainty("avg_1s", "counter", 0)


def test_the_ceiling_is_the_limit_and_a_fifth_at_most_2000_w() -> None:
    assert power_ceiling_w(700.0) == pytest.approx(840.0)
    assert power_ceiling_w(None) == 2000.0
    assert power_ceiling_w(1900.0) == 2000.0


def test_no_published_board_limit_is_beyond_belief() -> None:
    # leadgreen hardware.json: manufacturers' maxima, up to 1,000 W for a B200
    hardware = json.loads(shared("data/leadgreen/hardware.json").read_text())
    limits_w = [row["max_tdp_w"] for row in hardware["tdp"]]
    assert len(limits_w) >= 7
    for limit_w in limits_w:
        assert implausible_power(limit_w, None) == implausible_power(limit_w * 1.15, limit_w) == ""


@pytest.mark.parametrize("arch", ["Blackwell", "Rubin", None])
@pytest.mark.parametrize("method", ["instant", "average"])
def test_a_board_newer_than_the_matrix_is_trusted_no_more_than_the_worst_known(arch: str, method: str) -> None:
    sensor = sensor_class(arch, "NVIDIA B200", "580.95.05", method)
    assert sensor == "unknown"
    for duration_s in (0.1, 1.0, 10.0):
        worst = relative_uncertainty("inst_100ms_win25ms", "integrated_instant", duration_s, 0.2)
        assert relative_uncertainty(sensor, "integrated_instant", duration_s, 0.2) == worst


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("NVIDIA A100-SXM4-80GB", "Ampere"),
        ("NVIDIA A10G", "Ampere"),
        ("NVIDIA RTX A6000", "Ampere"),
        ("NVIDIA GeForce RTX 3090", "Ampere"),
        ("NVIDIA RTX 6000 Ada Generation", "Ada"),
        ("NVIDIA L40S", "Ada"),
        ("Quadro RTX 6000", "Turing"),
        ("Tesla T4", "Turing"),
        ("NVIDIA H100 80GB HBM3", "Hopper"),
        ("NVIDIA GH200 480GB", "Hopper"),
        ("NVIDIA GB200", "Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell"),
        ("Tesla V100-SXM2-16GB", "Volta"),
        ("Tesla P100-PCIE-16GB", "Pascal"),
        ("GeForce GTX TITAN X", "Maxwell"),
        ("NVIDIA TITAN X (Pascal)", "Pascal"),
        ("Tesla K80", "Kepler"),
        ("Some other board", None),
        (None, None),
    ],
)
def test_a_product_name_tells_its_architecture(name: str | None, arch: str | None) -> None:
    assert arch_of_name(name) == arch


def test_whole_columns_have_the_uncertainty_of_single_windows() -> None:
    cases = [(d, g) for d in (0.05, 0.7, 3.0, 10.0, 40.0) for g in (0.0, 0.05, 0.2, 1.5, 3.0)]
    table = pl.DataFrame(cases, schema=["duration_s", "gap_s"], orient="row")
    for sensor in ("avg_1s", "inst_100ms_win25ms", "inst_100ms_win100ms", "inst_20ms_win10ms", "log_100ms", "unknown"):
        expression = uncertainty_of_polls(sensor, pl.col("duration_s"), pl.col("gap_s"))
        expected = [relative_uncertainty(sensor, "integrated_instant", d, g) for d, g in cases]
        assert table.select(expression).to_series().to_list() == pytest.approx(expected)
