"""One refresh of one source: obtain, land, parse, load, quarantine, and one row that says how it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from ingest.base import Parsed, Payload, Reject
from ingest.errors import CatalogShrank, IngestError, PayloadError
from ingest.http import NotModified
from ingest.kinds import Derive, Kind
from ingest.settle import Settle, Settled, settle_frames
from warehouse import landing, loads, runs
from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.errors import WarehouseError
from warehouse.ids import canonical_json
from warehouse.tables import frame_schema

Obtain = Callable[[], Payload | NotModified]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. rows_in = rows_loaded + rows_unchanged + rows_quarantined whenever it loaded."""

    run_id: str
    source_id: str
    kind: str
    state: str
    rows_in: int | None = None
    rows_loaded: int | None = None
    rows_unchanged: int | None = None
    rows_quarantined: int | None = None
    not_modified: bool = False
    error_class: str | None = None
    error: str | None = None
    fix: str | None = None
    notes: tuple[str, ...] = field(default=())
    recorded: bool = True
    transient: bool = False


def refresh(
    warehouse: Warehouse,
    kind: Kind,
    source_id: str,
    obtain: Obtain,
    *,
    trigger: str,
    accept_shrink: bool = False,
    known_from: datetime | None = None,
) -> RunOutcome:
    """Run one refresh; failures become a FAILED outcome, never an exception, and change no data.

    `known_from` (naive UTC) is when we learned it: now, but for a rebuild from landing.
    """
    try:
        run = runs.start(warehouse, source_id=source_id, kind=kind.name, trigger=trigger)
    except WarehouseError as error:
        return unrecorded(source_id, kind.name, error)
    payload: Payload | None = None
    try:
        got = obtain()
        if isinstance(got, NotModified):
            return _not_modified(warehouse, run)
        payload = got
        parsed = kind.parse(payload)
        if parsed.complete and not accept_shrink:
            _refuse_shrinking(warehouse, source_id, parsed)
        return _store(warehouse, run, payload, parsed, kind.derive, known_from or utcnow(), kind.settle)
    except (IngestError, WarehouseError) as error:
        return failed(warehouse, run, payload, error)
    except Exception as error:  # a defect of ours: recorded like any failure, so that the desk stays up
        return failed(warehouse, run, payload, error)


def _not_modified(warehouse: Warehouse, run: runs.RunStart) -> RunOutcome:
    counts: dict[str, Any] = {"rows_in": 0, "rows_loaded": 0, "rows_unchanged": 0, "rows_quarantined": 0}
    with warehouse.transaction() as tx:
        runs.finish(tx, run, state="OK", not_modified=True, **counts)
    return RunOutcome(run.run_id, run.source_id, run.kind, "OK", not_modified=True, **counts)


def _refuse_shrinking(warehouse: Warehouse, source_id: str, parsed: Parsed) -> None:
    """A full listing that is empty or lost more than half is refused whole: more likely a fault than news."""
    new = parsed.tables[parsed.primary].height
    old = warehouse.scalar(
        f"SELECT count(*) FROM {_in_force('core.offer')} WHERE lifecycle <> 'removed'",
        {"providers": _providers(parsed), "s": source_id},
    )
    if new == 0:
        raise CatalogShrank(
            f"the catalog lists no usable model ({parsed.rows_in} rows, {parsed.rows_quarantined} refused)",
            source_id=source_id,
            field="data",
            fix="check the source; the last good catalog stays in force and ages",
        )
    if new < old / 2:
        raise CatalogShrank(
            f"the catalog fell from {old} to {new} models",
            source_id=source_id,
            field="data",
            fix="check the source; the last good catalog stays in force and ages. If the smaller catalog is true, "
            "import it with `joulebook import KIND FILE --accept-shrink`",
        )


def _in_force(table: str) -> str:
    """The versions in force of $providers on the side of $s: a sample row must not hide the real one of its key."""
    spec = loads.SPECS[table]
    return (
        f"(SELECT * FROM {table} WHERE list_contains($providers, provider) "
        "AND (source_id LIKE 'sample:%') = ($s LIKE 'sample:%') QUALIFY row_number() OVER "
        f"(PARTITION BY {', '.join(spec.key)} ORDER BY {spec.time} DESC, known_from DESC) = 1)"
    )


def _providers(parsed: Parsed) -> list[str]:
    return parsed.tables["core.offer"]["provider"].unique().sort().to_list()


def _store(
    warehouse: Warehouse,
    run: runs.RunStart,
    payload: Payload,
    parsed: Parsed,
    derive: Derive | None,
    known_from: datetime,
    settle: Settle | None = None,
) -> RunOutcome:
    notes = list(parsed.notes)
    rejects = list(parsed.rejects)
    with warehouse.transaction() as tx:
        landed = _land(tx, run, payload)
        primary: loads.Loaded | None = None
        changed = 0
        tables, settled = settle_frames(tx, settle, parsed) if settle is not None else (parsed.tables, Settled())
        rejects += settled.rejects
        for table, frame in tables.items():
            done = loads.load(tx, table, frame, source_id=run.source_id, run_id=run.run_id, known_from=known_from)
            changed += done.loaded
            if table == parsed.primary:
                primary = done
            elif done.loaded:
                notes.append(f"{table}: {done.loaded} new or changed")
            rejects += conflicts_as_rejects(table, done.conflicts, whole=table == parsed.primary)
        assert primary is not None
        for table, frame in (derive(tx, run.source_id) if derive is not None else {}).items():
            done = loads.load(tx, table, frame, source_id=run.source_id, run_id=run.run_id, known_from=known_from)
            if done.loaded:
                notes.append(f"{table}: {done.loaded} new or changed")
        if parsed.complete and parsed.primary == "core.offer":
            removed = _mark_removed(tx, run, payload, parsed.tables["core.offer"], known_from)
            if removed:
                notes.append(f"{removed} offers are no longer listed")
            unpriced = _unprice_missing(tx, run, payload, parsed, known_from)
            if unpriced:
                notes.append(f"{unpriced} price components are no longer listed: unknown from now on")
        runs.quarantine(tx, run, landed.payload_id, [asdict(r) for r in rejects])
        counts: dict[str, Any] = {
            "rows_in": parsed.rows_in,
            "rows_loaded": primary.loaded,
            "rows_unchanged": primary.unchanged,
            "rows_quarantined": parsed.rows_quarantined + settled.quarantined + primary.conflicts.height,
        }
        ended = ending(run.source_id, counts, rejects, changed)
        runs.finish(
            tx,
            run,
            payload_id=landed.payload_id,
            options=canonical_json(dict(payload.options)) if payload.options else None,
            data_at=parsed.data_at,
            **counts,
            **ended,
        )
    return outcome(run, ended, notes, counts)


def ending(source_id: str, counts: dict[str, Any], rejects: Sequence[Reject], changed: int) -> dict[str, Any]:
    """How a load ended, as columns of ops.run; one of which every row was refused has failed."""
    if not rejects:
        return {"state": "OK"}
    if changed or counts["rows_unchanged"] or counts["rows_quarantined"] < counts["rows_in"]:
        return {"state": "PARTIAL"}
    return {
        "state": "FAILED",
        "error_class": PayloadError.__name__,
        "error_text": f"{source_id}: every row was refused ({counts['rows_in']}); the first: {rejects[0].reason}",
        "error_fix": "see the quarantine for each row; the last good data stays in force and ages",
    }


def outcome(run: runs.RunStart, ended: dict[str, Any], notes: Sequence[str], counts: dict[str, Any]) -> RunOutcome:
    """The outcome of a load that `ending` has judged."""
    return RunOutcome(
        run.run_id,
        run.source_id,
        run.kind,
        ended["state"],
        error_class=ended.get("error_class"),
        error=ended.get("error_text"),
        fix=ended.get("error_fix"),
        notes=tuple(notes),
        **counts,
    )


def _land(tx: Transaction, run: runs.RunStart, payload: Payload) -> landing.Landed:
    return landing.land(
        tx,
        source_id=run.source_id,
        kind=payload.kind,
        url=payload.url,
        fetched_at=payload.fetched_at,
        body=payload.body,
        run_id=run.run_id,
        http_status=payload.http_status,
        content_type=payload.content_type,
        etag=payload.etag,
        last_modified=payload.last_modified,
    )


def conflicts_as_rejects(table: str, rows: pl.DataFrame, *, whole: bool) -> list[Reject]:
    """Rows whose key came twice, differently, as refusals."""
    key = loads.SPECS[table].key
    return [
        Reject(
            reason=f"the same {', '.join(key)} came twice with different values; the first was kept",
            natural_key=" / ".join(str(row[k]) for k in key),
            field=", ".join(key),
            raw=str(row),
            whole_row=whole,
        )
        for row in rows.iter_rows(named=True)
    ]


def _mark_removed(tx: Transaction, run: runs.RunStart, payload: Payload, offers: pl.DataFrame, known_from: Any) -> int:
    """A full listing speaks about what it leaves out, too."""
    in_force = tx.query(
        f"SELECT * FROM {_in_force('core.offer')} WHERE lifecycle <> 'removed' AND valid_from <= $at",
        {"providers": offers["provider"].unique().to_list(), "s": run.source_id, "at": payload.fetched_at},
    )
    gone = in_force.join(offers.select("provider", "offer_id"), on=["provider", "offer_id"], how="anti")
    if gone.is_empty():
        return 0
    names = list(frame_schema("core.offer"))
    frame = gone.with_columns(
        pl.lit("removed").alias("lifecycle"),
        pl.lit(payload.fetched_at).cast(pl.Datetime("us")).alias("valid_from"),
        pl.lit(None).cast(pl.Datetime("us")).alias("valid_to"),
    ).select(names)
    done = loads.load(tx, "core.offer", frame, source_id=run.source_id, run_id=run.run_id, known_from=known_from)
    return done.loaded


def _unprice_missing(tx: Transaction, run: runs.RunStart, payload: Payload, parsed: Parsed, known_from: Any) -> int:
    """A price component that a listed offer no longer has is unknown from now on, not what it was."""
    prices = parsed.tables.get("core.price")
    if prices is None:
        return 0
    in_force = tx.query(
        f"SELECT * FROM {_in_force('core.price')} WHERE price_kind <> 'unknown' AND valid_from <= $at",
        {"providers": _providers(parsed), "s": run.source_id, "at": payload.fetched_at},
    )
    listed = parsed.tables["core.offer"].select("provider", "offer_id")
    key = ["provider", "offer_id", "component", "min_prompt_tokens"]
    gone = in_force.join(listed, on=["provider", "offer_id"], how="semi").join(prices.select(key), on=key, how="anti")
    if gone.is_empty():
        return 0
    frame = gone.with_columns(
        pl.lit("unknown").alias("price_kind"),
        pl.lit(None).cast(gone.schema["price_usd_per_unit"]).alias("price_usd_per_unit"),
        pl.lit(payload.fetched_at).cast(pl.Datetime("us")).alias("valid_from"),
        pl.lit(None).cast(pl.Datetime("us")).alias("valid_to"),
    ).select(list(frame_schema("core.price")))
    done = loads.load(tx, "core.price", frame, source_id=run.source_id, run_id=run.run_id, known_from=known_from)
    return done.loaded


def failed(warehouse: Warehouse, run: runs.RunStart, payload: Payload | None, error: Exception) -> RunOutcome:
    message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    where = ": ".join(p for p in (run.source_id, getattr(error, "field", "")) if p)
    outcome = RunOutcome(
        run.run_id,
        run.source_id,
        run.kind,
        "FAILED",
        error_class=type(error).__name__,
        error=f"{where}: {message}",
        fix=getattr(error, "fix", "") or None,
        transient=bool(getattr(error, "transient", False)),
    )
    try:
        with warehouse.transaction() as tx:
            payload_id = _land(tx, run, payload).payload_id if payload is not None else None
            runs.finish(
                tx,
                run,
                state="FAILED",
                payload_id=payload_id,
                error_class=outcome.error_class,
                error_text=outcome.error,
                error_fix=outcome.fix,
            )
    except WarehouseError as second:
        return unrecorded(run.source_id, run.kind, second)
    return outcome


def unrecorded(source_id: str, kind: str, error: WarehouseError) -> RunOutcome:
    """The warehouse itself refused: told to the caller, because it cannot be stored."""
    return RunOutcome(
        "",
        source_id,
        kind,
        "FAILED",
        error_class=type(error).__name__,
        error=error.message,
        fix=error.fix or None,
        recorded=False,
        transient=error.transient,
    )
