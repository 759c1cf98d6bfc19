"""Shares of a metered window: conserved to the microjoule, split by overlap, unknown where something is unknown."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.power.attribution import REQUEST_COLUMNS, Method, attribute, slice_shares
from ingest.power.sensors import DeviceInfo
from ingest.power.windows import Window, observations
from warehouse.errors import IncomparableObservations
from warehouse.evidence import Quality
from warehouse.tables import frame_schema

START = datetime(2026, 8, 1, 12)
GPU = DeviceInfo("GPU-a", name="NVIDIA L40S", sensor_class="avg_1s")
METHODS = list(Method)


def window(
    start_s: float, end_s: float, energy_j: float | None, gap: str | None = None, gpu: DeviceInfo = GPU
) -> Window:
    return Window(
        device=gpu,
        start_at=START + timedelta(seconds=start_s),
        end_at=START + timedelta(seconds=end_s),
        duration_s=end_s - start_s,
        epoch=0,
        method="counter",
        energy_j=energy_j,
        gap_reason=gap,
        quality=Quality.LOW if energy_j is None else Quality.HIGH,
        relative_uncertainty=None if energy_j is None else 0.05,
    )


def request(key: str, start_s: float, end_s: float, tokens: int | None = 100, **more: Any) -> dict[str, Any]:
    return {
        "usage_key": key,
        "offer_id": "acme/one",
        "start_at": START + timedelta(seconds=start_s),
        "end_at": START + timedelta(seconds=end_s),
        "prompt_tokens": 10,
        "output_tokens": tokens,
        "attempts": 1,
        "successes": 1,
        **more,
    }


def requests(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=REQUEST_COLUMNS)


def shared_out(
    windows: list[Window], rows: pl.DataFrame, method: Method = Method.OUTPUT_TOKENS, idle_w: float | None = None
) -> pl.DataFrame:
    found = attribute(observations(windows), rows, method, idle_w=idle_w)
    assert dict(found.schema) == frame_schema("core.energy_observation")
    return found


def per_request(found: pl.DataFrame) -> dict[str, float]:
    told = found.filter(pl.col("workload") == "organic").group_by("usage_key").agg(pl.col("energy_gross_j").sum())
    return dict(told.iter_rows())


def remainder(found: pl.DataFrame) -> list[float]:
    return found.filter(pl.col("workload") == "remainder")["energy_gross_j"].to_list()


def test_a_full_window_is_shared_by_output_tokens() -> None:
    found = shared_out([window(0, 10, 3000.0)], requests(request("a", 0, 10, 300), request("b", 0, 10, 100)))
    assert per_request(found) == {"a": 2250.0, "b": 750.0}
    assert remainder(found) == [0.0]
    assert set(found["evidence_class"]) == {"allocated"}
    assert set(found["method"]) == {"allocated_output_tokens"}
    shares = dict(found.filter(pl.col("workload") == "organic").select("usage_key", "attribution_share").iter_rows())
    assert shares == {"a": 0.75, "b": 0.25}


def test_or_by_time_in_the_system() -> None:
    rows = requests(request("a", 0, 10, 300), request("b", 5, 10, 100))
    found = shared_out([window(0, 10, 3000.0)], rows, Method.TIME_IN_SYSTEM)
    assert per_request(found) == {"a": 2000.0, "b": 1000.0}
    assert set(found["method"]) == {"allocated_time_in_system"}


def test_a_request_that_spans_windows_has_a_share_in_each_by_its_overlap() -> None:
    windows = [window(0, 10, 3000.0), window(10, 20, 1000.0)]
    found = shared_out(windows, requests(request("a", 5, 15, 100), request("b", 0, 20, 200)))
    rows = found.filter(pl.col("usage_key") == "a").sort("window_start_at")
    # in each window a weighs 50 tokens, b 100 tokens
    assert rows["energy_gross_j"].to_list() == pytest.approx([1000.0, 1000 / 3], abs=1e-6)
    assert rows["attempts"].to_list() == [0, 1]
    assert rows["output_tokens"].to_list() == [None, 100]
    assert rows["coverage"].to_list() == [1.0, 1.0]


def test_time_without_requests_stays_as_remainder_at_idle_power() -> None:
    rows = requests(request("a", 0, 4))
    assert remainder(shared_out([window(0, 10, 1000.0)], rows, idle_w=50.0)) == [300.0]  # 6 s x 50 W
    assert remainder(shared_out([window(0, 10, 1000.0)], rows)) == [600.0]  # no baseline: as the time
    assert remainder(shared_out([window(0, 10, 1000.0)], rows, idle_w=900.0)) == [1000.0]  # never more than there is


def test_overlapping_requests_are_busy_time_once() -> None:
    rows = requests(request("a", 0, 4), request("b", 2, 6), request("c", 3, 3.5))
    assert remainder(shared_out([window(0, 10, 1000.0)], rows, idle_w=50.0)) == [200.0]  # 4 s x 50 W


def test_a_window_without_requests_is_all_remainder() -> None:
    found = shared_out([window(0, 10, 1000.0)], requests())
    assert remainder(found) == [1000.0]
    assert found.height == 1


@pytest.mark.parametrize("method", METHODS)
def test_what_the_meter_does_not_know_is_unknown_for_every_request(method: Method) -> None:
    windows = [window(0, 10, None, "counter_reset"), window(10, 20, 500.0)]
    found = shared_out(windows, requests(request("a", 0, 20)), method)
    rows = found.filter(pl.col("usage_key") == "a").sort("window_start_at").to_dicts()
    assert (rows[0]["energy_gross_j"], rows[0]["gap_reason"], rows[0]["quality"]) == (None, "counter_reset", "LOW")
    assert (rows[1]["energy_gross_j"], rows[1]["coverage"]) == (500.0, 0.5)


def test_a_request_of_unknown_weight_makes_the_shares_of_its_window_unknown() -> None:
    rows = requests(request("a", 0, 10, None), request("b", 0, 10, 100))
    found = shared_out([window(0, 10, 1000.0)], rows)
    told = found.filter(pl.col("workload") == "organic")
    assert told["energy_gross_j"].to_list() == [None, None]
    assert set(told["gap_reason"]) == {"unsupported"}
    assert remainder(found) == [1000.0]


def test_a_share_is_as_uncertain_as_its_meter_and_the_choice_of_the_rule() -> None:
    rows = requests(request("a", 0, 10, 300), request("b", 0, 10, 100))
    found = shared_out([window(0, 10, 3000.0)], rows).filter(pl.col("usage_key") == "a").to_dicts()[0]
    # by tokens 2250 J, by time 1500 J: half their distance is a fifth of their mean
    assert found["relative_uncertainty"] == pytest.approx((0.05**2 + 0.2**2) ** 0.5)
    assert found["quality"] == "FAIR"  # a share is never HIGH


def test_windows_of_two_meters_or_windows_that_overlap_are_refused() -> None:
    with pytest.raises(IncomparableObservations, match="device_uuid"):
        shared_out([window(0, 10, 1.0), window(10, 20, 1.0, gpu=DeviceInfo("GPU-b"))], requests())
    with pytest.raises(IncomparableObservations, match="overlap"):
        shared_out([window(0, 10, 1.0), window(9, 20, 1.0)], requests())


windows_of_mj = st.lists(
    st.tuples(st.integers(1, 20_000), st.none() | st.integers(0, 10**10), st.integers(0, 3000)), min_size=1, max_size=6
)
many_requests = st.lists(
    st.tuples(st.integers(-20_000, 60_000), st.integers(0, 40_000), st.none() | st.integers(0, 5000)), max_size=12
)


@given(windows_of_mj, many_requests, st.sampled_from(METHODS), st.none() | st.floats(0, 700))
@settings(max_examples=200, deadline=None)
def test_shares_and_remainder_are_the_counter_delta_exactly(
    spans: list[tuple[int, int | None, int]],
    asked: list[tuple[int, int, int | None]],
    method: Method,
    idle_w: float | None,
) -> None:
    windows: list[Window] = []
    at_ms = 0
    for length_ms, delta_mj, pause_ms in spans:
        energy_j = None if delta_mj is None else delta_mj / 1000
        gap = "gpu_lost" if energy_j is None else None
        windows.append(window(at_ms / 1000, (at_ms + length_ms) / 1000, energy_j, gap))
        at_ms += length_ms + pause_ms
    rows = requests(*(request(f"r{i}", a / 1000, (a + n) / 1000, t) for i, (a, n, t) in enumerate(asked)))
    found = shared_out(windows, rows, method, idle_w)
    for metered, (_, delta_mj, _) in zip(windows, spans, strict=True):
        part = found.filter(pl.col("window_start_at") == metered.start_at)["energy_gross_j"].to_list()
        if delta_mj is None:
            assert set(part) == {None}
            continue
        given_uj = [round(j * 1e6) for j in part if j is not None]
        assert all(uj >= 0 for uj in given_uj)
        assert sum(given_uj) == delta_mj * 1000
    assert found["observation_id"].n_unique() == found.height
    assert found["attribution_share"].drop_nulls().is_between(0, 1).all()


def test_slices_of_a_board_share_by_size_and_leave_what_no_slice_has() -> None:
    given_j, left_j = slice_shares(700.0, {"a": "1g.10gb", "b": "3g.40gb", "c": "1g.10gb+me"})
    assert (given_j, left_j) == ({"a": 100.0, "b": 300.0, "c": 100.0}, 200.0)


@given(st.floats(0, 1e9), st.lists(st.integers(1, 4), max_size=4))
def test_slices_conserve_the_energy_of_the_board(energy_j: float, sizes: list[int]) -> None:
    profiles = {str(i): f"{n}g.10gb" for i, n in enumerate(sizes)}
    if sum(sizes) > 7:
        with pytest.raises(IncomparableObservations, match="sevenths"):
            slice_shares(energy_j, profiles)
        return
    given_j, left_j = slice_shares(energy_j, profiles)
    assert sum(round(j * 1e6) for j in (*given_j.values(), left_j)) == round(energy_j * 1e6)


def test_a_profile_that_is_none_is_refused() -> None:
    with pytest.raises(IncomparableObservations, match="whole"):
        slice_shares(1.0, {"a": "whole"})
