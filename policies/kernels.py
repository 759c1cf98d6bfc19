"""Compiled inner loops: one place that says how numba is used.

Kernels take and return numpy arrays and numbers, hold no state, release the GIL, and are compiled once per
machine: numba keeps them in `__pycache__` beside the source, or in the user's cache where that is read-only. A loop
that is made of `part`s is compiled anew after any change of a module beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.cgutils import intp_t, pointer_add
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")
_folders_of_parts: set[Path] = set()


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` for the types it is called with."""
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    if _folder(function) in _folders_of_parts:
        compiled._cache._cache_file._source_stamp = _sources(_folder(function))
    return cast("Callable[P, R]", compiled)


def _sources(folder: Path) -> bytes:
    """Of all modules of the folder. numba asks whether the loop's own has changed, but its parts, constants and tables
    stand in those beside it: after an upgrade that changes a part alone it would go on with the old loop."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).digest()


def _folder(function: Callable[..., Any]) -> Path:
    return Path(function.__code__.co_filename).parent


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a small helper of a kernel: it is compiled into its callers."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)
    return compiled


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A function that only compiled loops call: it has no entry from Python and is cached within its callers.

    It stands in the folder of the loop, and is imported by it before the loop is declared.
    """
    _folders_of_parts.add(_folder(function))
    compiled: Callable[P, R] = numba.njit(**_PART)(function)
    return compiled


_PART: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,  # wrappers are most of the compile time of a small function
    "no_cfunc_wrapper": True,
}


def rows(name: str, dtype: np.dtype[Any]) -> Callable[[Any, int], Any]:
    """`row(memory, i)` for compiled loops: row i of a structured array whose address is the field `name` of a record.

    A loop over many tables takes one pointer to such a record instead of every array, which is seven words each and a
    reference count. The caller keeps the arrays alive and answers for i: nothing checks it.
    """
    record = numba.from_dtype(dtype)

    @intrinsic
    def row(typing: Any, memory: Any, index: Any) -> Any:
        offset = memory.offset(name)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            shift: Any = pointer_add
            field = shift(builder, args[0], offset, intp_t.as_pointer())
            place = context.cast(builder, args[1], signature.args[1], numba.types.intp)
            address = builder.add(builder.load(field), builder.mul(place, intp_t(dtype.itemsize)))
            return builder.inttoptr(address, context.get_value_type(record))

        return record(memory, index), codegen

    found: Any = row
    return cast("Callable[[Any, int], Any]", found)
