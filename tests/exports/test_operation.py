"""What may be exported when: frozen content, the stage that was reached, the largest step, the eligible set, expiry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import time_machine

from app.desk import Desk
from app.errors import AppError, BadRequest, Conflict, NotFound
from app.recommendations import store
from app.settings import load_settings
from policies.recommend import lifecycle
from tests.exports.changes import doc, mapping
from tests.recommend.desks import OPERATOR, READER, Driver, insert, make_desk, outcome, refusal
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.ids import content_hash, sha256

UNGATED = """
[environments.local]
require_pass = false
auto_shadow = false
"""
STAGED = """
[environments.local]
require_pass = true
auto_shadow = true
stages = [{name = "canary", share = 0.1}, {name = "full", share = 1.0}]
"""
TIERS = "[policy]\ntiers = {old = 1, new = 1}\n"


def driven(home: Path, config: str = "") -> Driver:
    return Driver(make_desk(home, config + TIERS, proposed=True))


@pytest.fixture
def staged(own_home: Path) -> Iterator[Driver]:
    """R-0001 is proposed, with a canary of 10 % before the whole."""
    made = driven(own_home, STAGED)
    yield made
    made.desk.close()


@pytest.fixture
def whole(own_home: Path) -> Iterator[Driver]:
    """R-0001 is proposed, with a single stage."""
    made = driven(own_home, UNGATED)
    yield made
    made.desk.close()


def export(driver: Driver, fmt: str = "routing-table", actor: Any = READER, **given: Any) -> dict[str, Any]:
    if fmt != "routing-table":
        said = mapping()
        for offer in said["offers"].values():
            offer["logical_model"] = "gemma"
        given.setdefault("mapping", said)
    return driver.call("recommend.export", {"id": "R-0001", "format": fmt, **given}, actor)


def text(told: dict[str, Any], kind: str) -> str:
    (found,) = [f["text"] for f in told["files"] if f["kind"] == kind]
    return str(found)


def carry(driver: Driver) -> dict[str, Any]:
    driver.collect()
    driver.send("acknowledge")
    return driver.send("actuate")


def approve(driver: Driver) -> None:
    """Its first gate passes and an operator approves it."""
    passed(driver, "shadow")
    driver.send("approve")


def passed(driver: Driver, stage: str) -> None:
    """The gate of a stage says PASS."""
    desk = driver.desk
    with desk.warehouse.transaction() as tx:
        state, _ = store.one(tx, "R-0001")
        verdict = {"stage": stage, "verdict": "PASS", "why": "as planned", "n": 300, "complete": True}
        drafts = lifecycle.decide(state, lifecycle.Command("judge", data=verdict), now=utcnow())
        store.append(tx, OPERATOR, "R-0001", drafts)


# when --------------------------------------------------------------------------------------------------


def test_what_is_not_approved_is_not_frozen_and_not_exported(staged: Driver) -> None:
    found = refusal(lambda: export(staged))
    assert isinstance(found, Conflict) and "not approved" in found.message and "draft" in found.fix


def test_a_draft_can_be_looked_at_and_says_so_in_every_file_and_name(staged: Driver) -> None:
    for fmt in ("routing-table", "gateway-api", "envoy", "litellm"):
        told = export(staged, fmt, draft=True)
        assert told["draft"] is True and told["manifest"]["draft"] is True
        assert all("DRAFT" in f["name"] for f in told["files"])
        assert "DRAFT, not approved" in text(told, "apply")
    assert export(staged, draft=True, stage="full")["share"] == 1.0


def test_an_approved_recommendation_is_exported_for_the_stage_it_has_reached(staged: Driver) -> None:
    approve(staged)
    told = export(staged, "gateway-api")
    refs = doc(text(told, "apply"))["spec"]["rules"][0]["backendRefs"]
    assert [(r["name"], r["weight"]) for r in refs] == [("pool-a", 90), ("pool-b", 10)]
    assert (told["stage"], told["share"], told["draft"]) == ("canary", 0.1, False)
    assert "DRAFT" not in json.dumps(told)
    found = refusal(lambda: export(staged, stage="full"))
    assert isinstance(found, Conflict) and "has not reached the stage full" in found.message
    assert isinstance(refusal(lambda: export(staged, stage="half")), BadRequest)


def test_each_stage_expects_what_the_one_before_has_left_and_both_lead_back_to_the_same(staged: Driver) -> None:
    approve(staged)
    first = export(staged, "envoy")
    carry(staged)
    passed(staged, "canary")
    staged.send("promote")
    second = export(staged, "envoy")
    assert (second["stage"], second["share"]) == ("full", 1.0)
    assert second["manifest"]["gate"]["verdict"] == "PASS" and "gate: 'PASS: as planned'" in text(second, "apply")
    one, two = (t["manifest"]["objects"][0]["documents"] for t in (first, second))
    assert two["apply"]["expects_sha256"] == [one["apply"]["spec_sha256"]]
    assert set(two["rollback"]["expects_sha256"]) == {one["apply"]["spec_sha256"], two["apply"]["spec_sha256"]}
    assert text(first, "rollback") == text(second, "rollback")
    assert isinstance(refusal(lambda: export(staged, stage="canary")), Conflict)


def test_reports_of_targets_do_not_change_the_documents(whole: Driver) -> None:
    whole.send("approve")
    first = export(whole)
    carry(whole)
    second = export(whole)
    for kind in ("apply", "rollback"):
        assert text(first, kind) == text(second, kind)


@pytest.mark.parametrize("way", ["pending", "rolled back", "dismissed"])
def test_what_is_being_undone_or_over_is_not_applied_but_its_rollback_can_be_had(whole: Driver, way: str) -> None:
    if way == "dismissed":
        whole.send("dismiss")
        assert "not approved" in refusal(lambda: export(whole, only="rollback")).message
        assert isinstance(refusal(lambda: export(whole, draft=True)), Conflict)
        return
    whole.send("approve")
    before = text(export(whole), "rollback")
    carry(whole)
    whole.send("rollback")
    if way == "rolled back":
        whole.collect()
        whole.send("acknowledge")
        assert whole.send("rolled_back")["state"] == "ROLLED_BACK"
    found = refusal(lambda: export(whole))
    assert isinstance(found, Conflict) and "rollback" in found.fix
    told = export(whole, only="rollback")
    assert text(told, "rollback") == before and {f["kind"] for f in told["files"]} == {"rollback", "manifest"}


def test_an_expired_one_is_not_applied(whole: Driver) -> None:
    whole.send("approve")
    expires = export(whole)["manifest"]["expires_at"]
    with time_machine.travel(expires, tick=False):
        found = refusal(lambda: export(whole))
        assert isinstance(found, Conflict) and f"expired at {expires}" in found.message
        assert export(whole, only="rollback")["files"]


def test_a_stage_beyond_the_largest_step_is_refused(staged: Driver, own_home: Path) -> None:
    approve(staged)
    assert export(staged)["manifest"]["max_step"] == 1.0
    tighter = STAGED.replace("[environments.local]", "[environments.local]\nmax_step = 0.05").replace(
        '[{name = "canary", share = 0.1}, {name = "full", share = 1.0}]',
        "[" + ", ".join(f'{{name = "s{i}", share = {i / 20}}}' for i in range(1, 21)) + "]",
    )
    (own_home / "joulebook.toml").write_text("[sample]\nload_when_empty = false\n" + tighter + TIERS)
    staged.desk.settings = load_settings()
    found = refusal(lambda: export(staged))
    assert isinstance(found, Conflict) and "moves 10% of the traffic at once" in found.message
    assert "environments.local.max_step is 5%" in found.message
    assert export(staged, only="rollback")["files"]


def test_a_candidate_that_left_the_eligible_set_never_gets_traffic(whole: Driver) -> None:
    whole.send("approve")
    assert export(whole)
    _remove(whole.desk, "new")
    found = refusal(lambda: export(whole))
    assert isinstance(found, Conflict) and "new is not in the eligible set" in found.message
    assert "debugging/1/interactive" in found.message or "/1/interactive" in found.message
    assert export(whole, only="rollback")["files"], "the way back stays open"


def test_an_incumbent_that_is_no_longer_eligible_keeps_no_share_and_its_rollback_says_so(staged: Driver) -> None:
    approve(staged)
    _remove(staged.desk, "old")
    found = refusal(lambda: export(staged))
    assert isinstance(found, Conflict) and "would stay with old, which is not eligible" in found.message
    told = export(staged, only="rollback")
    assert any("restores old" in w for w in told["manifest"]["warnings"])


def _remove(desk: Desk, offer_id: str) -> None:
    """The catalog says now that the offer is gone."""
    row = desk.warehouse.query("SELECT * FROM core.offer WHERE offer_id = $id", {"id": offer_id}).to_dicts()[0]
    insert(desk, "core.offer", [{**row, "lifecycle": "removed", "valid_from": utcnow(), "known_from": utcnow()}])


def test_a_table_that_was_changed_by_hand_since_is_not_overwritten(whole: Driver) -> None:
    whole.send("approve")
    carry(whole)
    table = whole.call("routing.table")
    whole.send("outcome", **outcome(utcnow()))
    cells = [{k: c[k] for k in ("category", "tier", "latency", "offer_id")} for c in table["cells"]]
    whole.call("routing.declare", {"cells": cells, "version": table["version"]})
    found = refusal(lambda: export(whole, only="rollback"))
    assert isinstance(found, Conflict) and "declared" in found.message


# what ------------------------------------------------------------------------------------------------


def test_the_manifest_carries_hashes_proof_and_provenance(whole: Driver) -> None:
    approved = whole.send("approve", reason="saves half")
    told = export(whole, "litellm")
    manifest = told["manifest"]
    content = whole.show()["content"]
    assert manifest["content_sha256"] == approved["content_hash"] == content_hash(content)
    assert manifest["policy_id"] == content["policy_id"] and manifest["snapshot_digest"] == content["snapshot_digest"]
    assert manifest["evidence_class"] == "calibrated", "the weakest of joules, dollars and grams"
    assert manifest["promise"]["energy_j"]["evidence_class"] == {"from": "allocated", "to": "allocated"}
    assert manifest["promise"]["energy_j"]["n"] == {"from": 5, "to": 5}
    assert manifest["gate"]["verdict"] is None and "asks for none" in manifest["gate"]["why"]
    assert [a["role"] for a in manifest["approved_by"]] == ["operator"]
    checked = manifest["eligibility"]["checked"]["cells"]
    assert set(checked) == set(manifest["cells"]) and len(checked) == 9
    assert all(cell["to"]["not_eligible"] is None and "new" in cell["eligible"] for cell in checked.values())
    for file in told["files"]:
        assert file["sha256"] == sha256(file["text"].encode())
        if file["kind"] != "manifest":
            assert manifest["objects"][0]["documents"][file["kind"]]["sha256"] == file["sha256"]
    assert json.loads(text(told, "manifest")) == manifest


def test_the_table_that_is_exported_is_the_one_that_the_desk_will_have(whole: Driver) -> None:
    whole.send("approve")
    told = export(whole)
    before, after = (json.loads(text(told, kind))["routes"] for kind in ("rollback", "apply"))
    assert before == whole.call("routing.table")["routes"]
    carry(whole)
    assert after == whole.call("routing.table")["routes"]


def test_an_export_leaves_no_trace_in_the_ledger(whole: Driver) -> None:
    whole.send("approve")
    kinds = whole.kinds()
    export(whole)
    assert whole.kinds() == kinds and ledger.verify(whole.desk.warehouse).ok


def test_an_unknown_recommendation_or_format_is_named(whole: Driver) -> None:
    assert isinstance(
        refusal(lambda: whole.call("recommend.export", {"id": "R-9", "format": "envoy"}, READER)), NotFound
    )
    found = refusal(lambda: whole.call("recommend.export", {"id": "R-0001", "format": "nginx"}, READER))
    assert isinstance(found, BadRequest) and "'llm-d'" in found.message


# the mapping -----------------------------------------------------------------------------------------

FILE = """
[offers.old]
logical_model = "gemma"
[[offers.old.backends]]
pool = "gemma-a100"
[offers.new]
logical_model = "gemma"
[[offers.new.backends]]
pool = "gemma-h100"
[entries.chat]
cells = ["*/1/*"]
object_file = "chat.yaml"
"""
ROUTE = """# ours
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  rules:
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: gemma-a100}]
"""


def test_the_mapping_of_the_home_is_used_with_the_objects_beside_it(whole: Driver, own_home: Path) -> None:
    whole.send("approve")
    found = refusal(lambda: export(whole, "gateway-api", mapping=None))
    assert "exports.toml" in found.fix
    (own_home / "exports.toml").write_text(FILE)
    assert "chat.yaml" in refusal(lambda: export(whole, "gateway-api", mapping=None)).message
    (own_home / "chat.yaml").write_text(ROUTE)
    told = export(whole, "gateway-api", mapping=None)
    assert text(told, "rollback") == ROUTE
    assert doc(text(told, "apply"))["spec"]["rules"][0]["backendRefs"][0]["name"] == "gemma-h100"


def test_a_caller_cannot_have_files_of_the_desks_machine_read(whole: Driver) -> None:
    whole.send("approve")
    said = mapping(object_file="/etc/passwd")
    found = refusal(lambda: export(whole, "gateway-api", mapping=said))
    assert isinstance(found, BadRequest) and "object_file" in found.message


@pytest.mark.parametrize("content", ["[offers", "\xff\xfe", "entries = 3"])
def test_a_broken_mapping_is_an_error_in_words(whole: Driver, own_home: Path, content: str) -> None:
    whole.send("approve")
    (own_home / "exports.toml").write_bytes(content.encode("latin-1"))
    found = refusal(lambda: export(whole, "envoy", mapping=None))
    assert isinstance(found, AppError) and "mapping" in found.message


# which can be had ------------------------------------------------------------------------------------


def test_every_format_says_whether_it_can_be_had_and_why_not(staged: Driver, own_home: Path) -> None:
    def listed() -> dict[str, dict[str, Any]]:
        told = staged.call("recommend.exports", {"id": "R-0001"}, READER)
        assert [s["name"] for s in told["stages"]] == ["canary", "full"]
        return {f["format"]: f for f in told["formats"]}

    before = listed()
    assert list(before) == ["routing-table", "gateway-api", "llm-d", "litellm", "envoy"]
    assert all(not f["apply"]["allowed"] and "not approved" in f["apply"]["why_not"] for f in before.values())
    approve(staged)
    (own_home / "exports.toml").write_text(FILE.replace('object_file = "chat.yaml"', 'gateway = "inference"'))
    after = listed()
    assert after["routing-table"]["apply"]["allowed"] and after["gateway-api"]["rollback"]["allowed"]
    assert any(name.endswith(".apply.yaml") for name in after["gateway-api"]["apply"]["files"])
    assert "cluster" in after["envoy"]["apply"]["why_not"] and after["envoy"]["apply"]["fix"]


def test_a_whole_table_says_whose_shares_it_would_end(own_home: Path) -> None:
    driver = Driver(make_desk(own_home, STAGED + "[policy]\ntiers = {old = 2, new = 2}\n"))
    assert driver.refresh()["proposed"] == ["R-0001", "R-0002"]  # tiers 1 and 2

    def ends(fmt: str = "routing-table", **given: Any) -> list[str]:
        return [w for w in export(driver, fmt, **given)["manifest"]["warnings"] if "would end that" in w]

    for rec_id in ("R-0001", "R-0002"):
        driver.judge("PASS", "shadow", rec_id)
        driver.send("approve", rec_id)
    assert ends() == [], "no target has collected the other one"
    driver.collect()
    driver.send("acknowledge", "R-0002")
    driver.send("actuate", "R-0002")
    (warned,) = ends()
    assert "no share of R-0002 (OBSERVING, canary 10%)" in warned
    (warned,) = ends(id="R-0002")
    assert "no share of R-0001 (SENT" in warned, "its target may have taken it"
    assert ends("gateway-api") == ends(change_only=True) == []
    part = doc(text(export(driver, change_only=True), "apply"))
    assert {key.split("/")[1] for key in part["shares"]} == {key.split("/")[1] for key in part["routes"]} == {"1"}
    driver.desk.close()
