"""Under which loads and hours a run evaluates its choices, and which arms are known under all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING, Any

from app.errors import BadRequest
from policies.replay.plan import Options, plan
from policies.replay.table import Condition
from warehouse.clock import to_utc
from warehouse.snapshots import Snapshot

if TYPE_CHECKING:
    from app.operations.replay import RunParams

MOST = 48


def conditions(params: RunParams) -> list[Condition]:
    """Every combination of GPU, batch, zone and hour, in the order given. Raises BadRequest for too many."""
    hours: Sequence[datetime | None] = [to_utc(at, what="at") for at in params.at] or [None]
    gpus: Sequence[str | None] = params.gpu or [None]
    batches: Sequence[float | None] = params.batch or [None]
    zones: Sequence[str | None] = params.zone or [None]
    found = [
        Condition(gpu=gpu, batch=batch, zone=zone, at=at)
        for gpu, batch, zone, at in product(gpus, batches, zones, hours)
    ]
    if len(found) > MOST:
        raise BadRequest(f"The run has {len(found)} conditions.", fix=f"name at most {MOST} combinations")
    return found


def load_options(params: RunParams) -> dict[str, Any]:
    """What `load_table` is told beside condition and arms."""
    return {
        "benchmarks": params.benchmarks or None,
        "seed": params.seed,
        "test_share": params.test_share,
        "split": params.split,
        "leaked": params.leaked,
        "keep_partial": params.keep_partial,
        "batch_mode": params.batch_mode,
        "edition": params.edition,
        "evidence_class": params.evidence_class,
    }


def common_arms(snap: Snapshot, params: RunParams, found: Sequence[Condition]) -> tuple[list[str] | None, list[str]]:
    """(the arms to load, or None for those that loading chooses itself; what must be said about it).

    A policy's choices are the same under every condition, so all conditions need the same arms.
    """
    if params.arms or len(found) == 1:
        return params.arms or None, []
    options = load_options(params)
    benchmarks = tuple(options.pop("benchmarks") or ()) or None
    each = [
        [arm.name for arm in plan(snap, params.dataset, Options(condition=c, benchmarks=benchmarks, **options)).arms]
        for c in found
    ]
    common = [name for name in each[0] if all(name in other for other in each[1:])]
    if len(common) < 2:
        raise BadRequest(
            f"{len(common)} arms of {params.dataset} are known under all {len(found)} conditions.",
            fix="name GPUs and batches that were measured for two arms at least",
        )
    left = sorted({name for names in each for name in names} - set(common))
    if not left:
        return None, []
    return common, [f"left out, because not every condition knows their joules: {', '.join(left)}"]
