"""The command line: every command works while the console runs and while it does not.

Every command takes `--json` and then prints exactly one JSON document on stdout. Exit codes:
0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from app import cli_print as out
from app.cli_alerts import alerts
from app.cli_audit import audit, read_anchors
from app.cli_billing import charges, tariffs
from app.cli_fleet import fleet
from app.cli_power import power
from app.cli_prices import prices
from app.cli_recommend import pairs, recommend
from app.cli_replay import replay
from app.cli_shadow import shadow
from app.cli_usage import usage
from app.client import ask
from app.errors import AppError
from app.logs import log_to_stderr
from app.settings import load_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

app = typer.Typer(
    name="joulebook",
    help="The operator's desk for energy-aware LLM serving.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def group(name: str, about: str) -> typer.Typer:
    """A command group such as `joulebook sample ...`."""
    sub = typer.Typer(help=about, no_args_is_help=True)
    app.add_typer(sub, name=name)
    return sub


ingest = group("ingest", "The sources: list them, refresh one now.")
app.add_typer(recommend, name="recommend")
sample = group("sample", "Sample data: load or remove it.")
app.add_typer(alerts, name="alerts")
app.add_typer(tariffs, name="tariffs")
app.add_typer(charges, name="charges")
app.add_typer(prices, name="prices")
app.add_typer(power, name="power")
app.add_typer(replay, name="replay")
app.add_typer(fleet, name="fleet")
app.add_typer(audit, name="audit")
app.add_typer(shadow, name="shadow")
token = group("token", "API tokens: create, list, revoke.")


@app.command()
def up(
    port: Annotated[int | None, typer.Option(help="Port to listen on (or JOULEBOOK_PORT).", min=1, max=65535)] = None,
    address: Annotated[str | None, typer.Option(help="Address; beyond loopback sign-in must be configured.")] = None,
    json_: Json = False,
) -> None:
    """Start the console: pages, API, scheduler and sampler in one process."""
    gc.disable()  # half a second of looking for garbage in imports, which make none
    from app.asgi import check_address, check_free, serve

    gc.freeze()  # and no later collection looks at what was imported
    gc.enable()
    settings = load_settings()
    told = settings.server.model_copy(update={k: v for k, v in (("port", port), ("address", address)) if v is not None})
    settings = settings.model_copy(update={"server": told})
    check_address(settings)
    check_free(settings)
    out.starting(settings, as_json=json_)
    serve(settings)


@app.command()
def doctor(json_: Json = False) -> None:
    """Check configuration, warehouse, sources, driver and browser access; say what is wrong in words."""
    from app.doctor import diagnose

    told = diagnose()
    out.doctor(told, as_json=json_)
    if not told["ok"]:
        raise typer.Exit(1)


@app.command("import")
def import_(
    kind: Annotated[str, typer.Argument(help="Kind of file, such as openrouter or neuralwatt-usage.")],
    file: Annotated[Path, typer.Argument(help="The file.")],
    source: Annotated[str | None, typer.Option(help="Source name to keep it under (default: file:KIND).")] = None,
    fetched_at: Annotated[
        str | None, typer.Option(help="When it was true, ISO 8601 with zone (default: mtime).")
    ] = None,
    accept_shrink: Annotated[bool, typer.Option(help="Accept a catalog that lost more than half.")] = False,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE that the file does not tell; repeat.")] = None,
    json_: Json = False,
) -> None:
    """Import a file through the same parser as the live source. Ctrl+C cancels; nothing of it is kept then."""
    from app.watching import BYTES, watch

    params = {
        "kind": kind,
        "path": str(file.absolute()),
        "source": source,
        "fetched_at": fetched_at,
        "accept_shrink": accept_shrink,
        "options": pairs(option or [], "option", "timezone=UTC"),
    }
    told = watch("import", params, json_, bar=BYTES)
    out.run(told, as_json=json_)
    if told["state"] == "FAILED":
        raise typer.Exit(1)


@ingest.command("list")
def ingest_list(json_: Json = False) -> None:
    """List the sources: freshness, last run, next run."""
    out.sources(ask("ingest.list"), as_json=json_)


@ingest.command("run")
def ingest_run(source: str, json_: Json = False) -> None:
    """Refresh a source now."""
    told = ask("ingest.run", {"source": source})
    out.run(told, as_json=json_)
    if told["state"] == "FAILED":
        raise typer.Exit(1)


@app.command()
def rank(
    category: Annotated[str, typer.Option(help="Task category, such as coding_general.")],
    tier: Annotated[int, typer.Option(help="Least capability tier, 1 to 3.", min=1, max=3)],
    required_context: Annotated[int, typer.Option(help="Tokens the request needs.", min=0)],
    latency: Annotated[str, typer.Option(help="interactive or batch.")] = "interactive",
    as_of: Annotated[str | None, typer.Option(help="Decide as of this instant, ISO 8601 with zone.")] = None,
    json_: Json = False,
) -> None:
    """Rank the models for a request: eligible best first, then the excluded with reasons."""
    told = ask(
        "rank",
        {
            "category": category,
            "tier": tier,
            "required_context_tokens": required_context,
            "latency": latency,
            "as_of": as_of,
        },
    )
    out.ranking(told, as_json=json_)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT.")],
    explain: Annotated[bool, typer.Option(help="Show the plan instead.")] = False,
    row_cap: Annotated[int | None, typer.Option(help="At most this many rows.", min=1, max=1_000_000)] = None,
    json_: Json = False,
) -> None:
    """Run one read-only SELECT on a snapshot, in a sandbox."""
    out.table(ask("sql.run", {"sql": query, "explain": explain, "row_cap": row_cap}), as_json=json_)


@app.command()
def verify(
    accept: Annotated[
        str | None, typer.Option(metavar="REASON", help="Anchor the ledger as it stands, after a restore.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also compare with the anchors or the export in this file.")
    ] = None,
    json_: Json = False,
) -> None:
    """Verify that no event of the ledger was edited, dropped or reordered."""
    if accept is not None:
        told = ask("verify.accept", {"reason": accept})
    else:
        told = ask("verify", {"against": read_anchors(against)} if against else {})
    out.verification(told, as_json=json_)
    if not told["ok"]:
        raise typer.Exit(1)


@app.command()
def rebuild(
    into: Annotated[Path, typer.Option(help="The new warehouse file.")],
    json_: Json = False,
) -> None:
    """Rebuild the typed tables from the payloads that landing keeps, into a new file."""
    told = ask("rebuild", {"into": str(into.absolute())})
    out.rebuilt(told, as_json=json_)
    if told["failed"]:
        raise typer.Exit(1)


@sample.command("load")
def sample_load(json_: Json = False) -> None:
    """Load the sample data."""
    out.sample(ask("sample.load"), as_json=json_)


@sample.command("remove")
def sample_remove(json_: Json = False) -> None:
    """Remove the sample data and withdraw what was recommended from it."""
    out.sample(ask("sample.remove"), as_json=json_)


@token.command("create")
def token_create(
    name: str,
    scope: Annotated[list[str], typer.Option(help="read, downstream or operator; repeat for several.")],
    target: Annotated[
        list[str] | None, typer.Option(help="The only target a downstream token reports for; repeat for several.")
    ] = None,
    all_targets: Annotated[bool, typer.Option("--all-targets", help="A downstream token reports for all.")] = False,
    json_: Json = False,
) -> None:
    """Create an API token; its text is shown once and stored hashed."""
    params = {"name": name, "scopes": scope, "targets": target or [], "all_targets": all_targets}
    out.token(ask("token.create", params), as_json=json_)


@token.command("list")
def token_list(json_: Json = False) -> None:
    """List the API tokens."""
    out.tokens(ask("token.list"), as_json=json_)


@token.command("revoke")
def token_revoke(id: str, json_: Json = False) -> None:
    """Revoke an API token."""
    out.tokens(ask("token.revoke", {"id": id}), as_json=json_)


@app.command()
def downstream(
    apply_to: Annotated[Path, typer.Option(help="The routing table file to keep in step.")],
    target: Annotated[str, typer.Option(help="Which target this is.")] = "router",
    url: Annotated[str | None, typer.Option(help="Console to poll (default: the one of this home).")] = None,
    once: Annotated[bool, typer.Option(help="Do what waits, then stop.")] = False,
    poll: Annotated[float, typer.Option(help="Seconds between polls.", min=0.1)] = 2.0,
    json_: Json = False,
) -> None:
    """Reference downstream: poll, acknowledge, write the routing table atomically, report back.

    The token for a console elsewhere comes from JOULEBOOK_SECRET_DOWNSTREAM_TOKEN.
    """
    from app.downstream_cli import keep_in_step

    told = keep_in_step(apply_to, target=target, url=url, once=once, poll_s=poll)
    out.downstream(told, as_json=json_)
    if once and told["refused"]:
        raise typer.Exit(1)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark, or all.")] = "all",
    output: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
    json_: Json = False,
) -> None:
    """Measure this machine: ratios against a named floor in the same run."""
    from app.benching import run_benchmarks

    out.bench(run_benchmarks(name, output, quiet=json_), as_json=json_)


def main(argv: list[str] | None = None) -> None:
    """Entry point: turns every known error into words and an exit code."""
    args = sys.argv[1:] if argv is None else argv
    os.umask(0o077)  # warehouse, log and state are the operator's alone
    as_json = "--json" in args
    log_to_stderr()
    try:
        code = app(args=args, prog_name="joulebook", standalone_mode=False)
    except TyperException as error:
        _fail(*usage(error), 2, as_json)
    except AppError as error:
        _fail(error.message, error.fix, error.exit_code, as_json)
    except (Abort, KeyboardInterrupt):
        _fail("interrupted", "", 1, as_json)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, fix: str, code: int, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps({"error": {"message": message, "fix": fix, "exit_code": code}}) + "\n")
    else:
        out.error(message, fix)
    sys.exit(code)


if __name__ == "__main__":
    main()
