"""Options of `joulebook fleet`: what a scenario may be told in short words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli_options import Group

Scenario = Annotated[
    Path | None, typer.Option("--scenario", help="Scenario, .json or .toml; other options go over it.")
]
Policy = Annotated[str | None, typer.Option("--policy", help="Load-balancing policy.")]
Policies = Annotated[list[str] | None, typer.Option("--policy", help="Load-balancing policy; repeat.")]
Keep = Annotated[bool, typer.Option("--keep/--no-keep", help="Store the report in the warehouse.")]


class Fleet(Group):
    """Pools, and where the requests come from."""

    pool: Annotated[
        list[str] | None,
        typer.Option("--pool", help="PROFILE:INSTANCES or NAME=PROFILE:INSTANCES, then :ZONE; repeat."),
    ] = None
    trace: Annotated[str | None, typer.Option("--trace", help="Recorded trace, kept as it is.")] = None
    cdf: Annotated[str | None, typer.Option("--cdf", help="Distribution of request lengths; Poisson arrivals.")] = None
    prompt_tokens: Annotated[
        int | None, typer.Option("--prompt-tokens", help="One prompt length for all requests.")
    ] = None
    output_tokens: Annotated[
        int | None, typer.Option("--output-tokens", help="One output length for all requests.")
    ] = None
    requests_per_s: Annotated[
        float | None, typer.Option("--requests-per-s", help="Rate; of a trace, how fast it is played.")
    ] = None
    requests: Annotated[int | None, typer.Option("--requests", help="At most so many requests.")] = None


class Duration(Group):
    duration_s: Annotated[float | None, typer.Option("--duration-s", help="So many seconds of requests.")] = None


class Scale(Group):
    scale: Annotated[float | None, typer.Option("--scale", help="Times the rate.")] = None


class Blocks(Group):
    block_s: Annotated[
        float | None, typer.Option("--block-s", help="Later seeds draw blocks of the trace so long.")
    ] = None


class Latency(Group):
    """The SLO of one request, of those that closed forms speak of."""

    ttft_s: Annotated[float | None, typer.Option("--ttft-s", help="SLO: time to first token (default 0.5).")] = None
    tpot_s: Annotated[float | None, typer.Option("--tpot-s", help="SLO: time per output token.")] = None


class Attainment(Group):
    """The rest of the SLO: what only a simulation tells."""

    e2e_s: Annotated[float | None, typer.Option("--e2e-s", help="SLO: end to end.")] = None
    slo_target: Annotated[float | None, typer.Option("--slo-target", help="Share of requests that must meet it.")] = (
        None
    )


class Context(Group):
    context_tokens: Annotated[int | None, typer.Option("--context-tokens", help="Longest request of every pool.")] = (
        None
    )


class Seen(Group):
    """What may wait, what the balancer sees, and what its zones emit."""

    queue_limit: Annotated[int | None, typer.Option("--queue-limit", help="Waiting requests per instance.")] = None
    telemetry_s: Annotated[
        float | None, typer.Option("--telemetry-s", help="Instances report so often (default: truth).")
    ] = None
    telemetry_ttl_s: Annotated[float | None, typer.Option("--telemetry-ttl-s", help="Older telemetry is stale.")] = None
    telemetry_dropout: Annotated[
        float | None, typer.Option("--telemetry-dropout", help="Share of reports that are lost.")
    ] = None
    at: Annotated[str | None, typer.Option("--at", help="Read the zones' carbon intensity from this instant on.")] = (
        None
    )


class Closed(Group):
    """How closed forms are asked, and whether they are checked."""

    convention: Annotated[str, typer.Option("--convention", help="physical, or peer: its figures beside ours.")] = (
        "physical"
    )
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Simulate what closed forms say.")] = True
    quantile: Annotated[float, typer.Option("--quantile", help="Share of requests that the SLO is about.")] = 0.99
    utilization_max: Annotated[float, typer.Option("--utilization-max", help="Load over capacity, at most.")] = 0.85


class Repeated(Group):
    """Over which seeds, and whether the report stays."""

    seed: Annotated[list[int] | None, typer.Option("--seed", help="Seed; repeat. Default 0 to 4.")] = None
    keep: Keep = True
