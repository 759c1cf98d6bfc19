"""A distribution and profiles of our own, and the peer's files where they are at hand."""

from __future__ import annotations

import json

from policies.fleet.length_cdf import LengthCdf
from policies.fleet.power import Profile, published
from policies.fleet.queueing import Pool
from tests.support import shared

OWN = LengthCdf((100, 400, 1_000, 3_000, 6_000), (0.1, 0.35, 0.7, 0.95, 1.0), "own")


def peer_cdf(name: str) -> LengthCdf:
    """A distribution of FleetSim. Skips the test where it is absent."""
    told = json.loads(shared(f"data/fleetsim_cdf/{name}_cdf.json").read_text(encoding="utf-8"))
    knots = told["cdf"] if isinstance(told, dict) else told
    return LengthCdf(tuple(int(t) for t, _ in knots), tuple(float(f) for _, f in knots), name)


def pool(
    profile: Profile | str = "H100-80GB", rate: float = 50.0, context: int = 8192, workload: LengthCdf = OWN
) -> Pool:
    found = published(profile) if isinstance(profile, str) else profile
    return Pool(found.name, found, context, rate, workload)
