"""Profiles: published figures to the digit, labels beside what we compute, nothing without a class and a source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.errors import (
    CapacityZero,
    ExtrapolationRefused,
    FleetError,
    HardwareUnknown,
    ProfileIncomplete,
    ProfileInvalid,
    ProfileUnknown,
)
from policies.fleet.power import PUBLISHED, STUDIES, for_hardware, published
from policies.fleet.power.profiles import Profile, profile
from warehouse.evidence import EvidenceClass, Quality

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# What vllm-project/semantic-router src/fleet-sim prints for its three profiles, W per board.
PRINTED = {
    "H100-80GB": (304.4, 311.7, 329.9, 369.4, 435.0, 507.0, 557.4, 582.8, 593.4),
    "A100-80GB": (190.9, 213.3, 254.3, 305.7, 346.7, 369.1, 378.8, 382.7, 384.1),
    "A10G": (79.9, 83.9, 89.9, 97.5, 105.1, 111.1, 115.1, 117.4, 118.7),
}
# Pull request 2664 there: context, requests, tokens/s, W per board, tokens of 8 boards per J of one, physical, J/token.
B200 = (
    (2048, 1725, 29486.22, 794.99, 37.09, 4.64, 0.216),
    (4096, 872, 21620.98, 712.54, 30.34, 3.79, 0.264),
    (8192, 439, 13451.24, 654.55, 20.55, 2.57, 0.389),
    (16384, 220, 7757.27, 596.00, 13.02, 1.63, 0.615),
    (32768, 110, 4654.67, 590.21, 7.89, 0.99, 1.014),
    (65536, 55, 2734.58, 636.53, 4.30, 0.54, 1.862),
    (131072, 28, 822.49, 723.43, 1.14, 0.14, 7.036),
)
names = st.sampled_from(sorted(PUBLISHED))


def told(**changes: Any) -> dict[str, Any]:
    return published("H100-80GB").to_dict() | changes


# published ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_a_published_curve_is_the_publishers_to_the_printed_digit(name: str) -> None:
    found = published(name)
    per_board = found.power.power_w(BATCHES) / found.hardware_count
    assert tuple(round(w, 1) for w in per_board.tolist()) == PRINTED[name]


def test_an_instance_of_eight_boards_draws_eight() -> None:
    assert published("H100-80GB").power.power_w(128).item() == pytest.approx(8 * 582.8, abs=0.4)
    assert (published("A100-80GB").hardware_count, published("A10G").hardware_count) == (8, 1)
    assert published("H100-80GB").usd_per_instance_hour == pytest.approx(8 * 4.02)


def test_the_publishers_labels_stand_beside_what_is_computed_here() -> None:
    labels = {n: (p.quality, p.quality_computed) for n, p in PUBLISHED.items()}
    assert labels == {
        "H100-80GB": (Quality.HIGH, Quality.FAIR),
        "A100-80GB": (Quality.FAIR, Quality.FAIR),
        "A10G": (Quality.LOW, Quality.LOW),
        "B200x8-8K": (Quality.LOW, Quality.LOW),
    }


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_published_profile_is_modeled_and_says_whose_it_is(name: str) -> None:
    found = published(name)
    assert found.evidence_class is EvidenceClass.MODELED
    assert "semantic-router" in found.provenance
    assert "modeled" in found.words
    assert found.provenance in found.words


@given(names)
def test_a_low_profile_is_for_simulation_only_and_says_so(name: str) -> None:
    found = published(name)
    assert found.presentable is (Quality.LOW not in (found.quality, found.quality_computed))
    assert ("for simulation only" in found.words) is not found.presentable
    assert found.power.power_w([1, 16]).shape == (2,), "it can be simulated all the same"
    assert found.described()["presentable"] is found.presentable
    assert found.described()["words"] == found.words


def test_a_high_label_on_a_low_computation_does_not_make_it_presentable() -> None:
    assert not profile(told(quality="HIGH", quality_computed="LOW")).presentable
    assert not profile(told(quality="LOW", quality_computed="HIGH")).presentable


@pytest.mark.parametrize(
    ("gpu", "name"),
    [("h100", "H100-80GB"), ("H100-80GB", "H100-80GB"), ("h100_80gb", "H100-80GB"), ("a10g", "A10G"),
     ("NVIDIA H100 80GB HBM3", "H100-80GB"), ("NVIDIA A100-SXM4-80GB", "A100-80GB"), ("B200", "B200x8-8K")],
)  # fmt: skip
def test_a_gpu_is_known_by_its_whole_name(gpu: str, name: str) -> None:
    assert for_hardware(gpu).name == name


@pytest.mark.parametrize("gpu", ["L40S", "A10", "my-H100-guess", "H100-94GB", "H200", "GB200", "100", "", "h"])
def test_another_gpu_is_not_taken_for_one_that_is_known(gpu: str) -> None:
    with pytest.raises(HardwareUnknown, match="H100-80GB, A100-80GB, A10G, B200") as caught:
        for_hardware(gpu)
    assert repr(gpu) in str(caught.value)


def test_a_profile_name_that_nothing_answers_to_lists_the_known_ones() -> None:
    with pytest.raises(ProfileUnknown, match=r"H100-80GB.*B200x8-context-study@8192"):
        published("H100")


# the context study ----------------------------------------------------------------------------


@pytest.mark.parametrize(("context", "n", "tokens_per_s", "board_w", "paper", "physical", "j_per_token"), B200)
def test_the_study_gives_its_printed_figures(
    context: int, n: int, tokens_per_s: float, board_w: float, paper: float, physical: float, j_per_token: float
) -> None:
    found = STUDIES["B200x8-context-study"].at(context, n)
    assert (found.concurrency, found.output_tokens_per_s, found.board_w) == (n, tokens_per_s, board_w)
    assert found.power_w == pytest.approx(8 * board_w)
    assert round(found.paper_normalised_tokens_per_j, 2) == paper
    assert round(found.tokens_per_j, 2) == physical
    assert round(found.j_per_token, 3) == j_per_token
    assert not found.interpolated


def test_power_is_no_function_of_concurrency_alone() -> None:
    by_concurrency = sorted((n, board_w) for _, n, _, board_w, *_ in B200)
    watts = [w for _, w in by_concurrency]
    assert watts != sorted(watts), "a table over concurrency would hide what context does"


@given(st.floats(2048, 131072))
def test_between_two_contexts_it_lies_between_their_figures(context: float) -> None:
    found = STUDIES["B200x8-context-study"].at(context)
    above = next(row for row in B200 if row[0] >= context)
    below = [row for row in B200 if row[0] <= context][-1]
    for value, column in ((found.concurrency, 1), (found.output_tokens_per_s, 2), (found.board_w, 3)):
        low, high = sorted((float(below[column]), float(above[column])))
        assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


@pytest.mark.parametrize(("context", "n"), [(2047, None), (131073, None), (8192, 100), (8192, 500)])
def test_off_the_measured_line_is_refused(context: float, n: float | None) -> None:
    with pytest.raises(ExtrapolationRefused, match="B200x8-context-study"):
        STUDIES["B200x8-context-study"].at(context, n)


def test_at_a_context_it_is_a_profile_of_the_full_instance_only() -> None:
    found = published("B200x8-context-study@8192")
    assert found.power.power_w(439).item() == pytest.approx(8 * 654.55)
    assert (found.power.idle_empty_w, found.power.idle_loaded_w) == pytest.approx((8 * 191.2, 8 * 251.3))
    with pytest.raises(ExtrapolationRefused, match="439"):
        found.power.power_w(200)
    with pytest.raises(ProfileIncomplete, match="W_ms"):
        found.iteration_ms(439, 8192)


def test_the_curve_through_one_request_misses_the_studys_own_full_instance() -> None:
    curve = published("B200x8-8K")
    assert curve.power.power_w(1).item() / 8 == pytest.approx(512.9, abs=0.1)  # measured mean with one request
    missed = curve.power.power_w(439).item() / 8 / 654.55 - 1
    assert missed == pytest.approx(-0.074, abs=0.001)
    assert not curve.presentable


# throughput and capacity ----------------------------------------------------------------------


def test_an_iteration_grows_with_requests_and_context() -> None:
    h100 = published("H100-80GB")
    assert h100.iteration_ms(0, 8192) == 4.0
    assert h100.iteration_ms(128, 8192) == pytest.approx(4.0 + 0.32 * 128)
    assert h100.iteration_ms(128, 4096) == pytest.approx(4.0 + 0.16 * 128)


@pytest.mark.parametrize(("context", "slots"), [(8192, 128), (4096, 256), (65536, 16), (2048, 512), (1_048_576, 1)])
def test_slots_are_bounded_by_the_budget_and_by_kv_blocks(context: int, slots: int) -> None:
    assert published("H100-80GB").n_slots(context) == slots


def test_an_instance_that_holds_no_request_has_no_capacity() -> None:
    with pytest.raises(CapacityZero, match="1048577"):
        published("H100-80GB").n_slots(1_048_577)
    with pytest.raises(ProfileInvalid):
        published("H100-80GB").n_slots(0)


@pytest.mark.parametrize("missing", ["W_ms", "H_ms_per_seq", "calibration_ctx"])
def test_a_throughput_parameter_that_is_not_known_is_named(missing: str) -> None:
    with pytest.raises(ProfileIncomplete, match=missing):
        profile(told(**{missing: None})).iteration_ms(1, 100)


@pytest.mark.parametrize("missing", ["max_slots", "kv_blocks", "block_tokens"])
def test_a_capacity_that_is_not_known_is_named(missing: str) -> None:
    with pytest.raises(ProfileIncomplete, match=missing):
        profile(told(**{missing: None})).n_slots(100)


def test_an_unknown_price_is_not_free() -> None:
    with pytest.raises(ProfileIncomplete, match="usd_per_hour"):
        _ = profile(told(usd_per_hour=None)).usd_per_instance_hour


# declared by an operator ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*sorted(PUBLISHED), "B200x8-context-study@30000"])
def test_a_profile_comes_back_from_json_as_it_was(name: str) -> None:
    found = published(name)
    again = profile(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert again.profile_id == found.profile_id


@given(st.sampled_from(["name", "logical_model", "hardware_model", "provenance", "version", "evidence_class"]))
def test_no_figure_goes_without_class_and_provenance(field: str) -> None:
    with pytest.raises(ProfileIncomplete, match=field):
        profile({k: v for k, v in told().items() if k != field})
    with pytest.raises(FleetError, match=field):
        profile(told(**{field: " "}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"quality": "GREAT"}, "HIGH, FAIR, LOW"), ({"evidence_class": "guess"}, "measured"),
     ({"max_slots": 0}, "max_slots"), ({"W_ms": float("nan")}, "W_ms"), ({"usd_per_hour": -1.0}, "usd_per_hour"),
     ({"watts": 3}, "watts")],
)  # fmt: skip
def test_a_declaration_that_cannot_be_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ProfileInvalid, match=named):
        profile(told(**changes))


@given(names, st.floats(0.5, 2))
def test_a_scaled_profile_draws_that_much_in_every_state_and_says_so(name: str, factor: float) -> None:
    found = published(name)
    scaled = found.scaled(factor)
    assert scaled.power.power_w([0, 1, 64]) == pytest.approx(factor * found.power.power_w([0, 1, 64]))
    assert any("assumed" in note for note in scaled.notes)
    assert scaled.profile_id != found.profile_id


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_a_factor_that_makes_no_watts_is_refused(factor: float) -> None:
    with pytest.raises(ProfileInvalid):
        published("A10G").scaled(factor)


def test_the_published_tables_scale_too() -> None:
    found: Profile = published("B200x8-context-study@8192")
    assert found.scaled(1.2).power.power_w([0, 439]) == pytest.approx(1.2 * found.power.power_w([0, 439]))
