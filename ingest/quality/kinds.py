"""The kinds of quality scores and of published energy references."""

from __future__ import annotations

from ingest.kind import DAY_S, MIB, Kind
from ingest.quality import leadgreen, mlenergy, scores


def _table(name: str, edition: mlenergy.Edition, docs: str) -> Kind:
    return Kind(
        name=name,
        title=f"{edition.name} benchmark",
        parse=mlenergy.parser(edition),
        docs=docs,
        transports=("file", "http"),
        max_bytes=32 * MIB,
        stale_after_s=366 * DAY_S,
        expire_after_s=5 * 366 * DAY_S,
        options=mlenergy.options(edition),
    )


KINDS = (
    Kind(
        name="scores",
        title="Quality scores",
        parse=scores.parse,
        docs="CSV or JSON list: model, category, component, source, date, n and one score column that tells its unit",
        transports=("file", "http"),
        max_bytes=16 * MIB,
        stale_after_s=90 * DAY_S,
        expire_after_s=366 * DAY_S,
        options=scores.OPTIONS,
    ),
    _table(
        "mlenergy-v2", mlenergy.V2, "published J per request and token, A100 and H100 (CSV); a reference, never ours"
    ),
    _table(
        "mlenergy-v3",
        mlenergy.V3,
        "published J per token, H100 and B200 (CSV, or a task's JSON); a reference, never ours",
    ),
    _table(
        "leadgreen", leadgreen.LEADGREEN, "a model's page of Lead Green (JSON): ML.ENERGY v3 chat runs again, rounded"
    ),
)
