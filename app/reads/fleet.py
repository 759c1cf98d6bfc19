"""What the Fleet page reads: backends with freshness, profiles, calibrations, stored experiments. Plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.fleet import calibrating, listed, store
from app.operations.fleet import CalibrationsParams
from app.operations.plain import plain
from policies.fleet.experiments import backends as live_backends
from policies.fleet.power import read_windows
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot

Row = dict[str, Any]
FRESH_S = 300.0  # telemetry and meters report every few seconds to a minute
STALE_S = 3600.0
SINCE_S = 3600.0


def backends(warehouse: Warehouse) -> list[Row]:
    """One row per backend as of now, joules per success over the last hour."""
    with snapshot(warehouse) as snap:
        found: list[Row] = plain(live_backends(snap, since_s=SINCE_S))
    return found


def profiles(warehouse: Warehouse) -> list[Row]:
    with snapshot(warehouse) as snap:
        found: list[Row] = plain(listed.profiles(snap))
    return found


def workloads(warehouse: Warehouse) -> Row:
    """Traces, distributions, zones, policies."""
    with snapshot(warehouse) as snap:
        found: Row = plain(listed.workloads(snap))
    return found


def calibrations(warehouse: Warehouse) -> list[Row]:
    """Newest first, without curves."""
    with snapshot(warehouse) as snap:
        found: list[Row] = calibrating.stored(snap, CalibrationsParams())["calibrations"]
    return found


def calibration(warehouse: Warehouse, id_: str) -> Row:
    """With band, windows and residuals."""
    with snapshot(warehouse) as snap:
        found: Row = calibrating.stored(snap, CalibrationsParams(id=id_))["calibrations"][0]
    return found


def measured(warehouse: Warehouse) -> list[tuple[str, str, int]]:
    """(model, hardware, windows) that a calibration could be fitted to, most windows first."""
    with snapshot(warehouse) as snap:
        windows = read_windows(snap)
    count: dict[tuple[str, str], int] = {}
    for window in windows:
        key = (window.binding.logical_model, window.binding.hardware_model)
        count[key] = count.get(key, 0) + 1
    return sorted(((m, h, n) for (m, h), n in count.items()), key=lambda row: (-row[2], row[0], row[1]))


def runs(warehouse: Warehouse) -> list[Row]:
    """Stored experiments, newest first."""
    return store.runs(warehouse, None, 200)


def report(warehouse: Warehouse, run_id: str) -> Row:
    found: Row = plain(store.report(warehouse, run_id))
    return found


# what is worked out of them -----------------------------------------------------------------------


def freshness(age_s: float | None) -> str:
    """`fresh` up to 5 min, `stale` up to 1 h, then `expired`; `never` where nothing was told."""
    if age_s is None:
        return "never"
    return "fresh" if age_s <= FRESH_S else "stale" if age_s <= STALE_S else "expired"


@dataclass(frozen=True)
class Draw:
    """What the metered backends draw together: fresh ones of one evidence class.

    `left_out` says in words which are not in the sum, and why.
    """

    power_w: float | None
    evidence_class: str | None
    quality: str | None
    n: int
    of: int
    oldest_s: float | None
    left_out: tuple[str, ...]


_RANK = {"HIGH": 0, "FAIR": 1, "LOW": 2}


def draw_now(rows: Sequence[Mapping[str, Any]]) -> Draw:
    """The sum over fresh meters; classes are never added up, so the most frequent one is summed."""
    left, fresh = [], []
    for row in rows:
        power = row["power"]
        if power is None or power["power_w"] is None:
            left.append(f"{row['backend_id']}: {'no meter' if power is None else power['gap_reason'] or 'unknown'}")
        elif freshness(power["age_s"]) != "fresh":
            left.append(f"{row['backend_id']}: {freshness(power['age_s'])}")
        else:
            fresh.append(row)
    classes = [r["power"]["evidence_class"] for r in fresh]
    cls = max(sorted(set(classes)), key=classes.count, default=None)
    mine = [r["power"] for r in fresh if r["power"]["evidence_class"] == cls]
    left += [f"{r['backend_id']}: {r['power']['evidence_class']}" for r in fresh if r["power"] not in mine]
    if not mine:
        return Draw(None, None, None, 0, len(rows), None, tuple(left))
    return Draw(
        sum(float(p["power_w"]) for p in mine), cls, max((p["quality"] for p in mine), key=lambda q: _RANK.get(q, 2)),
        len(mine), len(rows), max(float(p["age_s"]) for p in mine), tuple(left),
    )  # fmt: skip


def quality_of(profile: Mapping[str, Any]) -> str:
    """LOW by either label is LOW."""
    labels = (profile["quality"], profile["quality_computed"])
    return "LOW" if "LOW" in labels or not profile["presentable"] else str(profile["quality_computed"] or labels[0])


def words_of(told: Mapping[str, Any]) -> str:
    """`modeled, LOW`: what every figure of an experiment is, in words."""
    low = "" if told["presentable"] else ", LOW"
    return f"{told['evidence_class']}{low}"


def group_of(told: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """The load and cap that `key` names, else the first one; None for experiments without groups."""
    groups = told.get("groups") or []
    return next((g for g in groups if group_key(g) == key), groups[0] if groups else None)


def group_key(group: Mapping[str, Any]) -> str:
    return f"{group['load']:g}/{group['cap']:g}"


def cases_of(told: Mapping[str, Any], group: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Cases that stand beside each other: those of a group in the order of its ranking, else all."""
    cases = [c for c in told["cases"] if c.get("figures") is not None]
    if group is None:
        return cases
    mine = [c for c in cases if (c["load"], c["cap"]) == (group["load"], group["cap"])]
    rank = {r["policy"]: r["rank"] for r in group["ranking"]}
    return sorted(mine, key=lambda c: rank.get(c["policy"], len(rank)))


def pair_of(group: Mapping[str, Any] | None, policy: str, metric: str) -> Mapping[str, Any] | None:
    """`policy` less the baseline on the same seeds; None for the baseline itself and what is not paired."""
    for pair in (group or {}).get("pairs", []):
        if pair["policy"] == policy:
            found: Mapping[str, Any] | None = pair["metrics"].get(metric)
            return found
    return None
