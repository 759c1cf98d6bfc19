"""`joulebook fleet ...`: which backend, at what joules, and how sure."""

from __future__ import annotations

import typer

fleet = typer.Typer(help="Fleet: power models, simulation and load-balancing policies.", no_args_is_help=True)


@fleet.callback()
def _group() -> None:
    """Fleet: power models, simulation and load-balancing policies."""
