"""[alerts] in joulebook.toml: limits with units, wrong ones named in words."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from app.alerting import thresholds
from app.errors import ConfigError
from app.settings import load_settings
from policies.alerts import Thresholds


def test_the_defaults_of_the_file_are_those_of_the_rules() -> None:
    assert thresholds(load_settings()) == Thresholds()


def test_limits_come_from_the_file(own_home: Path) -> None:
    (own_home / "joulebook.toml").write_text(
        '[alerts]\nprice_change = 0.2\nexpiring_within = "14 d"\n[alerts.mqtt]\nhost = "broker"\ntls = true\n'
    )
    settings = load_settings()
    assert thresholds(settings).price_change == 0.2
    assert thresholds(settings).expiring_within == timedelta(days=14)
    assert settings.alerts.mqtt.tls


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("expiring_within = 7", "alerts.expiring_within: 7 has no unit"),
        ("price_change = -1", "alerts.price_change"),
        ("unpriced_share = 1.5", "alerts.unpriced_share"),
        ('webhook_url = "ftp://x"', "alerts.webhook_url: it is no http or https address"),
        ("surprise = 1", "alerts.surprise"),
        ('mqtt = {topic = "a/#"}', "alerts.mqtt.topic"),
        ('mqtt = {topic = "/a"}', "alerts.mqtt.topic"),
        ("mqtt = {port = 70000}", "alerts.mqtt.port"),
        ('mqtt = {password = "p"}', "alerts.mqtt.password"),
    ],
)
def test_wrong_settings_are_told_in_words(own_home: Path, config: str, words: str) -> None:
    (own_home / "joulebook.toml").write_text(f"[alerts]\n{config}\n")
    with pytest.raises(ConfigError) as told:
        load_settings()
    assert words in told.value.message
