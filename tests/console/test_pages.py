"""Every page: with sample data, empty, and with a warehouse that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import desk as desks
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.settings import load_settings
from tests.console.pages import NAMES, open_page, press, words
from warehouse import runs


@pytest.mark.parametrize("name", NAMES)
def test_a_page_with_sample_data_carries_the_band_and_the_strip(sample: Desk, name: str) -> None:
    page = open_page(name)
    assert not page.exception
    told = words(page)
    assert "SAMPLE" in told
    assert "Remove sample data" in told
    links = [link.proto.label for link in page.get("page_link")]
    assert any(label.startswith("sample\\:catalog") and "fresh" in label for label in links)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_page_says_what_it_will_show_and_what_to_do(desk: Desk, name: str) -> None:
    page = open_page(name)
    assert not page.exception
    told = words(page)
    assert "SAMPLE</b>" not in told
    if name != "sources":  # there is always a source to show
        assert "jb-empty" in told


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_warehouse_is_told_in_words_and_the_console_stays_up(own_home: Path, name: str) -> None:
    (own_home / "joulebook.duckdb").write_bytes(b"this is no warehouse" * 500)
    desk = open_desk(load_settings(), tolerate_failure=True)
    desks.set_current(desk)
    try:
        page = open_page(name)
        assert not page.exception
        told = words(page)
        assert "The warehouse cannot be used" in told
        assert "joulebook.duckdb cannot be read as a warehouse" in told
        assert "What to do: restore it from a backup" in told
    finally:
        desks.set_current(None)


def test_the_desk_that_is_not_running_says_how_to_start_it() -> None:
    desks.set_current(None)
    assert "start it with `joulebook up`" in words(open_page())


def test_the_overview_shows_savings_and_harm_with_unit_interval_mark_and_age(sample: Desk) -> None:
    told = words(open_page())
    assert "2 recommendations ready · 1 gate failed" in told
    for name in ("energy per success", "cost per success", "gCO2e per success", "success rate", "P95 latency"):
        assert name in told
    assert told.count("allocated · n ") == 1  # joules
    assert told.count("calibrated · n ") == 1  # grams
    assert told.count("measured · n ") == 3  # the bill, the success rate, the latency
    assert "min old" in told


def test_the_overview_names_a_source_that_failed(desk: Desk) -> None:
    run = runs.start(desk.warehouse, source_id="openrouter", kind="openrouter", trigger="manual")
    with desk.warehouse.transaction() as tx:
        runs.finish(tx, run, state="FAILED", error_class="X", error_text="openrouter: HTTP 500", error_fix="wait")
        # offline switches sources off, and one that is off is no trouble
        tx.execute("UPDATE ops.source SET enabled = true WHERE source_id = 'openrouter'")
    assert "last run failed: openrouter" in words(open_page())
    assert "openrouter: HTTP 500" in words(open_page("sources", source="openrouter"))


def test_a_deep_link_opens_the_recommendation_it_names(sample: Desk) -> None:
    page = open_page("recommendations", rec="R-0002")
    assert any(h.value.startswith("R-0002") for h in page.subheader)
    missing = words(open_page("recommendations", rec="R-9999"))
    assert "There is no recommendation &#x27;R-9999&#x27;." in missing


def test_a_button_that_cannot_be_pressed_says_why(sample: Desk) -> None:
    page = open_page("recommendations", rec="R-0001")
    assert page.button(key="rollback-R-0001").disabled
    assert "Not now: R-0001 cannot take rollback: it was never approved" in words(page)


def test_comparing_again_tells_what_came_of_it(sample: Desk) -> None:
    told = words(press(open_page("recommendations"), "compare"))
    assert "2 unchanged" in told


def test_pareto_shows_the_same_numbers_as_a_table(sample: Desk) -> None:
    told = words(open_page("pareto", dataset="published"))
    assert "always_smallest" in told
    assert "91.8\u00a0J" in told
    assert "modeled" in told


def test_pareto_says_that_one_fixed_arm_dominates_every_learned_policy_of_the_paper(sample: Desk) -> None:
    told = words(open_page("pareto", dataset="published")).replace("\\", "")
    assert "The fixed arm Always-Qwen2.5-7B (0.640 at 281.6 J" in told
    assert "dominates UniRoute, Smoothie and every learned policy" in told
    assert "hypervolume 3287.6091" in told
    assert "published-fixed-arms" not in told


def test_pareto_refuses_to_mix_classes_on_one_axis(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("UPDATE core.published_point SET evidence_class = 'measured' WHERE policy = 'K-NN'")
    page = open_page("pareto", dataset="published")
    assert "mixes" not in words(page)  # one class is chosen
    page.session_state["evidence"] = "all"
    assert "The x axis mixes evidence classes measured, modeled." in words(page.run())


def test_models_lists_the_eligible_best_first_and_every_reason_of_the_excluded(sample: Desk) -> None:
    told = words(open_page("models", category="debugging", tier="1"))
    assert told.index("gemma-4-31b") < told.index("deepseek-v4-flash")
    assert "lists below gemma-4-31b, bills 95 % more" in told
    assert "access level gated is not authorized" in told
    assert "no reference-workload observation is known" in told


def test_what_if_weights_tell_how_many_decisions_flip_and_change_nothing(sample: Desk) -> None:
    events = sample.warehouse.scalar("SELECT count(*) FROM ledger.event")
    page = open_page("models")
    page.slider(key="w-eco").set_value(1.0)
    page.slider(key="w-cost").set_value(0.0)
    page.slider(key="w-prof").set_value(0.0)
    told = words(page.run())
    assert "of 27 decisions flip" in told
    assert sample.warehouse.scalar("SELECT count(*) FROM ledger.event") == events


def test_sources_say_why_there_is_nothing_to_run(sample: Desk) -> None:
    told = words(open_page("sources"))
    assert "generated" in told
    assert "offline = true" in told
    assert "Not sampling:" in told


def test_failures_that_could_not_be_recorded_are_shown(desk: Desk) -> None:
    desk.unrecorded.append(
        {"source_id": "openrouter", "error_class": "WarehouseFull", "error": "no space left", "fix": "free disk space"}
    )
    told = words(open_page("sources"))
    assert "Failures that could not be recorded" in told
    assert "no space left" in told


def test_the_sql_page_runs_one_statement_and_tells_rows_time_and_instant(sample: Desk) -> None:
    page = open_page("sql_lab")
    page.toggle(key="sql-plain").set_value(True).run()
    page.text_area[0].set_value("SELECT count(*) AS n FROM core.offer").run()
    page = press(page, "sql-run")
    assert page.dataframe[0].value.iloc[0, 0] == 19
    told = words(page)
    assert "**1 row**" in told
    assert "data as of" in told


def test_the_sql_page_refuses_in_words_and_keeps_no_old_answer(sample: Desk) -> None:
    page = open_page("sql_lab")
    page.toggle(key="sql-plain").set_value(True).run()
    page.text_area[0].set_value("SELECT 1; DROP TABLE core.offer").run()
    page = press(page, "sql-run")
    assert "There are 2 statements (SELECT, DROP)." in words(page)
    assert not page.dataframe


def test_the_audit_page_verifies_the_chain_and_finds_a_break(sample: Desk) -> None:
    page = press(open_page("audit"), "verify")
    assert "whole" in words(page)
    with sample.warehouse.transaction() as tx:
        tx.execute("UPDATE ledger.event SET actor = 'somebody else' WHERE seq = 1")
    assert "event 1 (recommendation.proposed of R-0001) was edited" in words(press(page, "verify"))


def test_an_image_in_a_reason_stays_text(sample: Desk) -> None:
    row = call(sample, "recommend.show", {"id": "R-0001"}, local_operator("cli"))
    call(
        sample,
        "recommend.dismiss",
        {"id": "R-0001", "revision": row["revision"], "idempotency_key": "k", "reason": "![x](http://a.test/b.png)"},
        local_operator("cli"),
    )
    labels = [e.label for e in open_page("audit").expander]
    assert any("a.test" in label for label in labels)
    assert not any("](http" in label or "![" in label for label in labels)
