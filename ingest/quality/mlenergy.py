"""ML.ENERGY benchmark tables -> core.energy_observation: published joules per token by model, GPU and batch.

    mlenergy-v3   columns of the leaderboard's `tasks/*.json` (the flattened CSV, or such a file itself)
    mlenergy-v2   task, model_id, gpu, tp, pp, energy_per_request_joules, …, max_batch_size

The benchmark's meter was real (Zeus over NVML, all GPUs of the run, a steady-state window). Here the class is
nevertheless `modeled`, "a published profile": the tables tell how many devices, but neither when nor for how long,
so no window of any meter can be named, and `measured` means a meter over a window. `attributes` keep the power
and throughput that go with it.

An observation is the mean request of a configuration: energy = J/token x the mean output length in whole tokens, so
that energy / output_tokens is exactly the published J/token. It counts nothing that was served: attempts and successes
are unknown. The window is the instant of publication. The workload is `benchmark`, which never steers routing.
Concurrency is the mean batch; J/token falls ninefold from batch 8 to 768, so a figure without its batch says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Refused, Row, plain_json
from ingest.kind import Option
from ingest.quality.table import MISSHAPEN, count_of, day_of, needed, number_of, read_rows, text_of
from ingest.read import refuse
from warehouse.evidence import EvidenceClass, Quality
from warehouse.ids import content_hash
from warehouse.tables import frame

PROVIDER = "ml.energy"
_AGREE = Decimal("0.001")  # figures of one row that follow from each other may differ by this share
_LARGEST_GPU_W = 2000
_GPUS = 100_000


@dataclass(frozen=True)
class Edition:
    """One edition of the benchmark and the columns of its table."""

    name: str
    published: datetime  # default of the option: the date of the newest data of this edition
    needed: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], Configuration]


@dataclass(frozen=True)
class Configuration:
    """One row, in one shape for both editions."""

    key: tuple[Any, ...]
    task: str
    model: str
    version: str | None
    gpu: str
    gpus: int
    layout: str
    batch: Decimal
    j_per_token: Decimal
    tokens: Decimal
    power_w: Decimal
    attributes: dict[str, Any]
    runtime: str | None
    runtime_version: str | None


def options(edition: Edition) -> tuple[Option, ...]:
    return (
        Option("published", "the date of the table, YYYY-MM-DD", default=f"{edition.published:%Y-%m-%d}"),
        Option(
            "runtime_version", "version of vLLM that the table was made with, where it is another than the edition's"
        ),
    )


def parser(edition: Edition) -> Callable[[Payload], Parsed]:
    """The `parse` of one edition's kind."""

    def parse(payload: Payload) -> Parsed:
        """Configurations of the table. Raises PayloadError where its columns are not those of the edition."""
        listed, columns = read_rows(payload, ("configurations",))
        missing = [name for name in edition.needed if name not in columns]
        if missing:
            refuse(payload, f"the column {missing[0]!r} is missing", field=missing[0],
                   fix=f"import a table of {edition.name} with the columns {', '.join(edition.needed)}")  # fmt: skip
        try:
            told = payload.options.get("published")
            latest = max(edition.published, payload.fetched_at)
            at = day_of(told, "published", not_after=latest) if told else edition.published
        except Refused as refused:
            refuse(payload, f"the option {refused}", field="published", fix="write the date of the table")
        return _parsed(payload, edition, listed, at)

    return parse


def _parsed(payload: Payload, edition: Edition, listed: list[dict[str, Any]], at: datetime) -> Parsed:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    seen: Counter[tuple[Any, ...]] = Counter()
    exact: set[str] = set()
    for row_no, data in enumerate(listed):
        row = Row(row_no, data, " / ".join(str(data.get(n)) for n in edition.needed[:4]))
        try:
            if MISSHAPEN in data:
                raise Refused("row has not the columns of the header")
            found = edition.read(data)
            _check(found)
            if (whole := plain_json(data)) in exact:
                raise Refused("row comes twice, the same in every column")
            exact.add(whole)
        except Refused as refused:
            name, _, reason = str(refused).partition(" ")
            row.refuse(name, data.get(name), reason, whole_row=True)
            rejects += row.rejects
            continue
        seen[found.key] += 1  # the benchmark ran some configurations more than once
        rows.append(_observation(found, edition, seen[found.key], at, payload.options.get("runtime_version")))
    return Parsed(
        primary="core.energy_observation",
        tables={"core.energy_observation": frame("core.energy_observation", rows)},
        rows_in=len(listed),
        rejects=tuple(rejects),
        data_at=at if rows else None,
        notes=tuple(f"{n} runs repeat a configuration; all are kept" for n in [sum(seen.values()) - len(seen)] if n),
    )


def _check(found: Configuration) -> None:
    if not found.j_per_token or not found.tokens:
        raise Refused("energy_per_token_joules and output length must be above 0")
    if not 0 < found.power_w <= _LARGEST_GPU_W * found.gpus:
        raise Refused(f"power is {found.power_w:.0f} W on {found.gpus} GPUs, which is not plausible")
    if not found.batch:
        raise Refused("avg_batch_size must be above 0")


def _observation(
    found: Configuration, edition: Edition, repeat: int, at: datetime, version: str | None
) -> dict[str, Any]:
    tokens = max(1, round(found.tokens))
    return {
        "observation_id": content_hash([PROVIDER, edition.name, *map(str, found.key), repeat]),
        "provider": PROVIDER,
        "hardware_model": found.gpu,
        "hardware_count": found.gpus,
        "logical_model": found.model,
        "deployable_model": found.model,
        "deployable_version": found.version,
        "runtime": "vllm" if version else found.runtime,
        "runtime_version": version or found.runtime_version,
        "config_version": f"{found.layout}, {found.task}",
        "window_start_at": at,
        "window_end_at": at,
        "concurrency": float(found.batch),
        "evidence_class": EvidenceClass.MODELED.value,
        "method": f"published table ({edition.name}, GPUs only)",
        "quality": Quality.FAIR.value,
        "energy_gross_j": float(found.j_per_token * tokens),
        "output_tokens": tokens,
        "workload": "benchmark",
        "attributes": plain_json({"task": found.task, "repeat": repeat, **found.attributes}),
    }


def agree(name: str, told: Decimal, follows: Decimal) -> None:
    if abs(told - follows) > _AGREE * max(abs(told), abs(follows)):
        raise Refused(f"{name} is {float(told):.6g}, and {float(follows):.6g} follows from the other columns")


def figures(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: found for name in names if (found := number_of(data, name)) is not None}


def whole_of(data: Mapping[str, Any], name: str) -> int:
    found = count_of(data, name, low=1, high=_GPUS)
    if found is None:
        raise Refused(f"{name} is missing")
    return found


def _v3(data: Mapping[str, Any]) -> Configuration:
    task, model, gpu, precision = (text_of(data, n) for n in ("task", "model_id", "gpu_model", "weight_precision"))
    gpus, tp, ep, dp, seqs = (
        whole_of(data, n) for n in ("num_gpus", "tensor_parallel", "expert_parallel", "data_parallel", "max_num_seqs")
    )
    j_per_token, tokens = needed(data, "energy_per_token_joules"), needed(data, "avg_output_len")
    power = needed(data, "avg_power_watts")
    agree("energy_per_request_joules", needed(data, "energy_per_request_joules"), j_per_token * tokens)
    throughput = needed(data, "output_throughput_tokens_per_sec")
    agree("avg_power_watts", power, j_per_token * throughput)
    return Configuration(
        key=(task, model, gpu, gpus, precision, tp, ep, dp, seqs),
        task=task,
        model=model,
        version=precision,
        gpu=gpu,
        gpus=gpus,
        layout=f"tp{tp} ep{ep} dp{dp} max_num_seqs {seqs}",
        batch=needed(data, "avg_batch_size"),
        j_per_token=j_per_token,
        tokens=tokens,
        power_w=power,
        attributes={
            "power_w": power,
            "output_tokens_per_s": throughput,
            "max_num_seqs": seqs,
            **figures(data, "median_itl_ms", "p90_itl_ms", "p95_itl_ms", "p99_itl_ms"),
            **figures(data, "total_params_billions", "activated_params_billions"),
        },
        runtime="vllm",
        runtime_version="0.11.1",
    )


def _v2(data: Mapping[str, Any]) -> Configuration:
    task, model, gpu = (text_of(data, n) for n in ("task", "model_id", "gpu"))
    tp, pp, batch = (whole_of(data, n) for n in ("tp", "pp", "max_batch_size"))
    tokens, per_request = needed(data, "avg_output_tokens"), needed(data, "energy_per_request_joules")
    if not tokens:
        raise Refused("avg_output_tokens is 0")
    told = number_of(data, "energy_per_token_joules")
    j_per_token = per_request / tokens if told is None else told
    agree("energy_per_request_joules", per_request, j_per_token * tokens)
    throughput = needed(data, "token_throughput_tok_s")
    return Configuration(
        key=(task, model, gpu, tp, pp, batch),
        task=task,
        model=model,
        version=None,
        gpu=gpu,
        gpus=tp * pp,
        layout=f"tp{tp} pp{pp} max_num_seqs {batch}",
        batch=needed(data, "avg_batch_size"),
        j_per_token=j_per_token,
        tokens=tokens,
        power_w=j_per_token * throughput,
        attributes={
            "power_w": j_per_token * throughput,
            "output_tokens_per_s": throughput,
            "max_num_seqs": batch,
            **figures(data, "avg_tpot_s"),
        },
        runtime=None,  # the table does not tell it
        runtime_version=None,
    )


V3 = Edition(
    name="ML.ENERGY v3",
    published=datetime(2026, 2, 16),  # last_updated of the leaderboard's index.json
    needed=(
        "task", "model_id", "gpu_model", "max_num_seqs", "num_gpus", "weight_precision", "tensor_parallel",
        "expert_parallel", "data_parallel", "avg_batch_size", "avg_output_len", "avg_power_watts",
        "energy_per_token_joules", "energy_per_request_joules", "output_throughput_tokens_per_sec",
    ),
    read=_v3,
)  # fmt: skip
V2 = Edition(
    name="ML.ENERGY v2",
    published=datetime(2025, 11, 28),  # the last commit of its data
    needed=(
        "task", "model_id", "gpu", "max_batch_size", "tp", "pp", "energy_per_request_joules", "avg_output_tokens",
        "avg_batch_size", "token_throughput_tok_s",
    ),
    read=_v2,
)  # fmt: skip
