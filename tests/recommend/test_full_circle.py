"""One recommendation, all the way round: proposed, approved, carried out, observed, rolled back."""

from __future__ import annotations

from app.desk import Desk
from policies.recommend.fold import fold
from tests.recommend.desks import Driver, outcome
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.ids import content_hash


def test_every_step_is_its_own_event_and_the_ledger_holds(driver: Driver) -> None:
    driver.observe()
    judged = driver.send("outcome", **outcome(utcnow()))
    assert judged["state"] == "SUCCEEDED"
    driver.send("rollback", reason="we need the old one for a demo")
    (undo,) = driver.collect()
    assert undo["kind"] == "rollback"
    driver.send("acknowledge")
    done = driver.send("rolled_back")
    assert done["state"] == "ROLLED_BACK"
    assert done["pending"] is None
    assert driver.kinds() == [
        "proposed",
        "approved",
        "sent",
        "acknowledged",
        "actuated",
        "observing",
        "outcome",
        "succeeded",
        "rollback_requested",
        "rollback_sent",
        "rollback_acknowledged",
        "rolled_back",
    ]
    assert ledger.verify(driver.desk.warehouse).ok


def test_the_routing_table_changes_with_actuation_and_changes_back_with_the_rollback(driver: Driver) -> None:
    def routes() -> set[str | None]:
        return {c["offer_id"] for c in driver.call("routing.table")["cells"] if c["tier"] == 1}

    before = driver.call("routing.table")
    assert routes() == {"old"}
    driver.send("approve")
    driver.collect()
    assert routes() == {"old"}, "handed over is not carried out"
    driver.send("acknowledge")
    assert routes() == {"old"}, "acknowledged is not carried out"
    driver.send("actuate")
    assert routes() == {"new"}
    assert {c["by"] for c in driver.call("routing.table")["cells"] if c["tier"] == 1} == {"R-0001"}
    driver.send("rollback")
    driver.collect()
    driver.send("acknowledge")
    assert routes() == {"new"}
    driver.send("rolled_back")
    assert routes() == {"old"}
    assert driver.call("routing.table")["version"] == before["version"]


def test_sent_means_collected_not_approved(driver: Driver) -> None:
    assert driver.send("approve")["state"] == "APPROVED"
    assert driver.collect()
    assert driver.show()["state"] == "SENT"


def test_the_content_is_frozen_at_approval_and_every_command_carries_it(driver: Driver) -> None:
    approved = driver.send("approve")
    (command,) = driver.collect()
    assert command["content_hash"] == approved["content_hash"] == content_hash(command["content"])
    assert {(c["old"], c["new"]) for c in command["cells"]} == {("old", "new")}
    driver.send("acknowledge")
    driver.send("actuate")
    driver.send("rollback")
    (undo,) = driver.collect()
    assert undo["content_hash"] == command["content_hash"]
    assert {(c["old"], c["new"]) for c in undo["cells"]} == {("new", "old")}
    assert undo["table_after"] == command["table_before"]


def test_what_was_not_finished_is_handed_over_again_without_a_new_event(driver: Driver) -> None:
    driver.send("approve")
    first = driver.collect()
    count = len(driver.events())
    again = driver.collect()
    assert [c["id"] for c in again] == [c["id"] for c in first]
    assert len(driver.events()) == count


def test_the_view_for_sql_tells_the_same_state_as_the_fold(driver: Driver, desk: Desk) -> None:
    driver.observe()
    row = desk.warehouse.query("SELECT * FROM mart.recommendation").row(0, named=True)
    folded = fold(ledger.events(desk.warehouse, subject="R-0001"))
    assert folded is not None
    assert (row["state"], row["revision"]) == (folded.state.value, folded.revision) == ("OBSERVING", 6)
    assert row["title"] == "tier 1: old -> new"


def test_a_withdrawn_approval_that_nobody_collected_is_dismissed(driver: Driver) -> None:
    driver.send("approve")
    assert driver.send("rollback")["state"] == "DISMISSED"
    assert driver.collect() == []
