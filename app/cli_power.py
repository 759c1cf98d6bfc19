"""`joulebook power idle` and `joulebook power attribute`: baselines by hand, energy shared out to requests."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import ask

power = typer.Typer(help="GPU power: measure idle baselines, share energy out to requests.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@power.command("idle")
def idle(
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=10, max=600)] = 30.0,
    cool_down: Annotated[float, typer.Option(help="Seconds to wait first.", min=0, max=600)] = 10.0,
    json_: Json = False,
) -> None:
    """Measure the idle power of every GPU of this host. Nothing may compute on them meanwhile."""
    told = ask("power.idle", {"seconds": seconds, "cool_down": cool_down})
    if json_:
        out.document(told)
    else:
        out.idle(told)


@power.command("attribute")
def attribute(
    meter: Annotated[str, typer.Argument(help="A replica's name, or a GPU's UUID.")],
    offer: Annotated[str, typer.Option(help="The offer or model that it served.")],
    start: Annotated[str, typer.Option(help="From, ISO 8601 with zone.")],
    end: Annotated[str, typer.Option(help="Until, ISO 8601 with zone.")],
    method: Annotated[str, typer.Option(help="output_tokens or time_in_system.")] = "output_tokens",
    json_: Json = False,
) -> None:
    """Share the metered energy of a replica or GPU out to the requests that it served."""
    params: dict[str, Any] = {"meter": meter, "offer": offer, "start": start, "end": end, "method": method}
    told = ask("power.attribute", params)
    if json_:
        out.document(told)
    else:
        out.attribution(told)
