"""The compiled stand-in, once per session, and a fresh state per test."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from tests.power import standin


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("the NVML stand-in is a Linux shared library")
    if standin.compiler() is None:
        reason = "no C compiler (cc, gcc or clang): the NVML stand-in cannot be built"
        if os.environ.get("JOULEBOOK_REQUIRE_CC") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return standin.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(nvml_library: Path, tmp_path: Path) -> Iterator[standin.StandIn]:
    """A host with one H100 whose driver says what the test sets; the binding of this process talks to it."""
    state = standin.StandIn(tmp_path / "gpus.state")
    with standin.loaded(nvml_library, state):
        yield state


@pytest.fixture
def energy_calls(gpus: standin.StandIn) -> Callable[[], int]:
    """How often the energy counter of the stand-in was read so far."""
    call = pynvml.nvmlLib.fake_energy_calls
    call.restype = ctypes.c_uint64
    return lambda: int(call())
