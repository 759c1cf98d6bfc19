"""What every report of an experiment says beside its figures, and its figures as rows of core.fleet_metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from policies.fleet.experiments.figures import GRAMS, JOULES, LEVEL, UNITS, Run, figure, over_seeds, unit
from policies.fleet.experiments.resolve import Resolved, described_workload
from policies.fleet.queueing.pools import plain
from warehouse.evidence import EvidenceClass, Quality, grams_class
from warehouse.ids import content_hash

VERSION = "1"  # of the report's form and of what its figures mean
_PACKAGES = ("joulebook", "numpy", "numba", "scipy")


def head(experiment: str, found: Resolved, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Title, scenario, hash, evidence, profiles with their quality, requests, intensity, versions."""
    told, profiles = found.scenario, found.every_profile
    zones = found.zones
    low = [p.name for p in profiles if not p.presentable]
    marks = [f"LOW quality, for simulation only, no fact about production: {', '.join(low)}"] if low else []
    return {
        "experiment": experiment,
        "report_version": VERSION,
        "title": told.title or f"{experiment} of {', '.join(p.name for p in told.pools)}",
        "scenario": told.to_dict(),
        "scenario_sha256": found.scenario_sha256,
        "seeds": list(told.seeds),
        "interval": LEVEL,
        "evidence_class": found.evidence_class.value,
        "carbon_evidence_class": carbon_class(found),
        "quality": found.quality.value,
        "presentable": found.quality is not Quality.LOW,
        "words": [*marks, *(p.words for p in profiles)],
        "profiles": [p.described() for p in profiles],
        "profile_of_pool": {name: p.name for name, p in found.profiles.items()},
        "workload": described_workload(found),
        "slo": {k: v for k, v in plain(vars(told.slo)).items() if v is not None},
        "slo_target": told.slo_target,
        "intensity": {
            "version": None if zones.series is None else zones.series.version,
            "zones": list(zones.rows),
            "reasons": list(zones.reasons),
        },
        "units": dict(UNITS),
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "notes": [*notes, *_extrapolated(found), *_request_notes(found)],
    }


def carbon_class(found: Resolved) -> str | None:
    """Of the grams: the weaker of joules and intensity; None where nothing is known."""
    intensity = found.zones.evidence_class
    return None if intensity is None else grams_class(found.evidence_class, intensity).value


def _extrapolated(found: Resolved) -> list[str]:
    """Pools that may run outside the range that their power model was taken from, with that range."""
    told = []
    for spec in found.scenario.pools:
        power = found.profiles[spec.name].power
        if spec.extrapolate and (power.concurrency_min is not None or power.concurrency_max is not None):
            low, high = power.concurrency_min or 1, power.concurrency_max
            most = "any number of" if high is None else f"{high:g}"
            told.append(f"power of pool {spec.name} is extrapolated outside {low:g} to {most} requests at once")
    return told


def _request_notes(found: Resolved) -> list[str]:
    told = found.scenario
    if found.source.cdf is not None:
        share = told.workload.output_share
        return [f"the distribution tells total tokens; {1 - share:.0%} of each are assumed to be prompt"]
    if len(told.seeds) > 1 and not found.source.varies:
        return ["the requests are the recorded ones under every seed: intervals hold for what else is random, "
                "not for other requests; give block_s to draw blocks of the trace"]  # fmt: skip
    return []


def case(name: str, runs: Sequence[Run], found: Resolved, **about: Any) -> dict[str, Any]:
    """One case over its seeds: figures, pools, classes, rejections; `about` says what the case varies."""
    figures = over_seeds(runs)
    attained = figures["slo_attainment"].value
    return {
        "case_name": name,
        **about,
        "seeds": [r.seed for r in runs],
        "ended": sorted({r.ended for r in runs}),
        "within_slo": attained is not None and attained >= found.scenario.slo_target,
        "figures": {metric: f.to_dict() for metric, f in figures.items()},
        "by_seed": [{"seed": r.seed, **plain(r.figures)} for r in runs],
        "pools": _pools(runs, found),
        "classes": _classes(runs),
        "rejections": _summed([r.rejections for r in runs]),
        "add_up": all(
            r.figures["offered"] == r.figures["completed"] + r.figures["rejected"] + r.figures["in_flight"]
            for r in runs
        ),
    }


_POOL_UNITS = {
    "completed": "requests",
    "lost": "attempts",
    "energy_j": "J",
    "active_j": "J",
    "idle_j": "J",
    "warming_j": "J",
    "empty_j": "J",
    "down_j": "J",
    "wasted_j": "J",
    "mean_power_w": "W",
    "j_per_success": "J",
    "carbon_g": "gCO2eq",
    "concurrency": "requests",
    "utilization": "share",
    "p99_ttft_s": "s",
    "p99_e2e_s": "s",
}


def _pools(runs: Sequence[Run], found: Resolved) -> list[dict[str, Any]]:
    rows = []
    for k, spec in enumerate(found.scenario.pools):
        profile = found.profiles[spec.name]
        rows.append(
            {
                "pool": spec.name,
                "instances": spec.instances,
                "boards": spec.instances * profile.hardware_count,
                "profile": profile.name,
                "logical_model": profile.logical_model,
                "hardware_model": profile.hardware_model,
                "evidence_class": profile.evidence_class.value,
                "quality": profile.quality_effective.value,
                "presentable": profile.presentable,
                "zone": spec.zone,
                "figures": {
                    name: figure([r.pools[k][name] for r in runs], what).to_dict() for name, what in _POOL_UNITS.items()
                },
            }
        )
    return rows


def _classes(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Completed and rejected by class of requests, means over the seeds."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for told in run.classes:
            rows.setdefault(told["class"], []).append(told)
    n = len(runs)
    return [
        {
            "class": name,
            "completed": sum(t["completed"] for t in told) / n,
            "rejected": sum(t["rejected"] for t in told) / n,
            "rejections": {k: v / n for k, v in _summed([t["rejections"] for t in told]).items()},
        }
        for name, told in rows.items()
    ]


def _summed(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def finished(told: dict[str, Any]) -> dict[str, Any]:
    """The report as plain JSON values with the hash of everything that it says."""
    found: dict[str, Any] = plain(told)
    return {**found, "report_sha256": content_hash(found)}


def metric_rows(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of core.fleet_metric without the run's id: closed forms, then fleet and pools of each simulated case."""
    joules, grams = report["evidence_class"], report["carbon_evidence_class"]
    yield from _closed_form_rows(report)
    for told in report["cases"]:
        figures = told.get("figures")
        if figures is None:
            continue
        for metric, f in figures.items():
            yield _row(told["case_name"], "", metric, f, joules, grams)
        for pool in told["pools"]:
            for metric, f in pool["figures"].items():
                yield _row(told["case_name"], pool["pool"], metric, f, pool["evidence_class"], grams)


_CLOSED_FORM = {
    "instances": "instances",
    "power_w": "W",
    "tokens_per_j": "tok/J",
    "j_per_request": "J",
    "requests_per_s": "requests/s",
    "usd_per_hour": "USD/h",
    "usd_per_million_output_tokens": "USD",
}


def _closed_form_rows(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What closed forms say of sizes and caps; of one pool, so under no pool's name."""
    told = [(f"size of {row['name']}", row["fleet"]) for row in report.get("sizes", []) if row["instances"]]
    told += [
        (f"closed form, {row['reduction']:.0%} given back", row["analytic"]["result"])
        for row in report.get("levels", [])
        if row["analytic"] and row["analytic"]["result"]
    ]
    for name, result in told:
        for metric, what in _CLOSED_FORM.items():
            figure = {"value": result[metric], "low": None, "high": None, "unit": what, "n": None}
            yield _row(name, "", metric, figure, result["evidence_class"], None)


def _row(name: str, pool: str, metric: str, f: Mapping[str, Any], joules: str, grams: str | None) -> dict[str, Any]:
    known = f["value"] is not None
    return {
        "case_name": name,
        "pool": pool,
        "metric": metric,
        "unit": f["unit"],
        "value": f["value"],
        "low": f["low"],
        "high": f["high"],
        "evidence_class": _class(metric, joules, grams) if known else None,
        "n": f["n"],
    }


def _class(metric: str, joules: str, grams: str | None) -> str | None:
    """Of a simulated figure: joules as the profile, grams as the weaker input, all others a projection."""
    if metric in GRAMS:
        return grams
    return joules if metric.startswith(JOULES) else EvidenceClass.MODELED.value


__all__ = ["case", "finished", "head", "metric_rows", "unit"]
