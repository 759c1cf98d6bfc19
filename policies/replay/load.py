"""From the warehouse to an outcome table: cells scattered into matrices, whole or in portions of queries.

Matrices are filled by vectorised scatter; a cell that is not recorded stays NaN. Energy is what the cells tell
themselves (one evidence class only), or with a GPU and a batch the calibrated join of `energy_join`. Dollars are
those of the cell, else tokens x the arm's prices where both prices and both token counts are known, else NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from policies.replay.datasets import DatasetInfo, datasets
from policies.replay.energy_join import Rate
from policies.replay.errors import DuplicateCell
from policies.replay.plan import Options, Plan, plan
from policies.replay.sql import sql_text
from policies.replay.table import Condition, Floats, Ints, OutcomeTable, Queries, Strings
from warehouse.clock import iso
from warehouse.digests import FrameDigest
from warehouse.evidence import EvidenceClass
from warehouse.ids import content_hash
from warehouse.intensity import Intensity
from warehouse.snapshots import Snapshot

__all__ = ["DatasetInfo", "LoadNotes", "datasets", "iter_tables", "load_table"]

CELLS_AT_ONCE = 6_000_000
ROWS_AT_ONCE = 250_000
_CELLS = ("correct", "energy_j", "power_w", "latency_s", "output_tokens", "prompt_tokens", "cost_usd")
Matrices = dict[str, Floats]


@dataclass(frozen=True)
class LoadNotes:
    """What a reader of figures from this table must know.

    `arms_left_out`: arm -> reason. `coverage`: share of the table's cells with correctness and energy (with
    correctness alone where no energy is known). `listed_costs`: cells whose dollars are tokens x list prices.
    """

    dataset: str
    queries: int
    train: int
    test: int
    arms: tuple[str, ...]
    arms_left_out: Mapping[str, str]
    cells: int
    missing_cells: int
    coverage: float
    benchmarks: Mapping[str, int]
    split: str
    seed: int
    leaked_dropped: int
    without_text: int | None  # None: texts were not asked for
    energy_rates: tuple[Rate, ...]
    observation_ids: tuple[str, ...]
    calibration_id: str | None
    intensity: Intensity | None
    cost_cells: int
    listed_costs: int
    warnings: tuple[str, ...]
    sources: tuple[str, ...]
    newest_at: str | None
    age_s: float | None

    def plain(self) -> dict[str, Any]:
        """As JSON data; times end in Z, NaN is None."""
        found = asdict(self)
        found["coverage"] = None if np.isnan(self.coverage) else self.coverage
        if self.intensity is not None:
            times = ("start_at", "end_at", "known_from", "forecast_made_at")
            told = found["intensity"]
            found["intensity"] = {k: iso(v) if k in times and v is not None else v for k, v in told.items()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}


def load_table(
    snap: Snapshot,
    dataset: str,
    *,
    condition: Condition | None = None,
    arms: Sequence[str] | None = None,
    benchmarks: Sequence[str] | None = None,
    seed: int = 0,
    test_share: float = 0.3,
    split: str = "auto",
    leaked: str = "refuse",
    keep_partial: bool = False,
    batch_mode: str = "nearest",
    edition: str | None = None,
    evidence_class: EvidenceClass | None = None,
    carbon: Mapping[str, Any] | None = None,
    texts: bool = True,
) -> tuple[OutcomeTable, LoadNotes]:
    """The outcome table of `dataset` as the snapshot knows it: queries by id, arms by name or as asked.

    condition      GPU and batch make calibrated energy; zone and hour an intensity; None: what the cells tell
    arms           default: all arms that know every query, where that leaves two; else all that know any
    keep_partial   keep every arm with a cell; what it does not know stays NaN
    split          auto (the source's own, else permutation), hash, permutation; see `policies.replay.split`
    leaked         refuse, or drop training queries whose text is held out, too
    batch_mode     nearest or interpolate; edition v2 or v3; see `policies.replay.energy_join`
    evidence_class which joules to use where the cells tell several classes
    carbon         signal, basis and carry_s of the grid intensity

    Raises DatasetUnknown, ArmUnknown, DuplicateCell, CorrectnessInvalid, EnergyInvalid, MixedEvidence, QueryLeaked,
    ConditionUnknown, ParametersInvalid.
    """
    options = Options(
        condition or Condition(), _tuple(arms), _tuple(benchmarks), seed, test_share, split, leaked,
        keep_partial, batch_mode, edition, evidence_class, carbon or {},
    )  # fmt: skip
    planned = plan(snap, dataset, options)
    digest = _Digest(planned)
    table, found = _portion(snap, planned, 0, planned.queries.height, texts, digest)
    return table, _notes(snap, planned, found)


def iter_tables(
    snap: Snapshot, dataset: str, *, rows: int = ROWS_AT_ONCE, texts: bool = False, **options: Any
) -> Iterator[tuple[OutcomeTable, LoadNotes]]:
    """The same table in portions of `rows` queries, for sums over tables that do not fit into memory.

    `options` are those of `load_table`. The notes count what came so far, and `sha256` is that of all rows so far:
    with the last portion both are those of the whole table.
    """
    for name in ("arms", "benchmarks"):
        options[name] = _tuple(options.get(name))
    options["condition"] = options.get("condition") or Condition()
    options["carbon"] = options.get("carbon") or {}
    planned = plan(snap, dataset, Options(**options))
    digest = _Digest(planned)
    total = _Found()
    for start in range(0, planned.queries.height, rows):
        table, found = _portion(snap, planned, start, start + rows, texts, digest)
        total = total + found
        yield table, _notes(snap, planned, total)


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return tuple(values) if values else None


@dataclass(frozen=True)
class _Found:
    """Counts over the portions that came so far."""

    queries: int = 0
    held_out: int = 0
    known: int = 0
    without_text: int = 0
    with_texts: bool = False
    cost: int = 0
    listed: int = 0

    def __add__(self, other: _Found) -> _Found:
        return _Found(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


class _Digest:
    """sha256 of a table's content and condition, over portions of rows."""

    def __init__(self, planned: Plan) -> None:
        self._head = [
            planned.dataset,
            [asdict(arm) for arm in planned.arms],
            asdict(planned.condition),
            planned.evidence_class,
            planned.energy_method,
            planned.joined.calibration_id if planned.joined else None,
        ]
        self._rows = FrameDigest()

    def update(self, queries: pl.DataFrame, held_out: Any, matrices: Matrices) -> str:
        self._rows.update(queries)
        self._rows.update_array("held_out", held_out)
        for name, matrix in matrices.items():
            self._rows.update_array(name, matrix)
        return content_hash([str(self._head), self._rows.hexdigest()])


def _portion(
    snap: Snapshot, planned: Plan, start: int, stop: int, texts: bool, digest: _Digest
) -> tuple[OutcomeTable, _Found]:
    queries = planned.queries.slice(start, stop - start)
    held_out = planned.held_out[start:stop]
    cells = _cells(snap, planned, queries)
    own_cost = int(np.isfinite(cells["cost_usd"]).sum())
    _price(cells, planned, queries["prompt_tokens"].fill_null(np.nan).to_numpy())
    cells.pop("prompt_tokens")
    if planned.joined:
        _apply(cells, planned)
    told = _texts(snap, planned, queries) if texts else None
    table = OutcomeTable(
        dataset=planned.dataset,
        arms=planned.arms,
        queries=Queries(
            ids=queries["query_id"].to_numpy(),
            benchmarks=_repeated(queries["benchmark"]),
            texts=told,
            prompt_tokens=queries["prompt_tokens"].fill_null(np.nan).to_numpy(),
        ),
        held_out=held_out,
        evidence_class=planned.evidence_class,
        energy_method=planned.energy_method,
        condition=planned.condition,
        sha256=digest.update(queries, held_out, cells),
        **cells,
    ).check()
    known = np.isfinite(table.correct)
    if planned.evidence_class is not None:
        known &= np.isfinite(table.energy_j)
    cost = int(np.isfinite(table.cost_usd).sum())
    return table, _Found(
        len(table), int(held_out.sum()), int(known.sum()),
        0 if told is None else told.tolist().count(None), told is not None, cost, cost - own_cost,
    )  # fmt: skip


def _cells(snap: Snapshot, planned: Plan, queries: pl.DataFrame) -> Matrices:
    """(N, K) matrices of what is recorded, NaN elsewhere. Raises DuplicateCell."""
    n, names = queries.height, [arm.name for arm in planned.arms]
    matrices = {name: np.full((n, len(names)), np.nan) for name in _CELLS}
    if not n:
        return matrices
    ids = queries["query_id"]
    group = max(1, CELLS_AT_ONCE // n)
    for start in range(0, len(names), group):
        frame = snap.frame(
            sql_text("cells.sql"),
            dataset=planned.dataset,
            arms=names[start : start + group],
            first=ids[0],
            last=ids[-1],
            evidence_class=planned.options.evidence_class,
        )
        for (arm_no,), cells in frame.partition_by("arm_no", as_dict=True).items():
            rows, cells = _rows(ids, cells)
            _refuse_repeats(planned.dataset, names[start + arm_no], rows, ids)
            for name, matrix in matrices.items():
                matrix[rows, start + arm_no] = cells[name].fill_null(np.nan).to_numpy()
    return matrices


def _rows(ids: pl.Series, cells: pl.DataFrame) -> tuple[Any, pl.DataFrame]:
    """Row of each cell in the table, and the cells that have one. Both come in the order of the ids."""
    if len(ids) == cells.height and ids.equals(cells["query_id"]):
        return slice(None), cells
    numbered = pl.DataFrame({"query_id": ids, "row": np.arange(len(ids))})
    found = cells.join(numbered, on="query_id", how="inner", maintain_order="left")
    return found["row"].to_numpy(), found


def _refuse_repeats(dataset: str, arm: str, rows: Ints | slice, ids: pl.Series) -> None:
    if isinstance(rows, slice):  # equal to the ids, which are distinct
        return
    again = np.flatnonzero(np.diff(rows) == 0)
    if again.size:
        raise DuplicateCell(
            f"{again.size} cells of {dataset} by {arm} come twice; the first is query {ids[int(rows[again[0]])]}.",
            fix="keep one outcome for each query and arm",
        )


def _price(cells: Matrices, planned: Plan, prompt_tokens: Floats) -> None:
    """Dollars by list price where the cell tells none."""
    for k, arm in enumerate(planned.arms):
        if arm.input_price_usd_per_token is None or arm.output_price_usd_per_token is None:
            continue
        cost, prompt = cells["cost_usd"][:, k], cells["prompt_tokens"][:, k]
        prompt = np.where(np.isnan(prompt), prompt_tokens, prompt)
        listed = prompt * float(arm.input_price_usd_per_token)
        listed += cells["output_tokens"][:, k] * float(arm.output_price_usd_per_token)
        cells["cost_usd"][:, k] = np.where(np.isnan(cost), listed, cost)


def _apply(cells: Matrices, planned: Plan) -> None:
    """Energy, latency and power of the calibrated join. A call without output tokens has none of the three."""
    assert planned.joined is not None
    rates = [planned.joined.rates.get(arm.name) for arm in planned.arms]
    joules = np.array([r.j_per_token if r else np.nan for r in rates])
    seconds = np.array([r.s_per_token if r and r.s_per_token else np.nan for r in rates])
    tokens = np.where(cells["output_tokens"] > 0, cells["output_tokens"], np.nan)
    cells["energy_j"] = tokens * joules
    cells["latency_s"] = tokens * seconds
    cells["power_w"] = np.where(np.isfinite(tokens), joules / seconds, np.nan)


def _texts(snap: Snapshot, planned: Plan, queries: pl.DataFrame) -> Strings:
    found = np.full(queries.height, None, dtype=np.object_)
    if queries.height and queries["text_key"].null_count() < queries.height:
        ids = queries["query_id"]
        told = snap.frame(sql_text("texts.sql"), dataset=planned.dataset, first=ids[0], last=ids[-1])
        rows, told = _rows(ids, told)
        found[rows] = told["text"].to_numpy()
    return found


def _repeated(values: pl.Series) -> Strings:
    """Text of few distinct values, without a Python string for each row."""
    distinct = values.unique().sort()
    codes = values.cast(pl.Enum(distinct)).to_physical().to_numpy()
    return np.asarray(distinct.to_numpy()[codes], dtype=np.object_)


def _notes(snap: Snapshot, planned: Plan, found: _Found) -> LoadNotes:
    counts = planned.queries.group_by("benchmark").len().sort("benchmark")
    cells = found.queries * len(planned.arms)
    newest = planned.newest_at
    joined = planned.joined
    ids = tuple(sorted({i for rate in planned.rates for i in rate.observation_ids}))
    return LoadNotes(
        dataset=planned.dataset,
        queries=found.queries,
        train=found.queries - found.held_out,
        test=found.held_out,
        arms=tuple(arm.name for arm in planned.arms),
        arms_left_out=planned.left_out,
        cells=cells,
        missing_cells=cells - found.known,
        coverage=found.known / cells if cells else float("nan"),
        benchmarks=dict(counts.iter_rows()),
        split=planned.split_words,
        seed=planned.options.seed,
        leaked_dropped=planned.leaked,
        without_text=found.without_text if found.with_texts else None,
        energy_rates=planned.rates,
        observation_ids=ids,
        calibration_id=joined.calibration_id if joined else None,
        intensity=planned.intensity,
        cost_cells=found.cost,
        listed_costs=found.listed,
        warnings=planned.warnings,
        sources=tuple(sorted({s for arm in planned.arms for s in planned.stats[arm.name]["sources"]})),
        newest_at=None if newest is None else iso(newest),
        age_s=None if newest is None else (snap.as_of - newest).total_seconds(),
    )
