"""The section "Alerts" on Sources, and what the Overview counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app import desk as desks
from app.alerting import refresh_alerts
from app.desk import Desk
from app.operations import call
from tests.alerts.desks import OPERATOR, lose_gpu, make_desk
from tests.alerts.world import World
from tests.console.pages import open_page, press, words
from warehouse import ledger
from warehouse.clock import utcnow


@pytest.fixture
def desk(own_home: Path) -> Iterator[Desk]:
    made = make_desk(own_home)
    desks.set_current(made)
    yield made
    desks.set_current(None)
    made.close()


def test_without_an_alert_it_says_what_it_would_show(desk: Desk) -> None:
    told = words(open_page("sources"))
    assert "Nothing is wrong. The limits are under [alerts] in joulebook.toml." in told
    assert "neither a broker nor a webhook is configured" in told


def test_an_alert_shows_severity_as_mark_and_word_what_where_when_and_how_often(desk: Desk) -> None:
    lose_gpu(desk)
    refresh_alerts(desk)
    told = words(open_page("sources"))
    assert '<span class="jb-chip bad"><i aria-hidden="true"></i>bad</span>' in told
    assert "H100 GPU-1 of n1 is lost since" in told
    assert "gpu_lost" in told
    assert "before ok · now lost · source acme · evidence measured" in told
    assert "2×" in told
    assert "ago" in told


def test_acknowledging_asks_first_and_then_names_who_it_was(desk: Desk) -> None:
    lose_gpu(desk)
    key = f"ack-{call(desk, 'alert.list', {}, OPERATOR)['alerts'][0]['id'][:12]}"
    page = press(open_page("sources"), key)
    asked = words(page)
    assert "It is told again when it gets worse, or when it clears and comes back." in asked
    assert ledger.events(desk.warehouse, kind="alert.acknowledged") == []
    page.text_input(key="confirm-reason").set_value("the board is in the mail")
    told = words(press(page, "confirm-go"))
    assert "acknowledged by" in told
    (event,) = ledger.events(desk.warehouse, kind="alert.acknowledged")
    assert event.data["reason"] == "the board is in the mail"
    assert not [b for b in page.button if b.key == key]


def test_the_overview_counts_the_open_ones_that_nobody_acknowledged(desk: Desk) -> None:
    assert "Nothing needs you" in words(open_page())
    lose_gpu(desk, "GPU-1")
    lose_gpu(desk, "GPU-2")
    World(desk.warehouse).offer("deprecated", at=utcnow() - timedelta(days=1))
    refresh_alerts(desk)
    told = words(open_page())
    assert "NEEDS YOU" in told
    assert "3 alerts, 2 bad" in told
    for alert in call(desk, "alert.list", {}, OPERATOR)["alerts"]:
        call(desk, "alert.ack", {"id": alert["id"], "version": alert["version"]}, OPERATOR)
    assert "Nothing needs you" in words(open_page())


def test_a_stale_source_is_told_once_on_the_overview(desk: Desk) -> None:
    world = World(desk.warehouse)
    world.source("bills", updated_at=utcnow())
    world.run("r", utcnow() - timedelta(hours=3), source_id="bills")
    assert "bills stale" in words(open_page())
    refresh_alerts(desk)
    told = words(open_page())
    assert "1 alert" in told
    assert "bills stale" not in told


def test_text_from_outside_stays_text(desk: Desk) -> None:
    name = "<img src=x onerror=alert(1)>![x](http://a.test/b.png)"
    World(desk.warehouse).offer("deprecated", at=utcnow() - timedelta(days=1), offer=name)
    refresh_alerts(desk)
    page = open_page("sources")
    assert "<img src=x" not in words(page)
    assert "](http" not in "".join(b.help or "" for b in page.button if (b.key or "").startswith("ack-"))


def test_what_a_channel_did_not_take_is_said_beside_the_alert_and_below(own_home: Path) -> None:
    from app.delivery import start_couriers
    from tests.alerts.broker import wait_for

    desk = make_desk(own_home, '[alerts]\nwebhook_url = "http://127.0.0.1:9/secret-path"\ntimeout = "300 ms"\n')
    desks.set_current(desk)
    desk.couriers = start_couriers(desk)
    try:
        lose_gpu(desk)
        assert wait_for(lambda: desk.couriers.statuses()[0].state == "failing")  # type: ignore[union-attr]
        told = words(open_page("sources"))
        assert "not sent to webhook yet" in told
        assert "webhook: failing · 1 waiting" in told
        assert "secret-path" not in told
    finally:
        desks.set_current(None)
        desk.close()
