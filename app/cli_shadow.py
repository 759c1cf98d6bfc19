"""`joulebook shadow ...`: what another policy would have chosen, and whether that is proved to do no harm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import Client, ask
from app.settings import load_settings
from app.shadow import printing

shadow = typer.Typer(help="Shadow: what another policy would have chosen, and its proof.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@shadow.callback()
def _group() -> None:
    """Shadow: what another policy would have chosen, and its proof."""


@shadow.command("status")
def status(json_: Json = False) -> None:
    """Say how far every shadow is: requests asked about, pairs of the planned number, verdict so far."""
    told = ask("shadow.status")
    out.document(told) if json_ else printing.status(told)


@shadow.command("report")
def report(
    id: Annotated[str, typer.Argument(help="Recommendation id such as R-0001, or router.")] = "router",
    request: Annotated[str | None, typer.Option(help="Explain one logged request: provider/account/usage_key.")] = None,
    json_: Json = False,
) -> None:
    """Say where a policy would have chosen otherwise, what that is worth, and what its gate says."""
    explained = ("shadow.request", {"request_id": request}) if request is not None else ("shadow.report", {"id": id})
    told = ask(*explained)
    if json_:
        out.document(told)
    elif request is not None:
        printing.request(told)
    else:
        printing.report(told)


@shadow.command("decide")
def decide(
    most: Annotated[int | None, typer.Option(help="Stop after this many requests (default: all).", min=1)] = None,
    json_: Json = False,
) -> None:
    """Ask every shadowing policy about the logged requests that it has not seen. Ctrl+C keeps what is done."""
    written = asked = 0
    with Client(load_settings()) as client:
        while True:
            told = client.call("shadow.decide", {} if most is None else {"most": most - asked})
            written, asked = written + told["written"], asked + told["asked"]
            if told["left"] and told["written"] and sys.stderr.isatty():
                sys.stderr.write(f"\r{asked:,} requests, {told['left']:,} questions left")
            if not told["left"] or not told["written"] or (most is not None and asked >= most):
                break
    told |= {"written": written, "asked": asked}
    if json_:
        out.document(told)
        return
    out.line(f"{written:,} decisions on {asked:,} requests by {told['policies']} policies; {told['left']:,} left")


@shadow.command("pairs")
def pairs(
    file: Annotated[Path, typer.Argument(help="Pairs: CSV, JSON lines or Parquet.")],
    source: Annotated[str | None, typer.Option(help="Name to keep them under (default: file:shadow-pairs).")] = None,
    json_: Json = False,
) -> None:
    """Load mirrored and replayed pairs from a file. Exit code 1 where none could be used."""
    told: dict[str, Any] = ask("import", {"kind": "shadow-pairs", "path": str(file.absolute()), "source": source})
    out.run(told, as_json=json_)
    if told["state"] == "FAILED":
        raise typer.Exit(1)
