"""Windows as the warehouse knows them: of observations, of replicas with their engines, of idle boards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from ingest.kinds import kind
from ingest.read import read_file
from policies.fleet.errors import ProfileInvalid, ProfileUnknown
from policies.fleet.power import (
    against,
    band,
    bindings,
    calibrate,
    calibration_report,
    holdout_table,
    idle_boards,
    markdown,
    power_model_of,
    profile_of,
    published,
    read_calibration,
    read_calibrations,
    read_windows,
    row,
    table_data,
    unbound,
)
from policies.fleet.power.fit import Fit
from policies.fleet.power.models import Logistic
from policies.fleet.power.windows import MeasuredWindow
from tests.fleet.power.made import BATCHES, BINDING, FITTED, sweep, window
from tests.support import shared
from warehouse.engine import Warehouse
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, Quality
from warehouse.loads import load
from warehouse.snapshots import snapshot
from warehouse.tables import frame

T0 = datetime(2026, 11, 1, 8)
LATER = datetime(2026, 11, 20)


def store(warehouse: Warehouse, table: str, rows: Sequence[Mapping[str, Any]], known_from: datetime = T0) -> None:
    with warehouse.transaction() as tx:
        load(tx, table, frame(table, rows), source_id="s", run_id="r", known_from=known_from)


def observation(at: int, **changes: Any) -> dict[str, Any]:
    start = T0 + timedelta(minutes=at)
    return {
        "observation_id": f"o{at}",
        "provider": "local",
        "hardware_model": "H100",
        "hardware_count": 4,
        "logical_model": "acme/big-70b",
        "runtime": "vllm",
        "runtime_version": "0.20.0",
        "config_version": "tp4, max_num_seqs 32, chat",
        "window_start_at": start,
        "window_end_at": start + timedelta(seconds=50),
        "concurrency": 8.0,
        "evidence_class": "measured",
        "method": "counter",
        "quality": "HIGH",
        "energy_gross_j": 100_000.0,
        "output_tokens": 50_000,
        "relative_uncertainty": 0.02,
        "workload": "replica",
    } | changes


def read(warehouse: Warehouse, as_of: datetime = LATER, **asked: Any) -> list[MeasuredWindow]:
    with snapshot(warehouse, as_of) as snap:
        return read_windows(snap, **asked)


# observations ---------------------------------------------------------------------------------


def test_power_is_energy_over_duration_and_throughput_tokens_over_duration(warehouse: Warehouse) -> None:
    store(warehouse, "core.energy_observation", [observation(0)])
    (found,) = read(warehouse)
    assert (found.power_w, found.output_tokens_per_s, found.concurrency) == (2000.0, 1000.0, 8.0)
    assert found.observations == ("o0",)
    assert (found.evidence_class, found.quality) == (EvidenceClass.MEASURED, Quality.HIGH)


def test_an_instant_takes_what_the_source_tells(warehouse: Warehouse) -> None:
    told = json.dumps({"power_w": 1800, "output_tokens_per_s": 450, "context_tokens": 900})
    store(warehouse, "core.energy_observation", [observation(0, window_end_at=T0, attributes=told)])
    (found,) = read(warehouse)
    assert (found.power_w, found.output_tokens_per_s, found.context_tokens) == (1800.0, 450.0, 900.0)


def test_the_batch_limit_is_what_a_sweep_varies_and_no_part_of_the_binding(warehouse: Warehouse) -> None:
    rows = [observation(i, config_version=f"tp4 dp1 max_num_seqs {n}, chat") for i, n in enumerate((8, 16))]
    store(warehouse, "core.energy_observation", rows)
    (binding,) = bindings(read(warehouse))
    assert binding.config_version == "tp4 dp1, chat"


def test_what_was_not_known_then_is_not_read(warehouse: Warehouse) -> None:
    store(warehouse, "core.energy_observation", [observation(0)], known_from=datetime(2026, 11, 5))
    assert read(warehouse, as_of=datetime(2026, 11, 4)) == []
    assert len(read(warehouse, as_of=datetime(2026, 11, 6))) == 1


def test_a_gap_is_no_window_and_an_unbound_one_is_counted(warehouse: Warehouse) -> None:
    gap = observation(0, energy_gross_j=None, output_tokens=None, gap_reason="gpu_lost")
    store(warehouse, "core.energy_observation", [gap, observation(1, runtime=None), observation(2, concurrency=None)])
    assert read(warehouse) == []
    with snapshot(warehouse, LATER) as snap:
        assert unbound(snap) == 1


def test_windows_are_asked_for_by_model_hardware_and_provider(warehouse: Warehouse) -> None:
    rows = [observation(0), observation(1, logical_model="b"), observation(2, hardware_model="A100"),
            observation(3, provider="ml.energy")]  # fmt: skip
    store(warehouse, "core.energy_observation", rows)
    asked: list[dict[str, Any]] = [{"model": "b"}, {"hardware": "A100"}, {"provider": "ml.energy"}]
    assert [[w.observations for w in read(warehouse, **a)] for a in asked] == [[("o1",)], [("o2",)], [("o3",)]]


# replicas with their engines ------------------------------------------------------------------


def metered(at_s: int, power_w: float, seconds: int = 10, **changes: Any) -> dict[str, Any]:
    """A window of a replica's meter, without a word about requests."""
    start = T0 + timedelta(seconds=at_s)
    told = observation(
        0,
        observation_id=f"m{at_s}",
        backend_id="replica-a",
        window_start_at=start,
        window_end_at=start + timedelta(seconds=seconds),
        energy_gross_j=power_w * seconds,
        **dict.fromkeys(
            ("logical_model", "runtime", "runtime_version", "config_version", "concurrency", "output_tokens")
        ),
    )
    return told | changes


def scraped(minute: int, running: float, tokens: int | None = 60_000, **changes: Any) -> dict[str, Any]:
    """What one engine told about the minute before."""
    end = T0 + timedelta(minutes=minute)
    return {
        "backend_id": "replica-a",
        "engine": "0",
        "model": "acme/big-70b",
        "window_start_at": end - timedelta(minutes=1),
        "window_end_at": end,
        "runtime": "vllm",
        "running_requests": running,
        "prompt_tokens": 180_000,
        "output_tokens": tokens,
        "successes": 120,
        "evidence_class": "measured",
    } | changes


BACKEND = {
    "backend_id": "replica-a",
    "valid_from": T0 - timedelta(days=1),
    "runtime": "vllm",
    "runtime_version": "0.20.0",
    "config_version": "tp4",
}


def replica(warehouse: Warehouse, meters: Sequence[Mapping[str, Any]], scrapes: Sequence[Mapping[str, Any]]) -> None:
    store(warehouse, "core.energy_observation", meters)
    store(warehouse, "core.serving_window", scrapes)


def test_a_replicas_meter_and_its_engines_make_windows_together(warehouse: Warehouse) -> None:
    store(warehouse, "core.backend", [BACKEND])
    powers = [1000.0] * 6 + [1600.0] * 6
    replica(warehouse, [metered(10 * i, p) for i, p in enumerate(powers)], [scraped(1, 8.0), scraped(2, 12.0)])
    (found,) = read(warehouse)
    assert found.start_at == T0 + timedelta(minutes=1), "the first window has no gauge at its start"
    assert (found.power_w, found.concurrency, found.output_tokens_per_s) == (1600.0, 10.0, 1000.0)
    assert found.context_tokens == (180_000 + 60_000) / 120
    assert len(found.observations) == 6
    assert (found.binding.runtime_version, found.binding.config_version) == ("0.20.0", "tp4")
    assert (found.binding.hardware_model, found.binding.hardware_count) == ("H100", 4)


def test_a_metered_window_counts_by_the_part_that_lies_within(warehouse: Warehouse) -> None:
    replica(
        warehouse,
        [metered(50, 1000.0, seconds=40), metered(90, 2000.0, seconds=40)],
        [scraped(1, 8.0), scraped(2, 8.0)],
    )
    (found,) = read(warehouse)
    assert found.power_w == pytest.approx((30 * 1000 + 30 * 2000) / 60)


@pytest.mark.parametrize(
    ("meters", "second"),
    [
        ([metered(60, 1000.0, seconds=50)], scraped(2, 8.0)),  # five sixths of the time
        ([metered(60, 1000.0, seconds=60)], scraped(2, 8.0, None, gap_reason="counter_reset")),
        ([metered(60, 1000.0, seconds=60)], scraped(2, 8.0, window_start_at=T0 + timedelta(seconds=70))),
        ([metered(60, 1000.0, seconds=60, energy_gross_j=None, gap_reason="gpu_lost")], scraped(2, 8.0)),
        ([metered(60, 1000.0, seconds=60, backend_id="replica-b")], scraped(2, 8.0)),
    ],
)
def test_what_is_not_wholly_known_makes_no_window(
    warehouse: Warehouse, meters: list[dict[str, Any]], second: dict[str, Any]
) -> None:
    replica(warehouse, meters, [scraped(1, 8.0), second])
    assert read(warehouse) == []


def test_engines_add_up_and_a_frontend_counts_for_all_of_them(warehouse: Warehouse) -> None:
    engines = [scraped(m, 4.0, 30_000, engine=e) for m in (1, 2) for e in ("0", "1")]
    replica(warehouse, [metered(60, 1000.0, seconds=60)], engines)
    (found,) = read(warehouse)
    assert (found.concurrency, found.output_tokens_per_s) == (8.0, 1000.0)
    store(warehouse, "core.serving_window", [scraped(m, 8.0, 60_000, engine="") for m in (1, 2)])
    (again,) = read(warehouse)
    assert (again.concurrency, again.output_tokens_per_s) == (8.0, 1000.0)


# idle boards ----------------------------------------------------------------------------------


def idle(board: str, state: str, watts: float, minute: int = 0, **changes: Any) -> dict[str, Any]:
    start = T0 + timedelta(minutes=minute)
    return observation(
        0,
        observation_id=f"{board}{state}{minute}",
        device_uuid=board,
        device_state=state,
        window_start_at=start,
        window_end_at=start + timedelta(seconds=30),
        energy_gross_j=watts * 30,
        workload="idle",
        concurrency=None,
        **changes,
    )


def test_idle_empty_and_idle_loaded_are_means_over_the_newest_of_each_board(warehouse: Warehouse) -> None:
    rows = [
        idle("a", "empty", 999.0),
        idle("a", "empty", 60.0, 5),
        idle("b", "empty", 70.0),
        idle("a", "loaded", 110.0),
    ]
    store(warehouse, "core.energy_observation", rows)
    with snapshot(warehouse, LATER) as snap:
        found = idle_boards(snap, "H100")
        assert idle_boards(snap, "A100") == {}
    assert {s: (b.mean_w, b.low_w, b.high_w, b.boards) for s, b in found.items()} == {
        "empty": (65.0, 60.0, 70.0, 2),
        "loaded": (110.0, 110.0, 110.0, 1),
    }


def test_meters_of_different_scope_are_not_averaged(warehouse: Warehouse) -> None:
    rows = [idle("a", "empty", 60.0, meter_scope="gpu"), idle("b", "empty", 170.0, meter_scope="module")]
    store(warehouse, "core.energy_observation", rows)
    with snapshot(warehouse, LATER) as snap, pytest.raises(IncomparableObservations, match="meter_scope"):
        idle_boards(snap, "H100")


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
    windows = read(warehouse, model=model, provider="ml.energy")
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
