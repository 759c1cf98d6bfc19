"""`joulebook replay ...`: what another routing policy would have cost on recorded outcomes."""

from __future__ import annotations

import typer

replay = typer.Typer(help="Replay lab: what another routing policy would have cost.", no_args_is_help=True)


@replay.callback()
def _group() -> None:
    """Replay lab: what another routing policy would have cost."""
