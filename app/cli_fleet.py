"""`joulebook fleet ...`: which backend, at what joules, and how sure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import Client
from app.errors import BadRequest
from app.fleet import printing
from app.fleet.files import read_scenario
from app.settings import load_settings
from app.watching import watched
from warehouse.ids import canonical_json

fleet = typer.Typer(help="Fleet: power models, simulation and load-balancing policies.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
File = Annotated[Path | None, typer.Option("--scenario", help="Scenario, .json or .toml; other options go over it.")]
PoolOption = Annotated[
    list[str] | None, typer.Option("--pool", help="PROFILE:INSTANCES or NAME=PROFILE:INSTANCES, then :ZONE; repeat.")
]
TraceOption = Annotated[str | None, typer.Option("--trace", help="Recorded trace, kept as it is.")]
CdfOption = Annotated[str | None, typer.Option("--cdf", help="Distribution of request lengths; Poisson arrivals.")]
Rate = Annotated[float | None, typer.Option("--requests-per-s", help="Rate; of a trace, how fast it is played.")]
Count = Annotated[int | None, typer.Option("--requests", help="At most so many requests.")]
Duration = Annotated[float | None, typer.Option("--duration-s", help="So many seconds of requests.")]
Scale = Annotated[float | None, typer.Option("--scale", help="Times the rate.")]
Block = Annotated[float | None, typer.Option("--block-s", help="Later seeds draw blocks of the trace so long.")]
PromptTokens = Annotated[int | None, typer.Option("--prompt-tokens", help="One prompt length for all requests.")]
OutputTokens = Annotated[int | None, typer.Option("--output-tokens", help="One output length for all requests.")]
Policy = Annotated[str | None, typer.Option("--policy", help="Load-balancing policy.")]
Ttft = Annotated[float | None, typer.Option("--ttft-s", help="SLO: time to first token (default 0.5).")]
Tpot = Annotated[float | None, typer.Option("--tpot-s", help="SLO: time per output token.")]
E2e = Annotated[float | None, typer.Option("--e2e-s", help="SLO: end to end.")]
Target = Annotated[float | None, typer.Option("--slo-target", help="Share of requests that must meet it.")]
Context = Annotated[int | None, typer.Option("--context-tokens", help="Longest request of every pool.")]
QueueLimit = Annotated[int | None, typer.Option("--queue-limit", help="Waiting requests per instance.")]
TelemetryS = Annotated[float | None, typer.Option("--telemetry-s", help="Instances report so often (default: truth).")]
TelemetryTtl = Annotated[float | None, typer.Option("--telemetry-ttl-s", help="Older telemetry is stale.")]
Dropout = Annotated[float | None, typer.Option("--telemetry-dropout", help="Share of reports that are lost.")]
At = Annotated[str | None, typer.Option("--at", help="Read the zones' carbon intensity from this instant on.")]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="Seed; repeat. Default 0 to 4.")]
Keep = Annotated[bool, typer.Option("--keep/--no-keep", help="Store the report in the warehouse.")]
Policies = Annotated[list[str] | None, typer.Option("--policy", help="Load-balancing policy; repeat.")]
Convention = Annotated[str, typer.Option("--convention", help="physical, or peer: its figures beside ours.")]
Verify = Annotated[bool, typer.Option("--verify/--no-verify", help="Simulate what closed forms say.")]
Quantile = Annotated[float, typer.Option("--quantile", help="Share of requests that the SLO is about.")]
Utilization = Annotated[float, typer.Option("--utilization-max", help="Load over capacity, at most.")]


@fleet.callback()
def _group() -> None:
    """Fleet: power models, simulation and load-balancing policies."""


def _ask(name: str, params: dict[str, Any]) -> dict[str, Any]:
    with Client(load_settings()) as client:
        return client.call(name, params)


def _watch(name: str, params: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Run a long operation with a bar on stderr; Ctrl+C cancels it and nothing of it is kept."""
    with Client(load_settings()) as client:
        return watched(client, name, params, show=not as_json and sys.stderr.isatty())


def _params(scenario: Path | None, **given: Any) -> dict[str, Any]:
    return {"scenario": read_scenario(scenario), **{k: v for k, v in given.items() if v is not None}}


@fleet.command("profiles")
def profiles(json_: Json = False) -> None:
    """List power and throughput profiles: published ones with their labels, and calibrated ones."""
    told = _ask("fleet.profiles", {})
    out.document(told) if json_ else printing.profiles(told)


@fleet.command("workloads")
def workloads(json_: Json = False) -> None:
    """List the traces, distributions of lengths, zones and policies that a scenario may name."""
    told = _ask("fleet.workloads", {})
    out.document(told) if json_ else printing.workloads(told)


@fleet.command("backends")
def backends(
    since_s: Annotated[float, typer.Option(help="Joules per success over the last so many seconds.", min=1)] = 3600.0,
    json_: Json = False,
) -> None:
    """Show live backends: power, utilization, joules per success, age, and measured beside modelled power."""
    told = _ask("fleet.backends", {"since_s": since_s})
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
        told = _ask("fleet.holdout", asked)
        if json_:
            return out.document(told)
        sys.stdout.write(told["markdown"] + "\n")
        return None
    told = _watch(
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
    told = _ask("fleet.calibrations", {"id": id, "quantity": quantity, "model": model, "hardware": hardware})
    out.document(told) if json_ else printing.calibrations(told, whole=id is not None)


@fleet.command("simulate")
def simulate(
    scenario: File = None,
    pool: PoolOption = None,
    trace: TraceOption = None,
    cdf: CdfOption = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_s: Rate = None,
    requests: Count = None,
    duration_s: Duration = None,
    scale: Scale = None,
    block_s: Block = None,
    policy: Policy = None,
    ttft_s: Ttft = None,
    tpot_s: Tpot = None,
    e2e_s: E2e = None,
    slo_target: Target = None,
    context_tokens: Context = None,
    queue_limit: QueueLimit = None,
    telemetry_s: TelemetryS = None,
    telemetry_ttl_s: TelemetryTtl = None,
    telemetry_dropout: Dropout = None,
    at: At = None,
    seed: Seeds = None,
    keep: Keep = True,
    json_: Json = False,
) -> None:
    """Simulate a fleet under one policy."""
    told = _watch(
        "fleet.simulate",
        _params(
            scenario, pool=pool, trace=trace, cdf=cdf, prompt_tokens=prompt_tokens, output_tokens=output_tokens,
            requests_per_s=requests_per_s, requests=requests, duration_s=duration_s, scale=scale, block_s=block_s,
            policy=policy, ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s, slo_target=slo_target,
            context_tokens=context_tokens, queue_limit=queue_limit, telemetry_s=telemetry_s,
            telemetry_ttl_s=telemetry_ttl_s, telemetry_dropout=telemetry_dropout, at=at, seeds=seed, keep=keep,
        ),
        json_,
    )  # fmt: skip
    out.document(told) if json_ else printing.report(told)


@fleet.command("compare")
def compare(
    scenario: File = None,
    policy: Policies = None,
    baseline: Annotated[str | None, typer.Option(help="Policy that pairs are against (default: the first).")] = None,
    load: Annotated[list[float] | None, typer.Option(help="Factor on the rate; repeat.")] = None,
    cap: Annotated[list[float] | None, typer.Option(help="Share of full power to give back; repeat.")] = None,
    pool: PoolOption = None,
    trace: TraceOption = None,
    cdf: CdfOption = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_s: Rate = None,
    requests: Count = None,
    duration_s: Duration = None,
    scale: Scale = None,
    block_s: Block = None,
    ttft_s: Ttft = None,
    tpot_s: Tpot = None,
    e2e_s: E2e = None,
    slo_target: Target = None,
    context_tokens: Context = None,
    queue_limit: QueueLimit = None,
    telemetry_s: TelemetryS = None,
    telemetry_ttl_s: TelemetryTtl = None,
    telemetry_dropout: Dropout = None,
    at: At = None,
    seed: Seeds = None,
    keep: Keep = True,
    json_: Json = False,
) -> None:
    """Compare policies on the same requests, seed by seed, over loads and power caps, on all cores."""
    told = _watch(
        "fleet.compare",
        _params(
            scenario, policies=policy, baseline=baseline, loads=load, caps=cap, pool=pool, trace=trace, cdf=cdf,
            prompt_tokens=prompt_tokens, output_tokens=output_tokens, requests_per_s=requests_per_s,
            requests=requests, duration_s=duration_s, scale=scale, block_s=block_s, ttft_s=ttft_s, tpot_s=tpot_s,
            e2e_s=e2e_s, slo_target=slo_target, context_tokens=context_tokens, queue_limit=queue_limit,
            telemetry_s=telemetry_s, telemetry_ttl_s=telemetry_ttl_s, telemetry_dropout=telemetry_dropout, at=at,
            seeds=seed, keep=keep,
        ),
        json_,
    )  # fmt: skip
    out.document(told) if json_ else printing.report(told)


@fleet.command("size")
def size(
    scenario: File = None,
    pool: PoolOption = None,
    trace: TraceOption = None,
    cdf: CdfOption = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_s: Rate = None,
    requests: Count = None,
    scale: Scale = None,
    ttft_s: Ttft = None,
    tpot_s: Tpot = None,
    context_tokens: Context = None,
    split_tokens: Annotated[
        int | None,
        typer.Option(help="Also: the first pool takes requests of up to so many tokens, the second the rest."),
    ] = None,
    convention: Convention = "physical",
    verify: Verify = True,
    quantile: Quantile = 0.99,
    utilization_max: Utilization = 0.85,
    seed: Seeds = None,
    keep: Keep = True,
    json_: Json = False,
) -> None:
    """Tell the fewest instances of each pool that keep an SLO under the whole load, and simulate them."""
    told = _watch(
        "fleet.size",
        _params(
            scenario, pool=pool, trace=trace, cdf=cdf, prompt_tokens=prompt_tokens, output_tokens=output_tokens,
            requests_per_s=requests_per_s, requests=requests, scale=scale, ttft_s=ttft_s, tpot_s=tpot_s,
            context_tokens=context_tokens, split_tokens=split_tokens, convention=convention, verify=verify,
            quantile=quantile, utilization_max=utilization_max, seeds=seed, keep=keep,
        ),
        json_,
    )  # fmt: skip
    out.document(told) if json_ else printing.report(told)


@fleet.command("flex")
def flex(
    scenario: File = None,
    level: Annotated[list[float] | None, typer.Option(help="Share of full power to give back; repeat.")] = None,
    pool: PoolOption = None,
    trace: TraceOption = None,
    cdf: CdfOption = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_s: Rate = None,
    requests: Count = None,
    scale: Scale = None,
    policy: Policy = None,
    ttft_s: Ttft = None,
    tpot_s: Tpot = None,
    context_tokens: Context = None,
    convention: Convention = "physical",
    verify: Verify = True,
    quantile: Quantile = 0.99,
    utilization_max: Utilization = 0.85,
    seed: Seeds = None,
    keep: Keep = True,
    json_: Json = False,
) -> None:
    """Tell what caps on power save and cost at the load that is really carried."""
    told = _watch(
        "fleet.flex",
        _params(
            scenario, levels=level, pool=pool, trace=trace, cdf=cdf, prompt_tokens=prompt_tokens,
            output_tokens=output_tokens, requests_per_s=requests_per_s, requests=requests, scale=scale, policy=policy,
            ttft_s=ttft_s, tpot_s=tpot_s, context_tokens=context_tokens, convention=convention, verify=verify,
            quantile=quantile, utilization_max=utilization_max, seeds=seed, keep=keep,
        ),
        json_,
    )  # fmt: skip
    out.document(told) if json_ else printing.report(told)


@fleet.command("sensitivity")
def sensitivity(
    scenario: File = None,
    policy: Policies = None,
    sd: Annotated[float | None, typer.Option(help="Relative error of power, instead of what profiles tell.")] = None,
    draws: Annotated[int, typer.Option(help="Monte Carlo draws.", min=1000)] = 100_000,
    sobol_n: Annotated[int, typer.Option(help="Base sample of the Sobol indices, a power of 2.", min=64)] = 1024,
    pool: PoolOption = None,
    trace: TraceOption = None,
    cdf: CdfOption = None,
    prompt_tokens: PromptTokens = None,
    output_tokens: OutputTokens = None,
    requests_per_s: Rate = None,
    requests: Count = None,
    scale: Scale = None,
    block_s: Block = None,
    ttft_s: Ttft = None,
    tpot_s: Tpot = None,
    e2e_s: E2e = None,
    slo_target: Target = None,
    seed: Seeds = None,
    keep: Keep = True,
    json_: Json = False,
) -> None:
    """Tell whether the ranking of policies survives the error of the power model."""
    told = _watch(
        "fleet.sensitivity",
        _params(
            scenario, policies=policy, sd=sd, draws=draws, sobol_n=sobol_n, pool=pool, trace=trace, cdf=cdf,
            prompt_tokens=prompt_tokens, output_tokens=output_tokens, requests_per_s=requests_per_s,
            requests=requests, scale=scale, block_s=block_s, ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s,
            slo_target=slo_target, seeds=seed, keep=keep,
        ),
        json_,
    )  # fmt: skip
    out.document(told) if json_ else printing.report(told)


@fleet.command("runs")
def runs(
    experiment: Annotated[str | None, typer.Option(help="simulate, compare, size, flex or sensitivity.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
    json_: Json = False,
) -> None:
    """List the stored experiments, newest first."""
    told = _ask("fleet.runs", {"experiment": experiment, "limit": limit})
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
    told = _ask("fleet.report", {"id": id, "experiment": experiment})
    if scenario is not None:
        try:
            scenario.write_text(canonical_json(told["scenario"]) + "\n", encoding="utf-8")
        except OSError as error:
            raise BadRequest(f"{scenario} cannot be written: {error.strerror}.", fix="name another file") from error
    out.document(told) if json_ else printing.report(told)
