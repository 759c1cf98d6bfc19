"""`joulebook recommend export`: documents to apply and to roll back, printed or written to a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import ask
from app.export_files import read_mapping, write_files

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def recommend_export(
    id: str,
    format_: Annotated[
        str, typer.Option("--format", help="routing-table, gateway-api, llm-d, litellm or envoy.", metavar="FORMAT")
    ],
    stage: Annotated[
        str | None, typer.Option(help="Stage (default: the current one); another only with --draft.")
    ] = None,
    map_: Annotated[
        Path | None, typer.Option("--map", help="Mapping file, TOML or JSON (default: exports.toml in the home).")
    ] = None,
    only: Annotated[str | None, typer.Option(help="apply or rollback (default: both).")] = None,
    change_only: Annotated[bool, typer.Option(help="routing-table: only the cells that change.")] = False,
    draft: Annotated[bool, typer.Option(help="Look at what is not approved; every document says so.")] = False,
    to: Annotated[Path | None, typer.Option("--out", help="Write the files into this folder.")] = None,
    json_: Json = False,
) -> None:
    """Export a recommendation as documents for a gateway, with the exact rollback and a manifest."""
    params: dict[str, Any] = {
        "id": id,
        "format": format_,
        "stage": stage,
        "only": only,
        "change_only": change_only,
        "draft": draft,
        "mapping": read_mapping(map_) if map_ is not None else None,
    }
    told = ask("recommend.export", params)
    written = write_files(to, told["files"]) if to is not None else []
    if json_:
        out.document({**told, "written": [str(path.absolute()) for path in written]})
    elif to is not None:
        for path in written:
            out.line(str(path))
        _warn(told)
    else:
        for file in told["files"]:
            if file["kind"] != "manifest":
                sys.stdout.write(f"# ---- {file['name']}\n{file['text']}")
        _warn(told)


def _warn(told: dict[str, Any]) -> None:
    for warning in told["manifest"]["warnings"]:
        sys.stderr.write(f"warning: {warning}\n")
