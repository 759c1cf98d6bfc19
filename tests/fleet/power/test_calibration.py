"""A calibration finds the truth behind its windows, says how sure it is, and is never asked beyond them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.fleet.errors import (
    CalibrationFailed,
    CalibrationTooSmall,
    ExtrapolationRefused,
    FleetError,
    WindowInvalid,
)
from policies.fleet.power.calibration import Calibration, best, calibrate, calibrate_each
from policies.fleet.power.curves import CURVES, FORMS
from policies.fleet.power.estimate import TableFit, estimate, levels
from policies.fleet.power.fit import Fit, fit, quantile
from policies.fleet.power.windows import MeasuredWindow
from tests.fleet.power.made import (
    BATCHES,
    BINDING,
    FITTED,
    iteration_tokens_per_s,
    logistic_w,
    sweep,
    window,
)
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, Quality


def power(windows: list[MeasuredWindow], form: str = "logistic_log2") -> Calibration:
    return calibrate(windows, quantity="power", form=form, fitted_at=FITTED)


def throughput(windows: list[MeasuredWindow], form: str = "linear") -> Calibration:
    return calibrate(windows, quantity="throughput", form=form, fitted_at=FITTED)


def fitted(calibration: Calibration) -> Fit:
    assert isinstance(calibration.fitted, Fit)
    return calibration.fitted


# the fit --------------------------------------------------------------------------------------


def test_without_noise_the_parameters_are_the_truth_per_board() -> None:
    found = fitted(power(sweep(noise=0)))
    assert dict(zip(found.curve.names, found.parameters, strict=True)) == pytest.approx(
        {"board_idle_w": 100, "board_rise_w": 500, "k": 0.9, "x0": 3.5}, rel=1e-5
    )


def test_without_noise_the_iteration_time_is_the_truth_per_instance() -> None:
    found = fitted(throughput(sweep(noise=0)))
    assert found.parameters == pytest.approx([10, 0.25], rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_with_a_percent_of_noise_every_form_answers_near_the_truth_inside_its_range(form: str) -> None:
    found = power(sweep(noise=0.01), form).predict(BATCHES)
    off = 0.03 if form != "linear" else 0.5  # the truth is no line, and its hold-out error must say so
    assert np.abs(found.value / logistic_w(np.array(BATCHES, dtype=float)) - 1).max() < off


def test_a_line_has_the_covariance_of_weighted_least_squares() -> None:
    """Against numpy.polyfit with the same weights and the covariance scaled by chi^2 per degree of freedom."""
    rng = np.random.default_rng(5)
    n = np.array([1.0, 2, 4, 8, 16, 32, 64])
    y = (200 + 3 * n) * (1 + 0.02 * rng.standard_normal(len(n)))
    u = np.array([1.0, 1, 2, 1, 0.5, 1, 1])
    found = fit(CURVES["power", "linear"], np.column_stack([n, np.ones(7)]), y, u)
    want, cov = np.polyfit(n, y, 1, w=1 / (y * u), cov=True)
    assert found.parameters == pytest.approx(want[::-1], rel=1e-6)
    assert found.covariance is not None
    assert found.covariance == pytest.approx(cov[::-1, ::-1], rel=1e-5)


def test_the_interval_is_the_delta_method_and_the_residual_variance() -> None:
    n = np.array([1.0, 2, 4, 8, 16, 32, 64])
    x = np.column_stack([n, np.ones(7)])
    found = fit(CURVES["power", "linear"], x, 200 + 3 * n + np.array([1.0, -2, 1, 0, 2, -1, 0]), np.ones(7))
    assert found.covariance is not None
    g = np.array([1.0, 20.0])
    y = found.parameters @ g
    want = quantile(5) * np.sqrt(g @ found.covariance @ g + (found.residual_sd * y) ** 2)
    assert found.half_width(np.array([[20.0, 1.0]])).item() == pytest.approx(want)
    assert quantile(5) == pytest.approx(2.570582, abs=1e-6)  # Student's t, 5 degrees, 0.975: printed tables


def test_the_derivatives_are_those_of_the_curves() -> None:
    x = np.column_stack([[1.0, 3, 17, 90], [1.0, 0.5, 2, 1]])
    for curve in CURVES.values():
        p = np.array([120.0, 300, 0.8, 3.2][: len(curve.names)])
        for i in range(len(p)):
            step = np.zeros(len(p))
            step[i] = 1e-6 * p[i]
            slope = (curve.value(p + step, x) - curve.value(p - step, x)) / (2 * step[i])
            assert curve.jacobian(p, x)[:, i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_intervals_hold_nineteen_in_twenty_new_windows() -> None:
    """By simulation: 200 sweeps, one new window each; 95 % give or take three standard errors."""
    rng = np.random.default_rng(11)
    n = np.repeat(np.array(BATCHES, dtype=float), 2)
    x, new = np.column_stack([n, np.ones(len(n))]), np.array([[20.0, 1.0]])
    held = 0
    for _ in range(200):
        noisy = logistic_w(n) * (1 + 0.02 * rng.standard_normal(len(n)))
        found = fit(CURVES["power", "logistic_log2"], x, noisy, np.ones(len(n)))
        drawn = logistic_w(new[:, 0]) * (1 + 0.02 * rng.standard_normal())
        held += int(abs(found.value(new) - drawn).item() <= found.half_width(new).item())
    assert 0.90 <= held / 200 <= 0.995


def test_a_window_known_better_weighs_more() -> None:
    equal = sweep(noise=0, repeats=1)
    off = replace(equal[4], power_w=1.3 * (equal[4].power_w or 0))
    vague = [*equal[:4], replace(off, relative_uncertainty=0.5), *equal[5:]]
    sure = [*equal[:4], off, *equal[5:]]
    truth = logistic_w(np.array([16.0]))[0]
    assert abs(power(vague).predict(16).value / truth - 1) < abs(power(sure).predict(16).value / truth - 1) / 5


def test_where_one_uncertainty_is_unknown_all_windows_weigh_the_same() -> None:
    told = sweep(noise=0.02)
    unknown = [replace(told[0], relative_uncertainty=None), *(replace(w, relative_uncertainty=0.3) for w in told[1:])]
    assert fitted(power(unknown)).parameters == pytest.approx(fitted(power(told)).parameters)


def test_context_is_a_part_of_the_iteration_where_every_window_tells_it() -> None:
    windows = [
        replace(
            w,
            context_tokens=ctx,
            output_tokens_per_s=float(iteration_tokens_per_s(np.array([w.concurrency]), ctx / 2000)[0]),
        )
        for w, ctx in zip(sweep(noise=0, repeats=2), [1000.0, 3000.0] * 8, strict=True)
    ]
    found = throughput(windows)
    assert found.context_tokens == 2000
    assert fitted(found).parameters == pytest.approx([10, 0.25], rel=1e-6)
    assert found.predict(16, context_tokens=4000).value == pytest.approx(
        iteration_tokens_per_s(np.array([16.0]), 2)[0], rel=1e-6
    )


def test_power_and_windows_without_a_context_cannot_be_asked_about_one() -> None:
    for found in (power(sweep()), throughput(sweep())):
        with pytest.raises(ExtrapolationRefused, match="context"):
            found.predict(16, context_tokens=4000)


# predictions ----------------------------------------------------------------------------------


def test_power_is_predicted_per_instance() -> None:
    found = power(sweep(noise=0)).predict(8)
    assert found.value == pytest.approx(logistic_w(np.array([8.0]))[0], rel=1e-6)
    assert (found.unit, found.evidence_class) == ("W", EvidenceClass.CALIBRATED)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("concurrency", [1.9, 129, [4, 1000]])
def test_beyond_the_windows_is_refused_or_marked(form: str, concurrency: Any) -> None:
    found = power(sweep(batches=BATCHES[1:]), form)
    with pytest.raises(ExtrapolationRefused, match="2 to 128"):
        found.predict(concurrency)
    assert found.predict(concurrency, extrapolate=True).extrapolated.any()
    assert not found.predict([2, 128]).extrapolated.any()


@given(n=st.floats(1, 128), form=st.sampled_from(FORMS))
@settings(max_examples=30, deadline=None)
def test_a_prediction_lies_within_its_interval(n: float, form: str) -> None:
    found = _CALIBRATED[form].predict(n)
    assert 0 <= found.low <= found.value <= found.high


_CALIBRATED = {form: power(sweep(noise=0.02, seed=3), form) for form in FORMS}


@pytest.mark.parametrize("n", [0, 0.5, -1, float("nan")])
def test_the_idle_state_is_no_point_of_the_curve(n: float) -> None:
    with pytest.raises(FleetError, match="below 1"):
        power(sweep()).predict(n)


# minimum, binding -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batches", "repeats"), [((1, 2, 4, 8), 1), ((1, 2, 4), 4), ((100, 101, 102, 103, 104, 105), 1), ((), 1)]
)
def test_too_few_windows_or_levels_are_refused_with_both_counts(batches: tuple[float, ...], repeats: int) -> None:
    with pytest.raises((CalibrationTooSmall, IncomparableObservations), match=r"levels of concurrency|no window"):
        power(sweep(batches=batches, repeats=repeats), "table")


def test_five_windows_at_four_levels_are_enough() -> None:
    assert power(sweep(batches=(1, 4, 16, 64, 64.5), repeats=1), "linear").levels == 4


def test_concurrencies_within_a_tenth_are_one_level() -> None:
    assert levels(np.array([10.0, 8.0, 8.7, 8.81, 16.0, 10.9])).tolist() == [2, 0, 0, 1, 3, 2]


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("logical_model", "acme/small-7b"),
        ("hardware_model", "A100"),
        ("hardware_count", 8),
        ("runtime", "sglang"),
        ("runtime_version", "0.21.0"),
        ("runtime_version", None),
        ("config_version", "tp8"),
        ("deployable_version", "fp8"),
        ("meter_scope", "module"),
    ],
)
def test_windows_of_another_binding_are_refused_by_name(field: str, other: Any) -> None:
    windows = sweep()
    windows[3] = replace(windows[3], binding=replace(BINDING, **{field: other}))
    with pytest.raises(IncomparableObservations, match=field):
        power(windows)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"evidence_class": EvidenceClass.ALLOCATED}, "evidence class"),
        ({"method": "integrated_average"}, "method class"),
    ],
)
def test_evidence_of_two_classes_or_meters_is_never_mixed(changes: dict[str, Any], named: str) -> None:
    windows = sweep()
    windows[0] = replace(windows[0], **changes)
    with pytest.raises(IncomparableObservations, match=named):
        power(windows)


def test_a_window_does_not_count_twice() -> None:
    with pytest.raises(WindowInvalid, match="two windows"):
        power([*sweep(), sweep()[0]])


@pytest.mark.parametrize(
    "changes", [{"power_w": -1.0}, {"power_w": float("nan")}, {"concurrency": -2.0}, {"output_tokens_per_s": -1.0}]
)
def test_a_window_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(WindowInvalid, match=next(iter(changes))):
        replace(window(0, 8.0), **changes)


@pytest.mark.parametrize(("quantity", "form"), [("energy", "linear"), ("power", "cubic")])
def test_an_unknown_quantity_or_form_lists_the_known(quantity: str, form: str) -> None:
    with pytest.raises(FleetError, match=r"power, throughput|logistic_log2, linear, table"):
        calibrate(sweep(), quantity=quantity, form=form, fitted_at=FITTED)


def test_each_binding_has_a_calibration_of_its_own_or_a_reason() -> None:
    other = replace(BINDING, logical_model="acme/small-7b")
    few = [window(500 + i, n, binding=other) for i, n in enumerate((1.0, 2.0))]
    found = dict(calibrate_each([*sweep(), *few], quantity="power", form="best", fitted_at=FITTED))
    made, refused = found[BINDING], found[other]
    assert isinstance(made, Calibration) and made.form == "logistic_log2"
    assert isinstance(refused, CalibrationTooSmall) and "acme/small-7b" in str(refused)


# idle and what is left out --------------------------------------------------------------------


def test_windows_without_a_request_are_the_idle_state_and_mixtures_are_left_out() -> None:
    idle = [window(900, 0.0, 480.0), window(901, 0.0, 500.0)]
    mixed = [window(902, 0.4, 600.0)]
    untold = [window(903, 8.0, None)]
    found = power([*sweep(), *idle, *mixed, *untold])
    assert found.idle_loaded_w == 490.0
    assert found.n == len(sweep())
    assert [note[:2] for note in found.notes][:3] == ["2 ", "1 ", "1 "]
    assert fitted(found).parameters == pytest.approx(fitted(power(sweep())).parameters)


# hold-out and quality -------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_the_hold_out_predicts_each_inner_level_without_having_seen_it(form: str) -> None:
    windows = sweep(noise=0.01)
    found = power(windows, form)
    inner = [p for p in found.points if p["held_out_inner"]]
    assert {p["concurrency"] for p in inner} == set(BATCHES[1:-1])
    x = np.column_stack([[w.concurrency for w in windows], np.ones(len(windows))])
    y = np.array([w.power_w for w in windows], dtype=float) / 4
    rest = x[:, 0] != 8
    fold = estimate("power", form, x[rest], y[rest], np.ones(rest.sum()))
    want = fold.value(np.array([[8.0, 1.0]])).item() / y[~rest] - 1
    got = [p["held_out_error_relative"] for p in found.points if p["concurrency"] == 8]
    assert got == pytest.approx(want.tolist())
    assert found.holdout_error_relative == pytest.approx(np.mean([abs(p["held_out_error_relative"]) for p in inner]))


def test_a_good_sweep_of_measured_windows_is_high() -> None:
    found = power(sweep(noise=0.01))
    assert (found.quality, found.why) == (Quality.HIGH, ())
    assert found.coverage is not None and found.coverage >= 0.8


@pytest.mark.parametrize(
    ("windows", "quality", "why"),
    [
        (sweep(batches=(1, 4, 16, 64, 128), repeats=1), Quality.FAIR, "5 windows are fewer than 8"),
        (sweep(evidence_class=EvidenceClass.MODELED), Quality.FAIR, "the windows are modeled"),
        (sweep(evidence_class=EvidenceClass.ALLOCATED), Quality.FAIR, "the windows are allocated"),
        (sweep(quality=Quality.FAIR), Quality.FAIR, "a window is of quality FAIR"),
        (sweep(quality=Quality.LOW), Quality.LOW, "a window is of quality LOW"),
        (sweep(noise=0.3), Quality.LOW, "hold-out error"),
    ],
)
def test_what_keeps_the_quality_down_is_said(windows: list[MeasuredWindow], quality: Quality, why: str) -> None:
    found = power(windows, "table")
    assert found.quality is quality
    assert any(why in reason for reason in found.why)


def test_the_class_is_calibrated_and_never_stronger_than_the_windows() -> None:
    assert power(sweep()).evidence_class is EvidenceClass.CALIBRATED
    assert power(sweep(evidence_class=EvidenceClass.ALLOCATED)).evidence_class is EvidenceClass.CALIBRATED
    assert power(sweep(evidence_class=EvidenceClass.MODELED)).evidence_class is EvidenceClass.MODELED


def test_a_parameter_at_its_bound_makes_it_low_and_is_named() -> None:
    falling = [window(i, float(n), 3000.0 - 10 * n) for i, n in enumerate((1, 2, 4, 8, 16, 32, 64))]
    found = power(falling, "linear")
    assert (found.quality, fitted(found).at_bound) == (Quality.LOW, ("board_w_per_request",))
    assert "board_w_per_request ends at its bound" in found.why


def test_four_levels_cannot_hold_one_out_for_four_parameters() -> None:
    windows = sweep(batches=(1, 4, 16, 64), repeats=2)
    found = power(windows)
    assert (found.holdout_error_relative, found.quality) == (None, Quality.LOW)
    assert power(windows, "table").holdout_error_relative is not None


def test_a_form_with_more_parameters_than_levels_is_refused() -> None:
    x = np.column_stack([[1.0, 1, 4, 4, 16], np.ones(5)])
    with pytest.raises(CalibrationFailed, match="3 levels"):
        estimate("power", "logistic_log2", x, np.array([100.0, 101, 200, 202, 300]), np.ones(5))


def test_a_search_that_does_not_end_is_an_error_and_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.fleet.power.fit.MAX_EVALUATIONS", 1)
    with pytest.raises(CalibrationFailed, match="did not converge"):
        power(sweep(noise=0.05))


def test_the_best_form_is_the_one_that_predicts_best() -> None:
    assert best(sweep(noise=0.003), quantity="power", fitted_at=FITTED).form == "logistic_log2"
    assert best(sweep(noise=0.003), quantity="throughput", fitted_at=FITTED).form == "linear"
    bent = [window(i, float(n), p) for i, (n, p) in enumerate(zip(BATCHES, _BENT, strict=True))]
    assert best(bent, quantity="power", fitted_at=FITTED).form == "table"


_BENT = (1000.0, 1100.0, 1200.0, 2000.0, 2000.0, 2000.0, 1500.0, 1400.0)


def test_a_table_knows_no_interval_where_it_could_check_nothing() -> None:
    found = estimate("power", "table", np.array([[1.0, 1], [9.0, 1]]), np.array([10.0, 20.0]), np.ones(2))
    assert isinstance(found, TableFit)
    assert np.isnan(found.half_width(np.array([[3.0, 1.0]]))).all()


# identity -------------------------------------------------------------------------------------


def test_the_same_fit_to_the_same_windows_is_the_same_calibration() -> None:
    again = calibrate(sweep()[::-1], quantity="power", form="table", fitted_at=FITTED.replace(year=2027))
    assert again.calibration_id == power(sweep(), "table").calibration_id


@given(st.sampled_from(["seed", "form", "binding", "fewer"]))
@settings(max_examples=8, deadline=None)
def test_any_other_window_form_or_binding_is_another(what: str) -> None:
    other = {
        "seed": lambda: power(sweep(seed=1), "table"),
        "form": lambda: power(sweep(), "linear"),
        "binding": lambda: power(sweep(binding=replace(BINDING, config_version="tp4, fp8")), "table"),
        "fewer": lambda: power(sweep()[1:], "table"),
    }[what]()
    assert other.calibration_id != power(sweep(), "table").calibration_id
