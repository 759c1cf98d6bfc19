"""Traces and distributions as arrays, as a snapshot knows them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.errors import TraceInvalid, TraceUnknown
from policies.fleet.length_cdf import LengthCdf, cdf_of
from policies.fleet.queueing import lengths_of
from policies.fleet.traces import Trace, cdfs, read_cdf, read_trace, traces
from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot
from warehouse.tables import frame

KNOWN = datetime(2026, 11, 1, 12)
START = datetime(2026, 10, 31, 8)


def request(no: int, at_s: float, **told: Any) -> dict[str, Any]:
    given = {"prompt_tokens": 100 + no, "output_tokens": 10 + no, "session_id": None, "model": None, "category": None}
    return {
        "trace": "t", "request_no": no, "arrival_s": at_s, "arrived_at": START + timedelta(seconds=at_s),
        **given, **told,
    }  # fmt: skip


@pytest.fixture
def filled(warehouse: Warehouse) -> Warehouse:
    rows = [
        request(0, 0.0, session_id="b", model="m1"),
        request(1, 1.5, session_id="a", category="chat"),
        request(2, 1.5, session_id="b", model="m2"),
        request(3, 4.0, model="m1"),
    ]
    knots = [{"cdf": "c", "tokens": t, "share": s, "citation": "made up"} for t, s in ((10, 0.25), (30, 1.0))]
    with warehouse.transaction() as tx:
        for table, data in (("core.request_trace", rows), ("core.length_cdf", knots)):
            loads.load(tx, table, frame(table, data), source_id="file:x", run_id="r", known_from=KNOWN)
    return warehouse


def test_a_trace_is_arrays_with_codes(filled: Warehouse) -> None:
    with snapshot(filled) as snap:
        found = read_trace(snap, "t")
    assert found.arrival_s.tolist() == [0.0, 1.5, 1.5, 4.0]
    assert found.prompt_tokens.tolist() == [100, 101, 102, 103]
    assert found.output_tokens.dtype == np.int64
    assert (found.session.tolist(), found.sessions) == ([0, 1, 0, -1], 2)
    assert (found.model.tolist(), found.models) == ([0, -1, 1, 0], ("m1", "m2"))
    assert (found.category.tolist(), found.categories) == ([-1, 0, -1, -1], ("chat",))
    assert found.started_at == "2026-10-31T08:00:00Z"
    assert found.requests_per_s == pytest.approx(3 / 4)


def test_a_window_keeps_the_times_of_the_whole_trace(filled: Warehouse) -> None:
    with snapshot(filled) as snap:
        assert read_trace(snap, "t", from_s=1.0, to_s=4.0).arrival_s.tolist() == [1.5, 1.5]
        assert len(read_trace(snap, "t", limit=3)) == 3
        with pytest.raises(TraceInvalid, match="in that window"):
            read_trace(snap, "t", from_s=9.0)


def test_what_there_is_comes_with_its_age(filled: Warehouse) -> None:
    with snapshot(filled, KNOWN + timedelta(hours=2)) as snap:
        (told,) = traces(snap)
        (lengths,) = cdfs(snap)
    assert (told["requests"], told["sessions"], told["models"], told["age_s"]) == (4, 2, ["m1", "m2"], 7200.0)
    assert told["first_at"] == "2026-10-31T08:00:00Z"
    assert (lengths["cdf"], lengths["knots"], lengths["tokens_max"], lengths["citation"]) == ("c", 2, 30, "made up")


def test_a_distribution_comes_with_its_citation(filled: Warehouse) -> None:
    with snapshot(filled) as snap:
        found = read_cdf(snap, "c")
    assert found == LengthCdf((10, 30), (0.25, 1.0), "c", "made up")


def test_unknown_names_list_the_known_ones(filled: Warehouse) -> None:
    with snapshot(filled) as snap:
        with pytest.raises(TraceUnknown, match="choose one of t"):
            read_trace(snap, "u")
        with pytest.raises(TraceUnknown, match="choose one of c"):
            read_cdf(snap, "u")


def test_a_snapshot_from_before_knows_nothing(filled: Warehouse) -> None:
    with snapshot(filled, KNOWN - timedelta(days=1)) as snap:
        assert traces(snap) == [] == cdfs(snap)
        with pytest.raises(TraceUnknown, match="import one"):
            read_trace(snap, "t")


def a_trace(**told: Any) -> Trace:
    none = np.full(2, -1, np.int32)
    given: dict[str, Any] = {
        "name": "t", "arrival_s": np.array([0.0, 1.0]), "prompt_tokens": np.array([5, 6]),
        "output_tokens": np.array([7, 8]), "session": none, "model": none, "category": none, "sessions": 0,
        "models": (), "categories": (),
    }  # fmt: skip
    return Trace(**{**given, **told})


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"arrival_s": np.zeros(0)}, "no requests"),
        ({"arrival_s": np.array([1.0, 0.5])}, "not in order"),
        ({"arrival_s": np.array([0.0, np.nan])}, "not in order"),
        ({"prompt_tokens": np.array([5, 0])}, "below 1"),
        ({"output_tokens": np.array([5])}, "output_tokens"),
    ],
)
def test_arrays_that_are_no_trace_are_named(told: dict[str, Any], why: str) -> None:
    with pytest.raises(TraceInvalid, match=why):
        a_trace(**told)


def test_a_trace_at_one_instant_has_no_rate() -> None:
    with pytest.raises(TraceInvalid, match="at once"):
        assert a_trace(arrival_s=np.zeros(2)).requests_per_s


@pytest.mark.parametrize(
    ("tokens", "share", "why"),
    [
        ((), (), "no knots"),
        ((5, 5), (0.5, 1.0), "do not rise"),
        ((0, 5), (0.5, 1.0), "do not rise"),
        ((5, 9), (0.6, 0.5), "fall"),
        ((5, 9), (0.6, float("nan")), "fall"),
        ((5, 9), (0.6, 0.9), "ends at 0.9"),
    ],
)
def test_knots_that_are_no_distribution_are_named(tokens: Any, share: Any, why: str) -> None:
    with pytest.raises(TraceInvalid, match=why):
        LengthCdf(tokens, share)


def test_lengths_between_knots_are_equally_likely() -> None:
    tokens, mass = LengthCdf((2, 4), (0.5, 1.0)).masses
    assert tokens.tolist() == [1, 2, 3, 4]
    assert mass.tolist() == [0.25] * 4
    assert LengthCdf((10, 30), (0.25, 1.0)).mean_tokens == pytest.approx(0.25 * 5.5 + 0.75 * 20.5)
    assert LengthCdf((10, 30), (0.25, 1.0)).share_at(20) == pytest.approx(0.625)


def test_draws_follow_the_distribution() -> None:
    cdf = LengthCdf((10, 30, 100), (0.25, 0.25, 1.0))
    drawn = cdf.sample(40_000, np.random.default_rng(5))
    assert drawn.min() >= 1 and drawn.max() <= 100
    assert not ((drawn > 10) & (drawn <= 30)).any()
    assert drawn.mean() == pytest.approx(cdf.mean_tokens, rel=0.01)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=300), st.integers(1, 20))
def test_a_distribution_of_lengths_passes_through_them(lengths: list[int], knots: int) -> None:
    found = cdf_of(lengths, name="x", knots=knots)
    for tokens, share in zip(found.tokens, found.share, strict=True):
        assert share == pytest.approx(np.mean(np.array(lengths) <= tokens))
    assert found.tokens[-1] == max(lengths)


def test_a_recorded_trace_keeps_its_pairs() -> None:
    found = lengths_of(a_trace(), prompt_share=0.8)
    assert (found.prompt_mean, found.output_mean) == (5.5, 7.5)
    short, long, share = found.split(12)
    assert share == 0.5 and short is not None and long is not None
    assert (short.total_tokens.tolist(), long.total_tokens.tolist()) == ([12], [14])
