"""`joulebook replay ...`: what another routing policy would have cost on recorded outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app import cli_print as out
from app import cli_replay_trl
from app.cli_options import Group, grouped
from app.client import Client, ask
from app.replay import printing
from app.settings import load_settings
from app.watching import watch

replay = typer.Typer(help="Replay lab: what another routing policy would have cost.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Dataset = Annotated[str, typer.Option(help="Data set, as `replay datasets` lists it.")]
Partial = Annotated[bool, typer.Option("--partial", help="Keep arms that do not know every query.")]


class Held(Group):
    """Which part of the table, and what of it is held out."""

    arms: Annotated[list[str] | None, typer.Option(help="Only these arms; repeat, or separate by commas.")] = None
    benchmark: Annotated[list[str] | None, typer.Option(help="Only these benchmarks; repeat.")] = None
    split: Annotated[str, typer.Option(help="Held-out part: auto, hash or permutation.")] = "auto"
    test_share: Annotated[float, typer.Option(help="Share of the queries that is held out.")] = 0.3

    def params(self) -> dict[str, Any]:
        """As operations take them: arms one by one, also where commas separate them."""
        return {
            "arms": [name for given in self.get("arms", ()) for name in given.split(",") if name],
            "benchmarks": self.get("benchmark", []),
            "split": self["split"],
            "test_share": self["test_share"],
        }


class Joules(Group):
    """Which joules, where several are known."""

    edition: Annotated[str | None, typer.Option(help="Edition of the joules per token, v2 or v3.")] = None
    evidence: Annotated[
        str | None, typer.Option(help="Class of the joules to use where outcomes tell several, such as measured.")
    ] = None

    def params(self) -> dict[str, Any]:
        return {"edition": self.get("edition"), "evidence_class": self.get("evidence")}


@replay.callback()
def _group() -> None:
    """Replay lab: what another routing policy would have cost."""


@replay.command("datasets")
def datasets(json_: Json = False) -> None:
    """List the data sets that can be replayed."""
    told = ask("replay.datasets", {})
    out.document(told) if json_ else printing.datasets(told)


@replay.command("run")
@grouped
def run(
    *,
    dataset: Dataset,
    gpu: Annotated[list[str] | None, typer.Option(help="GPU whose measured J per token are used; repeat.")] = None,
    batch: Annotated[
        list[float] | None, typer.Option(help="Concurrent requests of the backend; repeat for several loads.", min=0)
    ] = None,
    zone: Annotated[list[str] | None, typer.Option(help="Grid zone of the grams; repeat.")] = None,
    at: Annotated[list[str] | None, typer.Option(help="Hour of the grams, ISO 8601 with zone; repeat.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy or family, such as knn-40, learned, default; repeat. Fixed arms always take part."),
    ] = None,
    lambda_: Annotated[
        list[float] | None,
        typer.Option("--lambda", help="Right answers that a joule is worth, where policies are run; repeat.", min=0),
    ] = None,
    rank_lambda: Annotated[
        list[float] | None,
        typer.Option(help="Weight of the energy rank that the learned controller trains with.", min=0),
    ] = None,
    reward_lambda: Annotated[
        float, typer.Option(help="Weight of the energy rank in the reward that is reported.", min=0)
    ] = 0.4,
    embedder: Annotated[str | None, typer.Option(help="wordllama (default), tfidf-svd, minilm or none.")] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="File of embeddings: .npy in query order, or Parquet with query_id.")
    ] = None,
    incumbent: Annotated[str | None, typer.Option(help="Arm or policy that routes today.")] = None,
    budget_j: Annotated[float | None, typer.Option(help="Joules per query that may be spent.", min=0)] = None,
    seed: Annotated[int, typer.Option(help="Seed of split, policies and bootstrap.", min=0)] = 0,
    held: Held,
    leaked: Annotated[
        str, typer.Option(help="Training queries with the text of a held-out one: refuse or drop.")
    ] = "refuse",
    partial: Partial = False,
    interpolate: Annotated[
        bool,
        typer.Option("--interpolate-batch", help="Read between two measured batches instead of taking the nearest."),
    ] = False,
    joules: Joules,
    router_power_w: Annotated[
        float | None, typer.Option(help="Power of the machine that routes, for the router's own joules.", min=0)
    ] = None,
    keep_choices: Annotated[bool, typer.Option(help="Keep each policy's choices in the warehouse.")] = True,
    stream: Annotated[
        bool | None, typer.Option(help="Read the table in portions (default: above 20 million outcomes).")
    ] = None,
    json_: Json = False,
) -> None:
    """Replay policies on recorded outcomes: fit on one part, choose on the other, then look at what it cost.

    Several GPUs, batches, zones or hours evaluate the same choices once under each. Ctrl+C cancels; nothing of
    the run is kept then.
    """
    params = {
        "dataset": dataset,
        "gpu": gpu or [],
        "batch": batch or [],
        "zone": zone or [],
        "at": at or [],
        "policies": policy or [],
        "lambdas": lambda_ or [],
        "rank_lambdas": rank_lambda or [],
        "reward_lambda": reward_lambda,
        "embedder": embedder,
        "embeddings": None if embeddings is None else str(embeddings.absolute()),
        "incumbent": incumbent,
        "budget_j": budget_j,
        "seed": seed,
        **held.params(),
        "leaked": leaked,
        "keep_partial": partial,
        "batch_mode": "interpolate" if interpolate else "nearest",
        **joules.params(),
        "router_power_w": router_power_w,
        "keep_choices": keep_choices,
        "stream": stream,
    }
    told = watch("replay.run", params, json_)
    out.document(told) if json_ else printing.report(told)


@replay.command("runs")
def runs(
    dataset: Annotated[str | None, typer.Option(help="Only of this data set.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
    json_: Json = False,
) -> None:
    """List the stored runs, newest first."""
    told = ask("replay.runs", {"dataset": dataset, "limit": limit})
    out.document(told) if json_ else printing.runs(told)


@replay.command("report")
def report(
    id: Annotated[str | None, typer.Argument(help="Run id, or its first characters (default: the newest).")] = None,
    dataset: Annotated[str | None, typer.Option(help="The newest run of this data set.")] = None,
    choices: Annotated[Path | None, typer.Option(help="Also write the choices to this file, .csv or .parquet.")] = None,
    json_: Json = False,
) -> None:
    """Show the report of a run."""
    with Client(load_settings()) as client:
        told = client.call("replay.report", {"id": id, "dataset": dataset})
        if choices is not None:
            written = client.call("replay.choices", {"id": told["id"], "path": str(choices.absolute())})
            told["choices_file"] = written
    out.document(told) if json_ else printing.report(told)


@replay.command("train")
@grouped
def train(
    *,
    dataset: Dataset,
    method: Annotated[
        str, typer.Option(help="controller: the lab's own, on a CPU; trl: a language model, with the extra.")
    ] = "controller",
    out_: Annotated[Path | None, typer.Option("--out", help="The folder to train into, with --method trl.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of --method trl, such as model=FOLDER; repeat."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted --method trl.")] = False,
    stage: Annotated[str | None, typer.Option(help="sft, grpo (default) or kl-grpo (default with trl).")] = None,
    reward: Annotated[str | None, typer.Option(help="gated (by energy rank; default) or joules.")] = None,
    lambda_: Annotated[
        float | None, typer.Option("--lambda", help="Weight of energy in the reward: of its rank, or per joule.", min=0)
    ] = None,
    lam_supervised: Annotated[
        float | None, typer.Option(help="Weight of the energy rank in the labels of sft (0.5).", min=0)
    ] = None,
    per_s: Annotated[
        float | None, typer.Option("--per-s", help="What a second costs in the gated reward (0).", min=0)
    ] = None,
    per_w: Annotated[
        float | None, typer.Option("--per-w", help="What a watt costs in the gated reward (0).", min=0)
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Weight of the distance to the supervised policy, for kl-grpo (0.05).", min=0)
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="exact (default): all arms; sampled: --group arms per query.")
    ] = None,
    scale: Annotated[str | None, typer.Option(help="Advantages are divided by batch (default), group or none.")] = None,
    group: Annotated[int | None, typer.Option(help="Arms drawn per query, for sampled (8).", min=2)] = None,
    steps: Annotated[int | None, typer.Option(help="At most so many steps per stage (400).", min=1)] = None,
    hidden: Annotated[int | None, typer.Option(help="Units of a hidden layer (0: linear).", min=0)] = None,
    unanswered: Annotated[
        str | None, typer.Option(help="Queries that no arm has right: exclude (default), or label them cheapest.")
    ] = None,
    see_benchmarks: Annotated[
        bool, typer.Option("--see-benchmarks", help="Let it see the benchmark, which a router at work is not told.")
    ] = False,
    gpu: Annotated[str | None, typer.Option(help="GPU whose measured J per token are used.")] = None,
    batch: Annotated[float | None, typer.Option(help="Concurrent requests of the backend.", min=0)] = None,
    zone: Annotated[str | None, typer.Option(help="Grid zone of the grams.")] = None,
    at: Annotated[str | None, typer.Option(help="Hour of the grams, ISO 8601 with zone.")] = None,
    embedder: Annotated[str | None, typer.Option(help="wordllama (default), tfidf-svd, minilm or none.")] = None,
    embeddings: Annotated[Path | None, typer.Option(help="File of embeddings, as for `replay run`.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of split and training.", min=0)] = 0,
    held: Held,
    leaked: Annotated[str, typer.Option(help="Training queries with a held-out text: refuse or drop.")] = "refuse",
    partial: Partial = False,
    interpolate: Annotated[
        bool, typer.Option("--interpolate-batch", help="Read between two measured batches.")
    ] = False,
    joules: Joules,
    power_w: Annotated[
        float | None, typer.Option("--machine-power-w", help="Power of this machine while it trains.", min=0)
    ] = None,
    json_: Json = False,
) -> None:
    """Train the learned controller and keep it; replay it as the policy trained:ID. Ctrl+C keeps nothing.

    With --method trl: train a language model into --out in this process, outside the console, and replay it as
    trl:DIRECTORY. It needs `pip install joulebook[trl]`, weights and a GPU; --resume goes on after Ctrl+C.
    """
    loading: dict[str, Any] = {
        "dataset": dataset,
        "gpu": gpu,
        "batch": batch,
        "seed": seed,
        **held.params(),
        "leaked": leaked,
        "keep_partial": partial,
        "batch_mode": "interpolate" if interpolate else "nearest",
        **joules.params(),
    }
    both = {"stage": stage, "lam": lambda_, "lam_supervised": lam_supervised, "beta": beta, "steps": steps}
    own: dict[str, Any] = {
        "reward": reward,
        "per_s": per_s,
        "per_w": per_w,
        "estimator": estimator,
        "scale": scale,
        "group": group,
        "hidden": hidden,
        "unanswered": unanswered,
        "see_benchmarks": see_benchmarks or None,
        "zone": zone,
        "at": at,
        "embedder": embedder,
        "embeddings": None if embeddings is None else str(embeddings.absolute()),
        "machine_power_w": power_w,
    }
    of_trl = {"out": out_, "set": set_ or None, "resume": resume or None}
    if method == "trl":
        cli_replay_trl.refuse(own, "controller")
        told = cli_replay_trl.train(loading, both, out_, set_, resume=resume)
        out.document(told) if json_ else cli_replay_trl.tell(told)
        return
    if method != "controller":
        raise typer.BadParameter(f"{method!r} is none of controller, trl", param_hint="--method")
    cli_replay_trl.refuse(of_trl, "trl")
    told = watch("replay.train", loading | both | own, json_)
    out.document(told) if json_ else printing.trained(told)


@replay.command("trained")
def trained(
    dataset: Annotated[str | None, typer.Option(help="Only of this data set.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
    json_: Json = False,
) -> None:
    """List the trained controllers, newest first."""
    told = ask("replay.trained", {"dataset": dataset, "limit": limit})
    out.document(told) if json_ else printing.controllers(told)
