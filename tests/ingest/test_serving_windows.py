"""What happened between two scrapes: never negative, nothing invented across a restart, percentiles as intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.kinds import kind
from ingest.serving.windows import COUNTERS, PERCENTILES, Scrape, percentile_interval, window, windows
from tests.ingest.samples import payload
from tests.ingest.serving_samples import histogram, series, text

START = datetime(2026, 11, 29, 12)
BOUNDS = (0.0, 0.1, 0.5, 1.0, 5.0)


def scrape(
    minute: int,
    counters: dict[str, int] | None = None,
    *,
    engine: str = "0",
    created: float | None = None,
    ttft: Sequence[int] | None = None,
    runtime: str = "vllm",
) -> Scrape:
    return Scrape(
        "b",
        engine,
        "m",
        START + timedelta(minutes=minute),
        runtime,
        {"running_requests": 2.0, "waiting_requests": 0.0, "kv_cache_utilization": None},
        {c: (f"name_of_{c}", v) for c, v in (counters or {}).items()},
        {} if ttft is None else {"ttft": ("ttft_seconds", list(BOUNDS), list(ttft))},
        {} if created is None else {"name_of_output_tokens": created},
    )


def test_the_first_scrape_says_nothing_about_before() -> None:
    (row,) = windows([scrape(0, {"output_tokens": 5_000_000})])
    assert row["gap_reason"] == "first_scrape"
    assert row["window_start_at"] == row["window_end_at"] == START
    assert row.get("output_tokens") is None
    assert row["running_requests"] == 2.0


def test_a_window_is_the_difference_to_the_scrape_before() -> None:
    _, row = windows([scrape(1, {"output_tokens": 350}), scrape(0, {"output_tokens": 100})])
    assert (row["window_start_at"], row["window_end_at"]) == (START, START + timedelta(minutes=1))
    assert (row["output_tokens"], row["gap_reason"], row["evidence_class"]) == (250, None, "measured")


def test_engines_are_differenced_apart() -> None:
    found = windows(
        [
            scrape(m, {"output_tokens": v}, engine=e)
            for m, e, v in ((0, "0", 1), (0, "1", 90), (1, "0", 4), (1, "1", 99))
        ]
    )
    assert [(w["engine"], w.get("output_tokens")) for w in found] == [("0", None), ("0", 3), ("1", None), ("1", 9)]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (scrape(0, {"output_tokens": 9}), scrape(1, {"output_tokens": 8})),
        # one fell, so the others are of another process, too, however large
        (scrape(0, {"output_tokens": 9, "successes": 3}), scrape(1, {"output_tokens": 50, "successes": 2})),
        # grown past its old count, and only its creation tells
        (scrape(0, {"output_tokens": 9}, created=100.5), scrape(1, {"output_tokens": 50}, created=160.0)),
        (
            scrape(0, {"output_tokens": 9}, ttft=(0, 1, 2, 3, 3, 3)),
            scrape(1, {"output_tokens": 9}, ttft=(0, 1, 1, 3, 3, 3)),
        ),
        (scrape(0, {"output_tokens": 9}), scrape(1, {"output_tokens": 50}, runtime="sglang")),
    ],
)
def test_whatever_says_restart_makes_the_whole_window_unknown(before: Scrape, now: Scrape) -> None:
    row = window(before, now)
    assert row["gap_reason"] == "counter_reset"
    assert all(row.get(c) is None for c in COUNTERS)
    assert row["running_requests"] == 2.0  # a gauge is of its instant


def test_other_buckets_are_another_process() -> None:
    before = scrape(0, ttft=(0, 1, 2, 3, 3, 3))
    now = Scrape(
        **{
            **vars(before),
            "scraped_at": START + timedelta(minutes=1),
            "histograms": {"ttft": ("ttft_seconds", [1.0], [3, 9])},
        }
    )
    assert window(before, now)["gap_reason"] == "counter_reset"


def test_a_column_that_another_metric_fills_now_is_unknown_for_one_window() -> None:
    before, now = scrape(0, {"output_tokens": 9, "successes": 1}), scrape(1, {"output_tokens": 50, "successes": 4})
    renamed = Scrape(**{**vars(now), "counters": {**now.counters, "output_tokens": ("another", 50)}})
    row = window(before, renamed)
    assert (row["output_tokens"], row["successes"], row["gap_reason"]) == (None, 3, None)


def test_a_counter_that_one_scrape_lacks_is_unknown_there() -> None:
    found = windows(
        [scrape(0, {"successes": 1, "aborts": 0}), scrape(1, {"aborts": 0}), scrape(2, {"successes": 6, "aborts": 2})]
    )
    assert [w.get("successes") for w in found] == [None, None, None]
    assert [w.get("aborts") for w in found] == [None, 0, 2]


@dataclass(frozen=True)
class Life:
    """One life of a process: its cumulative counts at each of its scrapes."""

    counts: list[dict[str, int]]


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[Life], bool]:
    """Processes one after the other. Without creation times a restart shows in its counts, or counted nothing."""
    timed = draw(st.booleans())
    columns = draw(st.lists(st.sampled_from(COUNTERS), min_size=1, max_size=3, unique=True))
    found: list[Life] = []
    for _ in range(draw(st.integers(1, 4))):
        level = {}
        for n, column in enumerate(columns):
            ceiling = found[-1].counts[-1][column] - 1 if found and not timed and n == 0 else 10**6
            level[column] = draw(st.integers(0, max(0, ceiling)))
            if found and not timed and n and found[-1].counts[-1][columns[0]] == 0:
                level[column] = 0
        if found and not timed and found[-1].counts[-1][columns[0]] == 0:
            level = dict.fromkeys(columns, 0)
        counts = [dict(level)]
        for _ in range(draw(st.integers(0, 4))):
            level = {c: v + draw(st.integers(0, 10**6)) for c, v in level.items()}
            counts.append(dict(level))
        found.append(Life(counts))
    return found, timed


@given(drawn=lives(), order=st.randoms(use_true_random=False))
@settings(deadline=None)
def test_whatever_restarts_no_growth_is_negative_lost_or_invented(drawn: tuple[list[Life], bool], order: Any) -> None:
    found, timed = drawn
    scrapes = [
        (number, scrape(10 * number + at, counts, created=1e9 + number if timed else None))
        for number, life in enumerate(found)
        for at, counts in enumerate(life.counts)
    ]
    shuffled = [s for _, s in scrapes]
    order.shuffle(shuffled)
    rows = windows(shuffled)
    assert len(rows) == len(scrapes)
    columns = found[0].counts[0]
    assert all(row[c] >= 0 for row in rows for c in columns if row.get(c) is not None)
    for number, life in enumerate(found):
        inside = {s.scraped_at for n, s in scrapes if n == number} - {START + timedelta(minutes=10 * number)}
        for column in columns:
            grown = [row.get(column) for row in rows if row["window_end_at"] in inside]
            assert None not in grown
            assert sum(g or 0 for g in grown) == life.counts[-1][column] - life.counts[0][column]
    for number in range(1, len(found)):
        (first,) = [r for r in rows if r["window_end_at"] == START + timedelta(minutes=10 * number)]
        # a restart that nothing shows (all counts were 0 and are) invents nothing either
        assert all(first.get(c) in (None, 0) for c in columns)


def nearest_rank(values: Sequence[float], percent: int) -> float:
    """The k-th smallest, k = ceil(p n / 100): the inverse of the empirical distribution."""
    return sorted(values)[math.ceil(round(percent * len(values) / 100, 9)) - 1]


LATENCIES = st.lists(st.one_of(st.floats(0, 3000), st.sampled_from((0.0, 0.1, 0.5, 1.0, 5.0))), min_size=0, max_size=60)
EDGES = st.lists(st.sampled_from((0.0, 0.001, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 640.0)), min_size=1, unique=True).map(
    sorted
)


@given(values=LATENCIES, bounds=EDGES, percent=st.integers(1, 100))
def test_the_interval_of_a_percentile_contains_the_true_one(
    values: list[float], bounds: list[float], percent: int
) -> None:
    cumulative = [sum(v <= b for v in values) for b in (*bounds, math.inf)]
    counts = [cumulative[0], *(b - a for a, b in itertools.pairwise(cumulative))]
    found = percentile_interval(bounds, counts, percent)
    if not values:
        assert found is None
        return
    assert found is not None
    low, high = found
    true = nearest_rank(values, percent)
    assert low < true or low == true == 0
    assert true <= (math.inf if high is None else high)
    assert high is None or high in bounds
    assert low == 0 or low in bounds


@given(before=LATENCIES, during=LATENCIES)
@settings(max_examples=50, deadline=None)
def test_from_text_to_window_the_interval_is_of_the_requests_in_between(
    before: list[float], during: list[float]
) -> None:
    name = "vllm:e2e_request_latency_seconds"

    def scraped(values: list[float], minute: int) -> Scrape:
        body = text(
            histogram(name, BOUNDS, values, engine="0", model_name="m"),
            series("vllm:num_requests_running", 1, engine="0", model_name="m"),
        )
        parsed = kind("vllm-metrics").parse(payload(body, now=START + timedelta(minutes=minute)))
        assert parsed.rejects == ()
        return Scrape.of(parsed.tables["core.serving_scrape"].row(0, named=True))

    _, row = windows([scraped(before, 0), scraped(before + during, 1)])
    for percent in PERCENTILES["e2e"]:
        low, high = row[f"e2e_p{percent}_low_s"], row[f"e2e_p{percent}_high_s"]
        if not during:
            assert (low, high) == (None, None)
        else:
            true = nearest_rank(during, percent)
            assert low < true or low == true == 0
            assert high is None or true <= high


def test_a_bound_of_a_service_level_on_a_bucket_edge_is_told_exactly() -> None:
    # fleet.md 7.1: 500 ms sits on an edge of vLLM's buckets, 200 ms does not
    bounds = (0.1, 0.25, 0.5, 0.75)
    assert percentile_interval(bounds, [0, 0, 100, 0, 0], 95) == (0.25, 0.5)
    assert percentile_interval(bounds, [0, 100, 0, 0, 0], 95) == (0.1, 0.25)
    assert percentile_interval(bounds, [0, 0, 0, 0, 7], 50) == (0.75, None)
