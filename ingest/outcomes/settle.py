"""What recorded outcomes must be compared with before they are loaded: the rest of their file, and their data set.

- Texts, benchmarks, splits and facts of arms that one file leaves open are taken from what is known, so that files of
  one data set may come in any order and none wipes out what another told.
- A query is in one split. One that is told in two, or whose text is in the other one already, is refused with all its
  cells: a held-out query that was trained on measures nothing.
- The joules of a data set are of one evidence class.
- Facts about an arm that has no outcomes are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import polars as pl

from ingest.base import Reject
from ingest.errors import PayloadError
from ingest.fields import plain_json
from ingest.settle import Settled
from warehouse.engine import Transaction

QUERY, ARM, OUTCOME = "core.query", "core.arm", "core.outcome"
_SHOWN = 1_000  # refused queries that are listed; all are counted


def settle(tx: Transaction, staged: Mapping[str, str], primary: str) -> Settled:
    """See the module. Raises PayloadError where the joules of a data set would be of two classes."""
    told = Settled()
    if QUERY in staged:
        _run(tx, "fill_queries", staged)
        told = _one_split(tx, staged, primary)
    if ARM in staged:
        _run(tx, "fill_arms", staged)
        if primary == ARM:
            told = _known_arms(tx, staged[ARM])
    if OUTCOME in staged:
        _one_class(tx, staged[OUTCOME])
    return told


def _sql(name: str, staged: Mapping[str, str]) -> str:
    text = (resources.files("ingest.outcomes") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    for table, stage in staged.items():
        text = text.replace(f"staged_{table.removeprefix('core.')}", stage)
    return text


def _run(tx: Transaction, name: str, staged: Mapping[str, str]) -> None:
    tx.execute(_sql(name, staged))


def _one_split(tx: Transaction, staged: Mapping[str, str], primary: str) -> Settled:
    bad = tx.query(_sql("split_conflicts", staged))
    if bad.is_empty():
        return Settled()
    alone = primary == QUERY  # texts only: what is in two parts is told, and the text is kept so that it can be seen
    leaked = bad.filter(pl.col("kind") == "leak") if alone else bad.clear()
    refused = bad.filter(pl.col("kind") != "leak") if alone else bad
    with tx.staged(refused.select("dataset", "query_id")) as gone:
        where = f"WHERE (dataset, query_id) IN (SELECT (dataset, query_id) FROM {gone})"
        cells = f"SELECT dataset, query_id, count(*) AS rows FROM {staged[primary]} {where} GROUP BY ALL"
        refused = refused.join(tx.query(cells), on=["dataset", "query_id"], how="left")
        counts = {
            table: tx.execute(f"DELETE FROM {staged[table]} {where}") for table in (QUERY, OUTCOME) if table in staged
        }
    rejects = [_reject(row, whole=True, alone=alone) for row in refused.head(_SHOWN).iter_rows(named=True)]
    rejects += [_reject(row, whole=False, alone=alone) for row in leaked.head(_SHOWN).iter_rows(named=True)]
    return Settled(tuple(rejects), counts[primary])


def _reject(row: dict[str, object], *, whole: bool, alone: bool) -> Reject:
    what = "" if not whole or alone else f"; its {row['rows']} cells in this file were left out"
    return Reject(
        reason=f"{row['reason']}{what}",
        natural_key=f"{row['dataset']} / {row['query_id']}",
        field="split" if whole else "text",
        value=str(row["told"]),
        raw=plain_json({name: row[name] for name in ("dataset", "query_id")}),
        whole_row=whole,
    )


def _known_arms(tx: Transaction, staged: str) -> Settled:
    unknown = tx.query(
        f"SELECT s.dataset, s.arm FROM {staged} s ANTI JOIN core.arm c USING (dataset, arm) ORDER BY s.row_"
    )
    if unknown.is_empty():
        return Settled()
    known = tx.query(
        f"SELECT DISTINCT dataset, arm FROM core.arm WHERE dataset IN (SELECT dataset FROM {staged}) ORDER BY ALL"
    )
    with tx.staged(unknown) as gone:
        tx.execute(f"DELETE FROM {staged} WHERE (dataset, arm) IN (SELECT (dataset, arm) FROM {gone})")
    names = ", ".join(known["arm"].head(12))
    hint = f"it has {names}" if names else "it has no outcomes; import those first"
    return Settled(
        tuple(
            Reject(
                f"arm is unknown in the data set {dataset}: {hint}",
                natural_key=f"{dataset} / {arm}",
                field="arm",
                raw=plain_json({"dataset": dataset, "arm": arm}),
                value=arm,
            )
            for dataset, arm in unknown.iter_rows()
        ),
        unknown.height,
    )


def _one_class(tx: Transaction, staged: str) -> None:
    if not tx.query(f"SELECT 1 FROM {staged} WHERE energy_j IS NOT NULL LIMIT 1").height:
        return
    found = tx.query(_sql("evidence_classes", {OUTCOME: staged}))
    mixed = found.filter(pl.col("dataset").is_duplicated())
    if mixed.is_empty():
        return
    dataset = mixed["dataset"][0]
    classes = " and ".join(found.filter(pl.col("dataset") == dataset)["class"])
    raise PayloadError(
        f"the data set {dataset} would hold joules of {classes}: different evidence classes are never compared",
        field="evidence_class",
        fix="import each class under a data set name of its own: --option dataset=NAME",
    )
