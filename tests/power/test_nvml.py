"""The NVML backend on the real binding: what it reads, what it refuses, what it calls lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from ingest.errors import DeviceError, DeviceLost, NoDriver
from ingest.power.nvml import Nvml
from tests.power.standin import STATE_VARIABLE, StandIn, loaded
from tests.support import ROOT

UUID_0 = "GPU-00000000-0000-0000-0000-000000000000"
UUID_1 = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.fixture
def nvml(gpus: StandIn) -> Nvml:
    return Nvml()


def test_lists_every_board_with_what_identifies_it(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(count=2, driver="580.95.05")
    gpus.set(device=1, name="NVIDIA A100-SXM4-80GB", arch=7, limit_mw=400_000, mig=1)
    first, second = nvml.open()
    assert (first.uuid, first.pci_bus_id, first.name) == (UUID_0, "00000000:17:00.0", "NVIDIA H100 80GB HBM3")
    assert (first.gpu_arch, first.driver_version, first.mig_enabled) == ("Hopper", "580.95.05", False)
    assert (first.power_limit_w, first.counter_supported, first.power_method) == (700.0, True, "instant")
    assert (second.gpu_arch, second.mig_enabled, second.power_limit_w) == ("Ampere", True, 400.0)
    assert second.sensor_class == "inst_100ms_win25ms"  # GA100 looks 25 ms of every 100 ms


def test_reads_counter_power_and_sensor_stamp(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(energy_mj=5_000_123, instant_mw=123_456, power_mw=99_000, sensor_us=1_700_000_000_000_001)
    nvml.open()
    reading = nvml.read(UUID_0)
    assert reading.energy_counter_mj == 5_000_123
    assert reading.energy_counter_j == 5000.123
    assert (reading.power_w, reading.power_method) == (123.456, "instant")
    assert reading.sensor_at_us == 1_700_000_000_000_001
    assert reading.energy_reason == reading.power_reason == ""


@pytest.mark.parametrize("counter_mj", [2**32 + 7, 18_446_744_073_709, 2**64 - 1])
def test_a_counter_beyond_32_bit_reads_back_exactly(nvml: Nvml, gpus: StandIn, counter_mj: int) -> None:
    gpus.set(energy_mj=counter_mj)
    nvml.open()
    assert nvml.read(UUID_0).energy_counter_mj == counter_mj


def test_without_an_energy_counter_power_is_still_read(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_energy=3, instant_mw=26_000)
    (device,) = nvml.open()
    assert device.counter_supported is False
    assert device.supported
    assert "energy counter: not supported" in device.notes
    reading = nvml.read(UUID_0)
    assert (reading.energy_counter_mj, reading.energy_reason) == (None, "not supported")
    assert reading.power_w == 26.0


def test_a_field_fails_by_its_own_code_and_average_power_takes_over(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_instant=3, power_mw=180_000)
    (device,) = nvml.open()
    assert (device.power_method, device.sensor_class) == ("average", "avg_1s")
    reading = nvml.read(UUID_0)
    assert (reading.power_w, reading.power_method, reading.sensor_at_us) == (180.0, "average", None)


def test_a_device_that_can_tell_nothing_gives_none_and_reasons_not_zero(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(count=2)
    gpus.set(device=1, rc_energy=3, rc_instant=3, rc_power=3, rc_limit=3, rc_mig=3)
    can, cannot = nvml.open()
    assert can.supported
    assert not cannot.supported
    assert (cannot.power_limit_w, cannot.mig_enabled) == (None, False)
    reading = nvml.read(UUID_1)
    assert (reading.energy_counter_mj, reading.power_w, reading.power_method) == (None, None, "unavailable")
    assert (reading.energy_reason, reading.power_reason) == ("not supported", "not supported")


@pytest.mark.parametrize(
    ("power_mw", "limit_mw"),
    [
        (3_700_000, 3_900_000),  # MangoHud PR 2144: SUCCESS with garbage of 3.7 MW-thousandths
        (850_000, 700_000),  # above 1.2 x the enforced limit
        (4_294_967_295, 700_000),
        (0, 700_000),  # a board that answers draws more than nothing
    ],
)
def test_impossible_power_is_refused_with_the_reason(nvml: Nvml, gpus: StandIn, power_mw: int, limit_mw: int) -> None:
    gpus.set(instant_mw=power_mw, limit_mw=limit_mw)
    nvml.open()
    reading = nvml.read(UUID_0)
    assert reading.power_w is None
    assert reading.power_reason.startswith("implausible")


def test_an_overshoot_within_a_fifth_of_the_limit_is_believed(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(instant_mw=830_000, limit_mw=700_000)
    nvml.open()
    assert nvml.read(UUID_0).power_w == 830.0


@pytest.mark.parametrize("code", [10, 15, 16, 999])
@pytest.mark.parametrize("key", ["rc_energy", "rc_instant"])
def test_a_gpu_that_is_gone_raises_device_lost(nvml: Nvml, gpus: StandIn, key: str, code: int) -> None:
    gpus.set(count=2)
    nvml.open()
    gpus.set(device=0, **{key: code})
    with pytest.raises(DeviceLost, match=f"{UUID_0}: NVML answered {code}"):
        nvml.read(UUID_0)
    assert nvml.read(UUID_1).power_w == 300.0


def test_a_gpu_that_is_gone_at_the_start_does_not_hide_the_others(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(count=3)
    gpus.set(device=1, rc_handle=15)
    assert [device.uuid[-1] for device in nvml.open()] == ["0", "2"]
    assert "NVML index 1" in nvml.unreachable[0]


@pytest.mark.parametrize("code", [9, 12])
def test_without_driver_or_library_the_answer_is_no_nvidia_driver(nvml: Nvml, gpus: StandIn, code: int) -> None:
    gpus.set(rc_init=code)
    with pytest.raises(NoDriver) as caught:
        nvml.open()
    assert caught.value.message == "no NVIDIA driver"


def test_a_driver_that_was_upgraded_underneath_is_named(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_init=18)
    with pytest.raises(NoDriver, match="reload the NVIDIA kernel modules or reboot"):
        nvml.open()


def test_another_failure_of_nvml_keeps_its_code(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_init=4)
    with pytest.raises(DeviceError, match="NVML answered 4"):
        nvml.open()


def test_a_driver_unloaded_while_sampling_is_no_driver(nvml: Nvml, gpus: StandIn) -> None:
    nvml.open()
    gpus.set(rc_energy=9)
    with pytest.raises(NoDriver, match="no NVIDIA driver"):
        nvml.read(UUID_0)


def test_a_session_ended_by_someone_else_in_this_process_is_lost_and_comes_back(nvml: Nvml, gpus: StandIn) -> None:
    nvml.open()
    pynvml.nvmlShutdown()
    with pytest.raises(DeviceLost, match="session ended"):
        nvml.read(UUID_0)
    nvml.open()
    assert nvml.read(UUID_0).power_w == 300.0


def test_handles_of_a_session_that_someone_restarted_are_lost_not_misread(nvml: Nvml, gpus: StandIn) -> None:
    nvml.open()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    with pytest.raises(DeviceLost, match="handle no longer valid"):
        nvml.read(UUID_0)


def test_one_board_listed_four_times_is_read_once(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(count=4, uuid=UUID_0, mig=1)
    devices = nvml.open()
    assert [device.uuid for device in devices] == [UUID_0]
    assert devices[0].mig_enabled is True


def test_close_is_safe_at_any_time(nvml: Nvml, gpus: StandIn) -> None:
    nvml.close()
    nvml.open()
    nvml.close()
    nvml.close()
    with pytest.raises(DeviceLost, match="not in this NVML session"):
        nvml.read(UUID_0)


def test_a_missing_library_is_no_nvidia_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_open(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", cannot_open)  # what the loader of a machine without a driver does
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    with pytest.raises(NoDriver) as caught:
        Nvml().open()
    assert caught.value.message == "no NVIDIA driver"


READ_ONE = "from ingest.power.nvml import Nvml; n = Nvml(); d = n.open(); print(n.read(d[0].uuid).energy_counter_mj)"


def test_a_fresh_process_finds_the_library_through_the_loader(nvml_library: Path, tmp_path: Path) -> None:
    state = StandIn(tmp_path / "state")
    state.set(energy_mj=18_446_744_073_709)
    env = {**os.environ, "LD_LIBRARY_PATH": str(nvml_library.parent), STATE_VARIABLE: str(state.path)}
    done = subprocess.run(
        [sys.executable, "-c", READ_ONE], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "18446744073709"


def test_a_fresh_process_finds_the_library_preloaded_by_path(nvml_library: Path, tmp_path: Path) -> None:
    state = StandIn(tmp_path / "state")
    state.set(energy_mj=7)
    env = {**os.environ, STATE_VARIABLE: str(state.path)}
    code = f"import ctypes; ctypes.CDLL({str(nvml_library)!r}); {READ_ONE}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "7"


def test_the_stand_in_counts_by_itself_when_asked(nvml_library: Path, tmp_path: Path) -> None:
    state = StandIn(tmp_path / "state")
    state.set(advance=1, power_mw=1_000_000, limit_mw=1_000_000, t0_ns=0, update_ms=0)
    with loaded(nvml_library, state):
        nvml = Nvml()
        (device,) = nvml.open()
        first, second = nvml.read(device.uuid), nvml.read(device.uuid)
    assert first.energy_counter_mj is not None
    assert second.energy_counter_mj is not None
    assert second.energy_counter_mj >= first.energy_counter_mj > 1_000_000
