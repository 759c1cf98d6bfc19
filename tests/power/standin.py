"""Build and drive the stand-in driver library (fake_nvml.c); used by tests and by the benchmark.

library = build(tmp_path)                 # needs a C compiler: see `compiler`
state = StandIn(tmp_path / "gpus.state")
state.set(count=8, power_mw=300_000, advance=1)
with loaded(library, state): ...          # the binding of this process answers from `state`
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml

SOURCE = Path(__file__).with_name("fake_nvml.c")
SONAME = "libnvidia-ml.so.1"
STATE_VARIABLE = "FAKE_NVML_STATE"


def compiler() -> str | None:
    """A C compiler of this machine, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path) -> Path:
    """Compile the stand-in into `directory`; the library's path. Its soname lets the binding find it preloaded."""
    cc = compiler()
    if cc is None:
        raise RuntimeError("no C compiler (cc, gcc or clang) on PATH; the NVML stand-in cannot be built")
    target = directory / SONAME
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}", "-pthread"]
    subprocess.run([cc, *flags, "-o", str(target), str(SOURCE)], check=True)
    return target


class StandIn:
    """The state file: what the driver of the stand-in says. Keys and defaults are listed in fake_nvml.c."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, str] = {}
        self._stamp_ns = time.time_ns()
        self.set(count=1, t0_ns=time.monotonic_ns())

    def set(self, device: int | None = None, **values: object) -> None:
        """Change keys, for one `device` or for all, and let the running library see it at once."""
        suffix = "" if device is None else f".{device}"
        self.values.update({key + suffix: str(value) for key, value in values.items()})
        self._write()

    def unset(self, *keys: str, device: int | None = None) -> None:
        """Back to the default of these keys."""
        suffix = "" if device is None else f".{device}"
        for key in keys:
            self.values.pop(key + suffix, None)
        self._write()

    def _write(self) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(f"{key} {value}\n" for key, value in self.values.items()))
        self._stamp_ns += 1_000_000  # a new time stamp even within one tick of the file system's clock
        os.utime(fresh, ns=(self._stamp_ns, self._stamp_ns))
        fresh.replace(self.path)


@contextlib.contextmanager
def loaded(library: Path, state: StandIn) -> Iterator[ctypes.CDLL]:
    """Let the NVML binding of this process talk to `library`; afterwards it is as before."""
    cdll = ctypes.CDLL(str(library))
    before_lib, before_env = pynvml.nvmlLib, os.environ.get(STATE_VARIABLE)
    before_pointers = dict(pynvml._nvmlGetFunctionPointer_cache)
    os.environ[STATE_VARIABLE] = str(state.path)
    pynvml.nvmlLib = cdll
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield cdll
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
        pynvml.nvmlLib = before_lib
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlGetFunctionPointer_cache.update(before_pointers)
        if before_env is None:
            os.environ.pop(STATE_VARIABLE, None)
        else:
            os.environ[STATE_VARIABLE] = before_env
