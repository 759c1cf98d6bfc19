"""Large payloads: read in chunks, staged, and taken over in one step. Memory stays flat in the file's size.

A kind that can be large has a `stream`: a pure function from an open file to one `Parsed` per chunk. Each
chunk keeps the invariant of `Parsed`; so does their sum.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote, urlsplit

from ingest.base import Parsed, Payload, Reject
from ingest.errors import Cancelled, IngestError
from ingest.settle import Settled
from warehouse import landing, loads, runs
from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.errors import WarehouseError
from warehouse.ids import canonical_json
from warehouse.staging import Staging

if TYPE_CHECKING:
    from ingest.kind import Kind
    from ingest.pipeline import RunOutcome

_COPY_CHUNK = 1 << 20
_LAND_WHOLE_BYTES = 64 << 20  # a file up to this size is kept whole, like every fetched payload
_MAX_REJECTS = 100_000  # kept with their rows; beyond that they are only counted


@dataclass(frozen=True)
class Stream:
    """A file to be read in chunks, and what is known about it. `open` gives its unpacked bytes from the start."""

    source_id: str
    kind: str
    path: Path
    fetched_at: datetime  # naive UTC
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.path.absolute().as_uri()

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size

    def open(self) -> BinaryIO:
        """The file's bytes from the start."""
        return self.path.open("rb")


Streamer = Callable[[Stream, BinaryIO], Iterator[Parsed]]


@dataclass
class Progress:
    """How far a load is; written by the load, read and cancelled by others."""

    total_bytes: int = 0
    done_bytes: int = 0
    rows_in: int = 0
    stage: str = "reading"  # reading | loading | done
    cancelled: bool = False

    def check(self) -> None:
        if self.cancelled:
            raise Cancelled("the load was cancelled; nothing of it was kept")


class _Counting(io.RawIOBase):
    """Counts and hashes what is read, so that progress and identity need no second pass."""

    def __init__(self, raw: BinaryIO, progress: Progress) -> None:
        self._raw, self._progress = raw, progress
        self.digest = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._progress.check()
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        self.size += len(data)
        self._progress.done_bytes = self.size
        return len(data)


def refresh_stream(
    warehouse: Warehouse, kind: Kind, stream: Stream, *, trigger: str, progress: Progress | None = None
) -> RunOutcome:
    """Load a file of a streaming kind; like `ingest.pipeline.refresh`, failures and cancelling become an outcome."""
    from ingest.pipeline import failed, unrecorded

    assert kind.stream is not None
    told = progress or Progress()
    try:
        run = runs.start(warehouse, source_id=stream.source_id, kind=kind.name, trigger=trigger)
    except WarehouseError as error:
        return unrecorded(stream.source_id, kind.name, error)
    staging = Staging(warehouse, run.run_id)
    try:
        return _load(warehouse, kind, stream, run, staging, told)
    except Exception as error:  # recorded like any failure, so that the desk stays up
        with contextlib.suppress(WarehouseError), warehouse.transaction() as tx:
            staging.drop(tx)
        return failed(warehouse, run, None, _named(error, stream))
    finally:
        told.stage = "done"


def _named(error: Exception, stream: Stream) -> Exception:
    if isinstance(error, OSError):
        return IngestError(
            f"{stream.path.name} cannot be read: {error.strerror or error}",
            source_id=stream.source_id,
            fix="check the file",
        )
    return error


def _load(
    warehouse: Warehouse, kind: Kind, stream: Stream, run: runs.RunStart, staging: Staging, progress: Progress
) -> RunOutcome:
    from ingest.pipeline import conflicts_as_rejects, ending, outcome

    assert kind.stream is not None
    progress.total_bytes = stream.size_bytes
    rejects: list[Reject] = []
    rows_in = quarantined = refused_fields = 0
    data_at: datetime | None = None
    repeated: set[str] = set()  # tables of which the stream does not say that their keys come once
    primary, notes = "", []
    with stream.open() as raw:
        counting = _Counting(raw, progress)
        parts = kind.stream(stream, io.BufferedReader(counting, _COPY_CHUNK))
        with contextlib.closing(_ahead(parts)) as coming:
            for parsed in coming:
                progress.check()
                primary = parsed.primary
                staging.add(parsed.tables)
                repeated |= parsed.tables.keys() - parsed.distinct
                rows_in += parsed.rows_in
                quarantined += parsed.rows_quarantined
                refused_fields += len(parsed.rejects) - parsed.rows_quarantined
                rejects += parsed.rejects[: max(0, _MAX_REJECTS - len(rejects))]
                data_at = max((d for d in (data_at, parsed.data_at) if d is not None), default=None)
                notes += [n for n in parsed.notes if n not in notes]
                progress.rows_in = rows_in
    if quarantined + refused_fields > len(rejects):
        notes.append(f"{quarantined + refused_fields} refusals; the first {len(rejects)} are in quarantine")
    progress.stage = "loading"
    known_from = utcnow()
    loaded: dict[str, loads.Loaded] = {}
    with warehouse.transaction() as tx:
        progress.check()
        payload_id = _land(tx, run, stream, counting)
        staged = {table: staging.name(table) for table in staging.tables}
        settled = kind.settle(tx, staged, primary) if kind.settle is not None and staged else Settled()
        rejects += settled.rejects
        quarantined += settled.quarantined
        for table in staging.tables:
            loaded[table] = loads.load_staged(
                tx,
                table,
                staging.name(table),
                source_id=run.source_id,
                run_id=run.run_id,
                known_from=known_from,
                distinct_keys=table not in repeated,
            )
            rejects += conflicts_as_rejects(table, loaded[table].conflicts, whole=table == primary)
        for table, frame in (kind.derive(tx, run.source_id) if kind.derive is not None else {}).items():
            loads.load(tx, table, frame, source_id=run.source_id, run_id=run.run_id, known_from=known_from)
        runs.quarantine(tx, run, payload_id, [asdict(r) for r in rejects])
        main = loaded.get(primary)
        counts: dict[str, Any] = {
            "rows_in": rows_in,
            "rows_loaded": main.loaded if main else 0,
            "rows_unchanged": main.unchanged if main else 0,
            "rows_quarantined": quarantined + (main.conflicting if main else 0),
        }
        ended = ending(run.source_id, counts, rejects, sum(done.loaded for done in loaded.values()))
        staging.drop(tx)
        declared = canonical_json(dict(stream.options)) if stream.options else None
        runs.finish(tx, run, payload_id=payload_id, options=declared, data_at=data_at, **counts, **ended)
        progress.check()  # the last moment at which cancelling keeps nothing
    notes += [f"{t}: {d.loaded} new or changed" for t, d in loaded.items() if t != primary and d.loaded]
    return outcome(run, ended, notes, counts)


def _ahead(parts: Iterator[Parsed]) -> Generator[Parsed, None, None]:
    """`parts`, of which the next one is read while the one before is stored. Closing it waits for that reading."""
    with ThreadPoolExecutor(1, thread_name_prefix="joulebook-read") as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part


def _land(tx: Transaction, run: runs.RunStart, stream: Stream, counting: _Counting) -> str:
    """A large file stays where it is; landing keeps its address, size and sha256, so that it can be found and told
    from another. (A copy of every 5 GB log would double the disk for bytes that the operator holds already.)"""
    about: dict[str, Any] = {
        "source_id": run.source_id,
        "kind": stream.kind,
        "url": stream.url,
        "fetched_at": stream.fetched_at,
        "run_id": run.run_id,
    }
    digest = counting.digest.hexdigest()
    if counting.size <= _LAND_WHOLE_BYTES:
        body = stream.path.read_bytes()
        if hashlib.sha256(body).hexdigest() != digest:
            raise IngestError(
                f"{stream.path.name} changed while it was read", source_id=stream.source_id, fix="import it again"
            )
        return landing.land(tx, body=body, **about).payload_id
    return landing.land_reference(tx, sha256=digest, size_bytes=counting.size, **about).payload_id


def chunks_of_lines(file: BinaryIO, size: int = 8 << 20) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole lines of about `size` bytes); the file's last line may lack its end."""
    rest, number = b"", 0
    while True:
        block = file.read(size)
        if not block:
            if rest:
                yield number, rest
            return
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            continue
        lines = rest + block[:cut]
        yield number, lines
        number += lines.count(b"\n")
        rest = block[cut:]


def whole(streamer: Streamer) -> Callable[[Payload], Parsed]:
    """The `parse` of a streaming kind: all chunks of a payload in memory, as one `Parsed`."""
    import polars as pl

    def parse(payload: Payload) -> Parsed:
        name = unquote(PurePosixPath(urlsplit(payload.url).path).name)
        about = Stream(payload.source_id, payload.kind, Path(name or "payload"), payload.fetched_at, payload.options)
        parts = list(streamer(about, io.BytesIO(payload.body)))
        if not parts:
            raise IngestError("the payload holds no rows", source_id=payload.source_id)
        tables = {
            name: pl.concat([p.tables[name] for p in parts if name in p.tables]) for p in parts for name in p.tables
        }
        return replace(
            parts[0],
            tables=tables,
            rows_in=sum(p.rows_in for p in parts),
            rejects=tuple(r for p in parts for r in p.rejects),
            data_at=max((p.data_at for p in parts if p.data_at is not None), default=None),
            notes=tuple(dict.fromkeys(n for p in parts for n in p.notes)),
        )

    return parse
