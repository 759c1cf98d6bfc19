"""Alerts as webhooks to a real server: signed, tried again, once per news, and without a secret in any word."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.alerting import refresh_alerts
from app.delivery import courier as couriers_module
from app.delivery import start_couriers, webhook
from app.desk import Desk
from app.operations import call
from tests.alerts.broker import wait_for
from tests.alerts.desks import OPERATOR, find_gpu, lose_gpu, make_desk
from tests.alerts.receiver import Receiver, receiving
from tests.e2e.console import free_port

SECRET = "hook-secret-8813"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers_module, "FIRST_WAIT_S", 0.05)
    monkeypatch.setattr(webhook, "_MAX_WAIT_S", 0.05)
    monkeypatch.setenv("JOULEBOOK_SECRET_HOOK", SECRET)


@contextmanager
def started(home: Path, url: str, *, timeout: str = "2 s") -> Iterator[Desk]:
    desk = make_desk(home, f'[alerts]\nwebhook_url = "{url}"\nwebhook_secret = "hook"\ntimeout = "{timeout}"\n')
    desk.couriers = start_couriers(desk)
    try:
        yield desk
    finally:
        desk.close()


def events(receiver: Receiver) -> list[str]:
    return [json.loads(g.body)["event"] for g in receiver.got]


def delivered(desk: Desk) -> dict[str, Any]:
    told = call(desk, "alert.list", {"all": True}, OPERATOR)["alerts"][0]["delivered"]
    return dict(told.get("webhook", {}))


def test_an_alert_comes_once_signed_and_with_an_id(own_home: Path) -> None:
    with receiving(200) as receiver, started(own_home, receiver.url) as desk:
        lose_gpu(desk)
        assert wait_for(lambda: len(receiver.got) == 1)
        assert wait_for(lambda: bool(delivered(desk).get("at")))
        for _ in range(3):
            refresh_alerts(desk)
        time.sleep(0.3)
        (got,) = receiver.got
        expected = hmac.new(SECRET.encode(), got.body, hashlib.sha256).hexdigest()
        assert got.headers["x-joulebook-signature"] == f"sha256={expected}"
        assert got.headers["x-joulebook-event"] == "raised"
        told = json.loads(got.body)
        assert got.headers["idempotency-key"] == told["id"]
        assert told["alert"]["subject"] == "GPU-1"
        assert told["alert"]["detail"]["after"] == "lost"


def test_a_server_that_fails_at_first_gets_the_same_id_again(own_home: Path) -> None:
    with receiving(500, 503, 500, 502, 200) as receiver, started(own_home, receiver.url) as desk:
        lose_gpu(desk)
        assert wait_for(lambda: len(receiver.got) == 5)
        assert wait_for(lambda: delivered(desk).get("event") == "raised")
        assert len({g.headers["idempotency-key"] for g in receiver.got}) == 1
        assert delivered(desk)["error"] is None
        time.sleep(0.3)
        assert len(receiver.got) == 5


def test_news_is_raised_and_cleared_an_acknowledgement_is_not_sent(own_home: Path) -> None:
    with receiving(200) as receiver, started(own_home, receiver.url) as desk:
        lose_gpu(desk)
        assert wait_for(lambda: events(receiver) == ["raised"])
        assert wait_for(lambda: bool(delivered(desk).get("at")))
        alert = call(desk, "alert.list", {}, OPERATOR)["alerts"][0]
        call(desk, "alert.ack", {"id": alert["id"], "version": alert["version"]}, OPERATOR)
        for _ in range(3):
            refresh_alerts(desk)
        assert wait_for(lambda: delivered(desk)["version"] == 2)
        assert events(receiver) == ["raised"]
        find_gpu(desk)
        assert wait_for(lambda: events(receiver) == ["raised", "cleared"])
        lose_gpu(desk)
        assert wait_for(lambda: events(receiver) == ["raised", "cleared", "raised"])
        assert len({g.headers["idempotency-key"] for g in receiver.got}) == 3


def test_what_came_and_went_before_anybody_could_be_told_is_not_told(own_home: Path) -> None:
    desk = make_desk(own_home)
    lose_gpu(desk)
    find_gpu(desk)
    desk.close()
    with receiving(200) as receiver, started(own_home, receiver.url) as desk:
        lose_gpu(desk, "GPU-2")
        assert wait_for(lambda: len(receiver.got) == 1)
        time.sleep(0.2)
        assert [json.loads(g.body)["alert"]["subject"] for g in receiver.got] == ["GPU-2"]


def test_one_alert_that_is_refused_for_good_does_not_hold_up_the_others(own_home: Path) -> None:
    with receiving(422, 200) as receiver:
        desk = make_desk(own_home)
        lose_gpu(desk, "GPU-1")
        lose_gpu(desk, "GPU-2")
        desk.close()
        with started(own_home, receiver.url) as desk:
            assert wait_for(lambda: len(receiver.got) == 3)  # refused, taken, and the first one again
            subjects = [json.loads(g.body)["alert"]["subject"] for g in receiver.got]
            assert subjects == ["GPU-1", "GPU-2", "GPU-1"]


@pytest.mark.parametrize(
    ("script", "told"),
    [((404,), "answered 404"), ((307,), "answered 307"), ((0,), "did not answer within 0.3 s")],
    ids=["not found", "redirect", "silence"],
)
def test_failures_are_told_in_words_without_the_address_beyond_its_host(
    own_home: Path, script: tuple[int, ...], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with structlog.testing.capture_logs() as logs, receiving(*script) as receiver:
        with started(own_home, receiver.url, timeout="300 ms") as desk:
            lose_gpu(desk)
            assert wait_for(lambda: told in str(delivered(desk).get("error")))
            answer = call(desk, "alert.test", {}, OPERATOR)
            listed = call(desk, "alert.list", {}, OPERATOR)
        assert not any(g.path == "/elsewhere" for g in receiver.got)
    assert listed["channels"][0]["state"] == "failing"
    assert listed["channels"][0]["waiting"] == 1
    assert told in answer["channels"][0]["what"]
    everything = json.dumps([logs, answer, listed], default=str) + "".join(capfd.readouterr())
    assert SECRET not in everything
    assert "path-secret-5521" not in everything


def test_a_receiver_that_is_away_is_named_by_its_host(own_home: Path) -> None:
    port = free_port()
    with started(own_home, f"http://127.0.0.1:{port}/hook/path-secret-5521") as desk:
        told = call(desk, "alert.test", {}, OPERATOR)["channels"][0]
    assert told["what"] == f"No connection to http://127.0.0.1:{port}: ConnectError."


def test_a_slow_receiver_holds_no_load_up(own_home: Path) -> None:
    with receiving(0) as receiver, started(own_home, receiver.url) as desk:
        lose_gpu(desk)
        assert wait_for(lambda: len(receiver.got) == 1)
        begun = time.monotonic()
        for _ in range(5):
            refresh_alerts(desk)
        assert time.monotonic() - begun < 3


def test_both_channels_are_tested_and_reported_apart(own_home: Path) -> None:
    with receiving(204) as receiver:
        desk = make_desk(
            own_home,
            f'[alerts]\nwebhook_url = "{receiver.url}"\ntimeout = "300 ms"\n'
            f'[alerts.mqtt]\nhost = "127.0.0.1"\nport = {free_port()}\n',
        )
        told = call(desk, "alert.test", {}, OPERATOR)
        desk.close()
    assert [(c["channel"], c["ok"]) for c in told["channels"]] == [("mqtt", False), ("webhook", True)]
    assert told["ok"] is False
    assert json.loads(receiver.got[0].body)["event"] == "test"
    assert "x-joulebook-signature" not in receiver.got[0].headers
