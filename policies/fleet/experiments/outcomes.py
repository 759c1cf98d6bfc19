"""The share of right answers by model on one recorded set of outcomes: what controls a comparison for quality."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from policies.fleet.errors import ScenarioInvalid
from policies.fleet.experiments.scenario import QualitySpec
from policies.fleet.experiments.sql import sql_text
from warehouse.snapshots import Snapshot


def with_success(snap: Snapshot, told: QualitySpec | None, models: Iterable[str]) -> QualitySpec | None:
    """`told` with a share for every one of `models`, read where it gives none.

    Raises ScenarioInvalid for a model that the outcomes do not know, or know in several arms.
    """
    if told is None:
        return None
    shares = {model.lower(): share for model, share in told.success.items()}
    if not shares:
        rows = snap.sql(sql_text("success_of_models.sql"), dataset=told.outcome_set).rows(named=True)
        several = {r["model"] for r in rows if r["arms"] > 1}
        shares = {r["model"]: float(r["success"]) for r in rows if r["model"] not in several}
    if missing := sorted({m.lower() for m in models} - set(shares)):
        known = ", ".join(sorted(shares)) or "none"
        raise ScenarioInvalid(
            f"the outcomes {told.outcome_set!r} tell no one share of right answers for {missing[0]!r} "
            f"(known: {known}).",
            fix="give quality.success by logical model, or import outcomes of that model",
        )
    return replace(told, success=shares)
