"""Typed loads: frames into core tables, so that loading the same thing twice changes nothing.

Three ways, by what a table is:
- `versions`: bitemporal tables; a row is added only where it differs from the version in force.
- `merge`:    facts with a natural key; a changed row is a restatement and replaces the old one.
- `append`:   streams (power samples); a row whose key is there already is left out, none is ever replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import polars as pl

from warehouse.engine import Transaction
from warehouse.errors import SchemaMismatch
from warehouse.evidence import EvidenceClass
from warehouse.tables import LOADER_COLUMNS, columns, frame_schema


class Mode(StrEnum):
    VERSIONS = "versions"
    MERGE = "merge"
    APPEND = "append"


@dataclass(frozen=True)
class Spec:
    mode: Mode
    key: tuple[str, ...]
    time: str | None = None  # the column that dates a version in the world, where the key does not
    ignore: frozenset[str] = frozenset()  # columns that may change without being news


SPECS: dict[str, Spec] = {
    "core.offer": Spec(Mode.VERSIONS, ("provider", "offer_id"), "valid_from"),
    "core.price": Spec(Mode.VERSIONS, ("provider", "offer_id", "component", "min_prompt_tokens"), "valid_from"),
    "core.tariff": Spec(
        Mode.VERSIONS,
        ("provider", "account", "basis", "source_id"),
        "valid_from",
        frozenset({"n", "residual_relative"}),
    ),
    # each date is an evaluation of its own: an equal one later is news, too
    "core.score": Spec(Mode.VERSIONS, ("model", "category", "component", "source_id", "valid_from")),
    "core.grid_intensity": Spec(
        Mode.VERSIONS,
        ("zone", "source_id", "signal", "basis", "start_at", "is_forecast"),
        None,
        frozenset({"forecast_made_at", "version"}),  # sources publish equal figures anew for months
    ),
    "core.grid_generation": Spec(Mode.VERSIONS, ("zone", "source_id", "fuel", "flow", "start_at"), None),
    "core.zone_map": Spec(Mode.VERSIONS, ("system", "region", "zone_system", "source_id"), None),
    "core.usage": Spec(Mode.MERGE, ("provider", "account", "usage_key")),
    "core.energy_observation": Spec(Mode.MERGE, ("observation_id",)),
    "core.published_point": Spec(Mode.MERGE, ("dataset", "policy")),
    "core.published_slice": Spec(Mode.MERGE, ("dataset", "policy", "benchmark")),
    "core.device": Spec(Mode.MERGE, ("device_uuid", "source_id")),
    "core.backend": Spec(Mode.VERSIONS, ("backend_id", "source_id"), "valid_from"),
    "core.serving_scrape": Spec(Mode.MERGE, ("backend_id", "engine", "model", "scraped_at", "source_id")),
    "core.serving_window": Spec(Mode.MERGE, ("backend_id", "engine", "model", "window_end_at", "source_id")),
    "core.charge": Spec(Mode.MERGE, ("delivery_id", "line_key")),
    "core.charge_delivery": Spec(
        Mode.VERSIONS,
        ("provider", "account", "billing_period_start_at", "billing_period_end_at", "invoice_key"),
        "delivered_at",
    ),
    "core.fx_rate": Spec(Mode.VERSIONS, ("from_currency", "to_currency", "rate_source", "rate_on_at")),
    "core.account_balance": Spec(Mode.MERGE, ("provider", "account", "snapshot_at")),
    "core.account_usage": Spec(Mode.MERGE, ("provider", "account", "usage_key")),
    "core.power_sample": Spec(Mode.APPEND, ("device_uuid", "sampled_at")),
    "core.query": Spec(Mode.MERGE, ("dataset", "query_id")),
    "core.arm": Spec(Mode.MERGE, ("dataset", "arm")),
    "core.outcome": Spec(Mode.MERGE, ("dataset", "query_id", "arm")),
    "core.replay_run": Spec(Mode.APPEND, ("replay_run_id",)),
    "core.replay_metric": Spec(Mode.APPEND, ("replay_run_id", "policy", "benchmark", "metric")),
    "core.replay_choice": Spec(Mode.APPEND, ("replay_run_id", "policy", "query_id")),
    "core.trained_policy": Spec(Mode.APPEND, ("trained_policy_id",)),
    "core.request_trace": Spec(Mode.MERGE, ("trace", "request_no")),
    "core.length_cdf": Spec(Mode.MERGE, ("cdf", "tokens")),
    "core.calibration": Spec(Mode.APPEND, ("calibration_id",)),
    "core.fleet_run": Spec(Mode.APPEND, ("fleet_run_id",)),
    "core.fleet_metric": Spec(Mode.APPEND, ("fleet_run_id", "case_name", "pool", "metric")),
    "core.shadow_decision": Spec(Mode.APPEND, ("policy_id", "request_id")),
    "core.shadow_pair": Spec(Mode.MERGE, ("pair_id", "source_id")),
    "core.gate_report": Spec(Mode.APPEND, ("gate_id",)),
    "core.request_label": Spec(Mode.MERGE, ("request_id", "source_id")),
}


@dataclass(frozen=True)
class Loaded:
    """rows offered = loaded + unchanged + conflicting; `conflicts` are rows whose key came twice, differently."""

    loaded: int
    unchanged: int
    conflicts: pl.DataFrame
    conflicting: int = 0  # how many; more than `conflicts` holds only after a staged load


def load(
    tx: Transaction, table: str, frame: pl.DataFrame, *, source_id: str, run_id: str, known_from: datetime
) -> Loaded:
    """Load `frame` into `table` within the caller's transaction.

    Raises SchemaMismatch when the frame's columns are not exactly those of the table, and where grams come
    without an evidence class or claim a stronger one than the joules they are made of.
    """
    spec = SPECS.get(table)
    if spec is None:
        raise SchemaMismatch(f"There is no load for {table}.", fix=f"use one of {', '.join(sorted(SPECS))}")
    _check_columns(table, frame)
    check_grams(table, frame)
    if frame.is_empty():
        return Loaded(0, 0, frame)
    stamped = {"source_id": source_id, "run_id": run_id, "known_from": known_from}
    present = {c.name for c in columns(table)}
    rows = frame.with_columns(*(pl.lit(v).alias(k) for k, v in stamped.items() if k in present))
    rows, repeated, conflicts = _dedupe(rows, table, spec)
    work = {Mode.VERSIONS: _versions, Mode.APPEND: _append_new, Mode.MERGE: _merge}[spec.mode]
    with tx.staged(rows) as staged:
        changed = work(tx, table, spec, staged)
    return Loaded(changed, rows.height - changed + repeated, conflicts, conflicts.height)


def load_staged(
    tx: Transaction,
    table: str,
    staged: str,
    *,
    source_id: str,
    run_id: str,
    known_from: datetime,
    distinct_keys: bool = False,
) -> Loaded:
    """Load a staging table (see warehouse/staging.py) into `table`, without holding its rows in memory.

    `staged` has the frame columns of `table` and `row_`, their order. Of rows with one key the first is
    taken; equal repeats count as unchanged, differing ones come back as `conflicts` (at most 1,000 of them).
    `distinct_keys`: whoever staged the rows saw that no key comes twice, so nobody needs to look again.
    """
    spec = SPECS[table]
    names = list(frame_schema(table))
    key = [*spec.key, *([spec.time] if spec.time else [])]
    stamp = {"source_id": source_id, "run_id": run_id, "known_from": known_from}
    present = {c.name for c in columns(table)}
    stamps = ", ".join(f"${k} AS {k}" for k in stamp if k in present)
    partition = ", ".join(k for k in key if k in names)
    content = _hash_sql(table, spec, "t")
    total = int(tx.query(f"SELECT count(*) FROM {staged}").item())
    distinct = total
    if not distinct_keys:
        distinct = int(tx.query(f"SELECT count(*) FROM (SELECT DISTINCT {partition} FROM {staged})").item())
    conflicts, first = tx.query(f"SELECT {', '.join(names)} FROM {staged} LIMIT 0"), staged
    differing = 0
    if distinct < total:
        first = f"(SELECT * FROM {staged} QUALIFY row_number() OVER (PARTITION BY {partition} ORDER BY row_) = 1)"
        hashed = f"(SELECT *, {content} AS digest_ FROM {staged} t)"
        differs = f"""
            SELECT * FROM {hashed}
            QUALIFY digest_ <> first_value(digest_) OVER (PARTITION BY {partition} ORDER BY row_)
                AND row_number() OVER (PARTITION BY {partition}, digest_ ORDER BY row_) = 1
        """
        differing = int(tx.query(f"SELECT count(*) FROM ({differs})").item())
        conflicts = tx.query(f"SELECT {', '.join(names)} FROM ({differs}) ORDER BY row_ LIMIT 1000")
    bound = {k: v for k, v in stamp.items() if k in present}
    view = f"(SELECT {', '.join(names)}, {stamps} FROM {first})"
    if spec.mode is Mode.VERSIONS:
        changed = _versions(tx, table, spec, view, bound)
    elif spec.mode is Mode.APPEND:
        changed = _append_new(tx, table, spec, view, bound)
    else:
        changed = _merge(tx, table, spec, view, bound)
    return Loaded(changed, total - changed - differing, conflicts, differing)


def _append_new(tx: Transaction, table: str, spec: Spec, staged: str, bound: Mapping[str, object] | None = None) -> int:
    """Add the rows whose key is not there yet; a stream loaded twice changes nothing.

    Only the stretch of time that the new rows cover is looked at, so that a small batch stays cheap beside
    years of samples.
    """
    names = [c.name for c in columns(table)]
    on = " AND ".join(f"t.{k} = s.{k}" for k in spec.key)
    params = dict(bound or {})
    time = next((k for k in spec.key if k.endswith("_at")), None)
    known = f"SELECT 1 FROM {table} t WHERE {on}"
    if time is not None:
        span = tx.query(f"SELECT min({time}) AS low, max({time}) AS high FROM {staged}", params or None)
        low, high = span.row(0)
        within = f"{time} BETWEEN $low_ AND $high_"
        known += f" AND t.{within}"
        params |= {"low_": low, "high_": high}
        if not tx.query(f"SELECT 1 FROM {table} WHERE {within} LIMIT 1", {"low_": low, "high_": high}).height:
            return tx.execute(
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(names)} FROM {staged} s", bound
            )
    return tx.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(names)} FROM {staged} s "
        f"WHERE NOT EXISTS ({known})",
        params or None,
    )


def _check_columns(table: str, frame: pl.DataFrame) -> None:
    schema = frame_schema(table)
    if dict(frame.schema) != schema:
        wrong = [n for n in schema if frame.schema.get(n) != schema[n]] + [n for n in frame.columns if n not in schema]
        raise SchemaMismatch(
            f"A frame for {table} has wrong columns or types: {', '.join(wrong)}.",
            fix="build it with warehouse.tables.frame",
        )


def check_grams(table: str, frame: pl.DataFrame) -> None:
    """Refuse grams without an evidence class, or of a stronger one than their joules. Raises SchemaMismatch."""
    if not {"carbon_evidence_class", "carbon_g"} <= set(frame.columns):
        return
    rank = {cls.value: place for place, cls in enumerate(EvidenceClass)}
    grams, joules = (
        pl.col(name).replace_strict(rank, default=None, return_dtype=pl.Int8)
        for name in ("carbon_evidence_class", "evidence_class")
    )
    wrong = frame.filter((pl.col("carbon_g").is_null() != grams.is_null()) | (grams < joules)).height
    if wrong:
        raise SchemaMismatch(
            f"{wrong} rows for {table} tell grams without an evidence class, a class without grams, or grams of a "
            "stronger class than their joules.",
            fix="set carbon_evidence_class to warehouse.evidence.grams_class(energy class, intensity class)",
        )


def _content(table: str, spec: Spec) -> list[str]:
    """The columns whose change makes a new version."""
    skip = {*spec.key, spec.time, *spec.ignore} | LOADER_COLUMNS
    return [c.name for c in columns(table) if c.name not in skip]


def _hash_sql(table: str, spec: Spec, alias: str) -> str:
    """The digest of a row's content. DuckDB writes a list as text that no other list of texts and NULLs has, because it
    quotes and escapes; and it does so three times as fast as it writes JSON."""
    listed = ", ".join(f"CAST({alias}.{name} AS VARCHAR)" for name in _content(table, spec))
    return f"sha256(CAST([{listed}] AS VARCHAR))"


def _dedupe(rows: pl.DataFrame, table: str, spec: Spec) -> tuple[pl.DataFrame, int, pl.DataFrame]:
    """One row per key (the first); identical repeats are counted, differing ones handed back."""
    key = [*spec.key, *([spec.time] if spec.time else [])]
    if not rows.select(pl.struct(key).is_duplicated().any()).item():
        return rows, 0, rows.clear()
    content = _content(table, spec)
    distinct = rows.unique(subset=[*key, *content], keep="first", maintain_order=True)
    first = distinct.unique(subset=key, keep="first", maintain_order=True)
    conflicts = distinct.join(first.select([*key, *content]), on=[*key, *content], how="anti", nulls_equal=True)
    return first, rows.height - distinct.height, conflicts


def _insert_columns(table: str) -> tuple[list[str], str | None]:
    names = [c.name for c in columns(table)]
    digest = next((n for n in ("content_sha256", "row_sha256") if n in names), None)
    return [n for n in names if n != digest], digest


def _versions(tx: Transaction, table: str, spec: Spec, staged: str, bound: Mapping[str, object] | None = None) -> int:
    """Insert the staged rows that differ from the version in force at their own time.

    What came earlier in the same load counts too: a restated past must not swallow the version after it.
    Sample and real versions are compared apart, so that removing the sample never takes a real row along.
    """
    names, digest = _insert_columns(table)
    on = " AND ".join(f"c.{k} = s.{k}" for k in spec.key)
    at = spec.time or "NULL"
    keys = ", ".join(spec.key)
    pool = f"SELECT {keys}, source_id AS source_, {at} AS at_, known_from AS known_, {digest} AS digest_, false AS new_"
    before, together = "", ""
    if spec.time:
        together = f" UNION ALL {pool.replace(f'{digest} AS digest_, false', 'digest_, true')} FROM s"
        before = f" AND (c.at_ < s.{spec.time} OR (c.at_ = s.{spec.time} AND NOT c.new_))"
    listed = ", ".join(f"s.{n}" for n in names)
    return tx.execute(
        f"""
        INSERT INTO {table} ({", ".join(names)}, {digest})
        WITH s AS (SELECT *, row_number() OVER () AS row_, {_hash_sql(table, spec, "t")} AS digest_ FROM {staged} t),
        c AS ({pool} FROM {table}{together}),
        in_force AS (
          SELECT s.row_, arg_max(c.digest_, (c.at_, c.known_, c.new_)) AS digest_
          FROM s JOIN c ON {on}{before} AND (c.source_ LIKE 'sample:%') = (s.source_id LIKE 'sample:%')
          GROUP BY s.row_
        )
        SELECT {listed}, s.digest_ FROM s LEFT JOIN in_force f USING (row_)
        WHERE f.digest_ IS DISTINCT FROM s.digest_ ORDER BY s.row_
    """,
        dict(bound) if bound else None,
    )


def _merge(tx: Transaction, table: str, spec: Spec, staged: str, bound: Mapping[str, object] | None = None) -> int:
    """Insert new keys, replace changed rows, leave equal ones; the rows inserted or replaced."""
    names, digest = _insert_columns(table)
    on = " AND ".join(f"t.{k} = s.{k}" for k in spec.key)
    all_names = [*names, *([digest] if digest else [])]
    if digest:
        source = f"(SELECT *, {_hash_sql(table, spec, 'x')} AS {digest} FROM {staged} x)"
        changed = f"t.{digest} <> s.{digest}"
    else:
        source = staged
        compared = [n for n in names if n not in {*spec.key, *LOADER_COLUMNS}]
        changed = "(" + " OR ".join(f"t.{n} IS DISTINCT FROM s.{n}" for n in compared) + ")"
    updates = ", ".join(f"{n} = s.{n}" for n in all_names if n not in spec.key)
    return tx.execute(
        f"""
        MERGE INTO {table} t USING {source} s ON ({on})
        WHEN MATCHED AND {changed} THEN UPDATE SET {updates}
        WHEN NOT MATCHED THEN INSERT ({", ".join(all_names)}) VALUES ({", ".join(f"s.{n}" for n in all_names)})
    """,
        dict(bound) if bound else None,
    )
