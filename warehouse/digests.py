"""Digests of frames and matrices: fast, and the same in whichever portions the rows come."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.ids import content_hash

_ROWS = 262_144  # rows at a time, so that a long text column is never copied whole


class FrameDigest:
    """sha256 over the columns of a table that comes in portions of rows. Each column is hashed by itself: numbers
    by their bytes, texts by their lengths and their UTF-8, both beside which values are NULL."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}
        self._rows = 0

    def update(self, frame: pl.DataFrame) -> None:
        """Take the rows of `frame`; each portion must have the same columns."""
        self._rows += frame.height
        for name in frame.columns:
            for start in range(0, max(frame.height, 1), _ROWS):
                self._column(name, frame[name].slice(start, _ROWS))

    def update_array(self, name: str, array: npt.NDArray[Any]) -> None:
        """Take rows of a numeric array; its row length and type are part of the digest."""
        self._feed(f"{name}:{array.dtype}:{array.shape[1:]}", np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def hexdigest(self) -> str:
        """The digest of all rows so far."""
        return content_hash([self._rows, {name: part.hexdigest() for name, part in self._parts.items()}])

    def _column(self, name: str, values: pl.Series) -> None:
        kind = f"{name}:{values.dtype}"
        self._feed(f"{kind}:known", values.is_not_null().to_numpy().view(np.uint8))
        if values.dtype.is_temporal():
            values = values.to_physical()
        if values.dtype.is_numeric() and not values.dtype.is_decimal():
            self._feed(kind, np.ascontiguousarray(values.fill_null(0).to_numpy()).view(np.uint8))
            return
        if values.dtype != pl.String:  # booleans, decimals and lists: as text
            values = pl.Series(name, [None if v is None else str(v) for v in values.to_list()], dtype=pl.String)
        told = values.fill_null("")
        self._feed(f"{kind}:lengths", told.str.len_bytes().to_numpy().view(np.uint8))
        self._feed(kind, told.str.join("").item().encode() if len(told) else b"")

    def _feed(self, name: str, data: Any) -> None:
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = hashlib.sha256()
        part.update(data)
