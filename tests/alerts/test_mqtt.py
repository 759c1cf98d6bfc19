"""Alerts on a real broker: delivered, repeated after it was down, refused in words, emptied when they clear."""

from __future__ import annotations

import gc
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from app.alerting import refresh_alerts
from app.delivery import courier as couriers_module
from app.delivery import start_couriers
from app.delivery.message import Message
from app.delivery.mqtt import topic_of
from app.desk import Desk
from app.operations import call
from tests.alerts.broker import Broker, listening, require_broker, retained, wait_for
from tests.alerts.desks import OPERATOR, catalog, find_gpu, lose_gpu, make_desk
from tests.e2e.console import Console, free_port

TOPIC = "joulebook/alerts/gpu_lost/GPU-1"
PASSWORD = "not-for-any-log-7391"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers_module, "FIRST_WAIT_S", 0.05)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as running:
        yield running


def config(port: int, **more: str) -> str:
    told = {"host": '"127.0.0.1"', "port": str(port), **more}
    lines = "".join(f"{k} = {v}\n" for k, v in told.items())
    return f'[alerts]\ntimeout = "2 s"\n[alerts.mqtt]\n{lines}'


def started(home: Path, port: int, **more: str) -> Desk:
    desk = make_desk(home, config(port, **more))
    desk.couriers = start_couriers(desk)
    return desk


def state(desk: Desk) -> dict[str, object]:
    (channel,) = call(desk, "alert.list", {}, OPERATOR)["channels"]
    return dict(channel)


def test_an_alert_is_published_retained_and_emptied_when_it_clears(own_home: Path, broker: Broker) -> None:
    desk = started(own_home, broker.port)
    try:
        with listening(broker.port) as heard:
            lose_gpu(desk)
            assert wait_for(lambda: bool(heard.of(TOPIC)))
            told = json.loads(heard.of(TOPIC)[0][1])
            assert (told["event"], told["alert"]["kind"], told["alert"]["severity"]) == ("raised", "gpu_lost", "bad")
            assert "is lost since" in told["alert"]["title"]
            assert list(retained(broker.port)) == [TOPIC]
            for _ in range(3):
                refresh_alerts(desk)  # seen again: no news
            time.sleep(0.3)
            assert len(heard.of(TOPIC)) == 1
            find_gpu(desk)
            assert wait_for(lambda: len(heard.of(TOPIC)) == 2)
            assert heard.of(TOPIC)[1][1] == ""
            assert retained(broker.port) == {}
    finally:
        desk.close()


def test_the_desk_says_that_it_is_there_and_the_broker_that_it_is_gone(own_home: Path, broker: Broker) -> None:
    desk = started(own_home, broker.port)
    assert wait_for(lambda: retained(broker.port, "/status") == {"joulebook/status": "online"})
    desk.close()
    assert retained(broker.port, "/status") == {"joulebook/status": "offline"}


def test_an_acknowledgement_changes_the_retained_state_and_is_no_new_alarm(own_home: Path, broker: Broker) -> None:
    desk = started(own_home, broker.port)
    try:
        lose_gpu(desk)
        assert wait_for(lambda: TOPIC in retained(broker.port))
        alert = call(desk, "alert.list", {}, OPERATOR)["alerts"][0]
        call(desk, "alert.ack", {"id": alert["id"], "version": alert["version"]}, OPERATOR)
        assert wait_for(lambda: json.loads(retained(broker.port)[TOPIC])["event"] == "acknowledged")
        assert json.loads(retained(broker.port)[TOPIC])["alert"]["acknowledged_by"] == "ada@local"
    finally:
        desk.close()


def test_a_broker_that_is_down_holds_nothing_up_and_gets_all_of_it_later(own_home: Path, tmp_path: Path) -> None:
    port = free_port()
    require_broker()
    desk = started(own_home, port)
    try:
        begun = time.monotonic()
        for uuid in ("GPU-1", "GPU-2", "GPU-3"):
            lose_gpu(desk, uuid)
        assert time.monotonic() - begun < 5, "writing alerts does not wait for the broker"
        assert wait_for(lambda: state(desk)["state"] == "failing")
        assert wait_for(lambda: state(desk)["waiting"] == 3)
        assert "cannot be used: no connection" in str(state(desk)["error"])
        find_gpu(desk, "GPU-3")  # gone before anybody could be told
        with Broker(tmp_path, port=port):
            assert wait_for(lambda: set(retained(port)) == {TOPIC, TOPIC.replace("-1", "-2")}, 30)
            assert wait_for(lambda: state(desk)["state"] == "ok")
            assert state(desk)["waiting"] == 0
    finally:
        desk.close()


def test_a_broker_that_forgot_everything_is_told_again(own_home: Path, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        desk = started(own_home, broker.port)
        try:
            lose_gpu(desk)
            assert wait_for(lambda: TOPIC in retained(broker.port))
            first = json.loads(retained(broker.port)[TOPIC])
            broker.stop()
            assert wait_for(lambda: not desk.couriers._couriers[0]._channel._connected.is_set())  # type: ignore
            broker.start()
            assert wait_for(lambda: TOPIC in retained(broker.port), 30)
            assert json.loads(retained(broker.port)[TOPIC])["id"] == first["id"], "the same message, not a new alarm"
        finally:
            desk.close()


def test_what_could_not_be_sent_is_sent_after_a_restart(own_home: Path, tmp_path: Path) -> None:
    desk = make_desk(own_home, config(port := free_port()))
    lose_gpu(desk)
    desk.close()
    with Broker(tmp_path, port=port):
        desk = started(own_home, port)
        try:
            assert wait_for(lambda: TOPIC in retained(port))
        finally:
            desk.close()


def test_a_condition_that_is_back_is_not_wiped_by_its_old_end(own_home: Path, tmp_path: Path) -> None:
    port = free_port()
    with Broker(tmp_path, port=port) as broker:
        desk = started(own_home, port)
        lose_gpu(desk)
        assert wait_for(lambda: TOPIC in retained(port))
        desk.close()
        desk = make_desk(own_home, config(port))  # nobody delivers for now
        find_gpu(desk)
        lose_gpu(desk)
        second = call(desk, "alert.list", {}, OPERATOR)["alerts"][0]["id"]
        desk.couriers = start_couriers(desk)
        try:
            assert wait_for(lambda: json.loads(retained(port).get(TOPIC) or "{}").get("alert", {}).get("id") == second)
            time.sleep(0.3)
            assert TOPIC in retained(port)
        finally:
            desk.close()
        assert broker.port == port


def test_a_running_console_tells_the_broker_what_an_import_brought(
    own_home: Path, tmp_path: Path, broker: Broker
) -> None:
    (own_home / "joulebook.toml").write_text("[sample]\nload_when_empty = false\n" + config(broker.port))
    off = {f"JOULEBOOK_SOURCES__{n}__ENABLED": "false" for n in ("openrouter", "uk-carbon", "uk-carbon-forecast")}
    with (
        Console(own_home, JOULEBOOK_OFFLINE="false", JOULEBOOK_POWER__ENABLED="false", **off) as console,
        listening(broker.port) as heard,
    ):
        for day, usd in (("01", "0.000001"), ("02", "0.000005")):
            file = catalog(tmp_path / f"{day}.json", usd)
            console.json("import", "openrouter", str(file), "--fetched-at", f"2025-11-{day}T00:00:00Z")
        assert wait_for(lambda: bool(heard.of("/price_change/")))
        topic, payload, _ = heard.of("/price_change/")[0]
        assert topic == "joulebook/alerts/price_change/openrouter%2Fv%2Fm"
        assert "$1/1M tokens to $5/1M tokens (+400 %)" in json.loads(payload)["alert"]["title"]
        assert console.stop() < 10
    assert retained(broker.port, "/status") == {"joulebook/status": "offline"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Broker]:
    """A broker that wants the user joulebook and PASSWORD."""
    require_broker()
    passwords = tmp_path / "passwords"
    passwords.write_text(f"joulebook:{PASSWORD}\n")
    passwords.chmod(0o600)
    subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True, capture_output=True)
    with Broker(tmp_path, f"allow_anonymous false\npassword_file {passwords}\n") as running:
        yield running


SECRETS = {"user_secret": '"mqtt-user"', "password_secret": '"mqtt-password"'}


@pytest.mark.parametrize("password", [PASSWORD, "wrong-" + PASSWORD], ids=["right", "wrong"])
def test_a_password_opens_the_broker_or_is_refused_in_words(
    own_home: Path, guarded: Broker, monkeypatch: pytest.MonkeyPatch, password: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOULEBOOK_SECRET_MQTT_USER", "joulebook")
    monkeypatch.setenv("JOULEBOOK_SECRET_MQTT_PASSWORD", password)
    right = password == PASSWORD
    with structlog.testing.capture_logs() as logs:
        desk = started(own_home, guarded.port, **SECRETS)
        try:
            lose_gpu(desk)
            assert wait_for(lambda: state(desk)["state"] == ("ok" if right else "failing"))
            told = call(desk, "alert.test", {}, OPERATOR)
            listed = call(desk, "alert.list", {"all": True}, OPERATOR)
        finally:
            desk.close()
    assert told["ok"] is right
    if right:
        with listening(guarded.port, "joulebook", PASSWORD) as heard:
            assert wait_for(lambda: bool(heard.of(TOPIC)))
    else:
        assert "not authorized" in str(told["channels"][0]["what"]) + str(told["channels"][0]["fix"])
        assert "alerts.mqtt.password_secret" in told["channels"][0]["fix"]
        assert listed["alerts"][0]["delivered"]["mqtt"]["error"]
    everything = json.dumps([logs, told, listed], default=str) + "".join(capfd.readouterr())
    assert PASSWORD not in everything


def test_a_missing_secret_is_named_and_keeps_nothing_else_down(own_home: Path) -> None:
    desk = started(own_home, free_port(), **SECRETS)
    try:
        lose_gpu(desk)
        told = state(desk)
        assert told["state"] == "misconfigured"
        assert "'mqtt-user', which is not set" in str(told["error"])
        assert "JOULEBOOK_SECRET_MQTT_USER" in str(told["fix"])
    finally:
        desk.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("no usable openssl command")
    return cert, key


# paho leaves the socket of a handshake that failed to the garbage collector, which is called here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("trusted", [True, False])
def test_tls_is_used_and_the_certificate_of_the_broker_is_checked(
    own_home: Path, tmp_path: Path, trusted: bool
) -> None:
    require_broker()
    cert, key = certificate(tmp_path)
    with Broker(tmp_path, f"allow_anonymous true\ncertfile {cert}\nkeyfile {key}\n") as broker:
        more = {"tls": "true", **({"ca_file": f'"{cert}"'} if trusted else {})}
        desk = make_desk(own_home, config(broker.port, **more))
        told = call(desk, "alert.test", {}, OPERATOR)
        desk.close()
    gc.collect()
    assert told["ok"] is trusted
    if not trusted:
        assert "no connection (TLS)" in told["channels"][0]["what"]


def test_offline_sends_nothing_and_says_so(own_home: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOULEBOOK_OFFLINE", "true")
    desk = started(own_home, broker.port)
    try:
        with listening(broker.port) as heard:
            lose_gpu(desk)
            told = call(desk, "alert.test", {}, OPERATOR)
            time.sleep(0.4)
            assert heard.messages == []
        assert state(desk)["state"] == "offline"
        assert told == {
            "ok": False,
            "channels": [
                {
                    "channel": "mqtt",
                    "ok": False,
                    "what": "offline = true: nothing is sent",
                    "fix": "set offline = false to send",
                }
            ],
        }
    finally:
        desk.close()


def test_the_test_message_says_that_it_is_one_and_is_not_kept(own_home: Path, broker: Broker) -> None:
    desk = make_desk(own_home, config(broker.port, topic='"ops/desk"'))
    with listening(broker.port) as heard:
        assert call(desk, "alert.test", {}, OPERATOR)["ok"]
        assert wait_for(lambda: bool(heard.of("ops/desk/test")))
        told = json.loads(heard.of("ops/desk/test")[0][1])
        assert told["event"] == "test"
        assert "asked for by ada@local" in told["text"]
    assert retained(broker.port, "test") == {}
    desk.close()


def test_stopping_never_hangs_on_a_broker_that_is_silent(own_home: Path) -> None:
    """Something listens and never answers."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk = started(own_home, silent.getsockname()[1])
        lose_gpu(desk)
        time.sleep(0.3)
        begun = time.monotonic()
        desk.close()
        assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("openrouter/meta/llama", "t/alerts/k/openrouter%2Fmeta%2Fllama"),
        ("a+b#c$d e", "t/alerts/k/a%2Bb%23c%24d%20e"),
        ("zoë\x00", "t/alerts/k/zo%C3%AB%00"),
    ],
)
def test_a_subject_never_adds_levels_or_wildcards_to_a_topic(subject: str, topic: str) -> None:
    assert topic_of("t", Message("i", "raised", "k", subject, {})) == topic


def test_long_subjects_keep_topics_apart() -> None:
    first, second = ("x" * 400 + end for end in "ab")
    topics = {topic_of("t", Message("i", "raised", "k", s, {})) for s in (first, second)}
    assert len(topics) == 2
    assert all(len(t) < 250 for t in topics)
