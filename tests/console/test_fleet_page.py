"""The Fleet page: live backends, calibrations, what-if; what it marks, refuses, restores from a link, and runs."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import desk as desks
from app.components import fleet_calibration, fleet_form, fleet_jobs
from app.components.fleet_charts import beside, fitted, policies, sweep, tornado
from app.components.fleet_table import comparison, difference
from app.desk import Desk, open_desk
from app.operations import Actor, call
from app.reads import fleet as reads
from app.settings import load_settings
from tests.console.fleeted import OPERATOR, WORK, live
from tests.console.fleeted import fleet as fleet
from tests.console.fleeted import fleet_file as fleet_file
from tests.console.fleeted import ids as ids
from tests.console.pages import open_page, press, words
from warehouse.clock import utcnow


def shown(tab: str, **query: str) -> AppTest:
    page = open_page("fleet", **{"f-tab": tab, **query})
    assert not page.exception
    return page


def plain(page: AppTest) -> str:
    return words(page).replace("\\", "").replace("\u00a0", " ").replace("&#x27;", "'")


# states of the whole page ---------------------------------------------------------------------------


@pytest.mark.parametrize("tab", ["backends", "calibration", "whatif"])
def test_an_empty_section_says_what_it_will_show_and_what_to_do(desk: Desk, tab: str) -> None:
    told = plain(shown(tab))
    assert "jb-empty" in told
    assert any(part in told for part in ("Import", "import a trace", "load the sample"))


def test_a_broken_warehouse_is_told_in_words(own_home: Path) -> None:
    (own_home / "joulebook.duckdb").write_bytes(b"this is no warehouse" * 500)
    desks.set_current(open_desk(load_settings(), tolerate_failure=True))
    try:
        page = open_page("fleet")
        assert not page.exception
        assert "The warehouse cannot be used" in plain(page)
    finally:
        desks.set_current(None)


def test_the_page_stands_in_the_navigation_after_models() -> None:
    from app.main import PAGES

    names = [name for name, _, _ in PAGES]
    assert names[names.index("models") + 1] == "fleet"


# backends -------------------------------------------------------------------------------------------


@pytest.fixture
def reporting(desk: Desk) -> Desk:
    live(desk)
    return desk


def test_a_backend_has_power_use_joules_per_success_age_and_evidence(reporting: Desk) -> None:
    told = plain(shown("backends"))
    for part in ("h100-a", "frontier · FI", "8 × H100-80GB", "W/board", "50.0 %", "64 running", "2 waiting", "KV 50 %",
                 "n 1,905", "±2.0 %, counter, quality HIGH", "fresh"):  # fmt: skip
        assert part in told
    assert 'title="measured' in told


def test_silence_is_said_with_its_age_and_left_out_of_the_sum(reporting: Desk) -> None:
    told = plain(shown("backends"))
    assert "2 of 3 backends report. a10g-b expired 3 h." in told
    draw = reads.draw_now(reads.backends(reporting.warehouse))
    assert (draw.n, draw.of, draw.evidence_class) == (1, 3, "measured")
    assert sorted(draw.left_out) == ["a10g-b: expired", "bare-c: no meter"]


def test_power_of_two_classes_is_never_added_up() -> None:
    def row(name: str, cls: str, power_w: float) -> dict[str, Any]:
        power = {"power_w": power_w, "evidence_class": cls, "quality": "FAIR", "age_s": 1.0, "gap_reason": None}
        return {"backend_id": name, "power": power}

    draw = reads.draw_now([row("a", "measured", 100.0), row("b", "measured", 50.0), row("c", "modeled", 1000.0)])
    assert (draw.power_w, draw.evidence_class, draw.left_out) == (150.0, "measured", ("c: modeled",))


@pytest.mark.parametrize(
    ("age_s", "state"), [(None, "never"), (0.0, "fresh"), (300.0, "fresh"), (300.1, "stale"), (3600.1, "expired")]
)
def test_freshness_of_a_backend(age_s: float | None, state: str) -> None:
    assert reads.freshness(age_s) == state


def test_a_backend_without_hardware_says_why_nothing_is_compared(reporting: Desk) -> None:
    told = plain(shown("backends", **{"f-backend": "bare-c"}))
    assert "No window of bare-c can be compared: nobody said which hardware this backend runs on" in told


def test_a_published_low_profile_is_marked_beside_measured_power_and_differences_are_named(reporting: Desk) -> None:
    told = plain(shown("backends", **{"f-backend": "a10g-b"}))
    assert "modeled, LOW: for simulation only, no fact about production." in told
    assert 'title="LOW quality">LOW' in told
    assert "Backend and profile differ in config version, logical model" in told


def test_measured_points_and_the_modelled_curve_are_two_traces_of_their_own_class(reporting: Desk) -> None:
    row = next(r for r in reads.backends(reporting.warehouse) if r["backend_id"] == "h100-a")
    curve = next(
        p["curve"] for p in reads.profiles(reporting.warehouse) if p["profile_id"] == row["profile"]["profile_id"]
    )
    compared = [r for r in row["residuals"] if r["modelled_board_w"] is not None]
    assert row["residual_relative_mean"] == pytest.approx(1 - 1 / 1.04, abs=0.005)  # the invented board is 4 % above
    model, points, residuals = beside(compared, curve, row["profile"]).data
    assert (model.mode, model.line.dash, points.marker.symbol) == ("lines", "dash", "circle")
    assert "modeled" in model.name
    assert "measured" in points.name
    assert list(points.y) == [r["measured_board_w"] for r in compared]
    assert list(residuals.y) == [r["residual_relative"] for r in compared]


# calibration ----------------------------------------------------------------------------------------


def h100_power(desk: Desk) -> dict[str, Any]:
    rows = reads.calibrations(desk.warehouse)
    return next(c for c in rows if c["quantity"] == "power" and "H100" in c["binding_words"])


def test_a_calibration_shows_hold_out_quality_binding_and_version(fleet: Desk) -> None:
    found = next(
        c for c in reads.calibrations(fleet.warehouse) if c["quantity"] == "power" and "H100" in c["binding_words"]
    )
    told = plain(shown("calibration", **{"f-binding": found["binding_words"], "f-cal": found["calibration_id"]}))
    for part in ("hold-out error, inside the range", "left-out windows within 95 %", "15 at ", found["calibration_id"],
                 "llama-3-70b", "0.11.1", "tp8", "Parameters ± one sd, W per board", "calibrated"):  # fmt: skip
        assert part in told


def test_a_low_calibration_says_what_keeps_it_down(fleet: Desk) -> None:
    told = reads.calibration(fleet.warehouse, reads.calibrations(fleet.warehouse)[0]["calibration_id"])
    html = fleet_calibration._quality(told | {"quality": "LOW", "why": ["hold-out error 31.0%"]})
    assert "for simulation only, no fact about production" in html
    assert "hold-out error 31.0%" in html
    assert 'title="LOW quality">LOW' in html


def test_the_band_lies_around_the_fit_and_residuals_are_those_of_the_windows(fleet: Desk) -> None:
    told = reads.calibration(fleet.warehouse, h100_power(fleet)["calibration_id"])
    band, curve, windows, residuals = fitted(told).data
    assert band.name == "95 % of one new window"
    half = len(band.y) // 2
    assert all(high >= y >= low for high, y, low in zip(band.y[:half], curve.y, reversed(band.y[half:]), strict=True))
    assert windows.marker.symbol == "circle"
    assert list(residuals.y) == pytest.approx([(p["observed"] - p["fitted"]) / p["observed"] for p in told["points"]])


def test_one_button_calibrates_and_says_what_it_left_out(reporting: Desk) -> None:
    page = finished(press(shown("calibration"), "f-cal-go"))
    told = plain(page)
    assert "4 new calibrations from 30 windows." in told
    assert reporting.warehouse.scalar("SELECT count(*) FROM core.calibration") == 4


def test_too_few_windows_are_a_clear_error(reporting: Desk) -> None:
    with reporting.warehouse.transaction() as tx:
        tx.execute(
            "DELETE FROM core.energy_observation WHERE backend_id = 'a10g-b' OR window_end_at < $at",
            {"at": utcnow() - timedelta(minutes=4)},
        )
    told = plain(finished(press(shown("calibration"), "f-cal-go")))
    assert "No power of llama-3-70b on 8 x H100-80GB" in told
    assert "What to do:" in told


# results --------------------------------------------------------------------------------------------


def test_energy_and_service_stand_together_with_intervals_marks_and_age(fleet: Desk, ids: dict[str, str]) -> None:
    told = plain(shown("whatif", **{"f-run-id": ids["compare"]}))
    for part in ("J per success", "success", "within SLO", "TTFT P50", "TTFT P99", "TPOT P99", "E2E P99",
                 "cost of the run", "gCO2 per success", "no zone was chosen", "capacity, all slots busy", "rejected by",
                 "fallbacks", "= completed", "+ rejected", "keeps the SLO", "baseline", "modeled", "old",
                 "3 seeds"):  # fmt: skip
        assert part in told
    assert "Energy aware takes the least joules" in told or "takes the least joules of those that keep the SLO" in told


def test_a_difference_whose_interval_holds_zero_is_grey_and_says_so() -> None:
    pair = {"difference": {"value": 0.2, "low": -0.1, "high": 0.5}, "relative": 0.02, "verdict": "not distinguished"}
    assert difference(pair, "J") == '<span class="jb-muted">+2.0\u00a0±3.0\u00a0% not told apart</span>'
    better = {"difference": {"value": -1.0, "low": -1.1, "high": -0.9}, "relative": -0.1, "verdict": "better"}
    assert difference(better, "J") == '<span class="jb-better">−10.0\u00a0±1.0\u00a0% better</span>'
    share = {"difference": {"value": -0.02, "low": -0.03, "high": -0.01}, "relative": -0.02, "verdict": "worse"}
    assert difference(share, "%") == '<span class="jb-worse">−2.0\u00a0±1.0\u00a0pp worse</span>'
    same = {"difference": {"value": 0.0, "low": None, "high": None}, "relative": 0.0, "verdict": "same"}
    assert difference(same, "J") == '<span class="jb-muted">the same</span>'


def test_a_low_profile_is_marked_low_everywhere_and_is_no_fact_about_production(
    fleet: Desk, ids: dict[str, str]
) -> None:
    told = plain(shown("whatif", **{"f-run-id": ids["low"]}))
    assert "modeled, LOW: A10G cannot be held against measurements." in told
    assert "no fact about production" in told
    report = reads.report(fleet.warehouse, ids["low"])
    html = comparison(report, report["cases"], None)
    rows = [r for r in html.split("<tr") if "±" in r or "J per success" in r]
    assert all("LOW" in r.split("</th>")[0] for r in rows)
    assert any("modeled, LOW" in o for o in shown("whatif").selectbox(key="f-run-id").options)


def test_the_chart_of_policies_carries_class_and_slo(fleet: Desk, ids: dict[str, str]) -> None:
    told = reads.report(fleet.warehouse, ids["compare"])
    group = reads.group_of(told, "")
    cases = reads.cases_of(told, group)
    figure = policies(cases, told, told["slo_target"], told["baseline"])
    assert figure.layout.xaxis.title.text == "J per success, modeled ○"
    assert figure.data[0].marker.symbol == "circle-open"
    values = list(reversed(figure.data[0].x))
    assert values == [c["figures"]["j_per_success"]["value"] for c in cases]
    assert len(figure.layout.shapes) == 2  # the target, and the limit of TTFT


def test_joules_per_success_of_other_models_are_refused_in_table_and_chart(fleet: Desk) -> None:
    asked = {**WORK, "pool": ["H100-80GB:1", "A10G:2"], "policies": ["round_robin", "pack"], "loads": [0.5, 1.0]}
    told = call(fleet, "fleet.compare", asked, OPERATOR)
    page = shown("whatif", **{"f-run-id": told["id"]})
    said = plain(page)
    assert "Not ranked: tokens per joule of round robin, pack do not compare" in said
    assert "refused: other models, and quality is not controlled for" in said
    figure = sweep(told, "load", joules=False)
    assert not any("J per success" in str(a.title.text) for a in (figure.layout.yaxis, figure.layout.yaxis2))


def test_the_tornado_has_one_bar_per_input_and_says_where_the_ranking_flips(fleet: Desk, ids: dict[str, str]) -> None:
    told = reads.report(fleet.warehouse, ids["sensitivity"])
    below, above = tornado(told).data
    rows = list(reversed(told["tornado"]))
    assert list(below.y) == [t["input"] for t in rows]
    assert [b + x for b, x in zip(above.base, above.x, strict=True)] == pytest.approx([t["high"] for t in rows])
    said = plain(shown("whatif", **{"f-run-id": ids["sensitivity"]}))
    for part in ("flip probability", "Break-even of each input alone", "equal where", "What the doubt comes from",
                 "Takes the least joules"):  # fmt: skip
        assert part in said


@pytest.mark.parametrize(
    ("name", "part"), [("size", "Fewest instances that keep the SLO"), ("flex", "Closed form / simulated")]
)
def test_sizes_and_caps_have_tables(fleet: Desk, ids: dict[str, str], name: str, part: str) -> None:
    assert part in plain(shown("whatif", **{"f-run-id": ids[name]}))


def test_a_link_brings_back_the_run_and_an_unknown_one_falls_back_to_the_newest(
    fleet: Desk, ids: dict[str, str]
) -> None:
    page = shown("whatif", **{"f-run-id": ids["compare"]})
    assert page.selectbox(key="f-run-id").value == ids["compare"]
    assert shown("whatif", **{"f-run-id": "nothing"}).selectbox(key="f-run-id").value == ids["flex"]


def test_rejections_by_code_and_fallbacks_are_counted_in_the_table(fleet: Desk) -> None:
    asked = {**WORK, "pool": ["A100-80GB:1"], "requests_per_s": 500.0, "queue_limit": 1, "slots": 2,
             "policies": ["round_robin", "energy_aware"], "telemetry_s": 5.0, "telemetry_ttl_s": 0.5}  # fmt: skip
    told = call(fleet, "fleet.compare", asked, OPERATOR)
    code = next(iter(told["cases"][0]["rejections"]))
    html = comparison(told, told["cases"], told["groups"][0])
    assert code.replace("_", " ") in html
    fell = told["cases"][1]["figures"]["fallback_slo"]["value"]  # choices with no instance predicted to keep the SLO
    assert fell > 100
    assert f"SLO {fell:,.5g}<br>" in html.split("fallbacks")[1]
    assert "of 200 decisions" in html
    assert "misses the SLO" in html


# the form -------------------------------------------------------------------------------------------


def finished(page: AppTest) -> AppTest:
    job = fleet_jobs.job()
    assert job is not None
    assert job.thread is not None
    job.thread.join(60)
    assert not job.alive
    page.run()
    assert not page.exception
    return page


def small(page: AppTest) -> AppTest:
    page.number_input(key="fw-n").set_value(60)
    page.number_input(key="fw-seeds").set_value(2)
    page.multiselect(key="fw-policies").set_value(["round_robin", "energy_aware"])
    return page.run()


def test_a_what_if_runs_and_its_result_is_shown(desk: Desk) -> None:
    page = finished(press(small(shown("whatif")), "f-run"))
    stored = reads.runs(desk.warehouse)
    assert [r["experiment"] for r in stored] == ["compare"]
    assert page.selectbox(key="f-run-id").value == stored[0]["id"]
    assert "keeps the SLO" in plain(page) or "misses the SLO" in plain(page)


def test_a_run_that_ends_while_the_page_is_drawn_is_shown_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = fleet_form.show

    def slowly() -> None:
        draw()
        job = fleet_jobs.job()
        if job is not None and job.thread is not None:
            job.thread.join(60)

    monkeypatch.setattr(fleet_form, "show", slowly)
    page = press(small(shown("whatif")), "f-run")
    assert not page.exception
    assert page.selectbox(key="f-run-id").value == reads.runs(desk.warehouse)[0]["id"]


def test_what_the_form_says_is_the_scenario_that_is_run(desk: Desk) -> None:
    page = small(shown("whatif"))
    page.number_input(key="fw-instances-0").set_value(3)
    page.text_input(key="fw-loads").set_value("0.5, 1")
    page.text_input(key="fw-caps").set_value("0, 20 %")
    page.number_input(key="fw-queue").set_value(7)
    page.run()
    state = {k: page.session_state[k] for k in page.session_state["_what_if"]}
    operation, params = fleet_form.asked(
        state, "compare", reads.profiles(desk.warehouse), reads.workloads(desk.warehouse)
    )
    assert operation == "fleet.compare"
    assert (params["loads"], params["caps"]) == ([0.5, 1.0], [0.0, 0.2])
    assert [p["instances"] for p in params["scenario"]["pools"]] == [3, 2]
    assert {p["queue_limit"] for p in params["scenario"]["pools"]} == {7}
    assert params["scenario"]["seeds"] == [0, 1]


def test_one_policy_is_simulated_and_with_a_cap_it_gets_something_to_stand_beside(desk: Desk) -> None:
    page = small(shown("whatif"))
    state = {k: page.session_state[k] for k in page.session_state["_what_if"]} | {"fw-policies": ["pack"]}
    known = reads.profiles(desk.warehouse), reads.workloads(desk.warehouse)
    operation, params = fleet_form.asked(state, "compare", *known)
    assert (operation, params["scenario"]["balancer"]["policy"]) == ("fleet.simulate", "pack")
    operation, params = fleet_form.asked(state | {"fw-caps": "10"}, "compare", *known)
    assert (operation, params["policies"], params["caps"]) == ("fleet.compare", ["round_robin", "pack"], [0.1])


def test_a_load_that_is_no_number_is_told_in_words_and_runs_nothing(desk: Desk) -> None:
    page = small(shown("whatif"))
    page.text_input(key="fw-loads").set_value("much").run()
    told = plain(press(page, "f-run"))
    assert "Loads are factors on the rate above 0, by commas; told is 'much'." in told
    assert not fleet_jobs.busy()


def test_a_calibration_that_lacks_parameters_asks_for_them_before_anything_runs(fleet: Desk) -> None:
    page = shown("whatif")
    asked = next(p for p in reads.profiles(fleet.warehouse) if p["ask_for"].startswith("calibration:"))
    page.selectbox(key="fw-profile-0").set_value(asked["ask_for"]).run()
    assert page.button(key="f-run").disabled
    assert f"{asked['name']} does not tell" in plain(page)
    for need in asked["missing"]:
        page.number_input(key=f"fw-need-0-{need}").set_value(256)
    page.run()
    assert not page.button(key="f-run").disabled


def test_the_form_survives_a_visit_of_another_section(desk: Desk) -> None:
    page = small(shown("whatif"))
    page.segmented_control(key="f-tab").set_value("backends").run()
    page.segmented_control(key="f-tab").set_value("whatif").run()
    assert page.number_input(key="fw-n").value == 60


def test_a_running_what_if_shows_progress_and_can_be_cancelled(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.fleet import runs

    held, seen = threading.Event(), threading.Event()
    resolve = runs.resolve

    def slowly(*args: Any) -> Any:
        seen.set()
        held.wait(30)
        return resolve(*args)

    monkeypatch.setattr(runs, "resolve", slowly)
    page = press(small(shown("whatif")), "f-run")
    assert seen.wait(30)
    page.run()
    job = fleet_jobs.job()
    assert job is not None
    assert page.button(key="f-run").disabled
    page = press(page, f"f-cancel-{job.task}")
    held.set()
    page = finished(page)
    assert "The fleet experiment was cancelled; nothing of it was kept." in plain(page)
    assert desk.warehouse.scalar("SELECT count(*) FROM core.fleet_run") == 0


def test_an_error_of_an_experiment_is_told_with_its_fix(desk: Desk) -> None:
    page = small(shown("whatif"))
    page.number_input(key="fw-context").set_value(10_000_000).run()
    told = plain(finished(press(page, "f-run")))
    assert "What to do:" in told
    assert desk.warehouse.scalar("SELECT count(*) FROM core.fleet_run") == 0


def test_a_reader_may_look_and_not_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Actor("reader@example.org", "reader", "console", frozenset({"read"}))
    page = small(shown("whatif"))
    monkeypatch.setattr("app.auth.console_actor", lambda: reader)
    page = press(page, "f-run")
    assert "this needs the role operator" in plain(page)
    assert fleet_jobs.job() is None


def test_a_rerun_reads_nothing_anew(fleet: Desk, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from app.fleet import store

    page = shown("whatif", **{"f-run-id": ids["compare"]})
    asked: list[str] = []
    monkeypatch.setattr(store, "report", lambda *_: asked.append("report"))
    begun = time.perf_counter()
    page.run()
    assert time.perf_counter() - begun < 5  # about 0.2 s on an idle core
    assert asked == []


def test_zones_give_grams_by_the_intensity_of_this_hour(desk: Desk, tmp_path: Path) -> None:
    factors = tmp_path / "factors.csv"
    factors.write_text("zone,year,basis,signal,intensity_g_per_kwh,source\nFI,2026,lifecycle,average,37,ours\n")
    call(desk, "import", {"kind": "grid-factors", "path": str(factors)}, OPERATOR)
    told = reads.workloads(desk.warehouse)
    zone = "FI"
    page = small(shown("whatif"))
    page.selectbox(key="fw-zone-0").set_value(zone).run()
    state = {k: page.session_state[k] for k in page.session_state["_what_if"]}
    _, params = fleet_form.asked(state, "compare", reads.profiles(desk.warehouse), told)
    assert params["scenario"]["pools"][0]["zone"] == zone
    assert params["scenario"]["intensity"]["signal"] == told["zones"][0]["signal"]
