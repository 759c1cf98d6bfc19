"""Commands: the revision they saw, their idempotency key, the order of reports, and what is refused in words."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app.desk import Desk
from app.errors import AppError, BadRequest, Conflict, Forbidden, NotFound, PreconditionRequired
from tests.recommend.desks import OPERATOR, READER, ROUTER, Driver, outcome, refusal
from warehouse import ledger
from warehouse.clock import utcnow


def test_a_command_without_the_revision_it_saw_is_refused_and_writes_nothing(driver: Driver) -> None:
    before = len(driver.events())
    error = refusal(lambda: driver.send("approve", revision=None))
    assert isinstance(error, PreconditionRequired)
    assert "does not say which revision it saw" in error.message
    assert 'If-Match: "1"' in error.fix
    assert len(driver.events()) == before


def test_a_stale_revision_is_a_conflict_and_writes_nothing(driver: Driver) -> None:
    driver.send("approve")
    before = len(driver.events())
    error = refusal(lambda: driver.send("rollback", revision=1))
    assert isinstance(error, Conflict)
    assert error.message == (
        "The command rollback is based on revision 1 of R-0001, which is at revision 2 (APPROVED). Nothing was written."
    )
    assert len(driver.events()) == before


def test_a_revision_of_the_future_is_as_stale_as_one_of_the_past(driver: Driver) -> None:
    assert isinstance(refusal(lambda: driver.send("approve", revision=7)), Conflict)


def test_a_command_needs_an_idempotency_key(driver: Driver) -> None:
    error = refusal(lambda: driver.send("approve", idempotency_key=None))
    assert isinstance(error, BadRequest)
    assert "no idempotency key" in error.message


def test_the_same_key_and_command_answers_the_first_answer_and_writes_nothing(driver: Driver) -> None:
    first = driver.send("approve", revision=1, idempotency_key="k", reason="cheaper")
    driver.collect()
    driver.send("acknowledge")
    before = len(driver.events())
    again = driver.send("approve", revision=1, idempotency_key="k", reason="cheaper")
    assert again == first
    assert len(driver.events()) == before


@pytest.mark.parametrize(
    "other",
    [("dismiss", {}), ("approve", {"reason": "another reason"}), ("approve", {"revision": 2})],
    ids=["another command", "another reason", "another revision"],
)
def test_a_key_that_stands_for_something_else_is_a_conflict(driver: Driver, other: tuple[str, dict[str, Any]]) -> None:
    driver.send("approve", revision=1, idempotency_key="k")
    before = len(driver.events())
    name, changes = other
    error = refusal(lambda: driver.send(name, **{"revision": 1, "idempotency_key": "k", **changes}))
    assert isinstance(error, Conflict)
    assert "already stands for the command approve of R-0001" in error.message
    assert len(driver.events()) == before


def test_a_key_may_not_be_reused_for_another_recommendation(driver: Driver, desk: Desk) -> None:
    driver.send("approve", idempotency_key="k")
    error = refusal(lambda: driver.send("approve", "R-0009", revision=1, idempotency_key="k2"))
    assert isinstance(error, NotFound)
    params = {"id": "R-0009", "revision": 1, "idempotency_key": "k"}
    error = refusal(lambda: driver.call("recommend.approve", params))
    assert isinstance(error, Conflict)


def test_a_refused_command_does_not_use_its_key_up(driver: Driver) -> None:
    refusal(lambda: driver.send("approve", revision=9, idempotency_key="k"))
    assert driver.send("approve", revision=1, idempotency_key="k")["state"] == "APPROVED"


# order of reports -------------------------------------------------------------------------------------


def test_actuation_before_acknowledgement_is_refused(driver: Driver) -> None:
    driver.send("approve")
    driver.collect()
    error = refusal(lambda: driver.send("actuate"))
    assert isinstance(error, Conflict)
    assert error.message == "R-0001 cannot take actuate: router has not acknowledged it."
    assert error.fix == "acknowledge first, then actuate"


def test_acknowledgement_before_collection_is_refused(driver: Driver) -> None:
    driver.send("approve")
    error = refusal(lambda: driver.send("acknowledge"))
    assert "it is APPROVED" in error.message


def test_an_outcome_before_actuation_is_refused(driver: Driver) -> None:
    driver.send("approve")
    error = refusal(lambda: driver.send("outcome", **outcome(utcnow())))
    assert "only OBSERVING takes an outcome" in error.message


def test_an_unknown_target_is_named(driver: Driver) -> None:
    driver.send("approve")
    driver.collect()
    error = refusal(lambda: driver.send("acknowledge", target="lb-eu"))
    assert isinstance(error, BadRequest)
    assert (error.message, error.fix) == ("R-0001 has no target 'lb-eu'.", "use one of router")
    assert isinstance(refusal(lambda: driver.collect("lb-eu")), BadRequest)


def test_a_report_after_a_rollback_was_requested_is_stale(driver: Driver) -> None:
    driver.send("approve")
    driver.collect()
    seen = driver.send("acknowledge")["revision"]
    driver.send("rollback")
    error = refusal(lambda: driver.send("actuate", revision=seen))
    assert isinstance(error, Conflict)
    assert "rolling back (0/1)" in error.message


def test_a_rejection_is_recorded_and_nothing_is_left_to_undo(driver: Driver) -> None:
    driver.send("approve")
    driver.collect()
    told = driver.send("acknowledge", rejection="the file was edited by hand")
    assert told["state"] == "REJECTED_BY_TARGET"
    assert told["targets"][0]["rejection"] == "the file was edited by hand"
    assert driver.collect() == []
    assert "nothing to undo" in refusal(lambda: driver.send("rollback")).message


# refusals leave a trace -------------------------------------------------------------------------------


def test_a_command_that_the_state_forbids_leaves_one_trace_however_often_it_is_sent(driver: Driver) -> None:
    driver.send("dismiss", reason="not now")
    for _ in range(3):
        refusal(lambda: driver.send("rollback"))
    assert driver.kinds() == ["proposed", "dismissed", "refused"]
    (refused,) = driver.events("recommendation.refused")
    assert refused.data["command"] == {"name": "rollback"}
    assert "nothing to undo" in refused.data["reason"]
    assert driver.show()["state"] == "DISMISSED"


def test_commands_on_what_does_not_exist_leave_no_trace(driver: Driver) -> None:
    before = len(driver.events())
    error = refusal(lambda: driver.call("recommend.approve", {"id": "R-0404", "revision": 1, "idempotency_key": "k"}))
    assert isinstance(error, NotFound)
    assert len(driver.events()) == before


@pytest.mark.parametrize("actor", [READER, ROUTER])
@pytest.mark.parametrize("name", ["approve", "dismiss", "rollback", "refresh"])
def test_only_operators_decide(driver: Driver, actor: Any, name: str) -> None:
    params = {} if name == "refresh" else {"id": "R-0001", "revision": 1, "idempotency_key": "k"}
    assert isinstance(refusal(lambda: driver.call(f"recommend.{name}", params, actor)), Forbidden)


def test_a_reader_may_not_report(driver: Driver) -> None:
    assert isinstance(refusal(lambda: driver.call("recommend.collect", {"target": "router"}, READER)), Forbidden)


# at once ----------------------------------------------------------------------------------------------


def at_once(*actions: Any) -> list[Any]:
    """Run the actions in threads that start together; results or errors, in their order."""
    gate, results = threading.Barrier(len(actions)), [None] * len(actions)

    def run(i: int) -> None:
        gate.wait()
        try:
            results[i] = actions[i]()
        except AppError as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def approve(driver: Driver, key: str) -> Any:
    params = {"id": "R-0001", "revision": 1, "idempotency_key": key}
    return lambda: driver.call("recommend.approve", params, OPERATOR)


def test_of_two_approvals_at_once_exactly_one_wins(driver: Driver) -> None:
    results = at_once(*(approve(driver, f"k{i}") for i in range(6)))
    assert sum(isinstance(r, dict) for r in results) == 1
    assert sum(isinstance(r, Conflict) for r in results) == 5
    assert driver.kinds().count("approved") == 1


def test_a_double_click_is_one_approval_with_one_answer(driver: Driver) -> None:
    results = at_once(*(approve(driver, "same") for _ in range(6)))
    assert all(r == results[0] and isinstance(r, dict) for r in results)
    assert driver.kinds().count("approved") == 1
    assert ledger.verify(driver.desk.warehouse).ok


def test_approval_and_dismissal_at_once_leave_one_decision(driver: Driver) -> None:
    dismiss = {"id": "R-0001", "revision": 1, "idempotency_key": "d"}
    results = at_once(approve(driver, "a"), lambda: driver.call("recommend.dismiss", dismiss))
    assert sum(isinstance(r, Conflict) for r in results) == 1
    assert driver.show()["revision"] == 2


# the buttons ------------------------------------------------------------------------------------------


def test_show_says_what_may_be_done_why_not_and_what_follows(driver: Driver) -> None:
    told = {c["command"]: c for c in driver.show()["commands"]}
    assert told["approve"]["allowed"]
    assert "Changes 9 cells of tier 1: old -> new on 1 target(s) (router)" in told["approve"]["consequence"]
    assert not told["rollback"]["allowed"]
    assert "never approved" in told["rollback"]["why_not"]
    driver.observe()
    told = {c["command"]: c for c in driver.show()["commands"]}
    assert not told["approve"]["allowed"]
    assert told["rollback"]["allowed"]
    assert told["rollback"]["consequence"] == "Restores old in 9 cells on router as soon as they collect it."
