"""Looking, listing, acknowledging: after loads and sweeps, by whom it may be, and with what trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from app import alerting
from app.alerting import look_for_alerts, refresh_alerts
from app.delivery.checks import check_channels
from app.desk import Desk
from app.errors import AppError, BadRequest, Conflict, Forbidden, NotFound, PreconditionRequired
from app.operations import Actor, call
from app.scheduler import Jobs
from app.settings import load_settings
from tests.alerts.desks import OPERATOR, READER, find_gpu, lose_gpu, make_desk
from tests.alerts.receiver import receiving
from tests.alerts.world import World
from tests.e2e.console import free_port
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.constraints import broken_keys


@pytest.fixture
def desk(own_home: Path) -> Iterator[Desk]:
    made = make_desk(own_home)
    yield made
    made.close()


def listed(desk: Desk, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call(desk, "alert.list", params, READER)["alerts"]
    return found


def ack(desk: Desk, alert: dict[str, Any], actor: Actor = OPERATOR, **changes: Any) -> dict[str, Any]:
    return call(desk, "alert.ack", {"id": alert["id"], "version": alert["version"], **changes}, actor)


def test_an_alert_lives_from_first_to_last_sight_in_one_row(desk: Desk) -> None:
    lose_gpu(desk)
    for _ in range(4):
        refresh_alerts(desk)
    (alert,) = listed(desk)
    assert (alert["kind"], alert["subject"], alert["severity"], alert["state"]) == ("gpu_lost", "GPU-1", "bad", "open")
    assert (alert["times_seen"], alert["version"]) == (5, 1)
    assert alert["first_seen_at"] < alert["last_seen_at"]
    find_gpu(desk)
    assert listed(desk) == []
    (cleared,) = listed(desk, all=True)
    assert (cleared["state"], cleared["id"]) == ("cleared", alert["id"])
    assert broken_keys(desk.warehouse) == []


def test_bad_alerts_come_first(desk: Desk) -> None:
    World(desk.warehouse).offer("deprecated", at=utcnow() - timedelta(days=1))
    lose_gpu(desk)
    assert [a["severity"] for a in listed(desk)] == ["bad", "warning"]


def test_an_acknowledgement_names_its_person_and_is_an_event(desk: Desk) -> None:
    lose_gpu(desk)
    (alert,) = listed(desk)
    told = ack(desk, alert, reason="the board is in the mail")
    assert (told["state"], told["acknowledged_by"], told["version"]) == ("acknowledged", "ada@local", 2)
    (event,) = ledger.events(desk.warehouse, kind="alert.acknowledged")
    assert event.subject == f"alert:{alert['id']}"
    assert (event.actor, event.data["reason"], event.data["kind"]) == (
        "ada@local", "the board is in the mail", "gpu_lost",
    )  # fmt: skip
    assert ledger.verify(desk.warehouse).ok
    refresh_alerts(desk)
    assert listed(desk)[0]["state"] == "acknowledged"


def test_a_repeated_acknowledgement_is_one(desk: Desk) -> None:
    lose_gpu(desk)
    (alert,) = listed(desk)
    assert ack(desk, alert) == ack(desk, alert)
    assert len(ledger.events(desk.warehouse, kind="alert.acknowledged")) == 1


def test_an_id_may_be_shortened_but_not_ambiguous(desk: Desk) -> None:
    lose_gpu(desk)
    (alert,) = listed(desk)
    with pytest.raises(BadRequest):
        ack(desk, alert, id=alert["id"][:7])
    assert ack(desk, alert, id=alert["id"][:8].upper())["state"] == "acknowledged"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": None}, PreconditionRequired),
        ({"version": 7}, Conflict),
        ({"id": "0" * 64}, NotFound),
        ({"id": "not-an-id"}, BadRequest),
        ({"surprise": 1}, BadRequest),
        ({"reason": "x" * 2001}, BadRequest),
    ],
    ids=lambda v: str(v)[:40],
)
def test_a_wrong_acknowledgement_changes_nothing(desk: Desk, changes: dict[str, Any], error: type[AppError]) -> None:
    lose_gpu(desk)
    (alert,) = listed(desk)
    with pytest.raises(error):
        ack(desk, alert, **changes)
    assert listed(desk)[0]["state"] == "open"
    assert ledger.events(desk.warehouse, kind="alert.acknowledged") == []


def test_what_has_cleared_or_is_acknowledged_by_another_is_a_conflict(desk: Desk) -> None:
    lose_gpu(desk)
    (alert,) = listed(desk)
    ack(desk, alert)
    other = Actor("lin@local", "operator", "cli", frozenset({"*"}))
    with pytest.raises(Conflict, match="is at version 2"):
        ack(desk, alert, other)
    with pytest.raises(Conflict, match="ada@local has acknowledged"):
        ack(desk, {**alert, "version": 2}, other)
    find_gpu(desk)
    with pytest.raises(Conflict, match="has cleared"):
        ack(desk, {**alert, "version": 3})


@pytest.mark.parametrize("name", ["alert.ack", "alert.test"])
def test_a_reader_reads_only(desk: Desk, name: str) -> None:
    params = {"id": "0" * 64, "version": 1} if name == "alert.ack" else {}
    with pytest.raises(Forbidden):
        call(desk, name, params, READER)


def test_the_sweep_looks_for_alerts(desk: Desk) -> None:
    World(desk.warehouse).device("lost", updated_at=utcnow())
    Jobs(desk)._sweep("sweep")
    assert [a["kind"] for a in listed(desk)] == ["gpu_lost"]


CATALOG = {
    "id": "v/m", "canonical_slug": "v/m", "name": "M", "context_length": 1000,
    "pricing": {"prompt": "0.000001", "completion": "0.000002"}, "top_provider": {"context_length": 1000},
}  # fmt: skip


def imported(desk: Desk, path: Path, at: str, *models: dict[str, Any]) -> None:
    path.write_text(json.dumps({"data": list(models)}))
    params = {"kind": "openrouter", "path": str(path), "fetched_at": at}
    told = call(desk, "import", params, OPERATOR)
    assert told["state"] == "OK", told


def test_a_catalog_that_is_imported_raises_its_price_change_at_once(desk: Desk, tmp_path: Path) -> None:
    dear = {**CATALOG, "pricing": {"prompt": "0.000003", "completion": "0.000002"}}
    imported(desk, tmp_path / "a.json", "2025-11-01T00:00:00Z", CATALOG)
    imported(desk, tmp_path / "b.json", "2025-11-02T00:00:00Z", dear)
    told = [a for a in listed(desk) if a["kind"] == "price_change"]
    assert [a["title"] for a in told] == ["prompt price of v/m: $1/1M tokens to $3/1M tokens (+200 %)"]


def test_a_listing_without_a_model_alerts_at_the_second_absence(desk: Desk, tmp_path: Path) -> None:
    other = {**CATALOG, "id": "v/n", "canonical_slug": "v/n"}
    imported(desk, tmp_path / "a.json", "2025-11-01T00:00:00Z", CATALOG, other)

    def removed() -> list[str]:
        return [a["title"] for a in listed(desk) if a["kind"] == "offer_removed"]

    imported(desk, tmp_path / "b.json", "2025-11-02T00:00:00Z", other)
    lifecycle = "SELECT lifecycle FROM mart.offer WHERE offer_id = 'v/m'"
    assert desk.warehouse.scalar(lifecycle) == "removed", "routing is safe at the first absence"
    assert removed() == []
    imported(desk, tmp_path / "c.json", "2025-11-03T00:00:00Z", {**other, "name": "N again"})
    assert removed() == ["v/m is no longer listed since 2025-11-02 00:00 UTC"]
    imported(desk, tmp_path / "d.json", "2025-11-04T00:00:00Z", CATALOG, other)
    assert removed() == []


def test_a_gateway_that_books_nothing_for_an_unknown_model_is_told(desk: Desk, tmp_path: Path) -> None:
    """litellm#35914: 365 calls, 37.4M tokens, an unmapped model, spend 0: the cost is unknown, and it is said."""
    rows = [
        {
            "request_id": f"r{i}", "call_type": "acompletion", "api_key": "k", "spend": 0, "status": "success",
            "model": "mystery-model", "model_group": "mystery-model",
            "prompt_tokens": 102_000 if i else 104_465, "completion_tokens": 459,
            "startTime": f"2025-11-{1 + i % 5:02d}T00:00:00Z", "endTime": f"2025-11-{1 + i % 5:02d}T00:00:05Z",
        }
        for i in range(365)
    ]  # fmt: skip
    path = tmp_path / "spend.json"
    path.write_text(json.dumps(rows))
    told = call(desk, "import", {"kind": "litellm-spendlogs", "path": str(path)}, OPERATOR)
    assert (told["state"], told["rows_loaded"]) == ("OK", 365), told
    assert desk.warehouse.scalar("SELECT count(coalesce(billed_cost_usd, list_cost_usd)) FROM core.usage") == 0
    (alert,) = [a for a in listed(desk) if a["kind"] == "unpriced_share"]
    assert alert["title"].startswith("unpriced share 100 % of tokens of litellm: no price is known for mystery-model")
    assert (alert["severity"], alert["detail"]["unpriced_tokens"]) == ("bad", 37_400_000)
    assert alert["detail"]["unpriced_requests"] == 365


def test_a_fault_of_the_alerts_never_fails_what_came_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(alerting, "evaluate", broken)
    with structlog.testing.capture_logs() as logs:
        imported(desk, tmp_path / "a.json", "2025-11-01T00:00:00Z", CATALOG)
        look_for_alerts(desk)
    assert any("alerts could not be looked for" in entry["event"] for entry in logs)


def test_a_look_is_cheap(desk: Desk) -> None:
    """A sweep runs every minute beside everything else. 200,000 requests, 400 prices; measured at 0.2 s on 2 cores."""
    import time

    import polars as pl

    from warehouse.tables import columns

    now, n = utcnow(), 200_000
    fixed: dict[str, Any] = {
        "provider": "acme", "account": "main", "grain": "request", "workload": "organic", "requests": 1, "attempts": 1,
        "requests_with_energy": 1, "evidence_class": "allocated", "method": "m", "source_id": "s", "run_id": "r",
        "row_sha256": "x", "prompt_tokens": 10,
    }  # fmt: skip
    index = pl.int_range(n, eager=True)
    at = pl.Series([now]).first() - pl.duration(seconds=pl.col("i"))
    frame = pl.DataFrame({"i": index}).with_columns(
        *(pl.lit(v).alias(k) for k, v in fixed.items()),
        usage_key=pl.col("i").cast(pl.String),
        requested_offer=pl.format("m{}", pl.col("i") % 100),
        period_start_at=at,
        period_end_at=at,
        known_from=at,
    )
    schema = {c.name: c.polars for c in columns("core.usage")}
    with desk.warehouse.transaction() as tx:
        tx.append(
            "core.usage",
            frame.select(
                pl.col(k).cast(v) if k in frame.columns else pl.lit(None, v).alias(k) for k, v in schema.items()
            ),
        )
    World(desk.warehouse).offer("deprecated")
    refresh_alerts(desk)
    begun = time.perf_counter()
    refresh_alerts(desk)
    assert time.perf_counter() - begun < 3.0


# doctor ------------------------------------------------------------------------------------------------


def findings(home: Path, config: str) -> dict[str, tuple[str, str]]:
    (home / "joulebook.toml").write_text(config)
    return {c["check"]: (c["state"], c["what"]) for c in check_channels(load_settings())}


def test_doctor_says_that_alerts_go_nowhere(own_home: Path) -> None:
    state, what = findings(own_home, "")["alerts"]
    assert (state, what) == ("ok", "no channel is configured: alerts are shown here alone")


def test_doctor_reaches_out_unless_offline(own_home: Path) -> None:
    port = free_port()
    away = f'[alerts]\nwebhook_url = "http://127.0.0.1:{port}/x"\nwebhook_secret = "hook"\n'
    assert findings(own_home, away)["alerts webhook"] == (
        "bad", "The alerts need the secret 'hook', which is not set.",
    )  # fmt: skip
    away = f'[alerts]\nwebhook_url = "http://127.0.0.1:{port}/x"\n'
    state, what = findings(own_home, away)["alerts webhook"]
    assert (state, "cannot be reached" in what) == ("bad", True)
    assert findings(own_home, "offline = true\n" + away)["alerts webhook"][0] == "ok"
    with receiving(200) as receiver:
        there = f'[alerts]\nwebhook_url = "{receiver.url}"\n'
        state, what = findings(own_home, there)["alerts webhook"]
        assert (state, "takes connections; requests are not signed" in what) == ("ok", True)
        assert receiver.got == [], "nothing is sent to find out"


def test_doctor_names_a_missing_certificate_and_a_bare_password(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = '[alerts.mqtt]\nhost = "127.0.0.1"\nca_file = "no.pem"\n'
    assert "no.pem is not there" in findings(own_home, config)["alerts mqtt"][1]
    monkeypatch.setenv("JOULEBOOK_SECRET_P", "x")
    (own_home / "joulebook.toml").write_text('offline = true\n[alerts.mqtt]\nhost = "h"\npassword_secret = "p"\n')
    told = [(c["state"], c["what"]) for c in check_channels(load_settings())]
    assert ("warning", "the password is sent without encryption") in told
