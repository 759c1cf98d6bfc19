"""`joulebook fleet ...`: which backend, at what joules, and how sure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app import cli_print as out
from app.cli_fleet_options import (
    Attainment,
    Blocks,
    Closed,
    Context,
    Duration,
    Fleet,
    Keep,
    Latency,
    Policies,
    Policy,
    Repeated,
    Scale,
    Scenario,
    Seen,
)
from app.cli_options import Group, grouped
from app.client import ask
from app.errors import BadRequest
from app.fleet import printing
from app.fleet.files import read_scenario
from app.watching import watch
from warehouse.ids import canonical_json

fleet = typer.Typer(help="Fleet: power models, simulation and load-balancing policies.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@fleet.callback()
def _group() -> None:
    """Fleet: power models, simulation and load-balancing policies."""


def _experiment(name: str, scenario: Path | None, as_json: bool, *groups: Group, **own: Any) -> None:
    """Run the experiment `name` and print its report. What was not given is left to the scenario."""
    params: dict[str, Any] = {key: value for key, value in own.items() if value is not None}
    for group in groups:
        params |= {"seeds" if option == "seed" else option: value for option, value in group.items()}
    told = watch(name, {"scenario": read_scenario(scenario), **params}, as_json)
    out.document(told) if as_json else printing.report(told)


@fleet.command("profiles")
def profiles(json_: Json = False) -> None:
    """List power and throughput profiles: published ones with their labels, and calibrated ones."""
    told = ask("fleet.profiles", {})
    out.document(told) if json_ else printing.profiles(told)


@fleet.command("workloads")
def workloads(json_: Json = False) -> None:
    """List the traces, distributions of lengths, zones and policies that a scenario may name."""
    told = ask("fleet.workloads", {})
    out.document(told) if json_ else printing.workloads(told)


@fleet.command("backends")
def backends(
    since_s: Annotated[float, typer.Option(help="Joules per success over the last so many seconds.", min=1)] = 3600.0,
    json_: Json = False,
) -> None:
    """Show live backends: power, utilization, joules per success, age, and measured beside modelled power."""
    told = ask("fleet.backends", {"since_s": since_s})
    out.document(told) if json_ else printing.backends(told)


@fleet.command("calibrate")
def calibrate(
    model: Annotated[str | None, typer.Option(help="Only this logical model.")] = None,
    hardware: Annotated[str | None, typer.Option(help="Only this GPU.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only windows of this provider.")] = None,
    quantity: Annotated[str, typer.Option(help="both, power or throughput.")] = "both",
    form: Annotated[str, typer.Option(help="best, logistic_log2, linear or table.")] = "best",
    keep: Keep = True,
    holdout_table: Annotated[
        bool,
        typer.Option("--holdout-table", help="Print the leave-one-batch-out table as Markdown; nothing is stored."),
    ] = False,
    json_: Json = False,
) -> None:
    """Fit power and throughput to measured windows, one calibration for each binding."""
    if holdout_table:
        asked = {"model": model, "hardware": hardware, "provider": provider or "ml.energy"}
        told = ask("fleet.holdout", asked)
        if json_:
            return out.document(told)
        sys.stdout.write(told["markdown"] + "\n")
        return None
    told = watch(
        "fleet.calibrate",
        {"model": model, "hardware": hardware, "provider": provider, "quantity": quantity, "form": form, "keep": keep},
        json_,
    )
    return out.document(told) if json_ else printing.calibrated(told)


@fleet.command("calibrations")
def calibrations(
    id: Annotated[str | None, typer.Argument(help="One calibration, with its windows and band.")] = None,
    quantity: Annotated[str | None, typer.Option(help="power or throughput.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this logical model.")] = None,
    hardware: Annotated[str | None, typer.Option(help="Only this GPU.")] = None,
    json_: Json = False,
) -> None:
    """List stored calibrations, newest first."""
    told = ask("fleet.calibrations", {"id": id, "quantity": quantity, "model": model, "hardware": hardware})
    out.document(told) if json_ else printing.calibrations(told, whole=id is not None)


@fleet.command("simulate")
@grouped
def simulate(
    *,
    scenario: Scenario = None,
    of: Fleet,
    duration: Duration,
    scale: Scale,
    blocks: Blocks,
    policy: Policy = None,
    latency: Latency,
    attainment: Attainment,
    context: Context,
    seen: Seen,
    repeated: Repeated,
    json_: Json = False,
) -> None:
    """Simulate a fleet under one policy."""
    groups = (of, duration, scale, blocks, latency, attainment, context, seen, repeated)
    _experiment("fleet.simulate", scenario, json_, *groups, policy=policy)


@fleet.command("compare")
@grouped
def compare(
    *,
    scenario: Scenario = None,
    policy: Policies = None,
    baseline: Annotated[str | None, typer.Option(help="Policy that pairs are against (default: the first).")] = None,
    load: Annotated[list[float] | None, typer.Option(help="Factor on the rate; repeat.")] = None,
    cap: Annotated[list[float] | None, typer.Option(help="Share of full power to give back; repeat.")] = None,
    of: Fleet,
    duration: Duration,
    scale: Scale,
    blocks: Blocks,
    latency: Latency,
    attainment: Attainment,
    context: Context,
    seen: Seen,
    repeated: Repeated,
    json_: Json = False,
) -> None:
    """Compare policies on the same requests, seed by seed, over loads and power caps, on all cores."""
    groups = (of, duration, scale, blocks, latency, attainment, context, seen, repeated)
    own = {"policies": policy, "baseline": baseline, "loads": load, "caps": cap}
    _experiment("fleet.compare", scenario, json_, *groups, **own)


@fleet.command("size")
@grouped
def size(
    *,
    scenario: Scenario = None,
    of: Fleet,
    scale: Scale,
    latency: Latency,
    context: Context,
    split_tokens: Annotated[
        int | None,
        typer.Option(help="Also: the first pool takes requests of up to so many tokens, the second the rest."),
    ] = None,
    closed: Closed,
    repeated: Repeated,
    json_: Json = False,
) -> None:
    """Tell the fewest instances of each pool that keep an SLO under the whole load, and simulate them."""
    groups = (of, scale, latency, context, closed, repeated)
    _experiment("fleet.size", scenario, json_, *groups, split_tokens=split_tokens)


@fleet.command("flex")
@grouped
def flex(
    *,
    scenario: Scenario = None,
    level: Annotated[list[float] | None, typer.Option(help="Share of full power to give back; repeat.")] = None,
    of: Fleet,
    scale: Scale,
    policy: Policy = None,
    latency: Latency,
    context: Context,
    closed: Closed,
    repeated: Repeated,
    json_: Json = False,
) -> None:
    """Tell what caps on power save and cost at the load that is really carried."""
    groups = (of, scale, latency, context, closed, repeated)
    _experiment("fleet.flex", scenario, json_, *groups, levels=level, policy=policy)


@fleet.command("sensitivity")
@grouped
def sensitivity(
    *,
    scenario: Scenario = None,
    policy: Policies = None,
    sd: Annotated[float | None, typer.Option(help="Relative error of power, instead of what profiles tell.")] = None,
    draws: Annotated[int, typer.Option(help="Monte Carlo draws.", min=1000)] = 100_000,
    sobol_n: Annotated[int, typer.Option(help="Base sample of the Sobol indices, a power of 2.", min=64)] = 1024,
    of: Fleet,
    scale: Scale,
    blocks: Blocks,
    latency: Latency,
    attainment: Attainment,
    repeated: Repeated,
    json_: Json = False,
) -> None:
    """Tell whether the ranking of policies survives the error of the power model."""
    groups = (of, scale, blocks, latency, attainment, repeated)
    own = {"policies": policy, "sd": sd, "draws": draws, "sobol_n": sobol_n}
    _experiment("fleet.sensitivity", scenario, json_, *groups, **own)


@fleet.command("runs")
def runs(
    experiment: Annotated[str | None, typer.Option(help="simulate, compare, size, flex or sensitivity.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
    json_: Json = False,
) -> None:
    """List the stored experiments, newest first."""
    told = ask("fleet.runs", {"experiment": experiment, "limit": limit})
    out.document(told) if json_ else printing.runs(told)


@fleet.command("report")
def report(
    id: Annotated[str | None, typer.Argument(help="Run id, or its first characters (default: the newest).")] = None,
    experiment: Annotated[str | None, typer.Option(help="The newest of these.")] = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Also write the scenario to this file, to run it again.")
    ] = None,
    json_: Json = False,
) -> None:
    """Show the report of a stored experiment."""
    told = ask("fleet.report", {"id": id, "experiment": experiment})
    if scenario is not None:
        try:
            scenario.write_text(canonical_json(told["scenario"]) + "\n", encoding="utf-8")
        except OSError as error:
            raise BadRequest(f"{scenario} cannot be written: {error.strerror}.", fix="name another file") from error
    out.document(told) if json_ else printing.report(told)
