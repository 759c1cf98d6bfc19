"""The stored replay that comes with the sample, so that the Pareto page shows one from the start."""

from __future__ import annotations

from app.desk import Desk
from app.operations import Actor
from app.operations.replay import RunParams, run
from ingest.sample.completions import ZONES
from ingest.sample.outcomes import DATASET
from warehouse.clock import utcnow

# Those that train within a fraction of a second: with two zones it costs one to two seconds of one core.
POLICIES = ("hull", "random", "oracle", "knn-40", "benchmark", "regression", "decision-table-2")
EMBEDDER = "tfidf-svd"


def sample_replay(desk: Desk, actor: Actor) -> None:
    """Replay the sample's outcomes under its cleanest and its dirtiest grid. Raises AppError."""
    zones = sorted(ZONES, key=ZONES.__getitem__)
    hour = utcnow().replace(minute=0, second=0, microsecond=0)
    asked = {
        "dataset": DATASET,
        "policies": list(POLICIES),
        "embedder": EMBEDDER,
        "zone": [zones[0], zones[-1]],
        "at": [f"{hour.isoformat()}Z"],
    }
    run(desk, actor, RunParams.model_validate(asked))
