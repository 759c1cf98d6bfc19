"""Lays a scenario out in the records and arrays of the loop."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import FleetError, ProfileIncomplete
from policies.fleet.sim import layout
from policies.fleet.sim.balancing import Balancer, Intensity, ordered
from policies.fleet.sim.fleet import BASE, QUEUE_UNLIMITED, ChangeAt, Deployment, Pool
from policies.fleet.sim.layout import (
    BINS,
    METRICS,
    Balance,
    Change,
    Floats,
    Longs,
    Memory,
    Mode,
    Records,
    Stage,
    Status,
)

_BUCKETS_OF_QUEUE = 16_384  # equally loaded instances are told apart up to so many waiting requests
_KINDS = {kind.name.lower(): kind for kind in Change if kind is not Change.INTENSITY}


class Plan:
    """Names and positions that the result needs beside the memory."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        names = [pool.name for pool in pools]
        if not names:
            raise FleetError("the fleet has no pool.", fix="give one or more")
        if len(set(names)) < len(names):
            raise FleetError(f"two pools have the same name in {', '.join(names)}.", fix="name each differently")
        self.pools = tuple(pools)
        self.names = tuple(names)
        self.deployments: list[tuple[Pool, str, Deployment]] = [
            (pool, name, deployment) for pool in pools for name, deployment in pool.deployments.items()
        ]
        self.deployment_of = {(pool.name, name): k for k, (pool, name, _) in enumerate(self.deployments)}
        self.first = dict(zip(names, np.cumsum([0, *(p.instances for p in pools)]).tolist(), strict=False))
        self.zones = tuple(dict.fromkeys(pool.zone for pool in pools))
        self.instances = sum(pool.instances for pool in pools)


def deployments(plan: Plan, mean_tokens: float) -> tuple[Records, Floats]:
    """Records (D,) and the power tables one after the other."""
    records, tables, at = np.zeros(len(plan.deployments), layout.DEPLOYMENT), [], 0
    for record, (pool, _, deployment) in zip(records, plan.deployments, strict=True):
        w, h, ctx, chunk, blocks, size = deployment.profile.need(
            "W_ms", "H_ms_per_seq", "calibration_ctx", "chunk_tokens", "kv_blocks", "block_tokens"
        )
        if w + h <= 0:
            raise FleetError(
                f"an iteration of {deployment.profile.name} takes no time.", fix="give W_ms or H_ms_per_seq"
            )
        slots = deployment.slots_at(pool.context_tokens)
        record["w_s"], record["h_s"], record["alone_s"] = w / 1e3, h / 1e3 / ctx, (w + h) / 1e3
        record["chunk"], record["kv_blocks"], record["block_tokens"] = chunk, blocks, size
        record["slots"], record["power_at"] = slots, at
        record["empty_w"], record["down_w"] = pool.empty_w(deployment), pool.failed_w
        record["warmup_s"], record["error_rate"] = pool.warmup_s, deployment.error_rate
        record["failure_rate"] = pool.failure_rate_per_s
        record["each_s"] = h / 1e3 / ctx * mean_tokens
        tables.append(deployment.power_w(slots))
        at += slots + 1
    return records, np.concatenate(tables)


def preferred(plan: Plan, balancer: Balancer, records: Records, power_w: Floats) -> Longs:
    """Pools in the order asked for; without one, as given for spillover, else by joules per token at full batch."""
    if balancer.order is not None or balancer.code is Balance.SPILLOVER:
        return np.array(ordered(plan.names, balancer.order), np.int64)
    cost = []
    for pool in plan.pools:
        own = records[plan.deployment_of[pool.name, BASE]]
        slots = int(own["slots"])
        iteration_s = own["w_s"] + own["h_s"] * pool.context_tokens / 2 * slots
        cost.append(float(power_w[own["power_at"] + slots]) * iteration_s / slots)
    return np.argsort(cost, kind="stable").astype(np.int64)


def instances(plan: Plan) -> Records:
    found = np.zeros(plan.instances, layout.INSTANCE)
    for p, pool in enumerate(plan.pools):
        first = plan.first[pool.name]
        mine = found[first : first + pool.instances]
        mine["pool"], mine["zone"] = p, plan.zones.index(pool.zone)
        mine["deployment"] = [plan.deployment_of[pool.name, name] for name in pool.assigned()]
        mine["state"] = [int(Stage.EMPTY if k < pool.parked else Stage.UP) for k in range(pool.instances)]
    found["healthy"] = 1
    found["first_due"] = math.inf
    found["queue_head"] = found["queue_tail"] = found["before"] = found["after"] = found["next_deployment"] = -1
    return found


def pools(plan: Plan, records: Records) -> tuple[Records, int]:
    """Records (P,) and the number of lists of equally loaded instances."""
    found, at = np.zeros(len(plan.pools), layout.POOL), 0
    for record, pool in zip(found, plan.pools, strict=True):
        limit = QUEUE_UNLIMITED if pool.queue_limit is None else pool.queue_limit
        slots = max(int(records[plan.deployment_of[pool.name, name]]["slots"]) for name in pool.deployments)
        record["first"], record["count"] = plan.first[pool.name], pool.instances
        record["bucket_at"], record["buckets"] = at, slots + min(limit, _BUCKETS_OF_QUEUE) + 2
        record["least"] = record["buckets"] - 1
        record["context"], record["queue_limit"], record["max_wait_s"] = pool.context_tokens, limit, pool.max_wait_s
        record["zone"] = plan.zones.index(pool.zone)
        at += int(record["buckets"])
    return found, at


def scheduled(plan: Plan, changes: Sequence[ChangeAt], intensity: Intensity | None, records: Records) -> Records:
    """Events in order of time. Raises FleetError for one that names nothing, ProfileIncomplete for unknown power."""
    rows: list[tuple[float, int, int, float]] = []
    for change in changes:
        if change.kind not in _KINDS:
            raise FleetError(f"there is no change {change.kind!r}.", fix=f"use one of {', '.join(_KINDS)}")
        if change.pool not in plan.names:
            raise FleetError(f"a change names a pool {change.pool!r}.", fix=f"use one of {', '.join(plan.names)}")
        if not 0 <= change.at_s < math.inf:
            raise FleetError(f"a change happens at {change.at_s} s.", fix="give seconds since the start, 0 or more")
        value = 0.0
        if change.kind == "redeploy":
            if (change.pool, change.to) not in plan.deployment_of:
                raise FleetError(
                    f"pool {change.pool} has no deployment {change.to!r}.", fix="declare it in alternatives"
                )
            value = float(plan.deployment_of[change.pool, change.to])
        for i in _targets(plan, change):
            rows.append((change.at_s, int(_KINDS[change.kind]), i, value))
            if change.kind == "fail" and change.repair_s is not None:
                rows.append((change.at_s + change.repair_s, int(Change.START), i, 0.0))
    if any(change.kind == "park" for change in changes) or any(pool.parked for pool in plan.pools):
        _known_when_empty(plan, changes, records)
    for z, zone in enumerate(plan.zones):
        for at, g_per_j in intensity.changes(zone, 0.0) if intensity else ():
            rows.append((at, int(Change.INTENSITY), z, g_per_j))
    return np.array(sorted(rows, key=lambda row: row[0]), layout.CHANGE)


def _targets(plan: Plan, change: ChangeAt) -> list[int]:
    pool = plan.pools[plan.names.index(change.pool)]
    within = list(change.instances)
    if change.share is not None:
        if not 0 < change.share <= 1:
            raise FleetError(f"a change is about a share of {change.share}.", fix="give one above 0, at most 1")
        within = list(range(pool.instances - max(round(change.share * pool.instances), 1), pool.instances))
    if not within or min(within) < 0 or max(within) >= pool.instances:
        raise FleetError(
            f"a change is about instances {within} of pool {pool.name}.", fix=f"name some of 0 to {pool.instances - 1}"
        )
    return [plan.first[pool.name] + i for i in within]


def _known_when_empty(plan: Plan, changes: Sequence[ChangeAt], records: Records) -> None:
    parking = {change.pool for change in changes if change.kind == "park"}
    for record, (pool, name, deployment) in zip(records, plan.deployments, strict=True):
        if (pool.parked or pool.name in parking) and math.isnan(record["empty_w"]):
            raise ProfileIncomplete(
                f"pool {pool.name} has empty instances, and what {deployment.profile.name} draws without a model is "
                f"not known ({name}).",
                fix="declare board_idle_empty_w of its power model, or idle_empty_w of the pool",
            )


def memory(
    plan: Plan,
    *,
    eligible: NDArray[np.bool_],
    expected_output: Floats,
    mean_tokens: float,
    balancer: Balancer,
    intensity: Intensity | None,
    changes: Sequence[ChangeAt],
    sessions: int,
    kept: int,
) -> Memory:
    """All arrays of a run before its first event, and all instances listed."""
    records, power_w = deployments(plan, mean_tokens)
    pool_records, buckets = pools(plan, records)
    pool_records["preferred"] = preferred(plan, balancer, records, power_w)
    classes = np.zeros(len(eligible), layout.CLASS)
    classes["output_tokens"], classes["incumbent"] = expected_output, -1
    log = np.zeros(kept, layout.LOG)
    log["instance"] = -1
    for name in ("start_s", "first_s", "end_s"):
        log[name] = math.nan
    width = int(records["slots"].max())
    nodes = _tournament(plan.instances)
    zones = [intensity.at(zone, 0.0) if intensity else (math.nan, -math.inf) for zone in plan.zones]
    found = Memory(
        {
            "instances": instances(plan),
            "deployments": records,
            "pools": pool_records,
            "classes": classes,
            "requests": np.zeros(0, layout.REQUEST),
            "changes": scheduled(plan, changes, intensity, records),
            "slots": np.zeros(plan.instances * width, layout.SLOT),
            "pending": np.zeros(plan.instances * width, layout.SLOT),
            "nodes": nodes,
            "buckets": np.full(2 * buckets, -1, np.int64).view(layout.BUCKET),
            "zones": np.array(zones, layout.ZONE),
            "accounts": np.zeros(plan.instances * len(Mode), layout.ACCOUNT),
            "log": log,
            "eligible": np.ascontiguousarray(eligible).ravel().view(layout.FLAG),
            "watts": power_w.view(layout.NUMBER),
            "homes": np.full(sessions, -1, np.int64).view(layout.COUNT),
            "tally": np.zeros(len(eligible) * len(Status), layout.COUNT),
            "histogram": np.zeros(0 if kept else len(plan.pools) * len(METRICS) * BINS, layout.COUNT),
        }
    )
    run = found.record
    run["instance_count"], run["pool_count"], run["change_count"] = (
        plan.instances,
        len(plan.pools),
        len(found["changes"]),
    )
    run["status_count"], run["width"], run["leaves"] = len(Status), width, len(nodes) // 2
    return found


def _tournament(n: int) -> Records:
    leaves = 1 << max(n - 1, 1).bit_length()
    found = np.zeros(2 * leaves, layout.NODE)
    found["next_s"] = math.inf
    found["winner"][leaves:] = np.arange(leaves)
    for node in range(leaves - 1, 0, -1):
        found["winner"][node] = found["winner"][2 * node]
    return found


def make_room(memory: Memory, rows: int) -> None:
    """Let the table of requests have at least `rows` free rows."""
    free = int(memory.record["free"])
    if free >= rows:
        return
    before = memory["requests"]
    old, size = len(before), max(len(before) + rows - free, len(before) * 3 // 2)
    requests = np.zeros(size, layout.REQUEST)
    requests[:old] = before
    stack = np.concatenate([np.arange(size - 1, old - 1, -1), before["free"][:free]])  # used rows go first
    requests["free"][: len(stack)] = stack
    memory.put("requests", requests)
    memory.record["free"] = len(stack)
