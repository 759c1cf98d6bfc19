"""Grams carry an evidence class of their own on every page, in the chart, in the table and on the command line."""

from __future__ import annotations

import pytest

from app import cli_print
from app.components.pareto_chart import Axes, draw
from app.desk import Desk, local_operator
from app.operations import call
from app.operations.routing import router_parameters
from app.reads import overview, pareto
from tests.console.pages import open_page, words
from tests.console.traffic import NOW, usage
from warehouse.engine import Warehouse
from warehouse.errors import IncomparableObservations

ASK = {"category": "coding_general", "tier": 1, "required_context_tokens": 1000}


def test_grams_of_several_classes_stand_apart_within_one_class_of_joules(warehouse: Warehouse) -> None:
    fallback = {"carbon_g": 0.5, "carbon_evidence_class": "modeled"}
    usage(
        warehouse, [{"carbon_g": 0.01}, {"carbon_g": 0.03}, fallback, {"carbon_g": None, "carbon_evidence_class": None}]
    )
    told = overview.overview(warehouse, 86_400, NOW)
    assert told is not None
    (traffic,) = told.classes
    assert traffic.requests == 4
    assert traffic.energy_j is not None
    assert (traffic.energy_j.value, traffic.energy_j.n) == (100.0, 4)
    assert [(c, r.n) for c, r in traffic.carbon_g.items()] == [("calibrated", 2), ("modeled", 1)]
    assert [r.value for r in traffic.carbon_g.values()] == pytest.approx([0.02, 0.5])


def test_the_overview_keeps_grams_of_another_class_apart_and_says_so(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE workload = 'organic' AND usage_key = "
            "(SELECT max_by(usage_key, period_end_at) FROM core.usage WHERE workload = 'organic' AND successes = 1 "
            "AND carbon_g IS NOT NULL)"
        )
    told = words(open_page())
    assert told.count("calibrated · n ") == 1
    assert "kept apart: grams of 1 ○ modeled" in told


@pytest.mark.parametrize(
    ("axis", "cls"), [("energy_j", "allocated"), ("cost_usd", "measured"), ("carbon_g", "calibrated")]
)
def test_an_axis_has_the_class_of_its_own_figures(sample: Desk, axis: str, cls: str) -> None:
    points, _ = pareto.reference(sample.warehouse, axis, "success", "", router_parameters(sample.settings))
    assert {p.evidence_class for p in points} == {cls}
    assert pareto.front(points).evidence_class == cls


def test_an_axis_of_mixed_grams_is_refused_and_the_joules_of_the_same_runs_are_not(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE requested_offer = 'gemma-4-31b'")
    parameters = router_parameters(sample.settings)
    grams, _ = pareto.reference(sample.warehouse, "carbon_g", "success", "", parameters)
    with pytest.raises(IncomparableObservations, match="The x axis mixes evidence classes calibrated, modeled"):
        pareto.front(grams)
    both, _ = pareto.reference(sample.warehouse, "energy_j", "carbon_g", "", parameters)
    with pytest.raises(IncomparableObservations, match="The y axis mixes evidence classes calibrated, modeled"):
        pareto.front(both, better=-1)
    joules, _ = pareto.reference(sample.warehouse, "energy_j", "success", "", parameters)
    assert pareto.front(joules).evidence_class == "allocated"


def test_an_offer_with_grams_of_two_classes_has_a_point_per_class(sample: Desk) -> None:
    where = "requested_offer = 'gemma-4-31b' AND usage_key = (SELECT min(usage_key) FROM core.usage WHERE {})"
    same = "requested_offer = 'gemma-4-31b' AND workload = 'seed_reference'"
    with sample.warehouse.transaction() as tx:
        tx.execute(f"UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE {where.format(same)}")
    parameters = router_parameters(sample.settings)
    points, unplotted = pareto.reference(sample.warehouse, "carbon_g", "success", "", parameters)
    assert [(p.evidence_class, p.n) for p in points if p.name == "gemma-4-31b"] == [("calibrated", 4), ("modeled", 1)]
    assert unplotted == []


def test_axes_and_hover_name_the_class_of_each_axis_and_a_point_has_the_weaker_mark(sample: Desk) -> None:
    points, _ = pareto.reference(sample.warehouse, "energy_j", "carbon_g", "", router_parameters(sample.settings))
    chart = draw(pareto.front(points, better=-1), Axes("reference", "energy_j", "carbon_g", ""), "run")
    assert chart.layout.xaxis.title.text.endswith("log scale, allocated ◐")
    assert chart.layout.yaxis.title.text.endswith("log scale, calibrated ◇")
    (trace,) = [t for t in chart.data if t.name == "on the front" and t.mode == "markers+text"]
    assert set(trace.marker.symbol) == {"diamond-open"}
    _, x, y, *_ = trace.customdata[0]
    assert x.endswith("allocated ◐")
    assert y.endswith("calibrated ◇")


def test_pareto_lets_the_reader_choose_the_class_of_each_axis(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE requested_offer = 'gemma-4-31b'")
    page = open_page("pareto")
    page.selectbox(key="dataset").set_value("reference").run()
    page.selectbox(key="up").set_value("carbon_g")
    told = words(page.run())
    assert "mixes" not in told  # one class is chosen
    assert "deepseek-v4-flash" in told
    assert "gemma-4-31b" not in told
    page.session_state["evidence-up"] = "all"
    assert "The y axis mixes evidence classes calibrated, modeled." in words(page.run())


def test_models_marks_joules_and_grams_each_with_their_own_class(sample: Desk) -> None:
    told = words(open_page("models", category="debugging", tier="1"))
    assert "◐" in told
    assert "◇" in told
    assert "gCO2e mixes" not in told


def test_models_shows_no_grams_of_mixed_classes_and_says_why(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE carbon_g > 0.004")
    assert "gCO2e mixes evidence classes calibrated, modeled: no carbon figure" in words(
        open_page("models", category="debugging", tier="1")
    )


def test_the_promise_of_a_recommendation_marks_its_grams(sample: Desk) -> None:
    (told, *_) = call(sample, "recommend.list", {}, local_operator("cli"))["recommendations"]
    assert told["promise"]["carbon_g"]["evidence_class"] == "calibrated"
    shown = words(open_page("recommendations", rec=told["id"]))
    grams = shown[shown.index("gCO2e per") :]
    assert grams.index("calibrated") < grams.index("</tr>")
    assert "allocated" not in grams[: grams.index("</tr>")]


def test_the_command_line_marks_joules_and_grams_and_prints_warnings(
    sample: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed() -> str:
        cli_print.ranking(call(sample, "rank", ASK, local_operator("cli")), as_json=False)
        return capsys.readouterr().out

    (row,) = [line for line in printed().splitlines() if " gemma-4-31b " in line]
    assert row.index("◐") < row.index("◇") < row.index("J allocated, g calibrated")
    with sample.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE requested_offer = 'gemma-4-31b' "
            "AND carbon_g > (SELECT median(carbon_g) FROM core.usage WHERE requested_offer = 'gemma-4-31b')"
        )
    told = printed()
    (row,) = [line for line in told.splitlines() if " gemma-4-31b " in line]
    assert "◇" not in row
    assert "△ gemma-4-31b: gCO2e mixes evidence classes calibrated, modeled: no carbon figure" in told
