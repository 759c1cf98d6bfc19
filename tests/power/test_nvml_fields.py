"""Fields 186, 185, 83 and 191: each with a code of its own, of the GPU or of a superchip's module, never mixed."""

from __future__ import annotations

import pytest

from ingest.power.nvml import Nvml
from tests.power.standin import StandIn

UUID_0 = "GPU-00000000-0000-0000-0000-000000000000"
NOT_SUPPORTED = {"rc_energy": 3, "rc_instant": 3, "rc_power": 3}


@pytest.fixture
def nvml(gpus: StandIn) -> Nvml:
    return Nvml()


def test_the_average_field_stands_in_for_the_instant_one_with_its_stamp(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_instant=3, average_mw=181_500, power_mw=99_000, sensor_us=1_700_000_000_000_001)
    (device,) = nvml.open()
    assert (device.power_method, device.sensor_class) == ("average", "avg_1s")
    reading = nvml.read(UUID_0)
    assert (reading.power_w, reading.power_method) == (181.5, "average")
    assert reading.sensor_at_us == 1_700_000_000_000_001


def test_a_field_that_fails_leaves_the_other_fields_of_the_call_alone(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_energy=3, energy83_mj=5_000, rc_instant=4)  # instant: no permission
    nvml.open()
    reading = nvml.read(UUID_0)
    assert reading.energy_counter_mj == 5_000
    assert (reading.power_w, reading.power_method) == (300.0, "average")  # nvmlDeviceGetPowerUsage


@pytest.mark.parametrize("key", ["energy83_mj", "energy191_mj"])
def test_a_counter_that_only_a_field_tells_is_a_counter(nvml: Nvml, gpus: StandIn, key: str) -> None:
    gpus.set(rc_energy=3, **{key: 18_446_744_073_709})
    (device,) = nvml.open()
    assert (device.counter_supported, device.scope) == (True, "gpu")
    assert nvml.read(UUID_0).energy_counter_mj == 18_446_744_073_709


def test_a_superchip_whose_gpu_tells_nothing_is_read_as_a_module(nvml: Nvml, gpus: StandIn) -> None:
    # Zeus pull request 172: on GH200 the fields fail for the GPU and answer for the module
    gpus.set(name="NVIDIA GH200 480GB", limit_mw=300_000, module_energy_mj=7_000_000, module_instant_mw=520_000)
    gpus.set(**NOT_SUPPORTED)
    (device,) = nvml.open()
    assert (device.scope, device.counter_supported, device.power_method) == ("module", True, "instant")
    assert device.power_limit_w is None  # the limit is the GPU's; 520 W of CPU and GPU is no fault
    assert "meter: covers the module: CPU, GPU and memory" in device.notes
    reading = nvml.read(UUID_0)
    assert (reading.energy_counter_mj, reading.power_w) == (7_000_000, 520.0)


def test_a_module_may_tell_average_power_only(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(module_energy_mj=1, module_average_mw=410_000, **NOT_SUPPORTED)
    (device,) = nvml.open()
    assert (device.scope, device.power_method) == ("module", "average")
    assert nvml.read(UUID_0).power_w == 410.0


def test_a_gpu_that_tells_power_is_never_read_as_its_module(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_energy=3, module_energy_mj=7_000_000, module_instant_mw=520_000)
    (device,) = nvml.open()
    assert (device.scope, device.counter_supported) == ("gpu", False)
    reading = nvml.read(UUID_0)
    assert (reading.energy_counter_mj, reading.power_w) == (None, 300.0)


def test_the_scope_stays_for_the_session(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(module_energy_mj=7_000_000, module_instant_mw=520_000, **NOT_SUPPORTED)
    nvml.open()
    gpus.unset(*NOT_SUPPORTED)  # the GPU begins to answer
    assert nvml.read(UUID_0).power_w == 520.0
    (device,) = nvml.open()
    assert device.scope == "gpu"
    assert nvml.read(UUID_0).power_w == 300.0


def test_processes_tell_an_empty_board_from_a_loaded_one(nvml: Nvml, gpus: StandIn) -> None:
    nvml.open()
    assert nvml.occupancy(UUID_0).state == "empty"
    gpus.set(processes=2, util=73)
    told = nvml.occupancy(UUID_0)
    assert (told.processes, told.utilization, told.state) == (2, 0.73, "loaded")


def test_a_driver_that_cannot_count_processes_tells_nothing_and_stops_nothing(nvml: Nvml, gpus: StandIn) -> None:
    gpus.set(rc_processes=3, rc_util=3)
    nvml.open()
    told = nvml.occupancy(UUID_0)
    assert (told.processes, told.utilization, told.state) == (None, None, None)
    assert nvml.read(UUID_0).power_w == 300.0
    assert nvml.occupancy("GPU-elsewhere").state is None


def test_two_users_of_the_driver_in_one_process_do_not_end_each_others_session(nvml: Nvml, gpus: StandIn) -> None:
    nvml.open()
    other = Nvml()
    other.open()
    other.close()
    assert nvml.read(UUID_0).power_w == 300.0
