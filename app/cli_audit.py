"""`joulebook audit ...`: the ledger as JSON lines, its head in a file elsewhere, and a restore that was looked at."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import Client, ask
from app.errors import BadRequest
from app.settings import load_settings

audit = typer.Typer(help="Audit: export the ledger, anchor its head elsewhere, accept a restore.", no_args_is_help=True)
_MOST_HEADS = 1000
_LONGEST_LINE = 1 << 24  # characters; whatever is longer is no event
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@audit.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="The file to write; one event a line, the chain head last.")],
    since: Annotated[int, typer.Option(help="Only events after this number.", min=0)] = 0,
    json_: Json = False,
) -> None:
    """Write the ledger as JSON lines; the last line is the head of the chain."""
    _check_replaceable(file)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    events, after = 0, since
    try:
        with Client(load_settings()) as client, temporary.open("w", encoding="utf-8") as lines:
            while True:
                told = client.call("audit.export", {"since": after, "limit": 5000})
                lines.writelines(line + "\n" for line in told["lines"])
                events, after = events + len(told["lines"]), told["next"]
                if not told["more"]:
                    break
            lines.write(json.dumps({"head": told["head"], "since": since, "events": events}) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
        os.replace(temporary, file)
    except OSError as error:
        raise BadRequest(
            f"{file} cannot be written: {error.strerror}.", fix="name a file in a folder of yours"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    answer = {"file": str(file), "events": events, "since": since, "head": told["head"]}
    if json_:
        return out.document(answer)
    return out.line(f"{events} events written to {file}, head {told['head']['hash'][:16]}…")


@audit.command("anchor")
def anchor(
    file: Annotated[Path, typer.Argument(help="A file outside the warehouse; a line is added to it.")],
    json_: Json = False,
) -> None:
    """Add the head of the chain to a file elsewhere, so that a cut or replaced ledger shows."""
    if _holds(file) and os.access(file, os.R_OK):
        read_anchors(file)  # nothing is added to a file that `verify --against` could not read
    head = ask("audit.anchor")["head"]
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"head": head}) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
    except OSError as error:
        raise BadRequest(
            f"{file} cannot be written: {error.strerror}.", fix="name a file in a folder of yours"
        ) from error
    if json_:
        return out.document({"file": str(file), "head": head})
    return out.line(f"event {head['seq']}, {head['hash'][:16]}…, added to {file}; check with verify --against {file}")


@audit.command("accept-restore")
def accept_restore(
    reason: Annotated[str, typer.Argument(help="Why the ledger is older than its anchor; kept in the ledger.")],
    json_: Json = False,
) -> None:
    """Accept a restored ledger, so that commands are taken again; what was lost goes on record."""
    told = ask("verify.accept", {"reason": reason})
    if json_:
        out.document(told)
    else:
        for problem in told["accepted"]:
            out.line(f"accepted: {problem}")
        out.verification(told, as_json=False)
    if not told["ok"]:
        raise typer.Exit(1)


def _holds(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


def _check_replaceable(file: Path) -> None:
    """Raise BadRequest where `file` is something else than an earlier export: no warehouse is lost to a wrong path."""
    if not _holds(file):
        return
    try:
        with file.open(encoding="utf-8") as lines:
            first = json.loads(lines.readline(_LONGEST_LINE))
        ours = isinstance(first, dict) and {"seq", "hash"} <= set(first.get("head") or first)
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise BadRequest(f"{file} is there already, and is no export of a ledger.", fix="name a new file")


def read_anchors(file: Path) -> list[dict[str, Any]]:
    """The heads in a file that `audit anchor` or `audit export` wrote, as {seq, hash}. Raises BadRequest.

    The chain vouches for every event before a head, so the other lines of an export need no look; of one that was cut
    short its last event serves.
    """
    try:
        told = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        heads = [t["head"] for t in told if "head" in t] or told[-1:]
        if not heads:
            raise ValueError("no line")
        return [{"seq": int(h["seq"]), "hash": str(h["hash"])} for h in heads[-_MOST_HEADS:]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest(
            f"{file} cannot be read as anchors ({type(error).__name__}).",
            fix="name a file that `joulebook audit anchor` or `joulebook audit export` wrote",
        ) from error
