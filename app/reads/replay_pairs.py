"""Two policies of a replay run, query by query: what each chose, who was right, what it cost.

Choices come from core.replay_choice, answers and joules from core.outcome as they are now; under a condition with GPU
and batch joules are output tokens x the rates that the report names. A mixing policy counts with the expectation over
its arms. A query handed back earns nothing and spends nothing. A missing cell stays missing, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from policies.proof.intervals import tango
from warehouse.engine import Warehouse

SHOWN = ("differ", "only_a", "only_b", "all")


@dataclass(frozen=True)
class Side:
    """What one policy came to over the queries that are compared. None: a picked cell is missing."""

    accuracy: float | None
    energy_j: float | None
    missing: int
    handed_back: int


@dataclass(frozen=True)
class Pair:
    """`both`, `only_a`, `only_b`, `neither`: queries by who was right; `graded`: answers in between, or mixed;
    `unknown`: a cell of either side is missing. `tango`: 95 % interval of accuracy A - B, None where answers are
    graded or missing. `restated`: outcomes that were corrected after the run.
    """

    n: int
    both: int
    only_a: int
    only_b: int
    neither: int
    graded: int
    unknown: int
    same_choice: int
    differ: int
    restated: int
    a: Side
    b: Side
    tango: tuple[float, float] | None

    @property
    def difference(self) -> float | None:
        if self.a.accuracy is None or self.b.accuracy is None:
            return None
        return self.a.accuracy - self.b.accuracy


_CELLS = """
WITH rate AS (
  SELECT unnest(CAST($arms AS VARCHAR[])) AS arm, unnest(CAST($rates AS DOUBLE[])) AS j_per_token
), chosen AS (
  SELECT policy, query_id, arm, 1.0 AS p, arm AS told
  FROM core.replay_choice
  WHERE replay_run_id = $choices AND policy IN ($a, $b) AND probability_json IS NULL
  UNION ALL
  SELECT policy, query_id, e.key, e.value, 'a mixture'
  FROM (SELECT policy, query_id,
               unnest(map_entries(CAST(CAST(probability_json AS JSON) AS MAP(VARCHAR, DOUBLE)))) AS e
        FROM core.replay_choice
        WHERE replay_run_id = $choices AND policy IN ($a, $b) AND probability_json IS NOT NULL)
), cell AS (
  SELECT c.policy, c.query_id, c.p, c.arm, c.told, o.correct, o.known_from > $run_as_of AS restated,
         CASE WHEN NOT $joined
              THEN CASE WHEN $cls IS NULL OR o.energy_evidence_class = $cls THEN o.energy_j END
              WHEN o.output_tokens > 0 THEN o.output_tokens * r.j_per_token END AS energy_j
  FROM chosen c
  LEFT JOIN core.outcome o ON o.dataset = $dataset AND o.query_id = c.query_id AND o.arm = c.arm
  LEFT JOIN rate r ON r.arm = c.arm
), side AS (
  SELECT policy, query_id, min(told) AS told, bool_or(restated) AS restated,
         bool_or(arm IS NULL) AS handed_back,
         CASE WHEN bool_or(arm IS NOT NULL AND correct IS NULL) THEN NULL
              ELSE sum(p * coalesce(correct, 0)) END AS correct,
         CASE WHEN bool_or(arm IS NOT NULL AND energy_j IS NULL) THEN NULL
              ELSE sum(p * coalesce(energy_j, 0)) END AS energy_j
  FROM cell GROUP BY policy, query_id
), pair AS (
  SELECT a.query_id, a.told AS a_arm, b.told AS b_arm, a.correct AS a_correct, b.correct AS b_correct,
         a.energy_j AS a_j, b.energy_j AS b_j, a.handed_back AS a_back, b.handed_back AS b_back,
         coalesce(a.restated, false) OR coalesce(b.restated, false) AS restated
  FROM side a JOIN side b ON b.query_id = a.query_id AND b.policy = $b
  WHERE a.policy = $a
)
"""
_COUNTS = (
    _CELLS
    + """
SELECT count(*) AS n,
       count(*) FILTER (WHERE a_correct = 1 AND b_correct = 1) AS both,
       count(*) FILTER (WHERE a_correct = 1 AND b_correct = 0) AS only_a,
       count(*) FILTER (WHERE a_correct = 0 AND b_correct = 1) AS only_b,
       count(*) FILTER (WHERE a_correct = 0 AND b_correct = 0) AS neither,
       count(*) FILTER (WHERE a_correct NOT IN (0, 1) OR b_correct NOT IN (0, 1)) AS graded,
       count(*) FILTER (WHERE a_correct IS NULL OR b_correct IS NULL) AS unknown,
       count(*) FILTER (WHERE a_arm IS NOT DISTINCT FROM b_arm) AS same_choice,
       count(*) FILTER (WHERE a_correct IS DISTINCT FROM b_correct OR a_arm IS DISTINCT FROM b_arm) AS differ,
       count(*) FILTER (WHERE restated) AS restated,
       CASE WHEN count(a_correct) = count(*) THEN avg(a_correct) END AS a_accuracy,
       CASE WHEN count(b_correct) = count(*) THEN avg(b_correct) END AS b_accuracy,
       CASE WHEN count(a_j) = count(*) THEN avg(a_j) END AS a_energy_j,
       CASE WHEN count(b_j) = count(*) THEN avg(b_j) END AS b_energy_j,
       count(*) FILTER (WHERE a_correct IS NULL OR a_j IS NULL) AS a_missing,
       count(*) FILTER (WHERE b_correct IS NULL OR b_j IS NULL) AS b_missing,
       count(*) FILTER (WHERE a_back) AS a_handed_back, count(*) FILTER (WHERE b_back) AS b_handed_back
FROM pair {join}
"""
)
_WHERE = {
    "differ": "a_correct IS DISTINCT FROM b_correct OR a_arm IS DISTINCT FROM b_arm",
    "only_a": "a_correct = 1 AND b_correct = 0",
    "only_b": "a_correct = 0 AND b_correct = 1",
    "all": "true",
}
_ROWS = (
    _CELLS
    + """
SELECT p.query_id, coalesce(q.benchmark, '') AS benchmark, q.text, p.a_arm, p.b_arm, p.a_correct, p.b_correct,
       p.a_j, p.b_j
FROM pair p LEFT JOIN core.query q ON q.dataset = $dataset AND q.query_id = p.query_id
WHERE ({where}) AND ($benchmark = '' OR q.benchmark = $benchmark)
ORDER BY abs(p.a_correct - p.b_correct) DESC NULLS LAST, abs(p.a_j - p.b_j) DESC NULLS LAST, p.query_id
LIMIT $limit OFFSET $offset
"""
)
_BENCHMARK = "JOIN core.query q ON q.dataset = $dataset AND q.query_id = pair.query_id AND q.benchmark = $benchmark"


@dataclass(frozen=True)
class Asked:
    """Which two policies of which block. `choices`: the block under which the run keeps its choices.

    `rates`: arm -> J per output token where the joules of the block are tokens x rates, else None.
    """

    dataset: str
    choices: str
    a: str
    b: str
    run_as_of: datetime
    evidence_class: str | None
    rates: tuple[tuple[str, float], ...] | None
    benchmark: str = ""

    def values(self) -> dict[str, Any]:
        rates = self.rates or ()
        return {
            "dataset": self.dataset, "choices": self.choices, "a": self.a, "b": self.b, "cls": self.evidence_class,
            "joined": self.rates is not None, "arms": [arm for arm, _ in rates], "rates": [j for _, j in rates],
            "run_as_of": self.run_as_of,
        }  # fmt: skip


def rates_of(report: Mapping[str, Any]) -> tuple[tuple[str, float], ...] | None:
    """The rates of a report whose joules are tokens x J per token; None where the outcomes tell joules themselves."""
    rates = (report.get("load") or {}).get("energy_rates") or []
    return tuple((r["arm"], float(r["j_per_token"])) for r in rates) or None


def with_choices(warehouse: Warehouse, replay_run_id: str) -> list[str]:
    """Policies whose choices are kept under a block, by name."""
    return warehouse.query(
        "SELECT DISTINCT policy FROM core.replay_choice WHERE replay_run_id = $id ORDER BY policy",
        {"id": replay_run_id},
    )["policy"].to_list()


def pair(warehouse: Warehouse, asked: Asked) -> Pair:
    """The counts, means and interval."""
    values = asked.values() | ({"benchmark": asked.benchmark} if asked.benchmark else {})
    row = warehouse.query(_COUNTS.format(join=_BENCHMARK if asked.benchmark else ""), values).to_dicts()[0]
    a, b = (
        Side(row.pop(f"{s}_accuracy"), row.pop(f"{s}_energy_j"), row.pop(f"{s}_missing"), row.pop(f"{s}_handed_back"))
        for s in ("a", "b")
    )
    whole = row["n"] and not row["graded"] and not row["unknown"]
    return Pair(**row, a=a, b=b, tango=tango(row["only_a"], row["only_b"], row["n"]) if whole else None)


def queries(warehouse: Warehouse, asked: Asked, which: str, offset: int, limit: int) -> pl.DataFrame:
    """Queries that the two treat differently, answers first, then joules: (query_id, benchmark, text, what each chose,
    correct and J of each). `which` of `SHOWN`.
    """
    values = asked.values() | {"benchmark": asked.benchmark, "limit": limit, "offset": offset}
    return warehouse.query(_ROWS.format(where=_WHERE[which]), values)
