"""Answers of NVML: return codes in words, and field values, of which each has a code of its own.

`nvmlDeviceGetFieldValues` succeeds although every field in it may have failed, so a value counts only with its
own `nvmlReturn` 0. Power fields have a scope: the GPU board, or the module of a superchip (Grace Hopper), whose
power is CPU, GPU and memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import pynvml

from ingest.errors import DeviceLost, NoDriver

POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT, mW
POWER_AVERAGE = 185  # NVML_FI_DEV_POWER_AVERAGE, mW averaged over 1 s
TOTAL_ENERGY = 83  # NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, mJ; the GPU's
ENERGY = 191  # NVML_FI_DEV_ENERGY, mJ; of the scope asked for
GPU, MODULE = 0, 1  # NVML_POWER_SCOPE_*

NOT_SUPPORTED = 3
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


class Answer(NamedTuple):
    """One field: its value in mW or mJ with the sensor's stamp in us since 1970, or None and why."""

    value: float | None
    stamp_us: int | None
    reason: str


NOT_ASKED = Answer(None, None, "not asked")


def raise_if_gone(code: int, what: str) -> None:
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


def reason_of(code: int) -> str:
    if code == NOT_SUPPORTED:
        return "not supported"
    return f"NVML answered {code} ({pynvml.NVMLError(code)})"


def ask(call: Callable[[], T], what: str) -> tuple[T | None, str]:
    """The answer and "", or None and why; raises only when the device or the driver is gone."""
    try:
        return call(), ""
    except pynvml.NVMLError as error:
        code = int(error.value)
        raise_if_gone(code, what)
        return None, reason_of(code)


def ask_fields(handle: Any, wanted: Sequence[tuple[int, int]], what: str) -> list[Answer]:
    """The fields (id, scope) of one board in one call, in that order. Raises DeviceLost and NoDriver."""
    values, why = ask(lambda: pynvml.nvmlDeviceGetFieldValues(handle, list(wanted)), what)
    if values is None:
        return [Answer(None, None, why)] * len(wanted)
    return [_answer(values[place], what) for place in range(len(wanted))]


def _answer(field: Any, what: str) -> Answer:
    code = int(field.nvmlReturn)
    if code != 0:
        raise_if_gone(code, what)
        return Answer(None, None, reason_of(code))
    kind = int(field.valueType)
    if not 0 <= kind < len(_VALUE_MEMBER):
        return Answer(None, None, f"field {int(field.fieldId)} has the unknown value type {kind}")
    return Answer(getattr(field.value, _VALUE_MEMBER[kind]), int(field.timestamp) or None, "")
