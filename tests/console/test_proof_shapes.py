"""How a proof looks, without a page: intervals against margins, meters, steps, votes, needs, savings, matrices."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.components import (
    audit_chain,
    gate,
    gate_beside,
    gate_margins,
    gate_meter,
    recs_needs,
    recs_outcome,
    recs_savings,
    shadow_matrix,
)
from app.components import recs_rollout as rollout
from app.reads.overview import Latency
from app.reads.shadow import part_of
from app.settings import load_settings

NOW = datetime(2026, 11, 30, 12, 0, 0)


def check(name: str = "energy", **differing: Any) -> dict[str, Any]:
    """A check as a gate's report tells it: J per success falls by 49 %, and must fall by 5 %."""
    return {
        "name": name, "estimate": 0.507, "low": 0.501, "high": 0.512, "margin": 0.95, "verdict": "PASS", "n": 2627,
        "method": "delta", "evidence_class": "allocated", "words": "w", "unit": "ratio", "coverage": 1.0,
        "second_method": None, "second_low": None, "second_high": None, **differing,
    }  # fmt: skip


def places(html: str) -> dict[str, float]:
    """Where the parts of a drawn interval stand, in percent of its axis."""
    interval = re.search(r'<u class="[^"]*" style="left:([\d.]+)%;width:([\d.]+)%"', html)
    margin = re.search(r'<s class="margin" style="left:([\d.]+)%"', html)
    point = re.search(r'<b style="left:([\d.]+)%"', html)
    assert interval is not None
    assert margin is not None
    low = float(interval[1])
    told = {"low": low, "high": low + float(interval[2]), "margin": float(margin[1])}
    return told | ({"point": float(point[1])} if point else {})


def test_an_interval_that_passes_is_drawn_wholly_on_the_good_side_of_its_margin() -> None:
    at = places(gate.bar_html(gate.rows([check()])[0]))
    assert at["low"] <= at["point"] <= at["high"] < at["margin"]


def test_an_interval_that_fails_is_drawn_beyond_its_margin() -> None:
    worse = check("carbon", estimate=1.45, low=1.434, high=1.467, margin=1.05, verdict="FAIL")
    at = places(gate.bar_html(gate.rows([worse])[0]))
    assert at["margin"] < at["low"]


def test_the_margin_of_a_success_rate_lies_below_and_that_of_a_ratio_above() -> None:
    rate = check("success", unit="share", estimate=0.0, low=-0.0077, high=0.0078, margin=-0.02)
    at = places(gate.bar_html(gate.rows([rate])[0]))
    assert at["margin"] < at["low"]
    assert "must lie above −2.00\u00a0pp" in gate.bar_html(gate.rows([rate])[0])
    assert "must lie below −5.0\u00a0%" in gate.bar_html(gate.rows([check()])[0])


def test_an_open_end_reaches_the_edge_and_a_check_without_bounds_says_so() -> None:
    opened = places(gate.bar_html(gate.rows([check(high=None)])[0]))
    assert opened["high"] == pytest.approx(100)
    assert "nothing is bounded" in gate.bar_html(gate.rows([check(estimate=None, low=None, high=None)])[0])


def test_everything_drawn_stands_in_the_table_as_text_too() -> None:
    told = gate.table([check()])
    for text in ("pass", "J per success, relative", "−49.3", "−49.9", "−48.8", "−5.0", "2,627", "delta", "allocated"):
        assert text in told
    assert 'role="img" aria-label="J per success, relative: −49.9\u00a0% to −48.8\u00a0%' in told


def test_a_verdict_is_a_shape_and_a_word() -> None:
    assert 'class="jb-chip bad"' in gate.verdict_html("FAIL")
    assert "fail" in gate.verdict_html("FAIL")
    assert "inconclusive" in gate.verdict_html("INCONCLUSIVE")
    assert "not judged yet" in gate.verdict_html(None)


def test_proved_constraints_are_one_line_and_a_broken_one_is_a_row_of_its_own() -> None:
    held = [check(f"constraint:{n}", evidence_class="proved", unit="share", n=256, estimate=0.0, low=0.0, high=0.0,
                  margin=0.0) for n in ("authorization", "context")]  # fmt: skip
    broken = check("constraint:residency", evidence_class="proved", unit="share", n=256, estimate=0.01, low=0.01,
                   high=0.01, margin=0.0, verdict="FAIL")  # fmt: skip
    assert gate.constraints(held) == "0 of 256 decisions break authorization or context: proved over the eligible sets"
    told = gate.table([*held, broken])
    assert "hard constraint: context" not in told  # it is in the line of those that hold
    assert "hard constraint: residency" in told


def test_the_second_method_stands_beside_and_missing_coverage_is_told() -> None:
    told = gate.table([check(second_method="bootstrap", second_low=0.49, second_high=0.52, coverage=0.97)])
    assert "beside: bootstrap: −51.0\u00a0% … −48.0\u00a0%" in told
    assert "told by 97.0\u00a0%" in told


def test_text_of_a_report_is_escaped() -> None:
    assert "<img" not in gate.table([check(words="<img src=x>", method="<img src=x>")])


def test_the_meter_tells_n_of_the_plan_and_when_an_undecided_shadow_gives_up() -> None:
    start = datetime(2026, 11, 30)
    told = gate_meter.meter_html(1310, 2627, started=start, give_up_s=14 * 86_400, waiting=True)
    assert "1,310 of 2,627" in told
    assert "1,317 to go" in told
    assert "2026-12-14" in told
    assert 'style="width:49.9%"' in told
    assert "inconclusive" not in gate_meter.meter_html(2627, 2627, started=start, give_up_s=1, waiting=False)


def test_margins_are_told_in_their_units_and_a_changed_one_names_the_configured() -> None:
    told = gate_meter.margins_table({"success_margin": 0.01, "slo_s": None}, {"success_margin": 0.02, "slo_s": None})
    assert "1.0\u00a0pp" in told
    assert "(configured: 2.0\u00a0pp)" in told
    assert "not judged" in told


def test_only_what_differs_from_the_configuration_is_asked_for(own_home: Any) -> None:
    configured = load_settings().shadow.margins.model_dump()
    shown = {f[0]: (None if configured[f[0]] is None else configured[f[0]] * f[2]) for f in gate_margins._FIELDS}
    assert gate_margins.changes(shown, configured) == {}
    wanted = shown | {"success_margin": 1.0, "p95_margin": None, "planned_n": 300.0}
    assert gate_margins.changes(wanted, configured) == {"success_margin": 0.01, "p95_margin": None, "planned_n": 300}


def test_weaker_evidence_stands_beside_with_the_reason_why_it_counts_for_nothing() -> None:
    told = gate_beside.beside_html(
        {"beside": [{"kind": "off_policy", "n": 0, "words": "not identifiable: no propensity", "figures": []}]}
    )
    assert "off-policy" in told
    assert "not identifiable: no propensity" in told


# rollout ----------------------------------------------------------------------------------------------


def event(seq: int, kind: str, revision: int, **body: Any) -> dict[str, Any]:
    return {
        "seq": seq, "kind": f"recommendation.{kind}", "revision": revision, "actor": "ana", "role": "operator",
        "channel": "api", "at": f"2026-11-30T10:00:{seq:02d}Z", "body": body,
    }  # fmt: skip


GIVEN = (event(1, "proposed", 1), event(2, "judged", 2, stage="shadow", verdict="PASS"),
         event(3, "approval_given", 3, person="ana", k=1, n=2))  # fmt: skip


def approvals(*more: dict[str, Any], **votes: Any) -> list[dict[str, Any]]:
    return rollout.approvals({"timeline": [*GIVEN, *more], "votes": votes})


def test_an_approval_is_of_the_revision_that_was_seen() -> None:
    (one,) = approvals()
    assert (one["person"], one["of"], one["void"]) == ("ana", 2, None)


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (event(4, "proposed", 4), "its content changed (rev 4)"),
        (event(4, "shadowing", 4), "other margins were stored (rev 4)"),
        (event(4, "judged", 4, stage="shadow", verdict="INCONCLUSIVE"), "the gate says inconclusive (rev 4)"),
    ],
)
def test_what_voids_an_approval_is_told_beside_it(later: dict[str, Any], why: str) -> None:
    (one,) = approvals(later)
    assert one["void"] == why
    assert "void" in rollout.approvals_html({"timeline": [*GIVEN, later], "votes": {}})


def test_the_gate_of_a_later_stage_voids_nothing() -> None:
    assert approvals(event(4, "judged", 4, stage="canary", verdict="INCONCLUSIVE"))[0]["void"] is None


def test_a_lapsed_approval_says_after_how_long() -> None:
    given = [{"person": "ana", "role": "operator", "at": "2026-11-30T10:00:03Z", "lapsed": True}]
    (one,) = approvals(given=given, expires_s=172_800)
    assert one["void"] == "it lapsed after 2\u00a0d"


def rec(state: str, **differing: Any) -> dict[str, Any]:
    stages = [{"name": "canary", "share": 0.1}, {"name": "full", "share": 1.0}]
    return {
        "id": "R-0001", "state": state, "label": state, "stages": stages, "stage": {"no": 0, **stages[0]}, "gates": {},
        "margins": {"planned_n": 100}, "targets": [{"sent_at": None}], "approved_at": None, "outcomes": [],
        "partial": False, "waiting": [], "closed": False, "pending": None, "changed_at": "2026-11-30T11:00:00Z",
        "votes": {}, "progress": None, **differing,
    }  # fmt: skip


def step_words(told: dict[str, Any]) -> list[str]:
    return [f"{name}: {words}" for _, name, words in rollout.steps(told)]


def test_the_steps_lead_from_shadow_over_every_share_to_the_outcome() -> None:
    assert step_words(rec("SHADOWING")) == [
        "shadow: collecting evidence", "canary 10%: not yet", "full 100%: not yet", "outcome: not yet",
    ]  # fmt: skip


def test_a_canary_that_is_carried_out_shows_its_own_gate() -> None:
    passed = {"verdict": "PASS", "n": 100, "planned_n": 100}
    told = rec("OBSERVING", approved_at="x", gates={"shadow": passed, "canary": passed})
    assert step_words(told) == [
        "shadow: pass, 100 of 100", "canary 10%: carried out, gate pass", "full 100%: not yet", "outcome: observing",
    ]  # fmt: skip


def test_partial_is_a_word_and_a_shape_of_its_own() -> None:
    looks = {name: (look, words) for look, name, words in rollout.steps(rec("ACTUATED", approved_at="x", partial=True))}
    assert looks["canary 10%"] == ("warn", "PARTIAL")


def test_silence_is_told_with_its_limit() -> None:
    owed = {"target": "lb-us", "owes": "acknowledge", "for_s": 240.0, "limit_s": 120.0, "overdue": True,
            "rejection": None, "since": None}  # fmt: skip
    told = rollout.waiting_html([owed])
    assert "lb-us owes: acknowledge, silent for 4\u00a0min of 2\u00a0min allowed" in told
    assert "overdue" in told


# needs ------------------------------------------------------------------------------------------------


def parts(*rows: dict[str, Any]) -> tuple[str, ...]:
    return recs_needs.counts(rows, NOW).parts


def test_needs_are_counted_the_most_urgent_first() -> None:
    silent = rec("ACKED", waiting=[{"overdue": True}])
    passed = {"canary": {"verdict": "PASS", "n": 1, "planned_n": 1, "why": ""}}
    failed = {"shadow": {"verdict": "FAIL", "n": 1, "planned_n": 1, "why": ""}}
    told = parts(
        rec("READY"), rec("READY"), rec("OBSERVING", gates=passed), rec("INCONCLUSIVE"),
        rec("FAILED", closed=True, gates=failed), rec("FAILED"), silent, rec("ACTUATED", partial=True),
        rec("PROPOSED"), rec("SHADOWING"),
    )  # fmt: skip
    assert told == (
        "1 change with silent or refusing targets",
        "1 change PARTIAL",
        "1 change failed and still carried out",
        "2 recommendations ready",
        "1 change ready for its next share",
        "1 recommendation waiting for a decision",
        "1 gate inconclusive",
        "1 gate failed",
    )


def test_a_gate_that_failed_long_ago_and_what_is_closed_need_nobody() -> None:
    old = (NOW - timedelta(days=8)).isoformat() + "Z"
    failed = {"shadow": {"verdict": "FAIL", "n": 1, "planned_n": 1, "why": ""}}
    closed = [rec(s, closed=True) for s in ("DISMISSED", "SUCCEEDED", "ROLLED_BACK")]
    assert parts(rec("FAILED", closed=True, gates=failed, changed_at=old), *closed, rec("SHADOWING")) == ()


# outcome and savings ----------------------------------------------------------------------------------

METRIC = {"difference": -0.49, "interval": [-0.78, 0.17], "from": {"value": 44.6, "evidence_class": "allocated"}}
PROMISE = {"per": "success", "metrics": {"energy_j": METRIC}, "success": {"difference": None}}


def outcome(**differing: Any) -> dict[str, Any]:
    return {
        "by": "lb-eu", "verdict": "SUCCEEDED", "why": "w",
        "measured": {"energy_j": 2300.0, "successes": 100, "attempts": 104, "evidence_class": "allocated"},
        "judgement": {"metric": "energy_j", "ratio": 0.516, "interval": [0.4, 0.66], "success_rate": 0.962,
                      "success_interval": [0.91, 0.98], "required_success_rate": 0.9}, **differing,
    }  # fmt: skip


def test_the_promise_stands_beside_what_was_measured_with_both_intervals() -> None:
    told = recs_outcome.table({"content": {"promise": PROMISE}}, outcome())
    assert "−49\u00a0%" in told
    assert "−78\u00a0% … +17\u00a0%" in told
    assert "23.0\u00a0J" in told
    assert "−60\u00a0% … −34\u00a0%" in told
    assert told.count("kept") == 2
    assert "at least 90.0\u00a0% required" in told


def test_an_outcome_of_another_class_is_not_compared() -> None:
    other = outcome(judgement={}, measured={"energy_j": 1.0, "successes": 1, "evidence_class": "modeled"})
    assert "modeled against allocated: not comparable" in recs_outcome.table({"content": {"promise": PROMISE}}, other)


def test_the_desks_own_measurement_and_a_targets_report_stand_apart() -> None:
    own = outcome(by="desk")
    found = recs_outcome.latest({"outcomes": [outcome(why="old"), own, outcome(why="new")]})
    assert found[0] is own
    assert [r["why"] for r in found[1]] == ["new"]
    assert "measured by this desk" in recs_outcome.head_html(own)
    assert "reported by lb-eu" in recs_outcome.head_html(outcome())


def change(**differing: Any) -> dict[str, Any]:
    metric = {"relative": -0.4, "interval": [-0.5, -0.2], "baseline": 44.0, "measured": 26.0, "n": 200, "coverage": 1.0,
              "evidence_class": "allocated", "why": None}  # fmt: skip
    return {
        "id": "R-0001", "title": "a -> b", "since": "2026-11-30T10:00:00Z", "requests": 200, "is_sample": False,
        "metrics": dict.fromkeys(("energy_j", "billed_cost_usd", "carbon_g"), metric), "baseline": None,
        "success": {"rate": 0.94, "successes": 188, "attempts": 200, "baseline_rate": 0.98}, **differing,
    }  # fmt: skip


def test_no_saving_is_told_without_its_error_rate_and_latency() -> None:
    told = recs_savings.table([change()], {"R-0001": (Latency(1.9, 1.7, 2.1, 300), Latency(2.4, 2.2, 2.7, 200))})
    assert "−40\u00a0%" in told
    assert "6.0\u00a0%" in told  # errors
    assert "+4.0\u00a0pp" in told
    assert "worse" in told
    assert "+500\u00a0ms" in told
    missing = recs_savings.table([change(success={"rate": None, "baseline_rate": None})], {})
    assert "no source tells success since the change" in missing
    assert "no source tells durations since the change" in missing


def test_a_saving_that_cannot_be_told_says_why() -> None:
    unknown = {"relative": None, "why": "the incumbent had no traffic of its own before the change"}
    told = recs_savings.metric_html(unknown, "J")
    assert "the incumbent had no traffic of its own before the change" in told


# shadow and audit -------------------------------------------------------------------------------------


def test_the_matrix_marks_agreement_by_a_tick_and_tells_counts() -> None:
    counted = (("a", "b", 90), ("b", "b", 10), ("a", None, 1))
    cells: list[dict[str, Any]] = [{"incumbent": i, "chosen": c, "n": n} for i, c, n in counted]
    told = shadow_matrix.matrix_html({"matrix": cells, "n": 101})
    assert told.count("✓ 10") == 1
    assert ">90<" in told
    assert shadow_matrix.HANDED_BACK in told
    assert shadow_matrix.names(cells) == (["b", "a"], ["b", ""])


def test_a_filter_takes_its_part_of_the_reference_mix_brought_to_one() -> None:
    mix = (("chat|0-511", 0.3), ("chat|512-2047", 0.1), ("code|0-511", 0.6))
    assert part_of(mix, "", "") == dict(mix)
    assert part_of(mix, "chat", "") == pytest.approx({"chat|0-511": 0.75, "chat|512-2047": 0.25})
    assert part_of(mix, "chat", "0-511") == {"chat|0-511": 1.0}
    assert part_of(mix, "none", "") is None


def test_heads_are_read_from_an_anchor_and_from_an_export_that_was_cut() -> None:
    head = '{"head": {"seq": 7, "hash": "aa", "at": "x"}}\n'
    event_line = '{"seq": 6, "hash": "bb", "kind": "x"}\n'
    assert audit_chain.heads_of(event_line + head) == [{"seq": 7, "hash": "aa"}]
    assert audit_chain.heads_of(event_line) == [{"seq": 6, "hash": "bb"}]
    with pytest.raises(ValueError, match="no head"):
        audit_chain.heads_of("")
