"""The sampler thread on the real binding: steady schedule, batches for the sink, losses and returns."""

from __future__ import annotations

import cmath
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

import polars as pl
import pytest

from ingest.errors import DeviceLost
from ingest.power.nvml import Nvml
from ingest.power.outbox import Outbox, SampleRow, sample_frame
from ingest.power.sampler import NO_GPU, PowerSampler, SamplerStatus
from ingest.power.sensors import UNTOLD, DeviceInfo, Occupancy, Reading
from tests.power.standin import StandIn
from warehouse.tables import frame_schema

UUIDS = [f"GPU-00000000-0000-0000-0000-{i:012d}" for i in range(8)]


class Store:
    """A sink that keeps what it is given, and can be told to refuse or to be slow."""

    def __init__(self) -> None:
        self.samples: list[pl.DataFrame] = []
        self.observations: list[pl.DataFrame] = []
        self.devices: list[pl.DataFrame] = []
        self.refuse = ""
        self.delay_s = 0.0
        self.offers = 0

    def __call__(self, samples: pl.DataFrame, observations: pl.DataFrame, devices: pl.DataFrame) -> None:
        self.offers += 1
        time.sleep(self.delay_s)
        if self.refuse:
            raise OSError(self.refuse)
        for table, frame in (
            ("core.power_sample", samples),
            ("core.energy_observation", observations),
            ("core.device", devices),
        ):
            assert dict(frame.schema) == frame_schema(table)
        self.samples.append(samples)
        self.observations.append(observations)
        self.devices.append(devices)

    def all_samples(self) -> pl.DataFrame:
        return pl.concat(self.samples)

    def all_observations(self) -> pl.DataFrame:
        return pl.concat(self.observations).sort("device_uuid", "window_start_at")

    def last_devices(self) -> dict[str, dict[str, object]]:
        return {str(row["device_uuid"]): row for row in self.devices[-1].to_dicts()}


Start = Callable[..., tuple[PowerSampler, Store]]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[PowerSampler] = []

    def start_sampler(backend: object = None, **options: float) -> tuple[PowerSampler, Store]:
        store = Store()
        quick = {"period_s": 0.02, "window_s": 1.0, "flush_s": 0.1, "reopen_backoff_s": 0.2} | options
        sampler = PowerSampler(backend or Nvml(), store, host="host-a", **quick)  # type: ignore[arg-type]
        running.append(sampler)
        sampler.start()
        return sampler, store

    yield start_sampler
    for sampler in running:
        sampler.stop(5.0)


def wait_for(sampler: PowerSampler, what: Callable[[SamplerStatus], bool], timeout_s: float = 10.0) -> SamplerStatus:
    deadline = time.monotonic() + timeout_s
    while not what(status := sampler.status()):
        assert time.monotonic() < deadline, f"did not happen within {timeout_s} s; last {status}"
        time.sleep(0.01)
    return status


def after(sampler: PowerSampler, ticks: int) -> SamplerStatus:
    target = sampler.status().ticks + ticks
    return wait_for(sampler, lambda status: status.ticks >= target)


# what is stored -------------------------------------------------------------------------------


def test_eight_boards_become_samples_windows_and_devices(gpus: StandIn, start: Start) -> None:
    gpus.set(count=8, advance=1, power_mw=250_000, update_ms=20, driver="580.95.05")
    sampler, store = start()
    status = wait_for(sampler, lambda s: len(store.observations) > 0 and store.all_observations().height >= 8)
    assert (status.running, status.reason, len(status.devices)) == (True, "", 8)
    assert sampler.stop(5.0)
    samples = store.all_samples()
    assert set(samples["device_uuid"]) == set(UUIDS)
    assert samples["power_w"].to_list() == [250.0] * samples.height
    assert set(samples["method"]) == {"instant"}
    assert samples["sensor_at"].null_count() == 0
    for _, one in samples.group_by("device_uuid"):
        counters_j = one.sort("sampled_at")["energy_counter_j"]
        assert (counters_j.diff().drop_nulls() >= 0).all()
    known = store.all_observations().filter(pl.col("energy_gross_j").is_not_null())
    assert set(known["method"]) == {"counter"}
    for row in known.to_dicts():
        seconds = (row["window_end_at"] - row["window_start_at"]).total_seconds()
        assert row["energy_gross_j"] / seconds == pytest.approx(250.0, rel=0.05)
        assert (row["provider"], row["driver_version"], row["gpu_arch"]) == ("local", "580.95.05", "Hopper")
    device = store.last_devices()[UUIDS[3]]
    assert device.pop("updated_at") is not None
    assert device == {
        "device_uuid": UUIDS[3],
        "host": "host-a",
        "pci_bus_id": "00000000:1A:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "gpu_arch": "Hopper",
        "driver_version": "580.95.05",
        "power_limit_w": 700.0,
        "mig_enabled": False,
        "counter_supported": True,
        "sensor_class": "inst_100ms_win25ms",
        "power_scope": "gpu",
        "state": "ok",
    }


def test_stop_returns_quickly_and_everything_read_has_been_handed_over(gpus: StandIn, start: Start) -> None:
    gpus.set(count=2, advance=1)
    sampler, store = start(flush_s=60.0)
    after(sampler, 20)
    began = time.monotonic()
    assert sampler.stop(2.0)
    assert time.monotonic() - began < 1.0
    status = sampler.status()
    assert (status.running, status.reason, status.buffered_rows) == (False, "stopped", 0)
    assert store.all_samples().height == 2 * status.ticks
    assert store.all_observations().height == 2


def test_a_stopped_sampler_can_start_again_in_a_later_epoch(gpus: StandIn, start: Start) -> None:
    sampler, store = start()
    after(sampler, 5)
    assert sampler.stop(5.0)
    before = store.all_samples()["epoch"].max()
    sampler.start()
    after(sampler, 5)
    assert sampler.stop(5.0)
    assert store.all_samples()["epoch"].max() > before  # type: ignore[operator]


# resets, losses, unsupported devices ----------------------------------------------------------


def test_a_counter_reset_is_one_gap_and_a_new_epoch(gpus: StandIn, start: Start) -> None:
    gpus.set(energy_mj=900_000_000, advance=1, power_mw=200_000, update_ms=20)
    sampler, store = start()
    after(sampler, 70)
    gpus.set(energy_mj=0, t0_ns=time.monotonic_ns())
    after(sampler, 70)
    assert sampler.stop(5.0)
    observations = store.all_observations()
    assert observations["gap_reason"].to_list().count("counter_reset") == 1
    known = observations["energy_gross_j"].drop_nulls()
    assert len(known) >= 2
    assert all(0 < energy_j < 1000 for energy_j in known)
    first, last = sorted(set(store.all_samples()["epoch"]))
    assert last == first + 1


def test_a_lost_gpu_leaves_a_gap_the_others_go_on_and_it_comes_back(gpus: StandIn, start: Start) -> None:
    gpus.set(count=3, advance=1, power_mw=300_000, update_ms=20)
    sampler, store = start()
    after(sampler, 60)
    gpus.set(device=1, rc_energy=15, rc_handle=15)
    status = wait_for(sampler, lambda s: s.devices[1].state == "lost")
    assert (status.running, status.reason) == (True, "1 of 3 GPUs lost")
    assert status.devices[1].power_w is None
    wait_for(sampler, lambda s: store.last_devices()[UUIDS[1]]["state"] == "lost")
    seen = sampler.status().devices[0].last_sample_at
    wait_for(sampler, lambda s: s.devices[0].last_sample_at != seen)
    gpus.unset("rc_energy", "rc_handle", device=1)
    wait_for(sampler, lambda s: s.devices[1].state == "ok" and s.devices[1].power_w == 300.0)
    after(sampler, 60)
    assert sampler.stop(5.0)
    assert sampler.status().devices[1].state == "ok"
    observations = store.all_observations()
    of_lost = observations.filter(pl.col("device_uuid") == UUIDS[1])
    assert "gpu_lost" in of_lost["gap_reason"].to_list()
    assert of_lost.filter(pl.col("gap_reason") == "gpu_lost")["energy_gross_j"].null_count() > 0
    assert "gpu_lost" not in observations.filter(pl.col("device_uuid") == UUIDS[0])["gap_reason"].to_list()
    for uuid in UUIDS[:3]:  # no time is left out and none told twice
        rows = observations.filter(pl.col("device_uuid") == uuid).to_dicts()
        assert all(a["window_end_at"] == b["window_start_at"] for a, b in pairwise(rows))
    epochs = store.all_samples().group_by("device_uuid").agg(pl.col("epoch").n_unique()).to_dicts()
    assert all(row["epoch"] >= 2 for row in epochs)


def test_a_driver_unloaded_and_loaded_again_is_told_and_recovered_from(gpus: StandIn, start: Start) -> None:
    sampler, _ = start()
    after(sampler, 5)
    gpus.set(rc_init=9, rc_energy=9)
    status = wait_for(sampler, lambda s: not s.running)
    assert status.reason == "no NVIDIA driver"
    assert [device.state for device in status.devices] == ["lost"]
    gpus.unset("rc_init", "rc_energy")
    status = wait_for(sampler, lambda s: s.running)
    assert status.reason == ""


def test_without_a_counter_energy_is_integrated_power(gpus: StandIn, start: Start) -> None:
    gpus.set(count=2, advance=1, power_mw=180_000, update_ms=20)
    gpus.set(device=1, rc_energy=3)
    sampler, store = start()
    wait_for(sampler, lambda s: len(store.observations) > 0 and store.all_observations().height >= 2)
    assert sampler.stop(5.0)
    rows = store.all_observations().filter(pl.col("energy_gross_j").is_not_null()).to_dicts()
    methods = {row["device_uuid"]: row["method"] for row in rows}
    assert methods == {UUIDS[0]: "counter", UUIDS[1]: "integrated_instant"}
    for row in rows:
        seconds = (row["window_end_at"] - row["window_start_at"]).total_seconds()
        assert row["energy_gross_j"] / seconds == pytest.approx(180.0, rel=0.05)


def test_a_device_that_tells_nothing_is_unknown_and_says_unsupported(gpus: StandIn, start: Start) -> None:
    gpus.set(rc_energy=3, rc_instant=3, rc_power=3)
    sampler, store = start()
    wait_for(sampler, lambda s: len(store.observations) > 0 and store.all_observations().height >= 1)
    assert sampler.stop(5.0)
    row = store.all_observations().to_dicts()[0]
    assert (row["energy_gross_j"], row["gap_reason"], row["method"]) == (None, "unsupported", "unavailable")
    assert store.all_samples()["power_w"].null_count() == store.all_samples().height
    assert store.last_devices()[UUIDS[0]]["state"] == "unsupported"


def test_garbage_power_never_reaches_a_sample(gpus: StandIn, start: Start) -> None:
    gpus.set(instant_mw=3_700_000, rc_energy=3)
    sampler, store = start()
    after(sampler, 10)
    assert sampler.stop(5.0)
    assert store.all_samples()["power_w"].drop_nulls().to_list() == []
    assert set(store.all_observations()["gap_reason"]) == {"implausible"}


def test_a_board_split_by_mig_is_read_once_per_tick(
    gpus: StandIn, start: Start, energy_calls: Callable[[], int]
) -> None:
    gpus.set(count=4, uuid=UUIDS[0], mig=1, power_mw=52_700)  # the same board enumerated four times
    calls_before = energy_calls()
    sampler, store = start()
    after(sampler, 10)
    assert sampler.stop(5.0)
    status = sampler.status()
    assert energy_calls() - calls_before == status.ticks + 2  # one per tick; two to find out what it supports
    at_once = store.all_samples().group_by("sampled_at").agg(pl.col("power_w").sum())
    assert set(at_once["power_w"]) == {52.7}
    assert store.last_devices()[UUIDS[0]]["mig_enabled"] is True


# hosts without a GPU --------------------------------------------------------------------------


def test_without_a_driver_the_sampler_says_so_and_stops_cleanly(gpus: StandIn, start: Start) -> None:
    gpus.set(rc_init=12)
    sampler, store = start()
    status = wait_for(sampler, lambda s: s.reason == "no NVIDIA driver")
    assert (status.running, status.devices, status.ticks) == (False, (), 0)
    assert sampler.stop(1.0)
    assert store.offers == 0


def test_a_driver_that_appears_later_is_picked_up(gpus: StandIn, start: Start) -> None:
    gpus.set(count=0)
    sampler, _ = start(no_driver_retry_s=0.1)
    wait_for(sampler, lambda s: s.reason == NO_GPU)
    gpus.set(count=1)
    assert wait_for(sampler, lambda s: s.running).reason == ""


# schedule and cost ----------------------------------------------------------------------------


class SlowBackend:
    """Answers at once, except that reads take `delay_s` while it is set."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.read_at_ns: list[int] = []

    def open(self) -> Sequence[DeviceInfo]:
        return [DeviceInfo(uuid="GPU-x", counter_supported=True, power_method="instant")]

    def read(self, device_uuid: str) -> Reading:
        self.read_at_ns.append(time.monotonic_ns())
        time.sleep(self.delay_s)
        return Reading(1, "", 100.0, "instant", "")

    def occupancy(self, device_uuid: str) -> Occupancy:
        return UNTOLD

    def close(self) -> None:
        pass


def test_lateness_does_not_add_up(start: Start) -> None:
    backend = SlowBackend()
    backend.delay_s = 0.004  # a loop that sleeps period_s after its work would be late by this each time
    sampler, _ = start(backend, period_s=0.02)
    after(sampler, 100)
    sampler.stop(5.0)
    # Where in its period does each read fall? On a steady schedule always at the same place: the mean of the
    # unit vectors is near 1; drifting by 4 ms a tick it goes round the clock and the mean is near 0.
    turns = [(at_ns - backend.read_at_ns[0]) / 20_000_000 for at_ns in backend.read_at_ns]
    assert abs(sum(cmath.exp(2j * cmath.pi * turn) for turn in turns)) / len(turns) > 0.5


class LosingBackend:
    """GPU-x is well; GPU-y falls off the bus at its first reading and, if it flaps, after every session start."""

    def __init__(self, *, flaps: bool) -> None:
        self.flaps = flaps
        self.opened_at_s: list[float] = []

    def open(self) -> Sequence[DeviceInfo]:
        self.opened_at_s.append(time.monotonic())
        listed = ["GPU-x", "GPU-y"] if self.flaps or len(self.opened_at_s) == 1 else ["GPU-x"]
        return [DeviceInfo(uuid=uuid, counter_supported=True, power_method="instant") for uuid in listed]

    def read(self, device_uuid: str) -> Reading:
        if device_uuid == "GPU-y":
            raise DeviceLost("GPU-y is lost")
        return Reading(1, "", 100.0, "instant", "")

    def occupancy(self, device_uuid: str) -> Occupancy:
        return UNTOLD

    def close(self) -> None:
        pass


@pytest.mark.parametrize("flaps", [False, True])
def test_the_session_is_reopened_with_growing_back_off(start: Start, flaps: bool) -> None:
    backend = LosingBackend(flaps=flaps)
    sampler, _ = start(backend, reopen_backoff_s=0.05)
    wait_for(sampler, lambda s: len(backend.opened_at_s) >= 5)
    sampler.stop(5.0)
    waits_s = [b - a for a, b in pairwise(backend.opened_at_s[:5])]
    assert [wait_s >= due_s for wait_s, due_s in zip(waits_s, [0.05, 0.1, 0.2, 0.4], strict=True)] == [True] * 4


def test_a_tick_whose_whole_period_passed_is_missed_and_counted(start: Start) -> None:
    backend = SlowBackend()
    sampler, _ = start(backend, period_s=0.05)
    after(sampler, 2)
    backend.delay_s = 0.23
    after(sampler, 1)
    backend.delay_s = 0.0
    after(sampler, 2)
    status = sampler.status()
    assert 3 <= status.missed_ticks <= 30
    assert status.ticks == pytest.approx(len(backend.read_at_ns), abs=1)


def test_a_slow_sink_does_not_hold_up_the_ticks(gpus: StandIn, start: Start) -> None:
    sampler, store = start()
    after(sampler, 2)
    store.delay_s = 1.0
    offers = store.offers
    wait_for(sampler, lambda s: store.offers > offers)
    ticks = sampler.status().ticks
    time.sleep(0.5)
    assert sampler.status().ticks - ticks >= 12  # 25 are due; the sink blocks for 1 s
    store.delay_s = 0.0


def test_eight_boards_at_200_ms_cost_little_cpu(gpus: StandIn, start: Start) -> None:
    gpus.set(count=8, advance=1)
    sampler, _ = start(period_s=0.2, flush_s=1.0)
    after(sampler, 10)
    status = sampler.status()
    # CPU time, not wall time: about 0.5 ms per tick on an idle machine; 4 ms would be 2 % of a core
    assert 0 < status.cpu_s / status.ticks < 0.004


# the sink fails -------------------------------------------------------------------------------


def test_a_refused_batch_is_kept_and_offered_again(gpus: StandIn, start: Start) -> None:
    sampler, store = start(flush_s=0.05)
    store.refuse = "disk full"
    status = wait_for(sampler, lambda s: s.sink_error != "" and store.offers >= 2)
    assert status.sink_error == "OSError: disk full"
    assert status.buffered_rows > 0
    store.refuse = ""
    wait_for(sampler, lambda s: s.sink_error == "" and s.flushed_rows > 0)
    assert sampler.stop(5.0)
    status = sampler.status()
    assert status.dropped_rows == 0
    assert store.all_samples().height == status.ticks
    assert store.all_samples()["sampled_at"].is_unique().all()


def test_rows_that_the_sink_never_took_are_reported_not_forgotten(gpus: StandIn, start: Start) -> None:
    sampler, store = start(flush_s=0.05)
    store.refuse = "warehouse closed"
    after(sampler, 5)
    assert sampler.stop(5.0) is False
    assert sampler.status().buffered_rows >= sampler.status().ticks


def row(i: int) -> SampleRow:
    return ("GPU-a", datetime(2026, 1, 1, 0, 0, i), 100.0, i, "instant", None, 0)


def test_a_full_buffer_drops_the_oldest_samples_and_counts_them() -> None:
    store = Store()
    outbox = Outbox(store, flush_s=60, max_rows=10)
    outbox.put([row(i) for i in range(8)], [])
    outbox.put([row(i) for i in range(8, 14)], [])
    assert (outbox.buffered_rows, outbox.dropped_rows) == (10, 4)
    outbox.start()
    assert outbox.stop(5.0)
    assert store.all_samples()["sampled_at"].dt.second().to_list() == list(range(4, 14))


def test_energy_windows_outlive_samples_in_a_full_buffer() -> None:
    store = Store()
    outbox = Outbox(store, flush_s=60, max_rows=3)
    needed = {"observation_id": "o", "provider": "local", "evidence_class": "measured"}
    outbox.put([row(i) for i in range(3)], [needed, needed])
    outbox.start()
    assert outbox.stop(5.0)
    assert (store.all_samples().height, store.all_observations().height, outbox.dropped_rows) == (1, 2, 2)


def test_a_large_backlog_goes_out_in_batches() -> None:
    store = Store()
    outbox = Outbox(store, flush_s=60, max_rows=1000, batch_rows=25)
    outbox.put([row(i % 60) for i in range(60)], [])
    outbox.start()
    assert outbox.stop(5.0)
    assert [frame.height for frame in store.samples] == [25, 25, 10]
    assert outbox.flushed_rows == 60


def test_a_sink_that_never_returns_does_not_hang_the_stop() -> None:
    entered, release = threading.Event(), threading.Event()

    def stuck(samples: pl.DataFrame, observations: pl.DataFrame, devices: pl.DataFrame) -> None:
        entered.set()
        release.wait(10)

    outbox = Outbox(stuck, flush_s=0.01)
    outbox.put([row(1)], [])
    outbox.start()
    assert entered.wait(5)
    assert outbox.stop(0.1) is False
    release.set()
    assert outbox.stop(5.0) is True


def test_samples_become_typed_rows_in_joules() -> None:
    frame = sample_frame([("GPU-a", datetime(2026, 1, 1), None, 18_446_744_073_709, "unavailable", 1_000_000, 3)])
    assert frame.to_dicts() == [
        {
            "device_uuid": "GPU-a",
            "sampled_at": datetime(2026, 1, 1),
            "power_w": None,
            "energy_counter_j": 18_446_744_073.709,
            "method": "unavailable",
            "sensor_at": datetime(1970, 1, 1, 0, 0, 1),
            "epoch": 3,
        }
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period_s": 0.0}, r"period_s is 0\.0"),
        ({"period_s": 5.0}, r"period_s is 5\.0"),
        ({"window_s": 0.5}, r"window_s is 0\.5"),
        ({"flush_s": 0.0}, r"flush_s 0\.0"),
    ],
)
def test_settings_that_cannot_measure_are_refused_by_name(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PowerSampler(Nvml(), Store(), **options)  # type: ignore[arg-type]
