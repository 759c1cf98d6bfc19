"""The digest of large results: the same for the same rows, whichever portions they come in, and for no others."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.digests import FrameDigest
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot

ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(max_size=5)),
        st.one_of(st.none(), st.integers(-5, 5)),
        st.one_of(st.none(), st.floats(allow_nan=False)),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=12,
)


def framed(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    schema = {"s": pl.String, "i": pl.Int64, "f": pl.Float64, "b": pl.Boolean}
    clean = [tuple(v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in r) for r in rows]
    return pl.DataFrame(clean, schema=schema, orient="row")


def digest(*portions: pl.DataFrame) -> str:
    found = FrameDigest()
    for portion in portions:
        found.update(portion)
    return found.hexdigest()


@settings(max_examples=60)
@given(rows=ROWS, cut=st.integers(0, 12))
def test_portions_do_not_matter(rows: list[tuple[Any, ...]], cut: int) -> None:
    frame = framed(rows)
    assert digest(frame) == digest(frame[:cut], frame[cut:])


@settings(max_examples=60)
@given(rows=ROWS, other=ROWS)
def test_other_rows_have_another_digest(rows: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    a, b = framed(rows), framed(other)
    same = a.rows() == b.rows() and [np.signbit(x or 0) for x in a["f"]] == [np.signbit(x or 0) for x in b["f"]]
    assert (digest(a) == digest(b)) == same


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (["ab", "c"], ["a", "bc"]),
        ([None, "a"], ["a", None]),
        (["", None], [None, ""]),
        ([0, None], [None, 0]),
        ([[1, 2], [3]], [[1], [2, 3]]),
        ([Decimal("1.0")], [Decimal("2.0")]),
        ([datetime(2026, 1, 1)], [datetime(2026, 1, 2)]),
    ],
)
def test_values_cannot_be_confused(a: list[Any], b: list[Any]) -> None:
    assert digest(pl.DataFrame({"x": a})) != digest(pl.DataFrame({"x": b})) == digest(pl.DataFrame({"x": b}))


def test_names_and_types_are_part_of_it() -> None:
    assert len({digest(pl.DataFrame({n: pl.Series([1], dtype=t)})) for n in "ab" for t in (pl.Int64, pl.Int32)}) == 4
    arrays = [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros((2, 3), dtype=np.float32)]
    found = set()
    for array in arrays:
        each = FrameDigest()
        each.update_array("x", array)
        found.add(each.hexdigest())
    assert len(found) == 3


def test_a_snapshot_digests_a_large_result_and_its_parameters(warehouse: Warehouse) -> None:
    def read(top: int, text: str = "SELECT range AS i, range::VARCHAR AS s FROM range($top)") -> str:
        with snapshot(warehouse, datetime(2026, 1, 1)) as snap:
            frame = snap.frame(text, top=top)
            assert frame.height == top and frame["s"][-1] == str(top - 1)
            return snap.digest

    assert read(300_000) == read(300_000) != read(300_001)
    assert read(10) != read(10, "SELECT range AS i, range::VARCHAR AS s FROM range($top) ORDER BY i")
