"""What `joulebook doctor` says about the channels: configuration always, reachability unless offline."""

from __future__ import annotations

from app.delivery.message import channel, configured
from app.errors import AppError, ConfigError
from app.settings import Settings


def check_channels(settings: Settings) -> list[dict[str, str]]:
    """Findings as {check, state ok|warning|bad, what, fix}."""
    found = []
    names = configured(settings)
    told = settings.alerts
    if not names:
        return [_check("alerts", "ok", "no channel is configured: alerts are shown here alone")]
    if told.mqtt.host and (told.mqtt.user_secret or told.mqtt.password_secret) and not told.mqtt.tls:
        found.append(
            _check("alerts mqtt", "warning", "the password is sent without encryption", "set alerts.mqtt.tls = true")
        )
    if told.webhook_url and told.webhook_secret is None:
        found.append(
            _check("alerts webhook", "warning", "its messages are not signed", "set alerts.webhook_secret to a secret")
        )
    return [*found, *(_reach(settings, name) for name in names)]


def _reach(settings: Settings, name: str) -> dict[str, str]:
    check = f"alerts {name}"
    try:
        used = channel(settings, name, purpose="-doctor")
    except ConfigError as error:
        return _check(check, "bad", error.message, error.fix)
    try:
        if settings.offline:
            return _check(check, "ok", "is configured; offline = true: nothing is sent")
        return _check(check, "ok", used.probe())
    except AppError as error:
        return _check(check, "bad", error.message, error.fix)
    finally:
        used.close()


def _check(check: str, state: str, what: str, fix: str = "") -> dict[str, str]:
    return {"check": check, "state": state, "what": what, "fix": fix}
