"""The gate at the desk: what counts as evidence, what passes, and what never does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from app.desk import Desk
from app.recommendations import gate, store
from app.shadow.evidence import evidence_of, kind_of
from policies.proof.checks import Ruling
from policies.proof.gate import judge
from policies.proof.margins import Margins, OutcomeKind
from tests.recommend.desks import make_desk, refusal
from tests.shadow.desks import CONFIG, PLANNED, Shadow, label_all, log, log_all, pairs
from warehouse import ledger
from warehouse.clock import iso, utcnow
from warehouse.snapshots import snapshot

Row = dict[str, Any]


def changed(rows: list[Row], change: Callable[[int, Row], Row]) -> list[Row]:
    return [row | change(i, row) for i, row in enumerate(rows)]


def verdict(shadow: Shadow) -> str:
    return str(shadow.show()["state"])


# passing ------------------------------------------------------------------------------------------------


def test_enough_pairs_without_harm_and_with_the_gain_make_it_ready_and_approvable(shadow: Shadow) -> None:
    assert shadow.push(pairs())["rows_loaded"] == PLANNED
    assert shadow.judge() == "PASS"
    assert verdict(shadow) == "READY"
    told = shadow.gate()
    assert {c["name"] for c in told["checks"]} == {
        "constraint:authorization", "constraint:residency", "constraint:safety", "constraint:context",
        "constraint:sampled", "success", "p95", "energy", "usd", "carbon",
    }  # fmt: skip
    assert shadow.check("energy")["estimate"] == pytest.approx(0.5, rel=0.02)
    assert shadow.check("energy")["evidence_class"] == "measured"
    assert shadow.send("approve")["state"] == "APPROVED"
    assert ledger.verify(shadow.desk.warehouse).ok


def test_the_sweep_judges_by_itself(shadow: Shadow) -> None:
    shadow.push(pairs())
    assert shadow.refresh()["judged"] == {"R-0001": "PASS"}


def test_judging_again_without_news_writes_nothing(shadow: Shadow) -> None:
    shadow.push(pairs())
    shadow.judge()
    before = len(shadow.events())
    assert shadow.judge() is None
    assert shadow.refresh()["judged"] == {}
    assert len(shadow.events()) == before


# not passing --------------------------------------------------------------------------------------------


def test_without_a_pass_nothing_can_be_approved(shadow: Shadow) -> None:
    told = refusal(lambda: shadow.send("approve"))
    assert "only READY can be approved; its gate has not passed" in told.message


def test_t42_no_pair_at_all_is_no_verdict_and_in_the_end_inconclusive(own_home: Any, shadow: Shadow) -> None:
    assert shadow.judge() is None
    desk = shadow.desk
    late = utcnow() + timedelta(days=15)
    with snapshot(desk.warehouse, late) as snap, desk.warehouse.transaction() as tx:
        state, _ = store.one(tx, "R-0001")
        from app.operations import SYSTEM

        assert gate.run_gate(tx, desk, SYSTEM, state, snap, late) == "INCONCLUSIVE"
    assert verdict(shadow) == "INCONCLUSIVE"
    assert "sampled was not checked" in shadow.show()["timeline"][-1]["body"]["why"]


@pytest.mark.parametrize(
    "change",
    [
        lambda i, row: {"aborted": True},
        lambda i, row: {"aborted": i % 10 == 0},
        lambda i, row: {"control_energy_j": float("nan")} if i % 10 == 0 else {},
        lambda i, row: {"control_success": None} if i % 10 == 0 else {},
        lambda i, row: {"meter_class": "nvml" if i % 2 else "rack PDU"},
        lambda i, row: {"meter_class": None},
        lambda i, row: {"evidence_class": "allocated"} if i == 0 else {},
        lambda i, row: {"candidate_latency_s": None, "control_latency_s": None},
        lambda i, row: {"candidate_cost_usd": None},
    ],
    ids=["aborted", "some aborted", "NaN", "unknown success", "two meters", "no meter", "two classes", "no latency",
         "no bill"],
)  # fmt: skip
def test_t42_what_is_missing_broken_or_mixed_is_inconclusive(shadow: Shadow, change: Callable[[int, Row], Row]) -> None:
    shadow.push(changed(pairs(360), change))
    assert shadow.judge() == "INCONCLUSIVE"
    assert verdict(shadow) in ("SHADOWING", "INCONCLUSIVE")
    assert "READY can be approved" in refusal(lambda: shadow.send("approve")).message


def test_harm_fails_it_and_the_same_is_not_proposed_again(shadow: Shadow) -> None:
    shadow.push(changed(pairs(), lambda i, row: {"candidate_success": i % 5 != 0}))
    assert shadow.judge() == "FAIL"
    assert verdict(shadow) == "FAILED"
    told = shadow.refresh()
    assert told["proposed"] == []
    assert "R-0001 proposed the same on the same evidence and failed" in told["held"][0]["reason"]


def test_a_broken_constraint_is_a_fail_whatever_the_figures_say(shadow: Shadow) -> None:
    shadow.push(changed(pairs(), lambda i, row: {"violation": "answered a blocked prompt"} if i == 7 else {}))
    assert shadow.judge() == "FAIL"
    assert "1 of 320" in shadow.check("constraint:sampled")["words"]


def test_before_the_plan_is_complete_harm_ends_it_and_gain_does_not_pass(shadow: Shadow) -> None:
    shadow.push(pairs(150))
    assert shadow.judge() == "INCONCLUSIVE"
    assert verdict(shadow) == "SHADOWING"
    assert shadow.gate()["mode"] == "monitor"
    worse = changed(pairs(150, seed=2), lambda i, row: {"candidate_success": i % 2 == 0})
    shadow.push(worse)
    assert shadow.judge() == "FAIL"


def test_a_grams_margin_fails_what_saves_joules_on_a_dirtier_grid(shadow: Shadow) -> None:
    shadow.push(changed(pairs(), lambda i, row: {"candidate_carbon_g": 3 * row["candidate_carbon_g"]}))
    assert shadow.judge() == "FAIL"
    assert shadow.check("carbon")["verdict"] == "FAIL"
    assert shadow.check("energy")["verdict"] == "PASS"


# which pairs count ----------------------------------------------------------------------------------------


def test_pairs_from_before_the_margins_count_for_nothing(desk: Desk) -> None:
    shadow = Shadow(desk)
    shadow.push(pairs(start=utcnow() - timedelta(minutes=10)))
    shadow.refresh()
    assert shadow.judge() is None
    assert shadow.call("shadow.status")["recommendations"][0]["n"] == 0
    again = pairs(seed=2, start=utcnow() - timedelta(hours=1))  # sent after the margins, observed before
    shadow.push(again)
    assert shadow.judge() is None


def test_pairs_known_before_the_margins_count_for_nothing_even_if_their_clock_was_ahead(desk: Desk) -> None:
    shadow = Shadow(desk)
    shadow.push(pairs(start=utcnow() + timedelta(minutes=4)))
    shadow.refresh()
    assert shadow.judge() is None


def test_new_margins_begin_anew(shadow: Shadow) -> None:
    shadow.push(pairs())
    shadow.judge()
    assert verdict(shadow) == "READY"
    shadow.send("shadow", margins={"energy_gain": 0.6})
    assert verdict(shadow) == "SHADOWING"
    assert shadow.judge() is None, "the pairs of before were seen when the margins were set"
    shadow.push(pairs(seed=3))
    assert shadow.judge() == "FAIL"


def test_a_request_counts_once_however_often_it_ran(shadow: Shadow) -> None:
    rows = pairs(200)
    again = [row | {"pair_id": f"again-{i}-{k}", "repeat_no": k} for i, row in enumerate(rows) for k in (1, 2)]
    shadow.push([*rows, *again])
    assert shadow.judge() == "INCONCLUSIVE"
    assert shadow.call("shadow.status")["recommendations"][0]["n"] == 200
    told = shadow.gate()["evidence"]
    assert (told["requests"], told["repeats"]) == (200, 400)
    assert told["run_noise"]["share"] < 0.01, "the very same figures again: no noise between runs"


def test_pairs_of_other_offers_count_for_nothing(shadow: Shadow) -> None:
    shadow.push(pairs(candidate_offer="newer"))
    assert shadow.judge() is None


def test_kinds_are_never_mixed_and_the_weaker_is_told_beside(shadow: Shadow) -> None:
    mirrored = [row | {"evidence_kind": "mirrored"} for row in pairs(200, seed=4)]
    shadow.push([*pairs(200), *mirrored])
    assert shadow.judge() == "INCONCLUSIVE", "200 of each are not 400 of one"
    told = shadow.gate()
    assert told["kind"] == "paired_replay"
    assert told["evidence"]["by_kind"] == {"mirrored": 200, "paired_replay": 200}
    beside = {b["kind"]: b for b in told["beside"]}
    assert beside["mirrored"]["n"] == 200
    assert {f["name"] for f in beside["reference_workload"]["figures"]} == {"energy", "usd", "carbon"}
    assert beside["off_policy"]["words"].startswith("not identifiable: no propensity was logged")


def test_mirrored_requests_are_judged_where_nobody_replayed(shadow: Shadow) -> None:
    shadow.push([row | {"evidence_kind": "mirrored"} for row in pairs()])
    assert shadow.judge() == "PASS"
    assert shadow.gate()["kind"] == "mirrored"


def test_pairs_of_one_session_are_not_independent(shadow: Shadow) -> None:
    shadow.push(changed(pairs(), lambda i, row: {"cluster": f"s{i % 5}"}))
    assert shadow.judge() == "INCONCLUSIVE"
    assert "5 clusters are too few" in shadow.check("success")["words"]


def test_an_order_that_matters_is_a_warning_and_no_verdict(shadow: Shadow) -> None:
    def warm(i: int, row: Row) -> Row:
        return {"first_arm": "candidate", "candidate_energy_j": row["candidate_energy_j"] * 1.2} if i % 2 else {
            "first_arm": "control"}  # fmt: skip

    shadow.push(changed(pairs(), warm))
    assert shadow.judge() == "PASS"
    (warning,) = shadow.gate()["evidence"]["warnings"]
    assert "whoever ran first matters" in warning


# looking again --------------------------------------------------------------------------------------------


def test_after_the_look_at_the_plan_a_verdict_changes_only_where_the_sequence_agrees(shadow: Shadow) -> None:
    """The look at the plan does not settle it. Fixed intervals alone would pass at the second look already."""
    clearly = changed(pairs(1500), lambda i, row: {"candidate_success": i % 40 != 0, "control_success": i % 40 != 1})
    shadow.push(clearly[:PLANNED])
    assert shadow.judge() == "INCONCLUSIVE"
    for n, sequence, expected in ((700, "INCONCLUSIVE", "INCONCLUSIVE"), (1500, "PASS", "PASS")):
        shadow.push(clearly[:n])
        with snapshot(shadow.desk.warehouse) as snap:
            state, _ = store.one(shadow.desk.warehouse, "R-0001")
            seen = gate.look(snap, shadow.desk.settings, state)
            fixed = gate.verdict_of(state, seen, gate.Mode.FIXED)
            monitored = gate.verdict_of(state, seen, gate.Mode.MONITOR)
            found = gate.decided(state, seen, Ruling.INCONCLUSIVE)
        assert (seen.n, fixed.verdict, monitored.verdict) == (n, "PASS", sequence)
        assert found.verdict == expected


def test_a_look_without_new_pairs_is_not_taken(shadow: Shadow) -> None:
    rows = pairs(PLANNED + 10)
    shadow.push(rows[:PLANNED])
    assert shadow.judge() == "PASS"
    shadow.push(rows)  # ten more: less than a tenth
    assert shadow.judge() is None


@pytest.fixture
def canary(own_home: Path) -> Iterator[Shadow]:
    """R-0001 is at 10 % since noon, and its pairs of then have passed the gate of that stage."""
    stages = 'self_approval = true\nstages = [{name = "canary", share = 0.1}, {name = "full", share = 1.0}]\n'
    with time_machine.travel(datetime(2026, 8, 11, 12), tick=False) as clock:
        driver = Shadow(make_desk(own_home, CONFIG.replace("auto_shadow = true\n", f"auto_shadow = true\n{stages}")))
        driver.refresh()
        driver.push(pairs(seed=1))
        clock.shift(timedelta(minutes=1))
        assert driver.judge() == "PASS"
        driver.observe()
        driver.push(pairs(seed=2))
        clock.shift(timedelta(minutes=1))
        assert driver.judge() == "PASS"
        yield driver
        driver.desk.close()


def test_a_canary_whose_telemetry_has_stopped_is_not_promoted_on_what_was_measured_before(canary: Shadow) -> None:
    def why_not() -> str | None:
        found: str | None = next(c for c in canary.show()["commands"] if c["command"] == "promote")["why_not"]
        return found

    with time_machine.travel(datetime(2026, 8, 13, 11), tick=False):
        assert why_not() is None, "a verdict counts for two days"
    with time_machine.travel(datetime(2026, 8, 13, 13), tick=False) as clock:
        assert canary.judge() is None, "nothing has come since"
        error = refusal(lambda: canary.send("promote"))
        assert "the gate of canary passed at 2026-08-11 12:02 UTC, and nothing newer confirms it" in error.message
        assert canary.show()["stage"]["name"] == "canary"
        canary.push(pairs(3, seed=3))  # it is back: a few newer pairs beside the others, and all are judged again
        clock.shift(timedelta(minutes=1))
        assert canary.judge() == "PASS"
        assert canary.send("promote")["state"] == "APPROVED"


# the eligible set and the mix -----------------------------------------------------------------------------


def test_a_logged_request_that_only_the_candidate_cannot_hold_breaks_the_context(shadow: Shadow) -> None:
    desk = shadow.desk
    with desk.warehouse.transaction() as tx:
        tx.execute("UPDATE core.offer SET context_tokens = 32768 WHERE offer_id = 'new'")
    log(desk, utcnow() - timedelta(hours=1), prompt_tokens=60_000, completion_tokens=10)
    shadow.call("shadow.decide")
    shadow.push(pairs())
    assert shadow.judge() == "FAIL"
    assert "1 of 10 decisions violate context" in shadow.check("constraint:context")["words"]


def test_what_neither_offer_could_hold_is_not_held_against_the_candidate(shadow: Shadow) -> None:
    log(shadow.desk, utcnow() - timedelta(hours=1), prompt_tokens=900_000, completion_tokens=10)
    shadow.call("shadow.decide")
    shadow.push(pairs())
    assert shadow.judge() == "PASS"


def test_the_mix_is_fixed_before_the_shadow_so_that_a_flattering_sample_does_not_pass(desk: Desk) -> None:
    """Simpson: new is frugal on small requests and wasteful on large ones; the traffic is large, the replays small."""
    shadow, day_ago = Shadow(desk), utcnow() - timedelta(days=1)
    sizes = [4000 if i % 4 else 100 for i in range(40)]
    log_all(desk, [{"at": day_ago + timedelta(seconds=i), "prompt_tokens": n} for i, n in enumerate(sizes)])
    shadow.refresh()
    event = next(e for e in shadow.events() if e.kind == "recommendation.shadowing")
    assert event.data["mix"] == {"general_chat|0-511": 0.25, "general_chat|2048-8191": 0.75}
    assert event.data["mix_basis"] == "40 logged requests in its cells"

    def sized(i: int, row: Row) -> Row:
        large = i % 10 == 0  # a tenth of the replays, three quarters of the traffic
        return {
            "tokens": 4100 if large else 200,
            "candidate_energy_j": row["control_energy_j"] * (1.5 if large else 0.4),
        }

    rows = changed(pairs(640), sized)
    shadow.push(rows)
    assert shadow.judge() == "FAIL"
    energy = shadow.check("energy")
    assert energy["estimate"] == pytest.approx(0.25 * 0.4 + 0.75 * 1.5, rel=0.05)
    assert "unstandardised 0.5" in energy["words"]
    # the same replays without the mix would have passed
    with snapshot(desk.warehouse) as snap:
        state, _ = store.one(desk.warehouse, "R-0001")
        plain = judge(evidence_of(gate.read_pairs(snap, state), OutcomeKind.PAIRED_REPLAY),
                      Margins(planned_n=PLANNED, constraints=(), usd_margin=None, carbon_margin=None))  # fmt: skip
    assert plain.verdict == "PASS"


def test_a_stratum_of_the_traffic_that_nobody_replayed_is_told_and_never_filled_in(desk: Desk) -> None:
    shadow, day_ago = Shadow(desk), utcnow() - timedelta(days=1)
    sizes = [40_000, *[300] * 9]
    log_all(desk, [{"at": day_ago + timedelta(seconds=i), "prompt_tokens": n} for i, n in enumerate(sizes)])
    shadow.refresh()
    shadow.push(pairs())
    assert shadow.judge() == "INCONCLUSIVE"
    assert "no request in general_chat|32768+: 90% of the mix is covered" in shadow.check("success")["words"]


def test_traffic_after_the_margins_does_not_move_the_mix(desk: Desk) -> None:
    shadow = Shadow(desk)
    log(desk, utcnow() - timedelta(days=1))
    shadow.refresh()
    log_all(desk, [{"at": utcnow() - timedelta(minutes=5 - i), "prompt_tokens": 9000} for i in range(5)])
    shadow.refresh()
    state, _ = store.one(desk.warehouse, "R-0001")
    assert state.shadow is not None and state.shadow.mix == {"general_chat|0-511": 1.0}


# off-policy -----------------------------------------------------------------------------------------------


def test_logged_propensities_give_an_off_policy_estimate_beside_and_never_a_pass(desk: Desk) -> None:
    shadow, start = Shadow(desk), utcnow() - timedelta(days=1)
    offers = ["new" if i % 2 == 0 else "old" for i in range(400)]
    ids = log_all(desk, [
        {"at": start + timedelta(seconds=i), "served": o, "energy_j": 50.0 if o == "new" else 100.0 + i % 7}
        for i, o in enumerate(offers)
    ])  # fmt: skip
    shared = {"category": "general_chat", "tier": 1, "propensity": 0.5, "propensities": '{"old": 0.5, "new": 0.5}'}
    label_all(desk, {name: {**shared, "chosen": o} for name, o in zip(ids, offers, strict=True)})
    shadow.refresh()
    shadow.push(pairs(100))
    assert shadow.judge() == "INCONCLUSIVE"
    (told,) = [b for b in shadow.gate()["beside"] if b["kind"] == "off_policy"]
    assert told["n"] == 400
    energy = next(f for f in told["figures"] if f["name"] == "energy")
    # the candidate against what was logged, which was half of each: 50 / mean(50, 103) = 0.65
    assert energy["estimate"] == pytest.approx(50 / 76.5, rel=0.01)
    assert {e["method"] for e in told["estimators"]} == {"ips", "snips", "dr", "switch-dr"}


def test_a_deterministic_log_identifies_nothing(desk: Desk) -> None:
    shadow, start = Shadow(desk), utcnow() - timedelta(days=1)
    ids = log_all(desk, [{"at": start + timedelta(seconds=i)} for i in range(50)])
    label_all(desk, {name: {"category": "general_chat", "tier": 1, "chosen": "old", "propensity": 1.0} for name in ids})
    shadow.refresh()
    shadow.push(pairs(100))
    shadow.judge()
    (told,) = [b for b in shadow.gate()["beside"] if b["kind"] == "off_policy"]
    assert "the logging policy was deterministic and took other arms" in told["words"]


def test_the_kind_that_has_reached_the_plan_is_judged_the_stronger_first(shadow: Shadow) -> None:
    shadow.push([*pairs(5), *[row | {"evidence_kind": "mirrored"} for row in pairs(seed=5)]])
    with snapshot(shadow.desk.warehouse) as snap:
        state, _ = store.one(shadow.desk.warehouse, "R-0001")
        found = gate.read_pairs(snap, state)
    assert kind_of(found, 5) is OutcomeKind.PAIRED_REPLAY
    assert kind_of(found, PLANNED) is OutcomeKind.MIRRORED
    assert kind_of(found, 10_000) is OutcomeKind.PAIRED_REPLAY


def test_a_stamp_of_the_future_is_refused(shadow: Shadow) -> None:
    rows = pairs(2, start=utcnow() + timedelta(hours=1))
    told = refusal(lambda: shadow.push(rows))
    assert "observed_at lies in the future" in told.message
    assert iso(utcnow())[:4] in str(rows[0]["observed_at"])
