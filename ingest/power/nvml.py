"""NVML through the real `nvidia-ml-py` binding: sessions, devices, and one reading of one device.

Whether a device has an energy counter or an instant power field is found out by calling, per device
and per reading, because architecture alone does not tell (vGPU, laptops) and one device that cannot
must not silence the others. Process and MIG-instance calls are never made: they break between driver
versions, and power exists only for the whole board.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from ingest.errors import DeviceError, DeviceLost, NoDriver
from ingest.power.sensors import ARCHITECTURES, DeviceInfo, Reading, implausible_power, sensor_class

FIELD_POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT, mW

_NOT_SUPPORTED = 3
_MISSING = {9, 12}  # driver not loaded, library not found
_MISMATCH = 18  # the library and the kernel module are of different versions
# Gone or not answering. 1 and 2 come when someone else in this process ended our session.
_LOST = {
    1: "session ended",
    2: "handle no longer valid",
    10: "time-out",
    15: "GPU is lost",
    16: "reset required",
    999: "unknown error",
}
_VALUE_MEMBER = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

T = TypeVar("T")


def _raise_if_gone(code: int, what: str) -> None:
    """DeviceLost or NoDriver for codes after which nothing more can be read."""
    if code in _LOST:
        raise DeviceLost(
            f"{what}: NVML answered {code} ({_LOST[code]}).",
            fix="the other GPUs go on; see `dmesg | grep Xid`, then reset the GPU or reboot the host",
        )
    if code in _MISSING:
        raise NoDriver("no NVIDIA driver", fix="install or load the NVIDIA driver, or run without GPU power")
    if code == _MISMATCH:
        raise NoDriver(
            "no NVIDIA driver of the library's version is loaded", fix="reload the NVIDIA kernel modules or reboot"
        )


def _reason(code: int) -> str:
    if code == _NOT_SUPPORTED:
        return "not supported"
    return f"NVML answered {code} ({pynvml.NVMLError(code)})"


def _ask(call: Callable[[], T], what: str) -> tuple[T | None, str]:
    """The answer and "", or None and why; raises only when the device or the driver is gone."""
    try:
        return call(), ""
    except pynvml.NVMLError as error:
        code = int(error.value)
        _raise_if_gone(code, what)
        return None, _reason(code)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Nvml:
    """The NVML session of this process. Not for use from several threads at once."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}
        self._limits_w: dict[str, float | None] = {}
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
            _raise_if_gone(int(error.value), "NVML start")
            raise DeviceError(
                f"NVML does not start: {_reason(int(error.value))}.", fix="try `nvidia-smi` as the same user"
            ) from error
        self._open = True
        try:
            return self._list()
        except BaseException:
            self.close()
            raise

    def _list(self) -> tuple[DeviceInfo, ...]:
        driver, _ = _ask(pynvml.nvmlSystemGetDriverVersion, "driver version")
        count, why = _ask(pynvml.nvmlDeviceGetCount, "device count")
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
        handle, why = _ask(lambda: pynvml.nvmlDeviceGetHandleByIndex(index), what)
        if handle is None:
            return f"{what}: {why}"
        raw_uuid, why = _ask(lambda: pynvml.nvmlDeviceGetUUID(handle), what)
        if not raw_uuid:
            return f"{what}: no UUID ({why or 'empty'})"
        uuid = _text(raw_uuid)
        if uuid in self._handles:  # one board listed twice is still one board
            return None
        name, _ = _ask(lambda: pynvml.nvmlDeviceGetName(handle), what)
        arch, _ = _ask(lambda: pynvml.nvmlDeviceGetArchitecture(handle), what)
        pci, _ = _ask(lambda: pynvml.nvmlDeviceGetPciInfo(handle), what)
        mig, mig_why = _ask(lambda: pynvml.nvmlDeviceGetMigMode(handle), what)
        limit_mw, limit_why = _ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle), what)
        self._handles[uuid] = handle
        self._limits_w[uuid] = limit_mw / 1000 if limit_mw else None
        try:
            first = self.read(uuid)
        except BaseException:
            del self._handles[uuid]
            raise
        named = _text(name) if name is not None else None
        arch_name = ARCHITECTURES.get(arch) if arch is not None else None
        return DeviceInfo(
            uuid=uuid,
            pci_bus_id=_text(pci.busId) if pci is not None else None,
            name=named,
            gpu_arch=arch_name,
            driver_version=driver,
            # A board that does not know MIG does not have it on; any other failure leaves it unknown.
            mig_enabled=bool(mig[0]) if mig is not None else False if mig_why == "not supported" else None,
            power_limit_w=self._limits_w[uuid],
            counter_supported=first.energy_counter_mj is not None,
            sensor_class=sensor_class(arch_name, named, driver, first.power_method),
            power_method=first.power_method,
            notes=tuple(
                f"{topic}: {reason}"
                for topic, reason in (
                    ("energy counter", first.energy_reason),
                    ("power", first.power_reason),
                    ("power limit", limit_why),
                )
                if reason
            ),
        )

    def read(self, device_uuid: str) -> Reading:
        """Counter in mJ, power in W and the sensor's stamp of one board, each None where it cannot tell.

        Raises DeviceLost (codes 10, 15, 16, 999, or a UUID outside this session) and NoDriver.
        """
        handle = self._handles.get(device_uuid)
        if handle is None:
            raise DeviceLost(f"GPU {device_uuid} is not in this NVML session.", fix="open the session again")
        what = f"GPU {device_uuid}"
        try:
            counter_mj, energy_reason = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), ""
        except pynvml.NVMLError as error:
            code = int(error.value)
            _raise_if_gone(code, what)
            counter_mj, energy_reason = None, _reason(code)
        power_mw, sensor_at_us, power_reason = self._instant_mw(handle, what)
        method = "instant"
        if power_mw is None:
            method = "average"
            sensor_at_us = None
            try:
                power_mw, power_reason = pynvml.nvmlDeviceGetPowerUsage(handle), ""
            except pynvml.NVMLError as error:
                code = int(error.value)
                _raise_if_gone(code, what)
                return Reading(counter_mj, energy_reason, None, "unavailable", _reason(code))
        power_w = power_mw / 1000
        refused = implausible_power(power_w, self._limits_w.get(device_uuid))
        return Reading(
            counter_mj, energy_reason, None if refused else power_w, method, refused or power_reason, sensor_at_us
        )

    @staticmethod
    def _instant_mw(handle: Any, what: str) -> tuple[float | None, int | None, str]:
        """Field 186: (mW, sensor stamp in us, reason). A field fails by its own code, without an exception."""
        try:
            field = pynvml.nvmlDeviceGetFieldValues(handle, [FIELD_POWER_INSTANT])[0]
        except pynvml.NVMLError as error:
            code = int(error.value)
            _raise_if_gone(code, what)
            return None, None, _reason(code)
        code = int(field.nvmlReturn)
        if code != 0:
            _raise_if_gone(code, what)
            return None, None, _reason(code)
        kind = int(field.valueType)
        if not 0 <= kind < len(_VALUE_MEMBER):
            return None, None, f"power field of unknown value type {kind}"
        return float(getattr(field.value, _VALUE_MEMBER[kind])), int(field.timestamp) or None, ""

    def close(self) -> None:
        """End the session. Handles are invalid afterwards; a session that is already gone is no error."""
        self._handles.clear()
        self._limits_w.clear()
        if self._open:
            self._open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
