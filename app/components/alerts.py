"""The section "Alerts": what is wrong, since when, how often it was seen, and the button that takes note of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from app.components import confirm, shapes
from app.components.access import command, guarded
from app.components.format import age, count, instant, literal, parse_instant, percent
from app.components.marks import chip_html

_SPEC = [1.1, 5.2, 1.4, 1.4, 0.8, 1.6]
_HEADS = ("severity", "alert", "first seen", "last seen", "seen", "")
_SHOWN = 50
_FACTS = (("before", "before"), ("after", "now"), ("limit", "limit"), ("source_id", "source"), ("evidence", "evidence"))


def acknowledgement(alert: Mapping[str, Any]) -> confirm.Pending:
    """The dialog before an acknowledgement."""
    return confirm.Pending(
        operation="alert.ack",
        params={"id": alert["id"], "version": alert["version"]},
        title="Acknowledge alert",
        verb="Acknowledge",
        consequences=(
            alert["title"],
            "It stays in this list until its condition is gone, and no longer counts as waiting for you.",
            "It is told again when it gets worse, or when it clears and comes back.",
            "Nothing else changes: what is wrong stays wrong.",
        ),
        undo="nothing; the acknowledgement is kept in the audit trail with your name.",
        done="Alert acknowledged.",
        ask_reason=True,
    )


def summary(alerts: Sequence[Mapping[str, Any]]) -> str:
    """`3 alerts, 1 bad`: the open ones that nobody has acknowledged; empty where there are none."""
    waiting = [a for a in alerts if a["state"] == "open"]
    if not waiting:
        return ""
    bad = sum(a["severity"] == "bad" for a in waiting)
    text = f"{len(waiting)} alert{'s' if len(waiting) > 1 else ''}"
    return f"{text}, {bad} bad" if bad else text


@guarded
def notice() -> None:
    """One line at the top of the page while alerts wait further down."""
    alerts = command("alert.list", {})["alerts"]
    waiting = summary(alerts)
    if waiting:
        look = "bad" if any(a["state"] == "open" and a["severity"] == "bad" for a in alerts) else "warn"
        shapes.note(f"{waiting}: under Alerts, below the sources", look)


@guarded
def section() -> None:
    """Open alerts, bad ones first, and the channels that they are sent through."""
    told = command("alert.list", {})
    alerts = told["alerts"]
    st.subheader("Alerts", anchor=False)
    if not alerts:
        shapes.empty(
            "Prices that moved, offers that end, old sources, unpriced tokens, sensors and boards that fail",
            "Nothing is wrong. The limits are under [alerts] in joulebook.toml.",
        )
    else:
        with st.container(key="alerts"):
            for column, word in zip(st.columns(_SPEC), _HEADS, strict=True):
                column.html(f'<div class="jb jb-small jb-muted">{word}</div>')
            for alert in alerts[:_SHOWN]:
                _row(alert)
        if len(alerts) > _SHOWN:
            st.caption(
                f"{count(len(alerts) - _SHOWN)} more: joulebook alerts list, or SELECT * FROM ops.alert on the SQL page"
            )
    _channels(told["channels"])


def _row(alert: Mapping[str, Any]) -> None:
    severity, what, first, last, times, button = st.columns(_SPEC, vertical_alignment="center")
    severity.html(f'<div class="jb">{chip_html(alert["severity"])}</div>')
    facts = " · ".join(f"{word} {_fact(alert['detail'][name])}" for name, word in _FACTS if _told(alert, name))
    late = _undelivered(alert)
    what.html(
        f'<div class="jb">{escape(alert["title"])}<br><span class="jb-small jb-muted">'
        f'<span class="jb-id">{escape(alert["kind"])}</span> {escape(alert["subject"])} · {escape(facts)}</span>'
        f"{late}</div>"
    )
    for cell, name in ((first, "first_seen_at"), (last, "last_seen_at")):
        at = parse_instant(alert[name])
        cell.html(f'<div class="jb jb-small" title="{escape(instant(at))}">{escape(age(at))} ago</div>')
    times.html(f'<div class="jb jb-small jb-num">{count(alert["times_seen"])}×</div>')
    if alert["state"] == "acknowledged":
        button.html(
            f'<div class="jb jb-small jb-muted">acknowledged by {escape(str(alert["acknowledged_by"]))}, '
            f"{escape(age(parse_instant(alert['acknowledged_at'])))} ago</div>"
        )
    elif button.button(
        "Acknowledge", key=f"ack-{alert['id'][:12]}", help=literal(f"Take note of: {alert['title'][:120]}")
    ):
        confirm.ask(acknowledgement(alert))
        st.rerun(scope="app")  # the dialog belongs to the page, not to this part of it


def _told(alert: Mapping[str, Any], name: str) -> bool:
    return alert["detail"].get(name) is not None


def _fact(value: Any) -> str:
    """A fact of an alert, short: a fraction is a share or a relative change, everything else is as it is told."""
    if isinstance(value, float):
        return percent(value)
    return str(value)[:80]


def _undelivered(alert: Mapping[str, Any]) -> str:
    """In words, which channel has not taken it."""
    failing = [f"not sent to {name} yet" for name, told in sorted(alert["delivered"].items()) if told.get("error")]
    return "".join(f'<br><span class="jb-chip warn"><i aria-hidden="true"></i>{escape(f)}</span>' for f in failing)


_LOOKS = {"failing": "bad", "misconfigured": "bad"}


def _channels(channels: Sequence[Mapping[str, Any]]) -> None:
    if not channels:
        shapes.note("Alerts are shown here alone: neither a broker nor a webhook is configured.")
    for channel in channels:
        parts = [f"{channel['channel']}: {channel['state']}"]
        if channel["waiting"]:
            parts.append(f"{count(channel['waiting'])} waiting")
        if channel["last_sent_at"]:
            parts.append(f"last sent {age(parse_instant(channel['last_sent_at']))} ago")
        parts += [text for text in (channel["error"], channel["fix"]) if text]
        shapes.note(" · ".join(parts), _LOOKS.get(channel["state"], ""))
