"""Power of an instance: three states, forms by concurrency, a range that is guarded, the inverse, JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.fleet.errors import ExtrapolationRefused, FleetError, ProfileIncomplete, ProfileInvalid
from policies.fleet.power.models import Linear, Logistic, PowerModel, Table, power_model

boards = st.integers(1, 16)
watts = st.floats(0, 1200)


@st.composite
def logistics(draw: st.DrawFn) -> Logistic:
    idle = draw(watts)
    return Logistic(
        hardware_count=draw(boards),
        board_idle_empty_w=idle / 3,
        board_idle_loaded_w=idle / 2,
        board_idle_w=idle,
        board_nominal_w=idle + draw(st.floats(1, 800)),
        k=draw(st.floats(0.2, 2)),
        x0=draw(st.floats(-2, 8)),
    )


@st.composite
def lines(draw: st.DrawFn) -> Linear:
    return Linear(
        hardware_count=draw(boards),
        board_idle_loaded_w=draw(watts),
        board_idle_w=draw(watts),
        board_w_per_request=draw(st.floats(0.01, 10)),
    )


@st.composite
def tables(draw: st.DrawFn) -> Table:
    knots = draw(st.lists(st.integers(1, 512), min_size=1, max_size=8, unique=True))
    return Table(
        hardware_count=draw(boards),
        board_idle_loaded_w=draw(watts),
        concurrency=tuple(map(float, sorted(knots))),
        board_w=tuple(draw(st.lists(watts, min_size=len(knots), max_size=len(knots)))),
    )


models: st.SearchStrategy[PowerModel] = st.one_of(logistics(), lines(), tables())


def table(**changes: Any) -> Table:
    told: dict[str, Any] = {
        "hardware_count": 2,
        "board_idle_empty_w": 50.0,
        "board_idle_loaded_w": 90.0,
        "concurrency": (2.0, 8.0, 32.0),
        "board_w": (200.0, 300.0, 280.0),
    }
    return Table(**(told | changes))


# states ---------------------------------------------------------------------------------------


def test_empty_loaded_and_active_are_three_different_powers() -> None:
    model = table()
    assert (model.idle_empty_w, model.idle_loaded_w) == (100.0, 180.0)
    assert model.power_w([0, 2]).tolist() == [180.0, 400.0]


def test_below_one_request_it_is_the_idle_loaded_state() -> None:
    assert table().power_w([0.0, 0.5, 0.999]).tolist() == [180.0] * 3


def test_an_idle_state_that_nobody_measured_is_not_zero_watts() -> None:
    model = table(board_idle_empty_w=None, board_idle_loaded_w=None)
    with pytest.raises(ProfileIncomplete, match="board_idle_empty_w"):
        _ = model.idle_empty_w
    with pytest.raises(ProfileIncomplete, match="board_idle_loaded_w"):
        model.power_w([0, 2])
    assert model.power_w([2]).tolist() == [400.0], "where nothing idles, nothing is missing"


@given(models)
def test_an_instance_draws_its_boards_times_what_one_board_draws(model: PowerModel) -> None:
    n = np.array([1.0, 3.0, 64.0])
    one = power_model(model.to_dict() | {"hardware_count": 1})
    told = model.power_w(n, extrapolate=True)
    assert told == pytest.approx(model.hardware_count * one.power_w(n, extrapolate=True), rel=1e-12)
    assert model.idle_loaded_w == pytest.approx(model.hardware_count * one.idle_loaded_w)


# forms ----------------------------------------------------------------------------------------


@given(st.one_of(logistics(), lines()), st.lists(st.integers(1, 4096), min_size=2, max_size=20))
def test_more_requests_never_draw_less_by_a_formula(model: PowerModel, asked: list[int]) -> None:
    assert (np.diff(model.power_w(sorted(asked))) >= -1e-9).all()
    assert (model.marginal_w(asked) >= -1e-9).all()


def test_a_table_is_linear_in_the_logarithm_between_its_points_and_may_fall() -> None:
    model = table()
    assert model.power_w([2, 4, 8, 16, 32]).tolist() == [400.0, 500.0, 600.0, 580.0, 560.0]
    assert model.marginal_w(16).item() < 0


def test_the_logistic_lies_half_way_up_at_x0() -> None:
    model = Logistic(hardware_count=1, board_idle_w=100.0, board_nominal_w=300.0, k=2.0, x0=3.0)
    assert model.power_w(8).item() == pytest.approx(200.0)
    assert model.power_w([1e-0, 1e6]) == pytest.approx([100 + 200 / (1 + np.exp(6)), 300], rel=1e-6)


def test_the_answer_has_the_shape_of_the_question() -> None:
    assert table().power_w(4).shape == ()
    assert table().power_w([[2, 4], [8, 16]]).shape == (2, 2)


# range ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 1.99, 32.1, 1e9])
def test_outside_what_was_measured_is_refused_by_name(concurrency: float) -> None:
    with pytest.raises(ExtrapolationRefused, match="2 to 32"):
        table().power_w(concurrency)


def test_on_request_it_is_answered_and_marked() -> None:
    model, asked = table(), [0, 1, 2, 32, 64]
    assert model.power_w(asked, extrapolate=True).tolist() == [180.0, 400.0, 400.0, 560.0, 560.0]
    assert model.outside(asked).tolist() == [False, True, False, False, True]


def test_a_fitted_formula_is_guarded_like_a_table_and_a_published_one_knows_no_outside() -> None:
    told: dict[str, Any] = {"hardware_count": 1, "board_idle_w": 100.0, "board_w_per_request": 2.0}
    assert Linear(**told).power_w(5000).item() == 10_100.0
    with pytest.raises(ExtrapolationRefused, match="8 to 64"):
        Linear(**told, concurrency_min=8.0, concurrency_max=64.0).power_w(65)


@pytest.mark.parametrize("concurrency", [-1, float("nan"), [3, -0.5]])
def test_a_concurrency_that_cannot_be_is_refused(concurrency: Any) -> None:
    with pytest.raises(ProfileInvalid):
        table().power_w(concurrency)


# inverse and tables for loops -----------------------------------------------------------------


def test_tabulated_begins_with_the_idle_loaded_state() -> None:
    model = Linear(hardware_count=2, board_idle_loaded_w=40.0, board_idle_w=100.0, board_w_per_request=5.0)
    assert model.tabulated(3).tolist() == [80.0, 210.0, 220.0, 230.0]


@given(models, st.integers(1, 200), st.floats(0, 20_000))
def test_under_a_cap_the_largest_concurrency_never_draws_more_and_one_more_would(
    model: PowerModel, slots: int, cap_w: float
) -> None:
    n = model.inverse(cap_w, slots, extrapolate=True)
    drawn = model.tabulated(slots, extrapolate=True)[1:]
    assert 0 <= n <= slots
    assert (drawn[:n] <= cap_w * (1 + 1e-9)).all(), "a cap holds on the way, too"
    assert n == slots or drawn[n] > cap_w


@given(st.one_of(logistics(), lines()), st.integers(1, 200))
def test_the_inverse_of_a_power_is_the_concurrency_that_draws_it(model: PowerModel, b: int) -> None:
    assume(model.marginal_w(b).item() > 1e-6 * model.power_w(b).item())
    assert model.inverse(model.power_w(b).item(), 256) == b


def test_no_request_fits_below_what_one_draws() -> None:
    model = Linear(hardware_count=1, board_idle_loaded_w=40.0, board_idle_w=100.0, board_w_per_request=5.0)
    assert model.inverse(104.9, 64) == 0
    assert model.idle_loaded_w < 104.9, "the idle instance itself stays below"


# JSON and bad input ---------------------------------------------------------------------------


@given(models)
def test_a_model_comes_back_from_json_as_it_was(model: PowerModel) -> None:
    assert power_model(json.loads(json.dumps(model.to_dict()))) == model


@pytest.mark.parametrize("missing", ["board_idle_w", "board_nominal_w", "k", "x0", "hardware_count"])
def test_a_parameter_that_is_missing_is_named(missing: str) -> None:
    told = Logistic(hardware_count=1, board_idle_w=1.0, board_nominal_w=2.0, k=1.0, x0=1.0).to_dict()
    del told[missing]
    with pytest.raises(ProfileIncomplete, match=missing):
        power_model(told)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hardware_count": 0}, "hardware_count"),
        ({"board_idle_loaded_w": -1.0}, "board_idle_loaded_w"),
        ({"board_idle_empty_w": float("nan")}, "board_idle_empty_w"),
        ({"concurrency": ()}, "table"),
        ({"concurrency": (2.0, 8.0)}, "table of 2"),
        ({"concurrency": (8.0, 2.0, 32.0)}, "do not rise"),
        ({"concurrency": (2.0, 2.0, 32.0)}, "do not rise"),
        ({"concurrency": (0.5, 2.0, 32.0)}, "from 1"),
        ({"board_w": (1.0, float("inf"), 2.0)}, "not a number"),
        ({"board_w": (1.0, -3.0, 2.0)}, "negative"),
    ],
)
def test_a_table_that_no_machine_can_have_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ProfileInvalid, match=named):
        table(**changes)


@pytest.mark.parametrize(
    "changes",
    [{"k": 0.0}, {"k": float("nan")}, {"board_nominal_w": 50.0}, {"board_idle_w": -1.0}, {"x0": float("inf")}],
)
def test_a_logistic_that_falls_or_is_no_number_is_refused(changes: dict[str, float]) -> None:
    told = {"board_idle_w": 100.0, "board_nominal_w": 200.0, "k": 1.0, "x0": 3.0}
    with pytest.raises(ProfileInvalid):
        Logistic(hardware_count=1, **(told | changes))


@pytest.mark.parametrize("told", [{"form": "cubic"}, {}, {"form": "linear", "board_w": 3}])
def test_an_unknown_form_or_parameter_is_named_with_the_known_ones(told: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match=r"logistic_log2|board_w_per_request"):
        power_model(told)


def test_no_cap_is_not_a_number() -> None:
    with pytest.raises(ProfileInvalid, match="no cap"):
        table().inverse(float("nan"), 8)
