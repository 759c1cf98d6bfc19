"""Joules of a call = its output tokens x measured joules per token of its model on a GPU at a batch.

Joules per token come from benchmark observations (ML.ENERGY editions): GPUs only, all GPUs of the run, steady state,
per output token. The product is `calibrated`: a model fitted to measured windows, applied to other requests.

`interpolate`  between the two configurations around the asked batch, linear in log(batch) and log(J/token); the batch
               is the mean of concurrent requests. Never outside what was measured. Between the mean batch of the
               largest configuration and its limit (`max_num_seqs`) its own figure stands.
`nearest`      the configuration whose batch limit is nearest, at most a factor of two away.

Of the layouts (GPUs, parallelism, precision) that answer, the one with the fewest GPUs is taken, and chat workloads
before any other. One edition answers for all arms: the one that knows most of them under the condition, then the
newest; another edition fills in for an arm that it lacks, and that is said, because the runtimes differ.

Latency is output tokens x time per output token (`avg_tpot_s`, else the median of inter-token latency, else batch /
throughput by Little's law), so without the time to the first token. Power of a call is J/token over time per token:
its share of the boards' power, so that energy = power x latency.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from policies.replay.errors import ConditionUnknown
from policies.replay.sql import sql_text
from warehouse.ids import content_hash
from warehouse.snapshots import Snapshot

MODES = ("interpolate", "nearest")
_NEAREST = 2.0  # J/token falls about tenfold over the batches measured: farther away it is another load
_TASKS = {"chat": 0, "lm-arena-chat": 0, "gpqa": 1, "code": 2, "sourcegraph-fim": 2}
_EDITION = re.compile(r"\(([^,)]+)")
_LIMIT = re.compile(r"\s*max_num_seqs (\d+)")


@dataclass(frozen=True)
class Configuration:
    """One measured point: `batch` is the mean of concurrent requests, `limit` the most that were let in."""

    observation_ids: tuple[str, ...]
    edition: str
    model: str  # as published
    gpu: str
    gpus: int
    task: str
    layout: str
    batch: float
    limit: float
    j_per_token: float
    s_per_token: float | None
    basis: str  # evidence class of the published figure

    @property
    def series(self) -> tuple[int, int, str, str]:
        """What must be equal for two configurations to be points of one curve; sorts the preferred one first."""
        return (_TASKS.get(self.task, 3), self.gpus, self.layout, self.model)


@dataclass(frozen=True)
class Rate:
    """What an output token costs one arm under a condition, and where that comes from."""

    arm: str
    model: str
    edition: str
    gpu: str
    gpus: int
    layout: str
    task: str
    batches: tuple[float, ...]  # mean batch of the one or two configurations used
    measured: tuple[float, float]  # range of the mean batch of this layout
    j_per_token: float
    s_per_token: float | None
    basis: str
    observation_ids: tuple[str, ...]


@dataclass(frozen=True)
class Joined:
    """Rates of the arms that have one, and for the others the reason why not."""

    rates: Mapping[str, Rate]
    missing: Mapping[str, str]
    gpu: str
    batch: float
    mode: str

    @property
    def observation_ids(self) -> tuple[str, ...]:
        return tuple(sorted({i for rate in self.rates.values() for i in rate.observation_ids}))

    @property
    def calibration_id(self) -> str:
        """Content hash of the observations, the condition and the way between them."""
        return content_hash([self.observation_ids, self.gpu, self.batch, self.mode])

    @property
    def method(self) -> str:
        """One line that names edition, GPU, batch, interpolation and the basis."""
        editions = ", ".join(sorted({r.edition for r in self.rates.values()}))
        how = "log-log between measured batches" if self.mode == "interpolate" else "nearest batch limit"
        basis = ", ".join(sorted({r.basis for r in self.rates.values()}))
        return (
            f"output tokens x J/token: {editions} on {self.gpu}, batch {self.batch:g}, {how} "
            f"(GPUs only; published table, itself {basis})"
        )


def model_key(name: str) -> str:
    """A model under one name in all editions: meta-llama/Meta-Llama-3.1-8B-Instruct is Llama-3.1-8B-Instruct."""
    owner, _, short = name.strip().lower().rpartition("/")
    return f"{owner}/{short.removeprefix('meta-')}"


def configurations(snap: Snapshot) -> tuple[Configuration, ...]:
    """Every measured configuration that the snapshot knows; repeated runs of one are averaged."""
    found = [_configuration(row) for row in snap.sql(sql_text("benchmark_energy.sql")).to_dicts()]

    def same(c: Configuration) -> tuple[object, ...]:
        return (c.edition, model_key(c.model), c.gpu, *c.series, c.limit)

    found.sort(key=lambda c: (*map(str, same(c)), c.observation_ids))
    return tuple(_mean(list(group)) for _, group in groupby(found, key=same))


def matching_gpus(known: Iterable[Configuration], name: str) -> frozenset[str]:
    """The hardware models that `name` stands for: equal, or a word of it (H100). Raises ConditionUnknown."""
    models = sorted({c.gpu for c in known})
    exact = {m for m in models if m.casefold() == name.strip().casefold()}
    words = {m for m in models if name.strip().casefold() in re.split(r"[^a-z0-9]+", m.casefold())}
    if not (exact or words):
        raise ConditionUnknown(
            f"No benchmark was measured on the GPU {name!r}.",
            fix=f"use one of {', '.join(models)}"
            if models
            else "import a table of the kind mlenergy-v2 or mlenergy-v3",
        )
    # a full name that is a word of others (H100) stands for them all
    return frozenset(exact | words)


def join(
    known: Sequence[Configuration],
    models: Mapping[str, str | None],
    *,
    gpu: str | None,
    batch: float | None,
    mode: str = "interpolate",
    edition: str | None = None,
) -> Joined:
    """Rates for arms (name -> energy model) on `gpu` at `batch` concurrent requests.

    Raises ConditionUnknown: GPU or batch missing, unknown or out of bounds, edition or mode unknown.
    """
    if mode not in MODES:
        raise ConditionUnknown(f"The mode of the batch is {mode!r}.", fix=f"use one of {', '.join(MODES)}")
    if gpu is None or batch is None:
        told = ", ".join(sorted({c.gpu for c in known})) or "none yet"
        raise ConditionUnknown(
            f"Energy per token needs a GPU and a batch; told is only {f'the batch {batch:g}' if gpu is None else gpu}.",
            fix=f"name both; GPUs with measurements: {told}",
        )
    if not 0 < batch < math.inf:
        raise ConditionUnknown(f"The batch is {batch:g}.", fix="give the mean number of concurrent requests, above 0")
    gpus = matching_gpus(known, gpu)
    rates: dict[str, Rate] = {}
    missing: dict[str, str] = {}
    by_edition: dict[str, dict[str, Rate]] = {name: {} for name in _editions(known, edition)}
    for arm, model in sorted(models.items()):
        if model is None:
            missing[arm] = "no benchmarked model is declared for it (energy_model)"
            continue
        mine = [
            c for c in known if c.gpu in gpus and c.edition in by_edition and model_key(c.model) == model_key(model)
        ]
        for name, found in by_edition.items():
            rate = _rate(arm, [c for c in mine if c.edition == name], batch, mode)
            if rate is not None:
                found[arm] = rate
        if not any(arm in found for found in by_edition.values()):
            missing[arm] = _why_not(model, mine, known, gpu, batch)
    for found in sorted(by_edition.values(), key=len):  # the edition that knows most is written last, and stays
        rates.update(found)
    return Joined(dict(sorted(rates.items())), missing, gpu, float(batch), mode)


def _editions(known: Sequence[Configuration], asked: str | None) -> list[str]:
    """Editions, the newest last."""
    names = sorted({c.edition for c in known})
    if asked is None:
        return names
    chosen = [n for n in names if n.casefold() == asked.casefold() or n.casefold().endswith(f" {asked.casefold()}")]
    if not chosen:
        raise ConditionUnknown(
            f"There is no edition {asked!r} of the benchmark.", fix=f"use one of {', '.join(names) or 'none yet'}"
        )
    return chosen


def _rate(arm: str, mine: Sequence[Configuration], batch: float, mode: str) -> Rate | None:
    """The rate from the curves of one model, GPU and edition; None where none answers."""
    if not mine:
        return None
    best_task = min(c.series[0] for c in mine)
    usable = sorted((c for c in mine if c.series[0] == best_task), key=lambda c: (c.series, c.batch))
    curves = [list(points) for _, points in groupby(usable, key=lambda c: c.series)]
    if mode == "nearest":
        curve = min(curves, key=lambda points: min(abs(c.limit - batch) for c in points))
        used = [min(curve, key=lambda c: (abs(c.limit - batch), c.limit))]
        if not 1 / _NEAREST <= used[0].limit / batch <= _NEAREST:
            return None
        return _made(arm, curve, used, used[0].j_per_token, used[0].s_per_token)
    covering = [points for points in curves if _range(points)[0] <= batch <= _range(points)[1]]
    return _interpolated(arm, covering[0], batch) if covering else None


def _range(points: Sequence[Configuration]) -> tuple[float, float]:
    return points[0].batch, max(points[-1].batch, points[-1].limit)


def _interpolated(arm: str, points: Sequence[Configuration], batch: float) -> Rate:
    above = next((i for i, c in enumerate(points) if c.batch >= batch), None)
    if above is None or points[above].batch == batch:
        used = [points[-1 if above is None else above]]
        return _made(arm, points, used, used[0].j_per_token, used[0].s_per_token)
    low, high = points[above - 1], points[above]
    share = math.log(batch / low.batch) / math.log(high.batch / low.batch)

    def between(a: float, b: float) -> float:
        return math.exp(math.log(a) + share * math.log(b / a))

    seconds = None
    if low.s_per_token is not None and high.s_per_token is not None:
        seconds = between(low.s_per_token, high.s_per_token)
    return _made(arm, points, [low, high], between(low.j_per_token, high.j_per_token), seconds)


def _made(
    arm: str, curve: Sequence[Configuration], used: Sequence[Configuration], j_per_token: float, s: float | None
) -> Rate:
    first = used[0]
    return Rate(
        arm=arm,
        model=first.model,
        edition=first.edition,
        gpu=first.gpu,
        gpus=first.gpus,
        layout=first.layout,
        task=first.task,
        batches=tuple(c.batch for c in used),
        measured=(curve[0].batch, curve[-1].batch),
        j_per_token=j_per_token,
        s_per_token=s,
        basis=first.basis,
        observation_ids=tuple(i for c in used for i in c.observation_ids),
    )


def _why_not(model: str, mine: Sequence[Configuration], known: Sequence[Configuration], gpu: str, batch: float) -> str:
    if mine:
        low, high = min(c.batch for c in mine), max(c.batch for c in mine)
        return f"{model} was measured on {gpu} at batch {low:.4g} to {high:.4g}; {batch:g} is outside"
    others = sorted({c.gpu for c in known if model_key(c.model) == model_key(model)})
    return f"{model} was not measured on {gpu}" + (f", only on {', '.join(others)}" if others else " or any other GPU")


def _configuration(row: Mapping[str, object]) -> Configuration:
    attributes = json.loads(str(row["attributes"] or "{}"))
    config, method = str(row["config_version"] or ""), str(row["method"])
    limit = _LIMIT.search(config)
    batch = float(str(row["concurrency"]))
    layout, _, task = _LIMIT.sub("", config).partition(", ")
    edition = _EDITION.search(method)
    return Configuration(
        observation_ids=(str(row["observation_id"]),),
        edition=edition[1].strip() if edition else method,
        model=str(row["logical_model"]),
        gpu=str(row["hardware_model"]),
        gpus=int(str(row["hardware_count"] or 1)),
        task=str(attributes.get("task") or task),
        layout=f"{layout} {row['deployable_version'] or ''}".strip(),
        batch=batch,
        limit=float(limit[1]) if limit else batch,
        j_per_token=float(str(row["j_per_token"])),
        s_per_token=_seconds(attributes, batch),
        basis=str(row["evidence_class"]),
    )


def _seconds(attributes: Mapping[str, float], batch: float) -> float | None:
    """Seconds per output token of one request."""
    if attributes.get("avg_tpot_s"):
        return float(attributes["avg_tpot_s"])
    if attributes.get("median_itl_ms"):
        return float(attributes["median_itl_ms"]) / 1e3
    throughput = attributes.get("output_tokens_per_s")
    return batch / float(throughput) if throughput else None


def _mean(repeats: Sequence[Configuration]) -> Configuration:
    if len(repeats) == 1:
        return repeats[0]
    seconds = [c.s_per_token for c in repeats if c.s_per_token is not None]
    return replace(
        repeats[0],
        observation_ids=tuple(i for c in repeats for i in c.observation_ids),
        batch=math.fsum(c.batch for c in repeats) / len(repeats),
        j_per_token=math.fsum(c.j_per_token for c in repeats) / len(repeats),
        s_per_token=math.fsum(seconds) / len(seconds) if seconds else None,
    )
