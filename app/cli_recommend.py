"""`joulebook recommend ...`: list, show, shadow, judge, approve, promote, measure, dismiss, roll back."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app import cli_print as out
from app.cli_exports import recommend_export
from app.client import Client, ask
from app.errors import BadRequest
from app.settings import load_settings
from warehouse.ids import uuid7

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
recommend = typer.Typer(
    help="Recommendations: list, show, shadow, approve, promote, dismiss, roll back.", no_args_is_help=True
)


def pairs(options: list[str], flag: str, example: str) -> dict[str, str]:
    pairs = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadRequest(f"--{flag} {text!r} is not NAME=VALUE.", fix=f"write --{flag} {example}")
        pairs[name.strip()] = value.strip()
    return pairs


def _value(text: str) -> Any:
    """A number or null where it is one, else the text: what a margin means is checked where it is used."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@recommend.command("list")
def recommend_list(
    state: Annotated[str | None, typer.Option(help="Only this state, such as PROPOSED.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    json_: Json = False,
) -> None:
    """List the recommendations."""
    out.recommendations(ask("recommend.list", {"state": state, "include_closed": all_}), as_json=json_)


@recommend.command("show")
def recommend_show(id: str, json_: Json = False) -> None:
    """Show one recommendation: promise, evidence, targets, timeline."""
    out.recommendation(ask("recommend.show", {"id": id}), as_json=json_)


Revision = Annotated[int | None, typer.Option(help="The revision you saw (default: the current one).", min=1)]
Reason = Annotated[str | None, typer.Option(help="Why; kept in the ledger.")]


def _command(name: str, id: str, revision: int | None, reason: str | None, as_json: bool, **more: Any) -> None:
    """Send a command with the revision it is based on."""
    with Client(load_settings()) as client:
        if revision is None:
            revision = client.call("recommend.show", {"id": id})["revision"]
        # One key per call of the command: a retry inside the client cannot count twice.
        params = {"id": id, "revision": revision, "reason": reason, "idempotency_key": uuid7(), **more}
        told = client.call(f"recommend.{name}", params)
    out.recommendation(told, as_json=as_json)


@recommend.command("approve")
def recommend_approve(id: str, revision: Revision = None, reason: Reason = None, json_: Json = False) -> None:
    """Approve a recommendation; a downstream collects and applies it."""
    _command("approve", id, revision, reason, json_)


@recommend.command("shadow")
def recommend_shadow(
    id: str,
    margin: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE over the configured [shadow.margins]; repeat.")
    ] = None,
    revision: Revision = None,
    reason: Reason = None,
    json_: Json = False,
) -> None:
    """Store margins and begin to shadow; votes and verdicts from before no longer count."""
    told = {name: _value(text) for name, text in pairs(margin or [], "margin", "success_margin=0.01").items()}
    _command("shadow", id, revision, reason, json_, margins=told)


@recommend.command("promote")
def recommend_promote(id: str, revision: Revision = None, reason: Reason = None, json_: Json = False) -> None:
    """Move on to the next share of the traffic, once the gate of this one has passed."""
    _command("promote", id, revision, reason, json_)


@recommend.command("judge")
def recommend_judge(
    id: Annotated[str | None, typer.Argument(help="Only this recommendation (default: all that wait).")] = None,
    json_: Json = False,
) -> None:
    """Judge what waits for its gate by the evidence there is now."""
    out.judged(ask("recommend.judge", {"id": id}), as_json=json_)


@recommend.command("measure")
def recommend_measure(
    id: Annotated[str | None, typer.Argument(help="Only this recommendation (default: all that are observed).")] = None,
    json_: Json = False,
) -> None:
    """Measure what is carried out by its own traffic, and judge it against the promise."""
    out.measured(ask("recommend.measure", {"id": id}), as_json=json_)


@recommend.command("savings")
def recommend_savings(json_: Json = False) -> None:
    """What the changes in force save per success, measured, with the success rate beside it."""
    out.savings(ask("recommend.savings"), as_json=json_)


@recommend.command("dismiss")
def recommend_dismiss(id: str, revision: Revision = None, reason: Reason = None, json_: Json = False) -> None:
    """Dismiss a recommendation that was not handed over yet."""
    _command("dismiss", id, revision, reason, json_)


@recommend.command("rollback")
def recommend_rollback(id: str, revision: Revision = None, reason: Reason = None, json_: Json = False) -> None:
    """Roll a recommendation back: the targets restore what was there before."""
    _command("rollback", id, revision, reason, json_)


@recommend.command("refresh")
def recommend_refresh(json_: Json = False) -> None:
    """Compare the incumbent routing table with the ranked one now."""
    out.refreshed(ask("recommend.refresh"), as_json=json_)


recommend.command("export")(recommend_export)
