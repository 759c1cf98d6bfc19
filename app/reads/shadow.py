"""What shadows and gates wrote down, as pages show it: reports in full, decisions filtered, levels of pairs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import polars as pl

from policies.shadow.worth import agreement, differences, worth
from warehouse.clock import iso
from warehouse.engine import Warehouse

REQUESTS = 100  # rows of the list of requests


def gate_reports(warehouse: Warehouse, rec_id: str) -> dict[str, dict[str, Any]]:
    """Gate id -> the report of that verdict with `stage`, `revision`, `evidence_kind`, `judged_at`; newest first."""
    frame = warehouse.query(
        """SELECT gate_id, stage, revision, evidence_kind, judged_at, verdict, n, planned_n, report
        FROM core.gate_report WHERE recommendation_id = $id ORDER BY judged_at DESC, gate_id DESC""",
        {"id": rec_id},
    )
    found = {}
    for row in frame.iter_rows(named=True):
        head = {k: iso(v) if isinstance(v, datetime) else v for k, v in row.items() if k != "report"}
        found[row["gate_id"]] = {**json.loads(row["report"]), **head}
    return found


@dataclass(frozen=True)
class Levels:
    """Totals of the first runs of the pairs behind a gate; None where a figure is not told by every pair."""

    n: int
    successes: tuple[int, int] | None  # control, candidate
    energy_j: tuple[float, float] | None
    cost_usd: tuple[float, float] | None
    carbon_g: tuple[float, float] | None


_LEVELS = """
WITH first AS (
  SELECT * FROM core.shadow_pair
  WHERE control_offer = $control AND candidate_offer = $candidate AND evidence_kind = $kind AND NOT aborted
    AND observed_at >= $since AND known_from >= $since AND known_from <= $as_of
  QUALIFY row_number() OVER (PARTITION BY request_id ORDER BY repeat_no, observed_at, pair_id, source_id) = 1)
SELECT count(*) AS n,
  count(*) FILTER (control_success) AS s0, count(*) FILTER (candidate_success) AS s1,
  count(control_success) AS s0_known, count(candidate_success) AS s1_known,
  sum(control_energy_j) AS e0, sum(candidate_energy_j) AS e1,
  count(control_energy_j) AS e0_known, count(candidate_energy_j) AS e1_known,
  sum(control_cost_usd)::DOUBLE AS u0, sum(candidate_cost_usd)::DOUBLE AS u1,
  count(control_cost_usd) AS u0_known, count(candidate_cost_usd) AS u1_known,
  sum(control_carbon_g) AS c0, sum(candidate_carbon_g) AS c1,
  count(control_carbon_g) AS c0_known, count(candidate_carbon_g) AS c1_known
FROM first
"""


def levels(
    warehouse: Warehouse, control: str, candidate: str, kind: str, since: datetime, as_of: datetime
) -> Levels | None:
    """Levels of the pairs that a gate judged at `as_of`; None without pairs."""
    told = {"control": control, "candidate": candidate, "kind": kind, "since": since, "as_of": as_of}
    row = warehouse.query(_LEVELS, told).row(0, named=True)
    n = row["n"]
    if not n:
        return None

    def both(name: str) -> Any:
        whole = row[f"{name}0_known"] == n and row[f"{name}1_known"] == n
        return (row[f"{name}0"], row[f"{name}1"]) if whole else None

    return Levels(n, both("s"), both("e"), both("u"), both("c"))


@dataclass(frozen=True)
class Found:
    """Decisions of one policy under a filter: who agrees, where not, what it is worth, and the requests themselves."""

    n: int
    agreement: dict[str, Any]
    differences: list[dict[str, Any]]
    worth: dict[str, Any]
    requests: list[dict[str, Any]]
    newest: datetime | None


def choices(warehouse: Warehouse, policy_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Categories and size bands that the decisions of a policy know, for filters."""
    frame = warehouse.query(
        "SELECT DISTINCT category, size_band FROM core.shadow_decision WHERE policy_id = $id", {"id": policy_id}
    )
    bands = sorted(frame["size_band"].unique(), key=_band_order)
    return tuple(sorted(frame["category"].unique())), tuple(bands)


def _band_order(band: str) -> tuple[int, str]:
    first = band.partition("-")[0].rstrip("+")
    return (int(first), band) if first.isdigit() else (1 << 60, band)


def decisions(
    warehouse: Warehouse,
    policy_id: str,
    category: str = "",
    size_band: str = "",
    mix: tuple[tuple[str, float], ...] = (),
    pair: tuple[str, str] | None = None,
) -> Found:
    """The decisions of a policy in a category and size band ("": all).

    `mix`: the fixed reference mix; worth is standardised to its part under the filter, brought to 1. `pair`
    (incumbent, chosen) narrows the list of requests alone.
    """
    frame = warehouse.query(
        """SELECT * FROM core.shadow_decision
        WHERE policy_id = $id AND ($category = '' OR category = $category) AND ($band = '' OR size_band = $band)
        ORDER BY requested_at, request_id""",
        {"id": policy_id, "category": category, "band": size_band},
    )
    known = frame.filter(pl.col("tier") > 0)
    listed = frame
    if pair is not None:
        same = pl.col("incumbent").fill_null("").eq(pair[0]) & pl.col("chosen").fill_null("").eq(pair[1])
        listed = frame.filter(same)
    wanted = listed.sort("agrees", "requested_at", descending=[False, True], maintain_order=True).head(REQUESTS)
    columns = ("request_id", "requested_at", "category", "size_band", "incumbent", "chosen", "agrees", "fallback")
    figures = ("expected_energy_j", "incumbent_energy_j", "expected_energy_evidence_class")
    return Found(
        n=listed.height,
        agreement=agreement(frame),
        differences=differences(known),
        worth=worth(known, part_of(mix, category, size_band)),
        requests=wanted.select(*columns, *figures).to_dicts(),
        newest=cast("datetime | None", frame["decided_at"].max()),
    )


def part_of(mix: tuple[tuple[str, float], ...], category: str, size_band: str) -> dict[str, float] | None:
    """The part of a reference mix (`category|size band` -> share) under a filter, brought to 1; None where empty."""
    kept = {}
    for name, share in mix:
        own_category, _, own_band = name.partition("|")
        if category in ("", own_category) and size_band in ("", own_band):
            kept[name] = share
    total = sum(kept.values())
    return {name: share / total for name, share in kept.items()} if total > 0 else None
