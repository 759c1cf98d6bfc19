"""`joulebook alerts ...`: list them, acknowledge one, test the channels."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import Client, ask
from app.errors import NotFound
from app.settings import load_settings

alerts = typer.Typer(help="Alerts: list them, acknowledge one, test the channels.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
_SEVERITY = {"bad": "⬡ bad", "warning": "△ warning"}


@alerts.command("list")
def list_(all_: Annotated[bool, typer.Option("--all", help="Cleared ones too.")] = False, json_: Json = False) -> None:
    """List the open alerts, bad ones first."""
    told = ask("alert.list", {"all": all_})
    if json_:
        out.document(told)
        return
    if not told["alerts"]:
        out.line("no open alert" if not all_ else "no alert yet")
    else:
        out.grid(
            ["id", "severity", "state", "ver", "title", "subject", "first seen", "last seen", "times"],
            [_row(a) for a in told["alerts"]],
        )
    for channel in told["channels"]:
        out.line(_channel(channel))


def _row(alert: dict[str, Any]) -> list[Any]:
    return [
        alert["id"][:12],
        _SEVERITY[alert["severity"]],
        alert["state"],
        alert["version"],
        alert["title"],
        alert["subject"],
        alert["first_seen_at"],
        alert["last_seen_at"],
        alert["times_seen"],
    ]


def _channel(told: dict[str, Any]) -> str:
    waiting = f", {told['waiting']} waiting" if told["waiting"] else ""
    why = f": {told['error']}" if told["error"] else ""
    return f"{told['channel']} {told['state']}{waiting}{why}"


@alerts.command("ack")
def ack(
    id: Annotated[str, typer.Argument(help="The alert's id, or its first characters (8 or more).")],
    version: Annotated[int | None, typer.Option(help="The version you saw (default: the current one).", min=1)] = None,
    reason: Annotated[str | None, typer.Option(help="Why; kept in the ledger.")] = None,
    json_: Json = False,
) -> None:
    """Acknowledge an alert: it is told again only when it gets worse, or clears and comes back."""
    with Client(load_settings()) as client:
        if version is None:
            version = _version_now(client, id)
        told = client.call("alert.ack", {"id": id, "version": version, "reason": reason})
    if json_:
        out.document(told)
        return
    out.line(f"{told['id'][:12]} acknowledged by {told['acknowledged_by']}: {told['title']}")


def _version_now(client: Client, alert_id: str) -> int:
    found = [a for a in client.call("alert.list")["alerts"] if a["id"].startswith(alert_id.lower())]
    if not found:
        raise NotFound(f"There is no open alert {alert_id!r}.", fix="see `joulebook alerts list`")
    return int(found[0]["version"])


@alerts.command("test")
def send_test(json_: Json = False) -> None:
    """Send a test message through each channel and report what came of it."""
    told = ask("alert.test")
    if json_:
        out.document(told)
    elif not told["channels"]:
        out.error("No channel is configured.", "set [alerts.mqtt] host or [alerts] webhook_url in joulebook.toml")
    else:
        out.grid(
            ["channel", "state", "what", "fix"],
            [(c["channel"], "✓ ok" if c["ok"] else "⬡ failed", c["what"], c["fix"]) for c in told["channels"]],
        )
    if not told["ok"]:
        raise typer.Exit(1)
