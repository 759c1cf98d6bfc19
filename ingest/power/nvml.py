"""NVML through the real `nvidia-ml-py` binding: sessions, devices, and one reading of one device.

Whether a device has an energy counter or an instant power field is found out by calling, per device
and per reading, because architecture alone does not tell (vGPU, laptops) and one device that cannot
must not silence the others. What its meter covers, GPU board or superchip module, is settled when a
session opens and stays for that session: figures of two scopes are never mixed. Power exists only for
the whole board, so MIG instances are not asked. Processes are counted to tell an empty board from one
that holds a model; such calls break between driver versions, and then tell nothing and stop nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import pynvml

from ingest.errors import DeviceError, DeviceLost
from ingest.power.fields import (
    ENERGY,
    GPU,
    MODULE,
    NOT_ASKED,
    POWER_AVERAGE,
    POWER_INSTANT,
    TOTAL_ENERGY,
    Answer,
    ask,
    ask_fields,
    raise_if_gone,
    reason_of,
)
from ingest.power.sensors import (
    ARCHITECTURES,
    SCOPE_GPU,
    SCOPE_MODULE,
    DeviceInfo,
    Occupancy,
    Reading,
    implausible_power,
    sensor_class,
)

_GPU_ENERGY = ((TOTAL_ENERGY, GPU), (ENERGY, GPU))
_MODULE_ENERGY = (ENERGY, MODULE)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(frozen=True)
class _Meter:
    """How one board is read. `energy_field` None: by the call of its own, nvmlDeviceGetTotalEnergyConsumption."""

    scope: str = SCOPE_GPU
    energy_field: tuple[int, int] | None = None
    power_limit_w: float | None = None

    @property
    def fields(self) -> list[tuple[int, int]]:
        """What one call of nvmlDeviceGetFieldValues asks: instant power, average power, energy where needed."""
        scope = GPU if self.scope == SCOPE_GPU else MODULE
        energy = [] if self.energy_field is None else [self.energy_field]
        return [(POWER_INSTANT, scope), (POWER_AVERAGE, scope), *energy]


class Nvml:
    """The NVML session of this process. Not for use from several threads at once."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}
        self._meters: dict[str, _Meter] = {}
        self._open = False
        self.unreachable: tuple[str, ...] = ()

    def open(self) -> tuple[DeviceInfo, ...]:
        """Start a session and list every board of the host, each UUID once, whatever CUDA would show.

        Boards that fell off the bus are named in `unreachable`. Raises NoDriver ("no NVIDIA driver")
        without library or driver, DeviceLost or DeviceError when NVML does not come up.
        """
        self.close()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise_if_gone(int(error.value), "NVML start")
            raise DeviceError(
                f"NVML does not start: {reason_of(int(error.value))}.", fix="try `nvidia-smi` as the same user"
            ) from error
        self._open = True
        try:
            return self._list()
        except BaseException:
            self.close()
            raise

    def _list(self) -> tuple[DeviceInfo, ...]:
        driver, _ = ask(pynvml.nvmlSystemGetDriverVersion, "driver version")
        count, why = ask(pynvml.nvmlDeviceGetCount, "device count")
        if count is None:
            raise DeviceError(f"NVML does not count its devices: {why}.", fix="try `nvidia-smi` as the same user")
        devices: list[DeviceInfo] = []
        unreachable: list[str] = []
        for index in range(count):
            try:
                device = self._describe(index, _text(driver) if driver is not None else None)
            except DeviceLost as error:
                unreachable.append(error.message)
                continue
            if isinstance(device, str):
                unreachable.append(device)
            elif device is not None:
                devices.append(device)
        self.unreachable = tuple(unreachable)
        return tuple(devices)

    def _describe(self, index: int, driver: str | None) -> DeviceInfo | str | None:
        what = f"GPU at NVML index {index}"
        handle, why = ask(lambda: pynvml.nvmlDeviceGetHandleByIndex(index), what)
        if handle is None:
            return f"{what}: {why}"
        raw_uuid, why = ask(lambda: pynvml.nvmlDeviceGetUUID(handle), what)
        if not raw_uuid:
            return f"{what}: no UUID ({why or 'empty'})"
        uuid = _text(raw_uuid)
        if uuid in self._handles:  # one board listed twice is still one board
            return None
        name, _ = ask(lambda: pynvml.nvmlDeviceGetName(handle), what)
        arch, _ = ask(lambda: pynvml.nvmlDeviceGetArchitecture(handle), what)
        pci, _ = ask(lambda: pynvml.nvmlDeviceGetPciInfo(handle), what)
        mig, mig_why = ask(lambda: pynvml.nvmlDeviceGetMigMode(handle), what)
        limit_mw, limit_why = ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle), what)
        meter = self._meter(handle, what, limit_mw / 1000 if limit_mw else None)
        self._handles[uuid], self._meters[uuid] = handle, meter
        try:
            first = self.read(uuid)
        except BaseException:
            del self._handles[uuid], self._meters[uuid]
            raise
        named = _text(name) if name is not None else None
        arch_name = ARCHITECTURES.get(arch) if arch is not None else None
        notes = (
            ("energy counter", first.energy_reason),
            ("power", first.power_reason),
            ("power limit", limit_why),
            ("meter", "covers the module: CPU, GPU and memory" if meter.scope == SCOPE_MODULE else ""),
        )
        return DeviceInfo(
            uuid=uuid,
            pci_bus_id=_text(pci.busId) if pci is not None else None,
            name=named,
            gpu_arch=arch_name,
            driver_version=driver,
            # A board that does not know MIG does not have it on; any other failure leaves it unknown.
            mig_enabled=bool(mig[0]) if mig is not None else False if mig_why == "not supported" else None,
            power_limit_w=meter.power_limit_w,
            counter_supported=first.energy_counter_mj is not None,
            sensor_class=sensor_class(arch_name, named, driver, first.power_method),
            power_method=first.power_method,
            notes=tuple(f"{topic}: {reason}" for topic, reason in notes if reason),
            index=index,
            scope=meter.scope,
        )

    def _meter(self, handle: Any, what: str, limit_w: float | None) -> _Meter:
        """What there is to read: the board's own figures before those of its module, a counter by any way.

        The enforced limit is the GPU's, so it says nothing about the power of a module.
        """
        counter, _ = ask(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), what)
        if counter is not None:
            return _Meter(power_limit_w=limit_w)
        probe = [*_GPU_ENERGY, (POWER_INSTANT, GPU), (POWER_AVERAGE, GPU), _MODULE_ENERGY, (POWER_INSTANT, MODULE)]
        answers = dict(zip(probe, ask_fields(handle, probe, what), strict=True))
        for field in _GPU_ENERGY:
            if answers[field].value is not None:
                return _Meter(energy_field=field, power_limit_w=limit_w)
        has_power = any(answers[field].value is not None for field in probe[2:4])
        power_mw = None if has_power else ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle), what)[0]
        if has_power or power_mw is not None:
            return _Meter(power_limit_w=limit_w)
        if any(answers[field].value is not None for field in probe[4:]):
            return _Meter(SCOPE_MODULE, _MODULE_ENERGY)
        return _Meter(power_limit_w=limit_w)

    def read(self, device_uuid: str) -> Reading:
        """Counter in mJ, power in W and the sensor's stamp of one board, each None where it cannot tell.

        Raises DeviceLost (codes 10, 15, 16, 999, or a UUID outside this session) and NoDriver.
        """
        handle = self._handles.get(device_uuid)
        if handle is None:
            raise DeviceLost(f"GPU {device_uuid} is not in this NVML session.", fix="open the session again")
        what = f"GPU {device_uuid}"
        meter = self._meters[device_uuid]
        counter_mj: int | None = None
        energy_reason = ""
        if meter.energy_field is None:
            counter_mj, energy_reason = ask(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), what)
        instant, average, *energy = ask_fields(handle, meter.fields, what)
        if energy:
            counter_mj = None if energy[0].value is None else int(energy[0].value)
            energy_reason = energy[0].reason
        power, method = self._power(handle, what, meter, instant, average)
        if power.value is None:
            return Reading(counter_mj, energy_reason, None, "unavailable", power.reason)
        power_w = power.value / 1000
        refused = implausible_power(power_w, meter.power_limit_w)
        stated_w = None if refused else power_w
        return Reading(counter_mj, energy_reason, stated_w, method, refused or "", power.stamp_us)

    @staticmethod
    def _power(handle: Any, what: str, meter: _Meter, instant: Answer, average: Answer) -> tuple[Answer, str]:
        """The best power answer in mW and what it is: field 186, field 185, nvmlDeviceGetPowerUsage."""
        if instant.value is not None:
            return instant, "instant"
        if average.value is not None or meter.scope == SCOPE_MODULE:
            return average, "average"
        power_mw, reason = ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle), what)
        return (
            Answer(power_mw, None, reason) if power_mw is not None else NOT_ASKED._replace(reason=reason)
        ), "average"

    def occupancy(self, device_uuid: str) -> Occupancy:
        """Compute processes and utilization of one board, each None where the driver does not tell; never raises."""
        handle = self._handles.get(device_uuid)
        processes: int | None = None
        utilization: float | None = None
        if handle is not None:
            with contextlib.suppress(pynvml.NVMLError, AttributeError, ValueError):
                processes = len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
            with contextlib.suppress(pynvml.NVMLError, AttributeError, ValueError):
                utilization = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        return Occupancy(processes, utilization)

    def close(self) -> None:
        """End the session. Handles are invalid afterwards; a session that is already gone is no error."""
        self._handles.clear()
        self._meters.clear()
        if self._open:
            self._open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
