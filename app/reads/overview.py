"""The overview's figures: organic traffic of one evidence class in a window, savings beside harm.

Rows of core.usage at request grain with workload = organic. Energy, dollars and grams are sums over all
attempts divided by the sum of successes over the same rows. Classes are never mixed: one set of figures each;
within it one figure of grams per class of the grams, because a grid intensity is calibrated at best.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from app.reads.intervals import Ratio, Sums, quantile_ranks, ratio, wilson
from warehouse.engine import Warehouse

_WHERE = (
    "FROM core.usage WHERE workload = 'organic' AND grain = 'request' "
    "AND period_end_at > $start AND period_end_at <= $end"
)


def _moments(column: str, name: str) -> str:
    known = f"({column} IS NOT NULL AND successes IS NOT NULL)"
    y, s = f"CAST({column} AS DOUBLE)", "CAST(successes AS DOUBLE)"
    return f"""
        count(*) FILTER (WHERE {known}) AS {name}_n,
        sum({y}) FILTER (WHERE {known}) AS {name}_sum, sum({s}) FILTER (WHERE {known}) AS {name}_s,
        var_samp({y}) FILTER (WHERE {known}) AS {name}_var, var_samp({s}) FILTER (WHERE {known}) AS {name}_svar,
        covar_samp({y}, {s}) FILTER (WHERE {known}) AS {name}_cov"""


_MOMENTS = ",".join((_moments("energy_j", "energy"), _moments("billed_cost_usd", "cost")))


@dataclass(frozen=True)
class Traffic:
    """One evidence class (of the energy) in one window.

    Ratios are per success; `success` and `p95_s` carry (value, low, high). `carbon_g` holds one ratio per
    evidence class of the grams, most rows first; empty where no row tells grams.
    """

    evidence_class: str
    start_at: datetime
    end_at: datetime
    newest_at: datetime
    requests: int
    energy_j: Ratio | None
    cost_usd: Ratio | None
    carbon_g: dict[str, Ratio]
    success: tuple[float, float, float] | None
    success_n: int
    p95_s: tuple[float, float | None, float | None] | None
    p95_n: int
    coverage: float | None  # share of requests with energy


@dataclass(frozen=True)
class Overview:
    """Figures per evidence class, most requests first; `before` the same for the window before."""

    start_at: datetime
    end_at: datetime
    is_current: bool  # the window ends now; otherwise at the newest organic request
    classes: tuple[Traffic, ...]
    before: dict[str, Traffic]


def newest_organic(warehouse: Warehouse) -> datetime | None:
    found: datetime | None = warehouse.scalar(
        "SELECT max(period_end_at) FROM core.usage WHERE workload = 'organic' AND grain = 'request'"
    )
    return found


def overview(warehouse: Warehouse, window_s: float, now: datetime) -> Overview | None:
    """Figures of the last `window_s` seconds; where they hold none, of the last that do. None without traffic."""
    newest = newest_organic(warehouse)
    if newest is None:
        return None
    window = timedelta(seconds=window_s)
    is_current = newest > now - window
    end = now if is_current else newest
    start = end - window
    return Overview(
        start,
        end,
        is_current,
        tuple(_traffic(warehouse, start, end)),
        {t.evidence_class: t for t in _traffic(warehouse, start - window, start)},
    )


def _traffic(warehouse: Warehouse, start: datetime, end: datetime) -> list[Traffic]:
    bounds = {"start": start, "end": end}
    frame = warehouse.query(
        f"""
        SELECT evidence_class, sum(requests)::BIGINT AS requests, max(period_end_at) AS newest_at,
               sum(successes) FILTER (WHERE successes IS NOT NULL)::BIGINT AS successes,
               sum(requests) FILTER (WHERE successes IS NOT NULL)::BIGINT AS judged,
               sum(requests_with_energy)::BIGINT AS with_energy, count(duration_s) AS timed,
               quantile_cont(duration_s, 0.95) AS p95_s, {_MOMENTS}
        {_WHERE} GROUP BY evidence_class ORDER BY requests DESC, evidence_class
        """,
        bounds,
    )
    grams = _grams(warehouse, bounds)
    return [
        _row(warehouse, row, grams.get(row["evidence_class"], {}), start, end) for row in frame.iter_rows(named=True)
    ]


def _grams(warehouse: Warehouse, bounds: dict[str, datetime]) -> dict[str, dict[str, Ratio]]:
    """Evidence class of the energy -> evidence class of the grams -> grams per success, most rows first."""
    frame = warehouse.query(
        f"""
        SELECT evidence_class, carbon_evidence_class, {_moments("carbon_g", "carbon")}
        {_WHERE} AND carbon_evidence_class IS NOT NULL
        GROUP BY ALL ORDER BY carbon_n DESC, carbon_evidence_class
        """,
        bounds,
    )
    found: dict[str, dict[str, Ratio]] = {}
    for row in frame.iter_rows(named=True):
        per_success = _ratio(row, "carbon")
        if per_success is not None:
            found.setdefault(row["evidence_class"], {})[row["carbon_evidence_class"]] = per_success
    return found


def _row(warehouse: Warehouse, row: dict[str, Any], grams: dict[str, Ratio], start: datetime, end: datetime) -> Traffic:
    judged, successes = row["judged"] or 0, row["successes"] or 0
    share = wilson(successes, judged)
    return Traffic(
        evidence_class=row["evidence_class"],
        start_at=start,
        end_at=end,
        newest_at=row["newest_at"],
        requests=row["requests"],
        energy_j=_ratio(row, "energy"),
        cost_usd=_ratio(row, "cost"),
        carbon_g=grams,
        success=(successes / judged, *share) if share else None,
        success_n=judged,
        p95_s=_p95(warehouse, row, start, end),
        p95_n=row["timed"],
        coverage=row["with_energy"] / row["requests"] if row["with_energy"] is not None and row["requests"] else None,
    )


def _ratio(row: dict[str, Any], name: str) -> Ratio | None:
    return ratio(Sums(*(row[f"{name}_{part}"] for part in ("n", "sum", "s", "var", "svar", "cov"))))


def _p95(
    warehouse: Warehouse, row: dict[str, Any], start: datetime, end: datetime
) -> tuple[float, float | None, float | None] | None:
    n, value = row["timed"], row["p95_s"]
    if not n or value is None:
        return None
    ranks = quantile_ranks(n, 0.95)
    if ranks is None:
        return value, None, None
    # quantile_disc(p) is the value at rank ceil(p * n): ask half a rank below, so that rounding cannot move it.
    low, high = ((rank - 0.5) / n for rank in ranks)
    ends = warehouse.scalar(
        f"SELECT quantile_disc(duration_s, [{low!r}, {high!r}]) {_WHERE} AND evidence_class = $class",
        {"start": start, "end": end, "class": row["evidence_class"]},
    )
    return value, ends[0], ends[1]


@dataclass(frozen=True)
class Latency:
    """P95 of the organic requests that one offer served in a window, with its order-statistic interval."""

    p95_s: float | None
    low_s: float | None
    high_s: float | None
    n: int


def latency(warehouse: Warehouse, offer: str, since: datetime, until: datetime) -> Latency:
    """Latency of `offer` in [since, until), of what the warehouse knows now."""
    where = (
        "FROM core.usage WHERE workload = 'organic' AND grain = 'request' AND duration_s IS NOT NULL "
        "AND coalesce(served_offer, requested_offer) = $offer AND period_end_at >= $since AND period_end_at < $until"
    )
    told = {"offer": offer, "since": since, "until": until}
    n, value = warehouse.query(f"SELECT count(*), quantile_cont(duration_s, 0.95) {where}", told).row(0)
    ranks = quantile_ranks(n, 0.95)
    if ranks is None:
        return Latency(value, None, None, n)
    low, high = ((rank - 0.5) / n for rank in ranks)
    ends = warehouse.scalar(f"SELECT quantile_disc(duration_s, [{low!r}, {high!r}]) {where}", told)
    return Latency(value, ends[0], ends[1], n)


def energy_series(
    warehouse: Warehouse, evidence_class: str, start: datetime, end: datetime, buckets: int = 28
) -> pl.DataFrame:
    """J per success over time: columns at, value, low, high, n. Buckets without a success are left out."""
    step_s = max(60, round((end - start).total_seconds() / buckets))
    frame = warehouse.query(
        f"""
        SELECT time_bucket(to_seconds({step_s}), period_end_at, $start) AS bucket_at, {_moments("energy_j", "energy")}
        {_WHERE} AND evidence_class = $class GROUP BY 1 ORDER BY 1
        """,
        {"start": start, "end": end, "class": evidence_class},
    )
    rows = []
    for row in frame.iter_rows(named=True):
        found = _ratio(row, "energy")
        if found is not None:
            middle = row["bucket_at"] + timedelta(seconds=step_s / 2)
            rows.append((middle, found.value, found.low, found.high, found.n))
    schema: dict[str, Any] = {
        "at": pl.Datetime("us"),
        "value": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def fleet_power(warehouse: Warehouse, now: datetime, window_s: float = 900.0, points: int = 90) -> pl.DataFrame:
    """Mean power per device over the last minutes: columns device_uuid, name, bucket_at, power_w, n."""
    return warehouse.query(
        f"""
        SELECT p.device_uuid, coalesce(d.name, p.device_uuid) AS name,
               time_bucket(to_seconds({max(1, round(window_s / points))}), sampled_at) AS bucket_at,
               avg(power_w) AS power_w, count(power_w) AS n
        FROM core.power_sample p LEFT JOIN core.device d USING (device_uuid, source_id)
        WHERE sampled_at > $start AND power_w IS NOT NULL GROUP BY ALL ORDER BY p.device_uuid, bucket_at
        """,
        {"start": now - timedelta(seconds=window_s)},
    )


@dataclass(frozen=True)
class Change:
    """Something that changed: a ledger event or a price."""

    at: datetime
    kind: str  # event kind, or 'price'
    subject: str
    text: str
    actor: str = ""


def price_changes(warehouse: Warehouse, limit: int = 12) -> list[Change]:
    """Prices that differ from the version before them, newest first."""
    frame = warehouse.query(
        """
        WITH versions AS (
          SELECT *, lag(price_usd_per_unit) OVER w AS before, lag(price_kind) OVER w AS kind_before,
                 row_number() OVER w AS version_no
          FROM core.price
          WINDOW w AS (PARTITION BY provider, offer_id, component, min_prompt_tokens ORDER BY valid_from, known_from))
        SELECT known_from, offer_id, component, unit, before, price_usd_per_unit, kind_before, price_kind
        FROM versions
        WHERE version_no > 1 AND (before IS DISTINCT FROM price_usd_per_unit OR kind_before <> price_kind)
        ORDER BY known_from DESC, offer_id, component LIMIT $n
        """,
        {"n": limit},
    )
    return [
        Change(at, "price", offer, _price_text(component, unit, before, after, kind_before, kind))
        for at, offer, component, unit, before, after, kind_before, kind in frame.iter_rows()
    ]


def _price_text(component: str, unit: str, before: Any, after: Any, kind_before: str, kind: str) -> str:
    def told(value: Any, how: str) -> str:
        if value is None:
            return how
        return f"${float(value) * 1e6:,.2f}/1M" if unit == "token" else f"${float(value):,.4f}/{unit}"

    change = f" ({(float(after) / float(before) - 1) * 100:+.0f} %)" if before and after is not None else ""
    return f"{component} price {told(before, kind_before)} to {told(after, kind)}{change}".replace("-", "−")
