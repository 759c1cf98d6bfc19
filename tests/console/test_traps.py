"""Traps of live pages: double submits, moved revisions, roles, positions, lost dialogs."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from app.components import access, chrome
from app.desk import Desk, local_operator
from app.operations import Actor, call
from tests.console.pages import ENTRY, open_page, press, words

JUDGED = ["proposed", "shadowing", "judged"]  # what the sample's recommendations have behind them: ready at revision 3
READER = Actor("reader@example.org", "reader", "console", frozenset({"read"}))


def kinds(desk: Desk, subject: str) -> list[str]:
    frame = desk.warehouse.query("SELECT kind FROM ledger.event WHERE subject = $s ORDER BY seq", {"s": subject})
    return [k.removeprefix("recommendation.") for k in frame["kind"]]


def asked(desk: Desk, name: str = "approve", rec: str = "R-0001") -> AppTest:
    """The page with the confirmation of a command open."""
    return press(open_page("recommendations", rec=rec), f"{name}-{rec}")


def test_a_button_asks_first_and_writes_nothing(sample: Desk) -> None:
    page = asked(sample)
    told = words(page)
    assert "Changes 9 cells of tier 1" in told.replace("\\", "")
    assert "Undo: Rolling back restores deepseek-v4-flash" in told
    assert kinds(sample, "R-0001") == JUDGED


def test_confirming_approves_the_revision_that_was_shown_as_this_person(sample: Desk) -> None:
    page = press(asked(sample), "confirm-go")
    assert not page.exception
    assert kinds(sample, "R-0001") == [*JUDGED, "approved"]
    row = sample.warehouse.query("SELECT actor, channel, idempotency_key FROM ledger.event ORDER BY seq DESC LIMIT 1")
    assert row.item(0, "actor") == local_operator("console").name
    assert row.item(0, "channel") == "console"
    assert row.item(0, "idempotency_key")


def test_a_double_submit_counts_once(sample: Desk) -> None:
    page = asked(sample)
    pending, key = page.session_state["_pending_command"], page.session_state["_pending_key"]
    press(page, "confirm-go")
    again = open_page("recommendations", rec="R-0001")  # the second click, from the same dialog, arrives late
    again.session_state["_pending_command"] = pending
    again.session_state["_pending_key"] = key
    again.run()
    told = words(again)
    assert kinds(sample, "R-0001").count("approved") == 1
    assert again.button(key="confirm-go").disabled  # and it says why
    assert "Nothing was written." in told


def test_the_same_key_sent_twice_to_the_operation_counts_once(sample: Desk) -> None:
    page = asked(sample)
    params = {"id": "R-0001", "revision": 3, "idempotency_key": page.session_state["_pending_key"]}
    call(sample, "recommend.approve", params, local_operator("console"))
    call(sample, "recommend.approve", params, local_operator("console"))
    assert kinds(sample, "R-0001").count("approved") == 1


def test_every_dialog_has_a_key_of_its_own(sample: Desk) -> None:
    first = asked(sample).session_state["_pending_key"]
    assert asked(sample).session_state["_pending_key"] != first


def test_a_revision_that_moved_on_is_told_calmly_and_writes_nothing(sample: Desk) -> None:
    page = asked(sample)
    call(
        sample,
        "recommend.dismiss",
        {"id": "R-0001", "revision": 3, "idempotency_key": "other"},
        local_operator("cli"),
    )
    page = press(page, "confirm-go")
    assert not page.exception
    assert "R-0001 is now at revision 4 (DISMISSED); you were looking at revision 3. Nothing was written." in words(
        page
    )
    assert kinds(sample, "R-0001") == [*JUDGED, "dismissed"]


def test_a_dialog_survives_a_rerun_of_the_page_and_closes_when_told(sample: Desk) -> None:
    page = asked(sample).run()
    assert page.button(key="confirm-go")
    page = press(page, "confirm-close")
    assert "confirm-go" not in [b.key for b in page.button]


def test_a_reader_who_reaches_the_writing_function_is_refused_there(
    sample: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hiding a button is no authorization: the role is checked again where the ledger is written."""
    page = asked(sample)
    monkeypatch.setattr(access, "console_actor", lambda: READER)
    page = press(page, "confirm-go")
    assert "reader@example.org may not approve a recommendation" in words(page)
    assert kinds(sample, "R-0001") == [*JUDGED, "refused"]  # denied, and on record


def test_a_reader_cannot_run_sql(sample: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_page("sql_lab")
    monkeypatch.setattr("app.auth.console_actor", lambda: READER)
    page = press(page, "sql-run")
    assert "this needs the role operator" in words(page)
    assert not page.dataframe


def test_the_choice_is_an_id_and_survives_a_change_of_order(sample: Desk) -> None:
    """Positions move when rows come and go; the chosen recommendation and its buttons stay."""
    page = press(open_page("recommendations"), "open-R-0001")
    assert page.query_params["rec"] == "R-0001"
    call(sample, "recommend.dismiss", {"id": "R-0002", "revision": 3, "idempotency_key": "x"}, local_operator("cli"))
    page.run()
    assert "open-R-0002" not in [b.key for b in page.button]
    assert any(h.value.startswith("R-0001") for h in page.subheader)
    page = press(press(page, "approve-R-0001"), "confirm-go")
    assert kinds(sample, "R-0001") == [*JUDGED, "approved"]
    assert kinds(sample, "R-0002") == [*JUDGED, "dismissed"]


def test_a_page_that_does_not_exist_is_refused() -> None:
    page = AppTest.from_file(str(ENTRY), default_timeout=60)
    with pytest.raises(ValueError, match="nowhere"):
        page.switch_page("views/nowhere.py")


def test_removing_the_sample_asks_first_tells_what_goes_and_leaves_a_trace(sample: Desk) -> None:
    page = press(open_page(), "remove-sample")
    assert "19 from sample:catalog" in words(page).replace("\\", "")
    assert sample.warehouse.scalar("SELECT count(*) FROM core.offer") == 19
    page = press(page, "confirm-go")
    assert sample.warehouse.scalar("SELECT count(*) FROM core.offer") == 0
    assert "SAMPLE</b>" not in words(page)
    assert kinds(sample, "sample") == ["sample.loaded", "sample.removed"]


def test_an_empty_page_loads_the_sample_by_one_button(desk: Desk) -> None:
    page = press(open_page(), "load-sample")
    assert not page.exception
    assert "SAMPLE</b>" in words(page)
    assert desk.warehouse.scalar("SELECT count(*) FROM core.published_point WHERE dataset = 'published'") == 13


def test_refresh_periods_of_sessions_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty consoles in step cost 16 times the latency of twenty that are not (facts/architecture.md 1.5)."""
    sessions: list[dict[str, object]] = [{} for _ in range(20)]
    periods = set()
    for session in sessions:
        monkeypatch.setattr(chrome.st, "session_state", session)
        periods.add(chrome.refresh_s(10))
        assert chrome.refresh_s(10) in periods  # the same session keeps its own
    assert len(periods) > 10
