"""Calibrations in the warehouse, the profiles made of them, reports, and the hold-out error by model and GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from ingest.kinds import kind
from ingest.read import read_file
from policies.fleet.errors import ProfileInvalid, ProfileUnknown
from policies.fleet.power import (
    against,
    band,
    calibrate,
    calibration_report,
    holdout_table,
    markdown,
    power_model_of,
    profile_of,
    published,
    read_calibration,
    read_calibrations,
    read_windows,
    row,
    table_data,
)
from policies.fleet.power.fit import Fit
from policies.fleet.power.models import Logistic
from tests.fleet.power.made import BATCHES, BINDING, FITTED, sweep, window
from tests.support import shared
from warehouse.engine import Warehouse
from warehouse.evidence import EvidenceClass, Quality
from warehouse.loads import load
from warehouse.snapshots import snapshot
from warehouse.tables import frame

T0 = datetime(2026, 11, 1, 8)
LATER = datetime(2026, 11, 20)


def store(warehouse: Warehouse, table: str, rows: Sequence[Mapping[str, Any]], known_from: datetime = T0) -> None:
    with warehouse.transaction() as tx:
        load(tx, table, frame(table, rows), source_id="s", run_id="r", known_from=known_from)


# stored and read back -------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["power", "throughput"])
@pytest.mark.parametrize("form", ["logistic_log2", "linear", "table"])
def test_a_calibration_comes_back_from_the_warehouse_and_predicts_the_same(
    warehouse: Warehouse, quantity: str, form: str
) -> None:
    made = calibrate(sweep(), quantity=quantity, form=form, fitted_at=FITTED)
    store(warehouse, "core.calibration", [row(made, actor="ana")])
    with snapshot(warehouse, LATER) as snap:
        found, version = read_calibration(snap, made.calibration_id)
    asked = [1, 3, 20, 128]
    assert version == 1
    assert (found.binding, found.quality, found.coverage) == (made.binding, made.quality, made.coverage)
    for name in ("value", "low", "high"):
        assert getattr(found.predict(asked), name) == pytest.approx(getattr(made.predict(asked), name), nan_ok=True)


def test_a_new_fit_is_a_new_version_of_its_binding_and_the_same_fit_is_none(warehouse: Warehouse) -> None:
    for day, seed in ((2, 0), (3, 1), (4, 0)):
        made = calibrate(sweep(seed=seed), quantity="power", form="table", fitted_at=datetime(2026, 11, day))
        store(warehouse, "core.calibration", [row(made, actor="ana")])
    other = calibrate(sweep(), quantity="power", form="linear", fitted_at=FITTED)
    store(warehouse, "core.calibration", [row(other, actor="ana")])
    with snapshot(warehouse, LATER) as snap:
        found = read_calibrations(snap, model="acme/big-70b", quantity="power", hardware="H100")
        assert read_calibrations(snap, model="other") == []
    assert [(c.form, v, c.fitted_at.day) for c, v in found if c.form == "table"] == [("table", 2, 3), ("table", 1, 2)]
    assert [v for c, v in found if c.form == "linear"] == [1]


def test_an_id_that_nothing_answers_to_is_an_error(warehouse: Warehouse) -> None:
    with snapshot(warehouse, LATER) as snap, pytest.raises(ProfileUnknown, match="'abc'"):
        read_calibration(snap, "abc")


# profiles of calibrations ---------------------------------------------------------------------


def test_a_calibrated_profile_carries_range_class_and_where_it_comes_from() -> None:
    windows = [*sweep(noise=0), window(900, 0.0, 480.0)]
    power = calibrate(windows, quantity="power", form="logistic_log2", fitted_at=FITTED)
    tokens = calibrate(sweep(noise=0, context_tokens=2000.0), quantity="throughput", form="linear", fitted_at=FITTED)
    found = profile_of(power, tokens, name="mine", version=3, capacity={"max_slots": 256, "usd_per_hour": 2.5})
    assert isinstance(found.power, Logistic)
    assert (found.power.concurrency_min, found.power.concurrency_max) == (1, 128)
    assert found.power.idle_loaded_w == pytest.approx(480)
    assert (found.W_ms, found.H_ms_per_seq, found.calibration_ctx) == pytest.approx((10, 0.25, 2000))
    assert (found.evidence_class, found.version, found.max_slots) == (EvidenceClass.CALIBRATED, "3", 256)
    assert (found.hardware_count, found.usd_per_instance_hour) == (4, 10.0)
    assert power.calibration_id[:12] in found.provenance
    assert found.power.power_w(BATCHES) == pytest.approx(power.predict(BATCHES).value)


@pytest.mark.parametrize("form", ["logistic_log2", "linear", "table"])
def test_the_power_model_of_a_calibration_is_the_calibration(form: str) -> None:
    made = calibrate(sweep(), quantity="power", form=form, fitted_at=FITTED)
    assert power_model_of(made).power_w([1, 5, 128]) == pytest.approx(made.predict([1, 5, 128]).value)


def test_calibrations_of_two_bindings_make_no_profile() -> None:
    power = calibrate(sweep(), quantity="power", form="table", fitted_at=FITTED)
    with pytest.raises(ProfileInvalid, match="one binding"):
        profile_of(power, power, name="mine")
    with pytest.raises(ProfileInvalid, match="throughput"):
        power_model_of(calibrate(sweep(), quantity="throughput", form="table", fitted_at=FITTED))


# reports --------------------------------------------------------------------------------------


def test_a_report_is_plain_json_with_the_band_and_every_residual() -> None:
    made = calibrate(sweep(), quantity="power", form="logistic_log2", fitted_at=FITTED)
    told = json.loads(json.dumps(calibration_report(made, version=2)))
    assert (told["version"], told["evidence_class"], told["unit"]) == (2, "calibrated", "W")
    assert len(told["points"]) == made.n
    first, last = told["band"][0], told["band"][-1]
    assert (first["concurrency"], last["concurrency"]) == (1, 128)
    assert all(p["low"] <= p["value"] <= p["high"] for p in told["band"])
    assert told["windows_to"].endswith("Z")
    for point in told["points"]:
        assert point["fitted"] == pytest.approx(point["observed"] * (1 - point["residual_relative"]))


def test_a_bound_that_is_not_known_is_none_and_not_zero() -> None:
    made = calibrate(sweep(), quantity="power", form="linear", fitted_at=FITTED)
    assert isinstance(made.fitted, Fit)
    untold = replace(made, fitted=replace(made.fitted, covariance=None))
    assert {(p["low"], p["high"]) for p in band(untold)} == {(None, None)}


def test_measured_stands_beside_modelled_per_board_with_what_differs() -> None:
    (beside,) = against(published("H100-80GB"), [window(0, 128.0, 4 * 500.0)])
    assert beside["measured_board_w"] == 500.0
    assert beside["modelled_board_w"] == pytest.approx(582.8, abs=0.05)
    assert beside["residual_relative"] == pytest.approx((500 - 582.8) / 500, abs=1e-4)
    assert set(beside["differs"]) == {
        "logical_model", "hardware_model", "hardware_count", "runtime", "runtime_version", "config_version",
    }  # fmt: skip
    (refused,) = against(published("B200x8-context-study@8192"), [window(0, 128.0)])
    assert refused["modelled_board_w"] is None
    assert "439" in refused["why"]


# hold-out by model and GPU --------------------------------------------------------------------


def test_the_hold_out_table_scores_every_pair_of_forms_and_names_what_was_too_small() -> None:
    tiny = replace(BINDING, logical_model="tiny")
    small = [window(500 + i, n, 900.0, output_tokens_per_s=10.0 * n, binding=tiny) for i, n in enumerate((1, 2))]
    found = holdout_table([*sweep(noise=0.002), *small])
    (made,) = found.rows
    assert (made.logical_model, made.hardware_model, made.curves) == (BINDING.logical_model, "H100", 1)
    assert made.wins == "logistic power, linear iteration", "the forms that made these windows"
    assert made.scores[made.wins].j_per_token < 0.005  # type: ignore[union-attr]
    assert [b.logical_model for b in found.left_out] == ["tiny"]
    assert json.loads(json.dumps(table_data(found)))["rows"][0]["wins"] == made.wins
    assert "| acme/big-70b | H100 | 4 | 1 |" in markdown(found)


def test_totals_compare_the_pairs_on_the_windows_that_all_of_them_predicted() -> None:
    few = sweep(batches=(1, 4, 16, 64), binding=replace(BINDING, logical_model="few"), seed=2)
    few = [replace(w, observations=(f"few {w.observations[0]}",)) for w in few]
    found = holdout_table([*sweep(noise=0.01), *few])
    row = {r.logical_model: r.scores for r in found.rows}["few"]
    assert row["logistic"] is None, "three levels do not determine four parameters"
    assert row["table"] is not None
    assert [(t.hardware_model, {s.n for s in t.scores.values() if s}) for t in found.totals] == [
        ("H100", {18}),
        ("all", {18}),
    ]


def test_joules_per_token_are_power_over_throughput_of_the_same_fold() -> None:
    found = holdout_table(sweep(noise=0.02))
    score = found.rows[0].scores["table"]
    assert score is not None
    assert score.j_per_token <= score.power + score.throughput + score.power * score.throughput + 0.01
    assert score.n == 18  # six inner levels, three windows each


# real -----------------------------------------------------------------------------------------


def test_on_ml_energy_v3_the_left_out_batch_of_llama_70b_is_predicted(warehouse: Warehouse) -> None:
    path = shared("data/mlenergy_v3/llm_energy_v3.csv")
    payload = read_file(path, source_id="s", kind="mlenergy-v3", max_bytes=10**7)
    parsed = kind("mlenergy-v3").parse(payload)
    with warehouse.transaction() as tx:
        load(tx, "core.energy_observation", parsed.tables["core.energy_observation"], source_id="s", run_id="r",
             known_from=T0)  # fmt: skip
    model = "meta-llama/Llama-3.1-70B-Instruct"
    with snapshot(warehouse, LATER) as snap:
        windows = read_windows(snap, model=model, provider="ml.energy")
    found = holdout_table(windows)
    h100 = next(r for r in found.rows if r.hardware_model == "H100")
    assert (h100.boards, h100.curves, h100.windows) == ((4,), 1, 12)
    scores = {name: s.j_per_token for name, s in h100.scores.items() if s is not None}
    assert scores["logistic power, linear iteration"] < 0.03
    assert scores["linear"] > scores["table"], "power is no line in concurrency"
    made = calibrate([w for w in windows if w.binding.hardware_model == "H100"], quantity="power",
                     form="logistic_log2", fitted_at=FITTED)  # fmt: skip
    assert made.evidence_class is EvidenceClass.MODELED, "published windows stay modeled"
    assert made.quality is not Quality.HIGH
    assert np.isfinite(made.predict([8, 512]).value).all()
