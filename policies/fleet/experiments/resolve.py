"""A scenario with everything that its names stand for: profiles, requests, eligible sets, intensity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import EligibleSetEmpty
from policies.fleet.experiments.outcomes import with_success
from policies.fleet.experiments.profiles import named, of_pool
from policies.fleet.experiments.scenario import FleetScenario, LengthRule, PoolSpec, RequestClass
from policies.fleet.experiments.workloads import Source, class_names, classes_of, sha256_of
from policies.fleet.experiments.zones import ZoneFigures, zone_figures
from policies.fleet.power import Profile
from policies.fleet.sim import Deployment, Pool, Routed, Routing, Scenario, Workload, random_failures
from warehouse.evidence import EvidenceClass, Quality, lowest_quality, weakest
from warehouse.ids import content_hash
from warehouse.snapshots import Snapshot

_LONGEST_RUN_S = 1e9


@dataclass(frozen=True)
class Resolved:
    """`profiles` by pool; further deployments by (pool, name)."""

    scenario: FleetScenario
    profiles: Mapping[str, Profile]
    others: Mapping[tuple[str, str], Profile]
    source: Source
    workloads: Mapping[int, Workload]  # by seed
    zones: ZoneFigures

    @property
    def every_profile(self) -> list[Profile]:
        found = {p.profile_id: p for p in (*self.profiles.values(), *self.others.values())}
        return list(found.values())

    @property
    def evidence_class(self) -> EvidenceClass:
        """Of the joules. They come from a model, so never measured."""
        found = weakest([p.evidence_class for p in self.every_profile] + [EvidenceClass.CALIBRATED])
        assert found is not None
        return found

    @property
    def quality(self) -> Quality:
        found = lowest_quality(p.quality_effective for p in self.every_profile)
        assert found is not None
        return found

    @cached_property
    def workload_sha256(self) -> str:
        distinct = {id(w): w for w in self.workloads.values()}
        return sha256_of(list(distinct.values()))

    @cached_property
    def scenario_sha256(self) -> str:
        """Identifies everything that the figures depend on."""
        series = self.zones.series
        return content_hash(
            {
                "scenario": self.scenario.to_dict(),
                "profiles": {name: p.profile_id for name, p in self.profiles.items()},
                "others": {"/".join(key): p.profile_id for key, p in self.others.items()},
                "workload": self.workload_sha256,
                "intensity": None if series is None else [series.version, [list(r.items()) for r in self.zones.rows]],
            }
        )

    def eligible(self) -> NDArray[np.bool_]:
        """(classes + the rest, pools): which pools the router allows."""
        return eligible_sets(self.scenario, self.profiles)

    def pools(self, slots: Mapping[str, int] | None = None) -> list[Pool]:
        """For the simulator; `slots` caps requests at once by pool."""
        return [self._pool(spec, (slots or {}).get(spec.name)) for spec in self.scenario.pools]

    def sim(self, seed: int, policy: str | None = None, slots: Mapping[str, int] | None = None) -> Scenario:
        """What the simulator runs for one seed. Raises EligibleSetEmpty where no request at all may be served."""
        told, requests = self.scenario, self.workloads[seed]
        pools = self.pools(slots)
        changes = list(told.changes)
        if told.failures is not None:
            until = min(_LONGEST_RUN_S, told.horizon_s or float(requests.arrival_s[-1]) + 1.0)
            changes += random_failures(
                pools, mtbf_s=told.failures.mtbf_s, repair_s=told.failures.repair_s, until_s=until, seed=seed
            )
        return Scenario(
            pools=pools,
            workload=requests,
            balancer=told.balancer if policy is None else replace(told.balancer, policy=policy),
            routing=Routing(affinity=told.affinity, prefix_reuse=told.prefix_reuse),
            routed=self._routed(requests, seed),
            slo=told.slo,
            telemetry=told.telemetry,
            intensity=self.zones.series,
            changes=sorted(changes, key=lambda c: c.at_s),
            speed=told.speed,
            max_attempts=told.max_attempts,
            horizon_s=told.horizon_s or math.inf,
            settle_s=told.settle_s,
            seed=seed,
        )

    def _pool(self, spec: PoolSpec, slots: int | None) -> Pool:
        profile = self.profiles[spec.name]
        least = [s for s in (spec.slots, slots) if s is not None]
        others = {
            d.name: Deployment(
                profile=self.others[spec.name, d.name],
                error_rate=d.error_rate,
                slots=_least(d.slots or spec.slots, slots),
                extrapolate=spec.extrapolate,
            )
            for d in spec.deployments
        }
        return Pool(
            name=spec.name,
            profile=profile,
            instances=spec.instances,
            context_tokens=spec.context_tokens,
            slots=min(least) if least else None,
            error_rate=spec.error_rate,
            extrapolate=spec.extrapolate,
            queue_limit=spec.queue_limit,
            max_wait_s=math.inf if spec.max_wait_s is None else spec.max_wait_s,
            warmup_s=spec.warmup_s,
            zone=spec.zone,
            alternatives=others,
            mix={d.name: d.share for d in spec.deployments if d.share},
            parked=spec.parked,
            failure_rate_per_s=spec.failure_rate_per_s,
            failed_w=spec.failed_w,
            idle_empty_w=spec.idle_empty_w,
        )

    def _routed(self, requests: Workload, seed: int) -> Routed:
        kind, rows = classes_of(self.scenario, requests, seed), self.eligible()
        labels = class_names(self.scenario)
        if not self.scenario.routing:
            return Routed(kind, rows, labels)
        names = [p.name for p in self.scenario.pools]
        by_length = Routing(lengths=_rules(self.scenario.routing)).apply(requests, names)
        both = (rows[:, None, :] & by_length.eligible[None, :, :]).reshape(-1, len(names))
        told = tuple(" ".join((a, b)) for a in labels for b in by_length.classes)
        return Routed((kind * len(by_length.eligible) + by_length.kind).astype(np.int32), both, told)


def resolve(snap: Snapshot, scenario: FleetScenario) -> Resolved:
    """Raises TraceUnknown, ProfileUnknown, HardwareUnknown, ProfileIncomplete, ScenarioInvalid, EligibleSetEmpty."""
    profiles = {spec.name: of_pool(snap, spec) for spec in scenario.pools}
    others = {
        (spec.name, d.name): profiles[spec.name] if d.profile is None else named(snap, d.profile, spec)
        for spec in scenario.pools
        for d in spec.deployments
    }
    if not eligible_sets(scenario, profiles)[: len(scenario.classes) or None].any():
        raise EligibleSetEmpty(
            "no pool may serve any class of requests.", fix="correct the classes, or the tags of the pools"
        )
    models = [p.logical_model for p in profiles.values()]
    scenario = replace(scenario, quality=with_success(snap, scenario.quality, models))
    source = Source(snap, scenario.workload)
    first = source.requests(scenario.seeds[0], first=True)
    workloads = {scenario.seeds[0]: first} | {
        seed: source.requests(seed, first=False) if source.varies else first for seed in scenario.seeds[1:]
    }
    zones = sorted({p.zone for p in scenario.pools if p.zone is not None})
    longest = max(float(w.arrival_s[-1]) for w in workloads.values())
    figures = zone_figures(snap, scenario.intensity, zones, longest, [p.name for p in scenario.pools if p.zone is None])
    return Resolved(scenario, profiles, others, source, workloads, figures)


def eligible_sets(scenario: FleetScenario, profiles: Mapping[str, Profile]) -> NDArray[np.bool_]:
    """(classes + the rest, pools). The rest needs nothing but a pool that serves every tenant."""
    rest = RequestClass(name="rest", share=1.0)
    rows = [[may_serve(p, profiles[p.name], c) for p in scenario.pools] for c in (*scenario.classes, rest)]
    return np.array(rows, dtype=np.bool_)


def may_serve(pool: PoolSpec, profile: Profile, told: RequestClass) -> bool:
    """Whether `pool` has everything that the class requires of its backend."""
    return (
        set(told.residency) <= set(pool.residency)
        and set(told.safety) <= set(pool.safety)
        and (not pool.authorized or told.tenant in pool.authorized)
        and (told.logical_model is None or told.logical_model.lower() == profile.logical_model.lower())
        and (told.context_tokens is None or told.context_tokens <= pool.context_tokens)
        and (told.pools is None or pool.name in told.pools)
    )


def _rules(rules: tuple[LengthRule, ...]) -> tuple[tuple[float, tuple[str, ...]], ...]:
    return tuple((math.inf if r.tokens is None else float(r.tokens), r.pools) for r in rules)


def _least(*values: int | None) -> int | None:
    known = [v for v in values if v is not None]
    return min(known) if known else None


def described_workload(found: Resolved) -> dict[str, Any]:
    """What was offered, in the first seed."""
    first = found.workloads[found.scenario.seeds[0]]
    return {
        "source": found.source.name,
        "title": first.title,
        "requests": len(first),
        "requests_per_s": first.rate_per_s if len(first) > 1 else math.nan,
        "duration_s": first.duration_s,
        "prompt_tokens_mean": float(first.l_in.mean()),
        "output_tokens_mean": float(first.l_out.mean()),
        "prompt_tokens_max": int(first.l_in.max()),
        "output_tokens_max": int(first.l_out.max()),
        "varies_by_seed": found.source.varies,
        "split_assumed": found.source.cdf is not None,
        "sha256": found.workload_sha256,
    }
