"""Compiled inner loops: one place that says how numba is used.

Kernels take and return numpy arrays and numbers, hold no state, release the GIL, and are compiled once per
machine: numba keeps them in `__pycache__` beside the source, or in the user's cache where that is read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` for the types it is called with."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a small helper of a kernel: it is compiled into its callers."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)
    return compiled


def bare(function: Callable[P, R]) -> Callable[P, R]:
    """`jit` for loops that pass many arrays between functions and allocate none: no reference is counted."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return compiled
