"""What a guardrail forbids it forbids at the decision, too: the proposal is older than what it stands on by then."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import Conflict
from app.operations import SYSTEM
from app.recommendations import buttons, store
from policies.recommend import guardrails
from policies.recommend.lifecycle import Draft
from tests.recommend.desks import OPERATOR, ROUTER, Driver, refusal
from warehouse import ledger

CELL = {"category": "debugging", "tier": 1, "offer_id": "new"}


def second_of_the_same_cells(driver: Driver) -> None:
    """R-0002 with the content of R-0001, as a desk would have it that did not look at what is in flight."""
    with driver.desk.warehouse.transaction() as tx:
        first, _ = store.one(tx, "R-0001")
        body = {"state": "PROPOSED", "content": dict(first.content), "content_hash": first.content_hash}
        store.append(tx, SYSTEM, "R-0002", [Draft("recommendation.proposed", body, 1)])
    ledger.anchor(driver.desk.warehouse)


def test_a_cell_that_moved_on_since_the_proposal_is_not_approved(driver: Driver) -> None:
    driver.call("routing.declare", {"cells": [CELL], "version": driver.call("routing.table")["version"]})
    error = refusal(lambda: driver.send("approve"))
    assert isinstance(error, Conflict)
    assert "debugging/1/interactive routes to new by now, not to old" in error.message


def test_cells_that_another_change_is_on_its_way_to_are_not_approved_twice(driver: Driver) -> None:
    second_of_the_same_cells(driver)
    driver.send("approve")
    error = refusal(lambda: driver.send("approve", "R-0002"))
    assert "R-0001 (APPROVED) is changing the same cells" in error.message
    assert driver.show("R-0002")["state"] == "PROPOSED"


@pytest.mark.parametrize("hold", ["dwell_hold", "backoff_hold", "budget_hold", "pool_hold", "proof_hold"])
def test_each_guardrail_is_asked_at_the_approval(driver: Driver, monkeypatch: pytest.MonkeyPatch, hold: str) -> None:
    def held(*_: Any) -> str:
        return f"{hold} forbids it"

    monkeypatch.setattr(guardrails, hold, held)
    assert f"{hold} forbids it" in refusal(lambda: driver.send("approve")).message
    assert driver.show()["state"] == "PROPOSED"
    (button,) = [c for c in driver.show()["commands"] if c["command"] == "approve"]
    assert f"{hold} forbids it" in button["why_not"]


def test_a_cell_that_moved_on_since_the_canary_is_not_promoted(driver: Driver) -> None:
    driver.observe()  # its cells route to new by now: for a stage that is to move them, somebody else moved them
    with driver.desk.warehouse.reading() as reader:
        state, _ = store.one(reader, "R-0001")
        found = buttons.blocked(
            state,
            "promote",
            known=buttons_table(driver),
            everything=store.all_events(reader),
            terms=store.limits(driver.desk.settings),
        )
    assert found is not None and "routes to new by now, not to old" in found


def buttons_table(driver: Driver) -> Any:
    from app.operations.routing import known_table

    return known_table(driver.desk.warehouse, driver.desk.settings)


def test_what_a_target_has_carried_out_is_not_handed_to_it_again(driver: Driver) -> None:
    driver.observe()
    assert driver.collect() == []
    assert driver.kinds().count("sent") == 1


def test_one_actor_leaves_so_many_refusals_on_a_revision_and_no_more(driver: Driver) -> None:
    for i in range(60):
        assert store.record_refusal(driver.desk, ROUTER, "R-0001", "acknowledge", f"reason {i}")
    assert len(driver.events("recommendation.refused")) == 50
    assert store.record_refusal(driver.desk, OPERATOR, "R-0001", "approve", "another actor has room of their own")
    assert len(driver.events("recommendation.refused")) == 51
