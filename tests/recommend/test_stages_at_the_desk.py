"""Freezes, lapsed approvals, stages and their gates at the desk, and buttons that say why not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from app.errors import Conflict
from app.operations import Actor
from app.settings import load_settings
from tests.recommend.desks import OPERATOR, READER, Driver, make_desk, refusal
from warehouse.clock import utcnow

TIERS = "[policy]\ntiers = {old = 1, new = 1}\n"
CANARY = """
[environments.local]
auto_shadow = false
approvals = 2
freeze = ["Fri 16:00 - Mon 08:00"]
stages = [{name = "canary", share = 0.1}, {name = "full", share = 1.0}]
max_step = 0.9
[guardrails]
targets = ["lb-eu", "lb-us"]
"""
THURSDAY, FRIDAY_NIGHT, MONDAY = datetime(2026, 8, 13, 12), datetime(2026, 8, 14, 20), datetime(2026, 8, 17, 9)
TARGETS = ("lb-eu", "lb-us")
BOB = Actor("bob@example.org", "operator", "console", frozenset({"operator", "read"}))
CEM = Actor("cem@example.org", "operator", "console", frozenset({"operator", "read"}))


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(THURSDAY, tick=False) as traveller:
        yield traveller


@pytest.fixture
def driver(own_home: Path, clock: Any) -> Iterator[Driver]:
    desk = make_desk(own_home, TIERS + CANARY, proposed=True)
    made = Driver(desk)
    yield made
    desk.close()


def button(driver: Driver, name: str, actor: Actor = OPERATOR) -> dict[str, Any]:
    shown = driver.call("recommend.show", {"id": "R-0001"}, actor)
    return next(c for c in shown["commands"] if c["command"] == name)


def ready(driver: Driver) -> None:
    driver.send("shadow")
    driver.judge("PASS")


def test_all_the_way_from_shadow_over_canary_to_the_whole_traffic(driver: Driver, clock: Any) -> None:
    assert "its gate has not passed" in button(driver, "approve", BOB)["why_not"]
    assert driver.send("shadow")["state"] == "SHADOWING"
    driver.judge("INCONCLUSIVE", why="200 of 2627 requests")
    assert "200 of 2627 requests" in button(driver, "approve", BOB)["why_not"]
    driver.judge("PASS")
    # Whoever set the margins cannot approve; one of two is said with its name.
    assert "ada@local set its margins" in button(driver, "approve")["why_not"]
    assert button(driver, "approve", BOB)["consequence"].startswith("Counts as approval 1 of 2")
    driver.send("approve", actor=BOB)
    assert "(1 of 2: bob@example.org)" in button(driver, "approve", BOB)["why_not"]
    told = button(driver, "approve", CEM)
    assert told["allowed"] and "for 10% of the traffic (canary)" in told["consequence"]
    assert "Approved before by bob@example.org" in told["consequence"]
    assert "reader may not approve here" in button(driver, "approve", READER)["why_not"]
    assert driver.send("approve", actor=CEM)["label"] == "APPROVED, canary 10%"

    # The canary share is handed out, and the table stays.
    (command,) = driver.collect("lb-eu")
    assert command["stage"] == {"no": 0, "name": "canary", "share": 0.1, "of": 2}
    key = "debugging/1/interactive"
    assert command["shares"][key] == {"candidate": "new", "share": 0.1, "recommendation": "R-0001"}
    assert command["table_after"][key] == "old"
    driver.send("acknowledge", target="lb-eu", content_hash=command["content_hash"])
    driver.send("actuate", target="lb-eu", content_hash=command["content_hash"])
    shown = driver.show()
    assert shown["label"] == "ACTUATED (1/2), PARTIAL, canary 10%" and shown["partial"]
    clock.shift(timedelta(minutes=4, seconds=30))
    assert driver.show()["progress"] == "1 of 2 targets acknowledged, 1 of 2 actuated, 1 silent for 4 min"
    assert driver.carry("lb-us")["state"] == "OBSERVING"
    assert driver.call("routing.table")["routes"][key] == "old"

    # Promotion needs the PASS of the canary.
    assert "gate of canary has not passed" in refusal(lambda: driver.send("promote")).message
    driver.judge("INCONCLUSIVE", "canary", why="telemetry is 2 h old")
    assert "telemetry is 2 h old" in button(driver, "promote")["why_not"]
    driver.judge("PASS", "canary")
    assert "from 10% to 100% of the traffic of 9 cells on lb-eu, lb-us" in button(driver, "promote")["consequence"]
    driver.send("promote")
    driver.carry(*TARGETS)
    assert driver.call("routing.table")["routes"][key] == "new"
    driver.send("rollback", reason="demo")
    for target in TARGETS:
        (undo,) = driver.collect(target)
        assert undo["kind"] == "rollback" and undo["shares"] == {} and undo["table_after"][key] == "old"
        driver.send("acknowledge", target=target)
        driver.send("rolled_back", target=target)
    assert driver.show()["state"] == "ROLLED_BACK"
    assert driver.call("routing.table")["routes"][key] == "old"


def test_telemetry_that_goes_stale_in_the_middle_of_a_canary_takes_its_pass_away(driver: Driver) -> None:
    ready(driver)
    driver.send("approve", actor=BOB)
    driver.send("approve", actor=CEM)
    driver.carry(*TARGETS)
    driver.judge("PASS", "canary")
    assert button(driver, "promote")["allowed"]
    driver.judge("INCONCLUSIVE", "canary", why="no pair tells joules since 11:40")
    error = refusal(lambda: driver.send("promote"))
    assert isinstance(error, Conflict) and "no pair tells joules since 11:40" in error.message
    assert driver.show()["stage"]["name"] == "canary"


def test_in_a_freeze_nothing_is_approved_promoted_or_handed_out_and_a_rollback_is(driver: Driver, clock: Any) -> None:
    ready(driver)
    driver.send("approve", actor=BOB)
    clock.move_to(FRIDAY_NIGHT)
    told = button(driver, "approve", CEM)["why_not"]
    assert "changes are frozen until 2026-08-17 08:00 UTC (Fri 16:00 - Mon 08:00)" in told
    assert isinstance(refusal(lambda: driver.send("approve", actor=CEM)), Conflict)
    clock.move_to(THURSDAY + timedelta(hours=1))
    driver.send("approve", actor=CEM)
    clock.move_to(FRIDAY_NIGHT)
    assert driver.collect("lb-eu") == []
    assert "frozen until" in driver.show()["frozen"]
    clock.move_to(THURSDAY + timedelta(hours=2))
    driver.carry("lb-eu")
    driver.collect("lb-us")
    clock.move_to(FRIDAY_NIGHT)
    assert driver.collect("lb-us") == [], "it has not acknowledged yet, so it is not handed out again"
    driver.send("rollback")
    assert [c["kind"] for c in driver.collect("lb-eu")] == ["rollback"]
    clock.move_to(MONDAY)


def test_what_a_target_acknowledged_before_a_freeze_it_may_finish(driver: Driver, clock: Any) -> None:
    ready(driver)
    driver.send("approve", actor=BOB)
    driver.send("approve", actor=CEM)
    driver.collect("lb-eu")
    driver.send("acknowledge", target="lb-eu")
    clock.move_to(FRIDAY_NIGHT)
    assert [c["kind"] for c in driver.collect("lb-eu")] == ["apply"], "a crash in the middle is mended"
    assert driver.send("actuate", target="lb-eu")["targets"][0]["actuated_at"]


def test_an_approval_that_lapsed_is_not_handed_out_and_expires(driver: Driver, clock: Any) -> None:
    ready(driver)
    driver.send("approve", actor=BOB)
    driver.send("approve", actor=CEM)
    clock.move_to(THURSDAY - timedelta(days=2))  # a clock that was set back lapses nothing
    assert driver.show()["votes"]["lapsed"] is False
    clock.move_to(THURSDAY + timedelta(days=4, hours=1))
    assert driver.show()["votes"]["lapsed"] is True
    assert driver.collect("lb-eu") == []
    assert driver.refresh()["expired"] == ["R-0001"]
    assert driver.show("R-0001")["reason"] == "no target collected it before its approval lapsed"


def on_canary(driver: Driver) -> None:
    """Every target carries the canary, and its gate has passed."""
    ready(driver)
    driver.send("approve", actor=BOB)
    driver.send("approve", actor=CEM)
    driver.carry(*TARGETS)
    driver.judge("PASS", "canary")


def test_a_promotion_that_nobody_collects_is_an_alert_and_lapses_back_to_the_stage_that_is_carried(
    driver: Driver, clock: Any
) -> None:
    from app.alerting import refresh_alerts

    on_canary(driver)
    stood = driver.show()
    driver.send("promote")
    clock.shift(timedelta(minutes=20))
    refresh_alerts(driver.desk)
    assert sorted(a["title"] for a in driver.call("alert.list")["alerts"]) == [
        f"{t} does not acknowledge R-0001 since 2026-08-13 12:00 UTC, limit 15 min" for t in TARGETS
    ]
    clock.move_to(THURSDAY + timedelta(days=1, hours=23))
    assert driver.refresh()["lapsed"] == [], "frozen by now, and its two days are not over"
    clock.move_to(THURSDAY + timedelta(days=4, hours=1))
    assert driver.collect("lb-eu") == [], "nothing is handed out on it from then on, whenever the desk looks"
    told = driver.refresh()
    assert (told["lapsed"], told["expired"]) == (["R-0001"], [])
    shown = driver.show()
    assert shown["label"] == "OBSERVING, canary 10%"
    assert shown["reason"] == "no target collected full before its promotion lapsed"
    assert (shown["targets"], shown["stage"]) == (stood["targets"], stood["stage"])
    refresh_alerts(driver.desk)
    assert driver.call("alert.list")["alerts"] == []
    # The canary goes on: its outcome is taken, it can be promoted anew, and undone.
    driver.judge("PASS", "canary")
    assert driver.send("promote")["state"] == "APPROVED"
    assert driver.carry(*TARGETS)["in_force"]
    assert driver.send("rollback")["pending"] == "rollback"


def test_a_promotion_that_one_target_has_collected_does_not_lapse(driver: Driver, clock: Any) -> None:
    on_canary(driver)
    driver.send("promote")
    driver.collect("lb-eu")
    clock.move_to(THURSDAY + timedelta(days=4, hours=1))
    assert driver.refresh()["lapsed"] == []
    driver.carry(*TARGETS)
    assert driver.show()["in_force"]


def test_margins_that_change_under_an_approval_void_it(driver: Driver) -> None:
    ready(driver)
    driver.send("approve", actor=BOB)
    approved = driver.send("approve", actor=CEM)
    again = driver.send("shadow", actor=CEM, margins={"success_margin": 0.01})
    assert again["state"] == "SHADOWING" and again["revision"] > approved["revision"]
    assert driver.collect("lb-eu") == []
    driver.judge("PASS")
    for asker in (OPERATOR, CEM):  # both have asked for it by now
        assert "nobody approves their own request" in refusal(lambda a=asker: driver.send("approve", actor=a)).message


def test_a_stage_may_not_move_more_than_allowed_even_where_the_settings_were_laxer_before(driver: Driver) -> None:
    content = driver.show()["content"]
    assert content["governance"]["max_step"] == 0.9
    from dataclasses import replace

    from policies.recommend.governance import of_content, step_too_large

    rules = replace(of_content(content), max_step=0.3)
    assert step_too_large(rules, 0) is None
    assert step_too_large(rules, 1) == "full moves 90% of the traffic at once, and at most 30% may move"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('freeze = ["weekends"]', "has no begin and end"),
        ("max_step = 0.5", "a stage moves 100% of the traffic"),
        ("require_pass = false\nstages = [{name='a', share=0.1}, {name='b', share=1.0}]", "several stages need"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused_in_words(own_home: Path, config: str, said: str) -> None:
    from app.errors import ConfigError

    (own_home / "joulebook.toml").write_text(f"[environments.local]\n{config}\n")
    with pytest.raises(ConfigError, match=said):
        load_settings()


def test_the_lower_bound_of_the_proved_gain_is_held_to_the_hysteresis(driver: Driver, own_home: Path) -> None:
    from app.recommendations import store
    from policies.recommend.guardrails import proof_hold

    terms = store.limits(driver.desk.settings)
    shown = {"checks": [{"name": "success", "high": 0.0}, {"name": "energy", "high": 0.97}]}
    assert proof_hold(shown, terms) == "its gate shows a gain of at least 3.0% in joules per success, and 5% is asked"
    assert proof_hold({"checks": [{"name": "energy", "high": 0.94}]}, terms) is None
    assert proof_hold(None, terms) is None


def test_the_desk_under_a_clock_that_was_set_back_keeps_its_table_and_proposes_nothing_twice(own_home: Path) -> None:
    desk = make_desk(own_home, TIERS)
    try:
        driver = Driver(desk)
        driver.refresh()
        driver.observe()
        now = utcnow()
        with time_machine.travel(now - timedelta(hours=3)):
            assert {c["offer_id"] for c in driver.call("routing.table")["cells"] if c["tier"] == 1} == {"new"}
            told = driver.refresh()
            assert (told["proposed"], told["superseded"], told["expired"]) == ([], [], [])
            assert driver.collect() == []
    finally:
        desk.close()
