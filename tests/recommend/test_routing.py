"""The routing table: assumed, declared, from a file; and the dry run of a request."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadRequest, Conflict, Forbidden, PreconditionRequired
from policies.recommend.table import TableInvalid, check_fallbacks
from tests.recommend.desks import READER, Driver, make_desk, refusal

CELL = {"category": "debugging", "tier": 1, "offer_id": "old"}


def test_without_a_declaration_the_list_price_baseline_is_assumed_and_says_so(driver: Driver) -> None:
    told = driver.call("routing.table", actor=READER)
    assert told["basis"] == "list-price baseline (assumed)"
    assert len(told["cells"]) == 27
    assert told["routes"]["debugging/1/interactive"] == "old"
    assert told["routes"]["debugging/3/interactive"] is None


def test_a_declared_table_is_the_incumbent_and_its_cells_are_all_there_are(driver: Driver) -> None:
    version = driver.call("routing.table")["version"]
    told = driver.call("routing.declare", {"cells": [CELL], "version": version})
    assert told["basis"] == "declared"
    assert told["routes"] == {"debugging/1/interactive": "old"}
    assert driver.refresh()["revised"] == ["R-0001"]
    assert driver.show()["cells"] == 1


def test_a_declaration_names_the_version_it_saw(driver: Driver) -> None:
    error = refusal(lambda: driver.call("routing.declare", {"cells": [CELL]}))
    assert isinstance(error, PreconditionRequired)
    error = refusal(lambda: driver.call("routing.declare", {"cells": [CELL], "version": "0" * 64}))
    assert isinstance(error, Conflict)
    assert not driver.events("routing.declared")


def test_a_declaration_that_names_an_unknown_offer_is_refused_by_name(driver: Driver) -> None:
    # T21: a policy that references a removed or unknown id fails validation naming it.
    version = driver.call("routing.table")["version"]
    cell = {**CELL, "offer_id": "gone"}
    error = refusal(lambda: driver.call("routing.declare", {"cells": [cell], "version": version}))
    assert isinstance(error, BadRequest)
    assert error.message == "gone (in debugging/1/interactive) is in no catalog."


def test_t40_fallbacks_that_run_in_a_circle_are_refused_with_the_circle(driver: Driver) -> None:
    before = driver.call("routing.table")
    params = {"cells": [CELL], "fallbacks": {"old": "new", "new": "old"}, "version": before["version"]}
    error = refusal(lambda: driver.call("routing.declare", params))
    assert isinstance(error, BadRequest)
    assert error.message == "The fallbacks run in a circle: new -> old -> new."
    after = driver.call("routing.table")
    assert after == before | {"as_of": after["as_of"]} and not driver.events("routing.declared")


def test_t40_a_circle_in_the_file_of_the_incumbent_is_refused_too(own_home: Path) -> None:
    table = {"routes": {"debugging/1/interactive": "old"}, "fallbacks": {"old": "new", "new": "old"}}
    (own_home / "routes.json").write_text(json.dumps(table))
    desk = make_desk(own_home, '[routing]\nincumbent_file = "routes.json"\n[policy]\ntiers = {old = 1, new = 1}\n')
    try:
        told = refusal(lambda: Driver(desk).call("routing.table")).message
        assert "The fallbacks run in a circle: new -> old -> new." in told
    finally:
        desk.close()


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdef")))
def test_t40_fallbacks_are_refused_exactly_where_following_them_never_ends(fallbacks: dict[str, str]) -> None:
    def ends(offer: str) -> bool:
        for _ in range(len(fallbacks) + 1):
            if offer not in fallbacks:
                return True
            offer = fallbacks[offer]
        return False

    if all(ends(offer) for offer in fallbacks):
        check_fallbacks(fallbacks)
        return
    with pytest.raises(TableInvalid) as refused:
        check_fallbacks(fallbacks)
    circle = refused.value.message.removeprefix("The fallbacks run in a circle: ").removesuffix(".").split(" -> ")
    assert circle[0] == circle[-1] and len(set(circle)) == len(circle) - 1
    assert all(fallbacks[one] == following for one, following in pairwise(circle))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({**CELL, "category": "poetry"}, "'poetry' is no category"),
        ({**CELL, "tier": 4}, "tier is 4"),
        ({**CELL, "latency": "soon"}, "latency is 'soon'"),
    ],
)
def test_a_cell_that_does_not_exist_is_refused(driver: Driver, cell: dict[str, object], message: str) -> None:
    error = refusal(lambda: driver.call("routing.declare", {"cells": [cell], "version": "x"}))
    assert isinstance(error, BadRequest)
    assert message in error.message


def test_the_table_cannot_be_declared_while_it_is_being_changed(driver: Driver) -> None:
    driver.send("approve")
    version = driver.call("routing.table")["version"]
    error = refusal(lambda: driver.call("routing.declare", {"cells": [CELL], "version": version}))
    assert isinstance(error, Conflict)
    assert "R-0001 is APPROVED" in error.message


def test_a_reader_may_not_declare(driver: Driver) -> None:
    assert isinstance(refusal(lambda: driver.call("routing.declare", {"cells": [CELL]}, READER)), Forbidden)


def test_the_incumbent_comes_from_a_file_where_one_is_configured(own_home: Path) -> None:
    (own_home / "routes.json").write_text(json.dumps({"routes": {"debugging/1/interactive": "old"}}))
    config = '[routing]\nincumbent_file = "routes.json"\n[policy]\ntiers = {old = 1, new = 1}\n'
    desk = make_desk(own_home, config)
    try:
        driver = Driver(desk)
        told = driver.call("routing.table")
        assert told["basis"] == "declared in routes.json"
        assert told["routes"] == {"debugging/1/interactive": "old"}
        assert driver.refresh()["proposed"] == ["R-0001"]
        (own_home / "routes.json").write_text("{")
        assert "cannot be read as JSON" in refusal(lambda: driver.call("routing.table")).message
    finally:
        desk.close()


def test_the_dry_run_ranks_and_gives_every_reason(driver: Driver) -> None:
    question = {"category": "debugging", "tier": 1, "required_context_tokens": 8000}
    told = driver.call("routing.route", question, READER)
    assert told["chosen"] == "new"
    assert told["routes_now_to"] == "old"
    assert [c["offer_id"] for c in told["eligible"]] == ["new", "old"]
    assert driver.call("rank", question)["snapshot_digest"], "the same under the name of the command line"


def test_the_dry_run_hands_back_what_does_not_fit(driver: Driver) -> None:
    question = {"category": "debugging", "tier": 1, "required_context_tokens": 10_000_000}
    told = driver.call("routing.route", question)
    assert told["chosen"] is None
    assert "nothing was truncated" in told["hand_back"]["message"]


def test_a_naive_time_is_refused(driver: Driver) -> None:
    question = {
        "category": "debugging",
        "tier": 1,
        "required_context_tokens": 1,
        "as_of": "2026-08-01T00:00:00",
    }
    error = refusal(lambda: driver.call("routing.route", question))
    assert isinstance(error, BadRequest)
    assert "as_of" in error.message


def test_a_dry_run_as_of_then_answers_with_what_was_known_then(driver: Driver) -> None:
    question = {
        "category": "debugging",
        "tier": 1,
        "required_context_tokens": 1,
        "as_of": "2020-01-01T00:00:00Z",
    }
    told = driver.call("routing.route", question)
    assert told["chosen"] is None
    assert "No offer is known" in told["hand_back"]["message"]
