"""The Pareto page with replay runs: what it draws, says, restores from a link, refuses, and runs."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.components import links, pareto_replay, replay_jobs
from app.components.pareto_chart import place_labels
from app.components.replay_chart import Panel, View, draw
from app.components.replay_jobs import job_of
from app.desk import Desk
from app.operations import Actor, call
from app.reads import replay as reads
from app.reads.pareto import front
from app.replay import runs as replay_runs
from tests.console.pages import open_page, press, words
from tests.console.replayed import OPERATOR, POLICIES
from tests.console.replayed import replayed as replayed
from tests.console.replayed import replayed_file as replayed_file
from tests.console.test_pareto_reads import block, point


def shown(**query: str) -> AppTest:
    page = open_page("pareto", dataset="ours", **query)
    assert not page.exception
    return page


def plain(page: AppTest) -> str:
    return words(page).replace("\\", "")


def figure(desk: Desk, at: int = 0, **view: Any) -> Any:
    """What the page draws of a block."""
    run, told = block(desk, at)
    points, _ = reads.points(told, "energy_j_per_query", "accuracy", "", run.finished_at)
    lines = reads.curves(desk.warehouse, run.blocks[at].replay_run_id)
    hull = reads.mixing_line(points, "energy_j_per_query", "accuracy")
    x, y = reads.X["energy_j_per_query"], reads.Y["accuracy"]
    return draw([Panel("", front(points), hull, lines)], View(x, y, "Accuracy", **view))


# what is drawn and said -----------------------------------------------------------------------------


def test_the_newest_replay_is_what_the_page_opens_with(replayed: Desk) -> None:
    page = open_page("pareto")
    assert page.selectbox(key="dataset").value == "ours"


def test_the_page_says_which_deployable_policy_beats_the_hull_and_where(replayed: Desk) -> None:
    run, _ = block(replayed)
    patch_report(replayed, run.blocks[0].replay_run_id, {"margins": margins([(40.0, 60.0), (80.0, 80.0)])})
    said = plain(shown())
    assert "1 deployable policy beats the mixing hull of the fixed arms" in said
    assert "benchmark (40.0–60.0\u00a0J and 80.0\u00a0J) per query" in said


def test_the_page_says_that_none_does(replayed: Desk) -> None:
    run, _ = block(replayed)
    none = ["Hypervolume 1.", "No deployable policy beats the mixing hull of the fixed arms at any tested point. More."]
    patch_report(replayed, run.blocks[0].replay_run_id, {"margins": margins([]), "statements": none})
    said = plain(shown())
    assert "No deployable policy beats the mixing hull of the fixed arms at any tested point.</div>" in said
    assert "deployable policy beats the mixing hull of the fixed arms, with" not in said


def margins(proved: list[tuple[float, float]]) -> dict[str, Any]:
    return {"benchmark": {"over_hull": {"proved": [{"low_j": low, "high_j": high} for low, high in proved]}}}


def test_figures_stand_with_mark_interval_n_and_age(replayed: Desk) -> None:
    told = plain(shown(**{"r-policy": "always-large"}))
    assert "energy per correct answer" in told
    assert "n 40, computed" in told
    assert 'title="measured' in told
    assert "fixed arm" in told
    assert "role large" in told


def test_the_card_has_mix_benchmarks_comparisons_and_hashes(replayed: Desk) -> None:
    told = plain(shown(**{"r-policy": "benchmark"}))
    for heading in ("What it chooses", "By benchmark", "Against always-large, the best fixed arm in training",
                    "Against always-medium, the incumbent", "Above the mixing hull at the same joules",
                    "Its own account"):  # fmt: skip
        assert heading in told
    _, report = block(replayed)
    assert report["choices_sha256"] in told
    assert "accuracy, Tango" in told


def test_a_bound_is_marked_as_not_deployable(replayed: Desk) -> None:
    told = plain(shown(**{"r-policy": "oracle"}))
    assert "bound, not deployable" in told
    assert "a bound: sees outcomes, not deployable" in told  # in the table, too


def test_a_collapsed_policy_raises_the_alarm(replayed: Desk) -> None:
    run, told = block(replayed)
    policies = [p | ({"figures": p["figures"] | {"collapsed": True}} if p["name"] == "benchmark" else {})
                for p in told["policies"]]  # fmt: skip
    patch_report(replayed, run.blocks[0].replay_run_id, {"policies": policies})
    said = plain(shown(**{"r-policy": "benchmark"}))
    assert "Collapsed, so one arm takes all but everything: benchmark" in said
    assert "it has all but stopped to choose" in said


def patch_report(desk: Desk, id_: str, changes: dict[str, Any]) -> None:
    text = desk.warehouse.scalar("SELECT report FROM core.replay_run WHERE replay_run_id = $id", {"id": id_})
    with desk.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.replay_run SET report = $r WHERE replay_run_id = $id",
            {"r": json.dumps({**json.loads(str(text)), **changes}), "id": id_},
        )


def test_the_budget_names_the_most_accurate_policy_within_it(replayed: Desk) -> None:
    told = plain(shown(**{"r-budget": "60"}))
    assert "Within 60.0\u00a0J per query: " in told
    assert "best fixed arm medium" in told
    assert "mixing two fixed arms" in told
    assert "Within 1.00\u00a0J per query: nothing is that cheap." in plain(shown(**{"r-budget": "1"}))


def test_fixed_arms_are_framed_and_the_chosen_policy_is_ringed(replayed: Desk) -> None:
    drawn = figure(replayed, chosen="benchmark", budget_j=50.0)
    by = {t.name: t for t in drawn.data if t.name}
    assert len(by["fixed arm"].x) == 3
    assert by["fixed arm"].marker.symbol == "square-open"
    assert set(by["on the front"].marker.symbol) == {"circle"}  # measured
    assert by["mixing hull"].line.dash == "dot"
    assert by["front"].line.shape == "hv"
    (ring,) = [t for t in drawn.data if t.marker.symbol == "circle-open" and t.marker.size == 24]
    assert len(ring.x) == 1
    (line,) = drawn.layout.shapes
    assert line.x0 == 50.0
    # On a logarithmic axis an annotation stands at the exponent; at the value the axis would run to 10^50.
    assert next(a for a in drawn.layout.annotations if "budget" in a.text).x == pytest.approx(1.69897)


def test_a_name_with_markup_stays_text_and_is_clicked_by_its_own_name() -> None:
    points = [point("<b>x</b>", 1, 0.5, "policy"), point("b", 2, 0.6)]
    x, y = reads.X["energy_j_per_query"], reads.Y["accuracy"]
    drawn = draw([Panel("", front(points))], View(x, y, "Accuracy"))
    trace = next(t for t in drawn.data if t.name == "on the front")
    assert trace.customdata[0][0] == "<b>x</b>"
    assert trace.customdata[0][1] == "&lt;b&gt;x&lt;/b&gt;"


def test_labels_of_fixed_arms_come_before_those_of_policies() -> None:
    crowd = [point(f"router-{i}", 10 + i / 100, 0.5, "policy") for i in range(20)]
    found = place_labels([*crowd, point("arm", 10.05, 0.5)], rising=True)
    assert "arm" in found
    assert len(found) < 21


# links ----------------------------------------------------------------------------------------------


def test_a_link_restores_run_condition_axes_benchmark_and_policy(replayed: Desk) -> None:
    run, _ = block(replayed)
    second = run.blocks[1].replay_run_id
    page = shown(
        **{"r-run": run.run_id, "r-at": second, "r-x": "gco2_per_query", "r-y": "reward", "r-bench": "hard",
           "r-policy": "oracle", "r-log": "False"}
    )  # fmt: skip
    values = {k: page.selectbox(key=k).value for k in ("r-run", "r-at", "r-x", "r-y", "r-bench", "r-policy")}
    assert values == {
        "r-run": run.run_id, "r-at": second, "r-x": "gco2_per_query", "r-y": "reward", "r-bench": "hard",
        "r-policy": "oracle",
    }  # fmt: skip
    assert not page.toggle(key="r-log").value
    told = plain(page)
    assert "gCO2 per query" in told
    assert "Reward, λ 0.4" in told


def test_what_is_chosen_stands_in_the_address(replayed: Desk) -> None:
    page = shown()
    page.selectbox(key="r-policy").set_value("oracle").run()
    assert page.query_params["r-policy"] == "oracle"
    page.selectbox(key="r-policy").set_value("benchmark").run()
    assert page.query_params["dataset"] == "ours"
    assert page.query_params["r-run"] == block(replayed)[0].run_id  # another day another run is the newest


def test_a_late_address_does_not_undo_a_choice(replayed: Desk) -> None:
    """The browser tells the address as it was before the last choice reached it."""
    page = shown(**{"r-policy": "oracle"})
    page.selectbox(key="r-policy").set_value("always-large").run()
    page.query_params["r-policy"] = "oracle"
    page.toggle(key="r-log").set_value(False).run()
    assert page.selectbox(key="r-policy").value == "always-large"
    assert page.query_params["r-policy"] == "always-large"


def test_going_back_restores_what_the_address_says(replayed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_LATE_S", 0.0)
    page = shown(**{"r-policy": "oracle"})
    page.selectbox(key="r-policy").set_value("always-large").run()
    page.query_params["r-policy"] = "oracle"
    assert page.run().selectbox(key="r-policy").value == "oracle"


def test_an_address_that_means_nothing_falls_back(replayed: Desk) -> None:
    page = shown(**{"r-policy": "nobody", "r-budget": "much", "r-x": "furlongs"})
    assert page.selectbox(key="r-x").value == "energy_j_per_query"
    assert page.selectbox(key="r-policy").value in {p["name"] for p in block(replayed)[1]["policies"]}


def test_another_data_set_forgets_what_was_chosen_for_the_last_one(replayed: Desk) -> None:
    page = shown(**{"r-policy": "oracle"})
    page.selectbox(key="dataset").set_value("published").run()
    assert not page.exception
    assert "r-policy" not in page.query_params
    assert "Always-Qwen2.5-7B" in plain(page)


# conditions, empty, stale, refused ------------------------------------------------------------------


def test_two_conditions_stand_beside_each_other(replayed: Desk) -> None:
    run, _ = block(replayed)
    page = shown(**{"r-beside": run.blocks[1].replay_run_id, "r-x": "gco2_per_query"})
    assert page.selectbox(key="r-beside").value == run.blocks[1].replay_run_id
    charts = page.get("plotly_chart")
    assert "FI:" in charts[0].proto.alt
    assert "PL:" in charts[0].proto.alt


def test_conditions_of_other_classes_are_not_put_on_one_axis(replayed: Desk) -> None:
    run, _ = block(replayed)
    patch_report(replayed, run.blocks[1].replay_run_id, {"evidence_class": "modeled"})
    told = plain(shown(**{"r-beside": run.blocks[1].replay_run_id}))
    assert "The x axis mixes evidence classes measured, modeled." in told


def test_outcomes_newer_than_the_run_make_it_stale(replayed: Desk) -> None:
    assert "replay again to use them" not in plain(shown())
    with replayed.warehouse.transaction() as tx:
        tx.execute("UPDATE core.outcome SET known_from = known_from + INTERVAL 1 HOUR WHERE query_id = 'q0001'")
    call(replayed, "replay.run", {"dataset": "published"}, OPERATOR)  # moves the stamp of the page's reads
    assert "after this run: replay again to use them" in plain(shown())


def test_axes_that_nothing_tells_say_why_and_the_page_stays(replayed: Desk) -> None:
    run, told = block(replayed)
    policies = [p | {"figures": p["figures"] | {"usd_per_query": None}} for p in told["policies"]]
    patch_report(replayed, run.blocks[0].replay_run_id, {"policies": policies})
    page = shown(**{"r-x": "usd_per_query"})
    assert "Nothing to draw: Cost per query: not recorded." in plain(page)
    assert page.selectbox(key="r-policy").value


# query by query -------------------------------------------------------------------------------------


def test_two_policies_are_compared_query_by_query(replayed: Desk) -> None:
    page = shown(**{"r-policy": "always-large", "r-with": "always-small"})
    told = plain(page)
    for part in ("both right", "only A right", "only B right", "neither", "accuracy, 95 % Tango", "question number"):
        assert part in told
    page.segmented_control(key="r-which").set_value("only_b").run()
    assert "No such query." in plain(page)


def test_a_mixture_says_that_tango_needs_right_or_wrong(replayed: Desk) -> None:
    told = plain(shown(**{"r-policy": "random", "r-with": "always-small"}))
    assert "needs answers that are right or wrong" in told
    assert "graded in between, or mixed" in told


def test_a_bound_under_another_condition_is_not_compared_by_choices_of_the_first(replayed: Desk) -> None:
    run, _ = block(replayed)
    told = plain(shown(**{"r-at": run.blocks[1].replay_run_id, "r-policy": "oracle", "r-with": "always-small"}))
    assert "oracle sees outcomes, so it chose anew under this condition" in told


def test_a_run_without_kept_choices_says_so(replayed: Desk) -> None:
    params = {"dataset": "ours", "policies": ["oracle"], "embedder": "none", "keep_choices": False}
    call(replayed, "replay.run", params, OPERATOR)
    assert "This run kept no choices." in plain(shown())


# replay now -----------------------------------------------------------------------------------------


def finished(page: AppTest, dataset: str) -> AppTest:
    job = job_of(dataset)
    assert job is not None
    assert job.thread is not None
    job.thread.join(60)
    assert not job.alive
    return page.run()


def test_a_data_set_that_was_never_replayed_is_replayed_by_one_button(
    replayed: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast(monkeypatch)
    page = open_page("pareto", dataset="untouched")
    assert "No replay of untouched is stored yet" in plain(page)
    page = finished(press(page, "r-run-go"), "untouched")
    assert not page.exception
    assert page.selectbox(key="r-policy").value
    assert replayed.warehouse.scalar("SELECT count(*) FROM core.replay_run WHERE dataset = 'untouched'") == 1


def test_a_replay_that_ends_while_the_page_is_drawn_is_shown_all_the_same(
    replayed: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast(monkeypatch)
    nothing = pareto_replay._nothing

    def slowly(data_set: Any) -> None:  # after it was read that no run is stored
        job = job_of("untouched")
        if job is not None and job.thread is not None:
            job.thread.join(60)
        nothing(data_set)

    monkeypatch.setattr(pareto_replay, "_nothing", slowly)
    page = press(open_page("pareto", dataset="untouched"), "r-run-go")
    assert not page.exception
    assert page.selectbox(key="r-policy").value


def fast(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """The same operation with the few policies that these tests need."""
    start = replay_jobs.start
    few = {"policies": POLICIES, "embedder": "none", **more}
    monkeypatch.setattr(replay_jobs, "start", lambda params: start({**params, **few}))


def test_a_running_replay_shows_progress_and_can_be_cancelled(replayed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    held, seen = threading.Event(), threading.Event()
    load = replay_runs._load

    def slowly(*args: Any, **more: Any) -> Any:
        seen.set()
        held.wait(30)
        return load(*args, **more)

    monkeypatch.setattr(replay_runs, "_load", slowly)
    page = press(open_page("pareto", dataset="untouched"), "r-run-go")
    assert seen.wait(30)
    page.run()
    job = job_of("untouched")
    assert job is not None
    assert page.button(key="r-run-go").disabled
    page = press(page, f"r-cancel-{job.task}")
    held.set()
    page = finished(page, "untouched")
    assert "The replay was cancelled; nothing of it was kept." in plain(page)
    assert replayed.warehouse.scalar("SELECT count(*) FROM core.replay_run WHERE dataset = 'untouched'") == 0


def test_an_error_of_a_replay_is_told_in_words(replayed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    fast(monkeypatch, incumbent="nobody")
    page = finished(press(open_page("pareto", dataset="untouched"), "r-run-go"), "untouched")
    assert "The incumbent 'nobody' is neither an arm of untouched nor a policy of this run." in (
        plain(page).replace("&#x27;", "'")
    )


def test_a_reader_may_look_and_not_replay(replayed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Actor("reader@example.org", "reader", "console", frozenset({"read"}))
    page = open_page("pareto", dataset="untouched")
    monkeypatch.setattr("app.auth.console_actor", lambda: reader)
    page = press(page, "r-run-go")
    assert "this needs the role operator" in plain(page)
    assert job_of("untouched") is None


# speed ----------------------------------------------------------------------------------------------


def test_a_rerun_reads_nothing_anew(replayed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    page = shown(**{"r-policy": "always-large", "r-with": "always-small"})
    read = reads._whole
    asked: list[str] = []

    def counting(warehouse: Any, id_: str) -> Any:
        asked.append(id_)
        return read(warehouse, id_)

    monkeypatch.setattr(reads, "_whole", counting)
    begun = time.perf_counter()
    page.run()
    assert time.perf_counter() - begun < 5  # about 0.15 s on an idle core
    assert asked == []
