"""Whether a ranking survives the error of the power model: cases whose answer is known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from policies.fleet.errors import ComparisonRefused, ScenarioInvalid
from policies.fleet.experiments import studied
from policies.fleet.experiments.errors_of_power import (
    Difference,
    best_probabilities,
    break_even,
    common_break_even,
    difference_of,
    drawn_flips,
    flip_probability,
    sobol,
    tornado,
)
from policies.fleet.experiments.sensitivity import with_error
from policies.fleet.power import published
from tests.fleet.experiments.made import A100, H100, resolved
from warehouse.engine import Warehouse

# A takes 50 J at X and 40 at Y, B 20 and 60: A - B = 10 J; X errs by 10 %, Y by 20 %.
MADE = Difference(("x", "y"), np.array([30.0, -20.0]), np.array([0.1, 0.2]))


def test_the_flip_probability_is_that_of_the_normal_law() -> None:
    spread = math.hypot(30 * 0.1, 20 * 0.2)  # 5 J
    assert (MADE.value, MADE.spread) == (10.0, pytest.approx(spread))
    assert flip_probability(MADE) == pytest.approx(stats.norm.sf(2.0))  # 0.02275
    drawn = drawn_flips(MADE, draws=400_000, seed=1)
    assert drawn["probability"] == pytest.approx(0.02275, abs=4 * drawn["standard_error"])
    assert drawn["difference_low"] == pytest.approx(10 - 1.96 * 5, abs=0.1)


def test_seeds_are_one_more_source_of_doubt() -> None:
    noisy = Difference(MADE.names, MADE.weight, MADE.sd, seed_sd=12.0)
    assert noisy.spread == pytest.approx(13.0)
    assert flip_probability(noisy) == pytest.approx(stats.norm.sf(10 / 13))
    assert tornado(noisy)[0]["input"] == "other requests (seeds)"


def test_the_tornado_has_the_widest_bar_first_and_says_what_flips() -> None:
    first, second = tornado(MADE)
    assert (first["input"], first["low"], first["high"]) == ("y", pytest.approx(14.0), pytest.approx(6.0))
    assert (second["input"], second["low"], second["high"]) == ("x", pytest.approx(7.0), pytest.approx(13.0))
    assert not first["flips"]
    assert tornado(Difference(("x",), np.array([10.0]), np.array([1.5])))[0]["flips"]


def test_break_even_is_where_the_difference_is_nothing() -> None:
    rows = {r["input"]: r for r in break_even(MADE)}
    assert rows["x"]["relative_error"] == pytest.approx(-1 / 3)
    assert rows["y"]["relative_error"] == pytest.approx(0.5)
    assert rows["y"]["in_sd"] == pytest.approx(2.5)
    assert common_break_even(MADE) == pytest.approx(10 / 50)
    alone = break_even(Difference(("x", "z"), np.array([5.0, 0.0]), np.array([0.1, 0.1])))
    assert [r["relative_error"] for r in alone] == [None, None], "power cannot fall by all of it, and z does nothing"


@given(
    weight=st.lists(st.floats(-100, 100).filter(lambda w: abs(w) > 1e-3), min_size=1, max_size=5),
    share=st.floats(0.05, 0.4),
)
def test_at_break_even_the_two_are_equal_whatever_the_weights(weight: list[float], share: float) -> None:
    made = Difference(tuple(map(str, range(len(weight)))), np.array(weight), np.full(len(weight), share))
    for row in break_even(made):
        if row["relative_error"] is not None:
            moved = made.value + made.weight[int(row["input"])] * row["relative_error"]
            assert moved == pytest.approx(0.0, abs=1e-9 * max(map(abs, weight)))
    error = common_break_even(made)
    assert error is not None
    worst = made.value - np.sign(made.value) * error * np.abs(made.weight).sum()
    assert worst == pytest.approx(0.0, abs=1e-9 * max(map(abs, weight)))


def test_sobol_indices_meet_the_exact_shares() -> None:
    told = {i["input"]: i for i in sobol(MADE, n=2048, seed=3)["indices"]}
    assert told["x"]["exact"] == pytest.approx(9 / 25)
    assert told["y"]["exact"] == pytest.approx(16 / 25)
    for index in told.values():
        assert index["first_order"] == pytest.approx(index["exact"], abs=0.03)
        assert index["total"] == pytest.approx(index["exact"], abs=0.03)
    (only,) = sobol(Difference(("x",), np.array([1.0]), np.array([0.1])))["indices"]
    assert only["total"] == 1.0


def test_of_two_equal_policies_each_is_best_half_of_the_time() -> None:
    told = best_probabilities({"a": np.array([10.0, 0.0]), "b": np.array([0.0, 10.0])}, np.array([0.1, 0.1]))
    assert told["a"] == pytest.approx(0.5, abs=0.01)
    assert sum(told.values()) == pytest.approx(1.0)


def test_differences_are_taken_seed_by_seed() -> None:
    first, second = np.array([[10.0, 5.0], [110.0, 5.0]]), np.array([[8.0, 5.0], [108.0, 5.0]])
    made = difference_of(["x", "y"], first, second, [0.1, 0.1])
    assert made.weight.tolist() == [2.0, 0.0]
    assert made.seed_sd == 0.0


def test_an_error_of_one_state_leaves_the_other_alone() -> None:
    profile = published("H100-80GB")
    active, idle = with_error(profile, "active", 1.1), with_error(profile, "idle", 1.1)
    assert active.power.power_w([4.0])[0] == pytest.approx(1.1 * profile.power.power_w([4.0])[0])
    assert active.power.idle_loaded_w == profile.power.idle_loaded_w
    assert idle.power.power_w([4.0])[0] == profile.power.power_w([4.0])[0]
    assert idle.power.idle_loaded_w == pytest.approx(1.1 * profile.power.idle_loaded_w)


def test_for_policies_that_do_not_look_at_power_the_sum_is_exact(bare: Warehouse) -> None:
    """They decide the same under another model, so a second simulation must give the weighted sum to the digit."""
    found = resolved(bare, balancer={"order": ["h100", "a100"]})
    report = studied(found, ["least_loaded", "static"], sd=0.15)
    bars = [b for b in report["tornado"] if b["decided_by_truth"] is not None]
    assert len(bars) == 4
    for bar in bars:
        assert bar["low"] == pytest.approx(bar["decided_by_truth"]["low"], rel=1e-9)
        assert bar["high"] == pytest.approx(bar["decided_by_truth"]["high"], rel=1e-9)


def test_the_report_says_how_sure_the_ranking_is(bare: Warehouse) -> None:
    report = studied(resolved(bare), ["round_robin", "least_loaded", "energy_aware"], sd=0.2)
    assert report["first"] == "energy_aware"
    assert report["difference"] < 0
    flip = report["flip"]
    assert flip["exact_normal"] == pytest.approx(flip["probability"], abs=5 * flip["standard_error"] + 1e-3)
    assert sum(report["best"].values()) == pytest.approx(1.0)
    assert report["verdict"].startswith("that energy_aware takes fewer joules")
    sums = {name: sum(i[f"c_{name}"] for i in report["inputs"]) for name in ("first", "second")}
    ranked = {r["policy"]: r["j_per_success"] for r in report["ranking"]}
    assert sums["first"] == pytest.approx(ranked[report["first"]])
    assert sums["second"] == pytest.approx(ranked[report["second"]])


def test_pools_of_one_profile_err_together(bare: Warehouse) -> None:
    twin = {**H100, "name": "twin"}
    report = studied(resolved(bare, pools=[H100, twin], seeds=[0, 1]), ["round_robin", "least_loaded"])
    assert [i["name"] for i in report["inputs"]] == ["active power of H100-80GB", "idle power of H100-80GB"]
    assert "assumed relative error 20%" in " ".join(report["notes"])


def test_what_makes_no_sense_is_refused(bare: Warehouse) -> None:
    small = {"name": "a10g", "profile": "A10G", "instances": 4}
    with pytest.raises(ComparisonRefused):
        studied(resolved(bare, pools=[H100, small], seeds=[0]), ["round_robin", "static"])
    with pytest.raises(ScenarioInvalid, match="power of 2"):
        studied(resolved(bare, pools=[H100, A100], seeds=[0]), ["round_robin", "static"], sobol_n=1000)
