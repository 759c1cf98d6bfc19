"""The pages of the proof on a desk: gate, votes, margins, outcome, savings, shadows, one request, the trail."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.auth import console_actor
from app.components import access, audit_chain
from app.desk import Desk, local_operator
from app.errors import AppError, Conflict, Forbidden
from app.operations import Actor, call
from tests.console.pages import open_page, press, words
from tests.console.traffic import usage
from warehouse import ledger
from warehouse.clock import utcnow

REC, FAILED = "R-0001", "R-0003"
REQUEST = "neuralwatt/sample/chatcmpl-sample-organic-0362"
TARGET = Actor("token:lb", "downstream", "api", frozenset({"downstream", "read"}), source="private")


def operate(desk: Desk, name: str, **params: Any) -> dict[str, Any]:
    return call(desk, name, params, local_operator("cli"))


def decide(desk: Desk, name: str, rec: str = REC, key: str = "k", **params: Any) -> dict[str, Any]:
    revision = operate(desk, "recommend.show", id=rec)["revision"]
    return operate(desk, f"recommend.{name}", id=rec, revision=revision, idempotency_key=key, **params)


def carried_out(desk: Desk, rec: str = REC) -> dict[str, Any]:
    """Approved, collected, acknowledged and actuated by its only target."""
    decide(desk, "approve", rec, key="approve")
    call(desk, "recommend.collect", {"target": "router"}, TARGET)
    for name in ("acknowledge", "actuate"):
        revision = operate(desk, "recommend.show", id=rec)["revision"]
        told = {"id": rec, "target": "router", "revision": revision, "idempotency_key": name}
        call(desk, f"recommend.{name}", told, TARGET)
    return operate(desk, "recommend.show", id=rec)


def own_traffic(desk: Desk, offer: str, n: int = 100, **row: Any) -> None:
    """Organic requests of an offer from after now, so that they lie after an actuation."""
    at = utcnow() + timedelta(seconds=1)
    rows = [
        {"at": at + timedelta(milliseconds=i), "requested_offer": offer, "energy_j": 20.0 + i % 5, "duration_s": 1.0,
         "provider": "neuralwatt", **row}
        for i in range(n)
    ]  # fmt: skip
    usage(desk.warehouse, rows)


def plain(page: AppTest) -> str:
    return words(page).replace("\\", "")


# gate -------------------------------------------------------------------------------------------------


def test_the_gate_is_drawn_check_by_check_and_stands_there_as_text(sample: Desk) -> None:
    told = words(open_page("recommendations", rec=REC))
    assert "2,627 of 2,627" in told
    assert "all 10 checks pass on paired_replay evidence" in told
    assert told.count("jb-gatebar ok") == 6  # sampled constraint, success, P95, joules, dollars, grams
    assert "0 of 256 decisions break authorization, residency, safety or context" in told
    assert "by the configuration of this desk" in told
    assert "not identifiable: no propensity was logged" in told  # weaker evidence beside


def test_a_gate_that_failed_says_which_check_and_why(sample: Desk) -> None:
    told = words(open_page("recommendations", rec=FAILED))
    assert "jb-gatebar bad" in told
    assert "Why not a pass" in told
    assert "gCO2e per success, relative: 1.450 (95 % 1.434 to 1.467), must lie below 1.050" in told


def test_without_margins_nothing_is_judged_and_the_page_says_what_to_do(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("DELETE FROM ledger.event WHERE subject = 'R-0001' AND kind <> 'recommendation.proposed'")
    told = words(open_page("recommendations", rec=REC))
    assert "No margins are stored, so nothing can be judged. It cannot be approved before its gate passes" in told
    assert "Start shadow…" in told


def test_a_report_that_went_with_its_source_is_told(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.gate_report")
        tx.execute("UPDATE ops.source SET updated_at = now()::TIMESTAMP")  # what a page may show has changed
    assert "Its report is not in this warehouse" in words(open_page("recommendations", rec=REC))


def test_what_turns_the_choice_follows_the_prices_that_are_set(sample: Desk) -> None:
    page = open_page("recommendations", rec=REC)
    told = words(page)
    assert "grid of the candidate: flips above 142\u00a0gCO2e/kWh" in told
    assert "the price of a failure: no flip between" in told
    page.number_input(key=f"grid-sd-{REC}").set_value(60.0)
    assert "grid intensity ±60\u00a0% (1 sd, assumed)" in words(page.run())


# decisions --------------------------------------------------------------------------------------------


def test_changed_margins_are_confirmed_stored_and_begin_the_shadow_anew(sample: Desk) -> None:
    page = press(open_page("recommendations", rec=REC), f"shadow-{REC}")
    page.number_input(key=f"margin-success_margin-{REC}").set_value(1.0)
    press(page, f"margins-go-{REC}")
    told = plain(page)
    assert "Success rate may fall by less than 1.0\u00a0pp (configured: 2.0\u00a0pp)" in told
    press(page, "confirm-go")
    now = operate(sample, "recommend.show", id=REC)
    assert now["state"] == "SHADOWING"
    assert now["margins"]["margins"]["success_margin"] == 0.01
    assert now["margins"]["set_by"] == console_actor().person
    after = words(open_page("recommendations", rec=REC))
    assert "0 of 10,508" in after  # a smaller margin needs more pairs (docs/proof.md)
    assert "undecided, it ends as inconclusive" in after
    assert "Earlier verdicts: 1" in after


def test_whoever_set_the_margins_is_told_why_they_cannot_approve(sample: Desk) -> None:
    decide(sample, "shadow", margins={"success_margin": 0.03})
    told = words(open_page("recommendations", rec=REC))
    assert f"not by {local_operator('cli').person}, who set the margins" in told.replace("&#x27;", "'")


def test_votes_are_told_with_what_they_were_given_for_and_what_voided_them(sample: Desk) -> None:
    carried = decide(sample, "approve")
    assert carried["state"] == "APPROVED"
    told = words(open_page("recommendations", rec=REC))
    assert "1 of 1 approvals, by operator" in told
    assert "rev 3" in told
    decide(sample, "shadow", key="again")  # nobody has collected it: other margins, another proof
    assert "other margins were stored" in words(open_page("recommendations", rec=REC))


def test_targets_timeline_and_steps_follow_what_was_carried_out(sample: Desk) -> None:
    carried_out(sample)
    told = words(open_page("recommendations", rec=REC))
    assert "carried out" in told
    assert "acknowledged by router" in told
    assert "Nothing is measured yet" in told


def test_the_desks_own_measurement_stands_against_the_promise(sample: Desk) -> None:
    told = carried_out(sample)
    own_traffic(sample, told["to"])
    later = utcnow() + timedelta(minutes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.recommendations.measuring.utcnow", lambda: later)
        measured = operate(sample, "recommend.measure", id=REC)["measured"][0]
    assert measured["written"]
    page = words(open_page("recommendations", rec=REC))
    assert "measured by this desk, from logged requests" in page
    assert "against the incumbent before" in page
    assert "22.0\u00a0J" in page  # the mean of 20 to 24
    assert "success rate" in page


def test_exports_wait_until_they_are_opened_and_say_why_there_is_none(
    sample: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counting(name: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(name)
        return access.command(name, params)

    monkeypatch.setattr("app.components.recs_exports.command", counting)
    page = open_page("recommendations", rec=REC)
    assert not page.exception
    assert asked == []
    page.session_state[f"exports-{REC}"] = True
    told = words(page.run())
    assert asked == ["recommend.exports"]
    assert "Not now: R-0001 is READY, not approved, so its content is not frozen." in told


def test_a_draft_can_be_looked_at_before_the_approval(sample: Desk) -> None:
    page = open_page("recommendations", rec=REC)
    page.session_state[f"exports-{REC}"] = True
    page.run()
    page.toggle(key=f"export-draft-{REC}").set_value(True).run()
    assert not page.exception
    assert any("gemma-4-31b" in c.value for c in page.code)
    assert "DRAFT" in words(page)


# overview ---------------------------------------------------------------------------------------------


def test_savings_of_a_change_in_force_stand_beside_errors_and_latency(sample: Desk) -> None:
    assert "No change is in force" in words(open_page())
    told = carried_out(sample)
    own_traffic(sample, told["to"], successes=1)
    later = utcnow() + timedelta(minutes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warehouse.snapshots.utcnow", lambda: later)
        page = words(open_page())
    assert "error rate" in page
    assert "P95 latency" in page
    assert "saved in all" in page
    assert "22.0\u00a0J" in page
    assert "n 100" in page


def test_a_target_that_is_silent_beyond_its_limit_needs_somebody(sample: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(sample, "approve")
    call(sample, "recommend.collect", {"target": "router"}, TARGET)
    later = utcnow() + timedelta(hours=1)
    monkeypatch.setattr("app.operations.recommending.utcnow", lambda: later)
    told = plain(open_page())
    assert "1 change with silent or refusing targets" in told
    assert "0 of 1 targets acknowledged, 1 silent for 1 h" in told


# shadow -----------------------------------------------------------------------------------------------


def test_the_shadow_page_shows_agreement_worth_and_differences(sample: Desk) -> None:
    page = open_page("shadow", policy=REC)
    told = words(page)
    assert "429 of 429" in told
    assert "55 of 247 requests agree" in told
    assert "178" in told
    assert "standardised to the fixed mix of 247 logged requests in its cells" in told
    assert "never a measurement of these requests" in told
    assert "over requests" in told  # the interval of a worth
    assert "success rate" in told  # harm beside savings, from the gate
    assert page.button(key="decide").disabled
    assert page.dataframe[0].value.shape[0] == 100


def test_filters_narrow_the_shadow_and_come_back_by_link(sample: Desk) -> None:
    whole = sample.warehouse.scalar(
        "SELECT count(*) FROM core.shadow_decision WHERE recommendation_id = 'R-0001' AND category = 'debugging'"
    )
    page = open_page("shadow", policy=REC, category="debugging")
    assert page.selectbox(key="shadow-category").value == "debugging"
    assert f"of {whole} requests agree" in words(page)
    page.selectbox(key="shadow-band").set_value("0-511").run()
    assert page.query_params["band"] == "0-511"
    assert not page.exception


def test_a_link_opens_one_request_with_its_full_explanation(sample: Desk) -> None:
    page = open_page("shadow", policy=REC, request=REQUEST)
    told = words(page)
    assert "Request chatcmpl-sample-organic-0362" in "".join(h.value for h in page.subheader)
    assert "worked out again, the same choice from the same snapshot" in told
    assert "access level canary is not authorized" in told
    assert "← chosen" in told
    assert "← served it" in told
    digest = sample.warehouse.scalar(
        f"SELECT any_value(snapshot_digest) FROM core.shadow_decision WHERE request_id = '{REQUEST}'"
    )
    assert digest in told
    closed = press(page, "close-request")
    assert "worked out again" not in words(closed)


def test_an_unknown_request_is_told_in_words(sample: Desk) -> None:
    assert "There is no logged request &#x27;a/b/c&#x27;." in words(open_page("shadow", request="a/b/c"))


def test_a_typed_request_id_is_explained(sample: Desk) -> None:
    page = open_page("shadow", policy=REC)
    page.text_input(key="shadow-wanted").set_value(REQUEST).run()
    assert "The ranking of that instant" in words(press(page, "explain"))


def test_what_was_not_asked_yet_is_asked_by_one_button(sample: Desk) -> None:
    with sample.warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.shadow_decision")
        tx.execute("UPDATE ops.source SET updated_at = now()::TIMESTAMP")
    page = open_page("shadow", policy=REC)
    assert "not been asked about such a request yet" in words(page)
    page = press(page, "decide")
    assert not page.exception
    assert sample.warehouse.scalar("SELECT count(*) FROM core.shadow_decision") == 429 + 247 + 114
    assert "55 of 247 requests agree" in words(page.run())


# audit ------------------------------------------------------------------------------------------------


def test_a_denied_command_is_on_the_trail_with_who_and_from_where(sample: Desk) -> None:
    reader = Actor("token:eve", "reader", "api", frozenset({"read"}), source="public")
    with pytest.raises(Forbidden):
        call(sample, "recommend.approve", {"id": REC, "revision": 3, "idempotency_key": "x"}, reader)
    page = open_page("audit")
    label = next(e.label for e in page.expander if "eve" in e.label)
    assert "denied" in label
    assert "public" in label
    denied = open_page("audit", shown="Denied")
    assert all("denied" in e.label for e in denied.expander if e.label != "Export, anchor, compare")
    assert "address class" in words(denied)


def test_an_event_tells_before_and_after_revision_key_and_hashes(sample: Desk) -> None:
    decide(sample, "approve", key="the-key")
    told = words(open_page("audit", subject=REC))
    assert "the-key" in told
    assert "previous hash" in told
    assert ">READY</span></td>" in told
    assert ">APPROVED</span></td>" in told


def test_the_chain_is_verified_on_the_first_view_and_its_export_holds_against_it(sample: Desk) -> None:
    page = open_page("audit")
    assert "whole" in words(page)
    lines = audit_chain._exporter()().decode().splitlines()
    assert len(lines) == sample.warehouse.scalar("SELECT count(*) FROM ledger.event") + 1
    assert json.loads(lines[-1])["head"]["seq"] == len(lines) - 1
    heads = audit_chain.heads_of("\n".join(lines))
    assert operate(sample, "verify", against=heads)["ok"]
    assert not operate(sample, "verify", against=[{"seq": 1, "hash": "0" * 64}])["ok"]


def test_a_restored_ledger_is_said_on_every_page_that_takes_commands(sample: Desk) -> None:
    path = ledger.anchor_path(sample.warehouse)
    path.write_text(json.dumps({"seq": 10_000, "hash": "a" * 64}))
    for name in ("overview", "recommendations", "audit"):
        told = words(open_page(name))
        assert "No command is taken: the ledger was restored or cut" in told
        assert "joulebook audit accept-restore" in told
    with pytest.raises(Conflict):
        decide(sample, "approve")
    assert issubclass(Conflict, AppError)
