"""`nvidia-smi --query-gpu=... --format=csv -l` logs -> core.power_sample, core.energy_observation, core.device.

A row is one board at one instant. Power is in W, of the instant sensor where the log has it, else as the
driver calls it `power.draw`. Stamps are local time without a zone, so the zone is declared. nvidia-smi writes
no energy counter: windows are integrated power, and a log with rows more than 2 s apart yields windows of
unknown energy. A message in place of a row ("GPU is lost") goes to quarantine and ends the board's window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.power.localtime import LogClock
from ingest.power.logbook import Logbook, declared_devices
from ingest.power.smi_layout import is_header, layout_of
from ingest.power.smi_rows import LAST_RESORT_HOST, Identity, Lines, sorted_out, typed
from ingest.power.windows import observations
from ingest.stream import Stream, chunks_of_lines
from warehouse.tables import frame

SAMPLE, OBSERVATION, DEVICE = "core.power_sample", "core.energy_observation", "core.device"
CHUNK_BYTES = 24 << 20
_ENCODINGS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x1f\x8b", "gzip"))


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """One `Parsed` per chunk, and a last one with the windows still open and the boards.

    Raises PayloadError where the log as a whole cannot be read: no header and no option `columns`, another
    encoding, a zone that there is not.
    """
    reader = _Reader(about)
    rows = 0
    for first, lines in chunks_of_lines(file, CHUNK_BYTES):
        if first == 0:
            lines = _without_mark(about, lines)
        for start, block in reader.blocks(first, lines):
            parsed = reader.read(start, block)
            rows += parsed.rows_in
            yield parsed
    if not rows:
        _refuse(about, "the log has no rows", fix="check that nvidia-smi wrote into it")
    yield Parsed(
        primary=SAMPLE,
        tables={
            SAMPLE: frame(SAMPLE, []),
            OBSERVATION: observations(reader.book.close()),
            DEVICE: reader.book.devices(),
        },
        rows_in=0,
        distinct=frozenset({SAMPLE, DEVICE}) if reader.book.in_order else frozenset({DEVICE}),
    )


def _refuse(about: Stream, message: str, *, fix: str) -> NoReturn:
    raise PayloadError(message, fix=fix, source_id=about.source_id)


def _without_mark(about: Stream, lines: bytes) -> bytes:
    for mark, name in _ENCODINGS:
        if lines.startswith(mark):
            _refuse(about, f"the log is {name} data, not UTF-8 text", fix="unpack it or save it as UTF-8")
    return lines.removeprefix(b"\xef\xbb\xbf")


class _Reader:
    """What must be remembered from chunk to chunk: the columns, the clock, and the boards."""

    def __init__(self, about: Stream) -> None:
        options = about.options
        self._about = about
        self._clock = LogClock.of(options.get("timezone", ""), source_id=about.source_id)
        host = options.get("host") or LAST_RESORT_HOST
        self._identity = Identity(host, declared_devices(options.get("devices"), source_id=about.source_id))
        self.book = Logbook(host)
        columns = options.get("columns")
        self._layout = layout_of(columns, source_id=about.source_id) if columns else None

    def blocks(self, first: int, lines: bytes) -> Iterator[tuple[int, bytes]]:
        """Pieces between header lines; a log that was continued has one again, perhaps with other columns."""
        done = position = 0
        while (found := lines.find(b"timestamp", position)) >= 0:
            start = lines.rfind(b"\n", 0, found) + 1
            position = lines.find(b"\n", found) + 1 or len(lines)
            if not is_header(lines[start:position]):
                continue
            if start > done:
                yield first, lines[done:start]
            first += lines.count(b"\n", done, position)
            done = position
            header = lines[start:position].decode("utf-8", "replace")
            self._layout = layout_of(header, source_id=self._about.source_id)
        if done < len(lines):
            yield first, lines[done:]

    def read(self, first: int, block: bytes) -> Parsed:
        """The rows of `block`, whose first line has the number `first` (from 0)."""
        if self._layout is None:
            if not block.strip():
                return Parsed(primary=SAMPLE, tables={SAMPLE: frame(SAMPLE, [])}, rows_in=0)
            begin = block.lstrip()[:40].decode("utf-8", "replace")
            _refuse(
                self._about,
                f"the log begins with {begin!r}, which is no header",
                fix="log with a header (--format=csv), or declare --option columns=timestamp,uuid,power.draw",
            )
        lines = Lines.of(first, block, self._layout)
        told = sorted_out(lines, typed(lines, self._layout, self._clock, self._identity), self._identity)
        samples, windows = self.book.take_all(told.readings, told.about, self._identity.scopes)
        return Parsed(
            primary=SAMPLE,
            tables={SAMPLE: samples, OBSERVATION: windows},
            rows_in=samples.height + sum(r.whole_row for r in told.rejects),
            rejects=tuple(told.rejects),
            data_at=samples["sampled_at"].max(),  # type: ignore[arg-type]
            distinct=frozenset({SAMPLE}) if self.book.in_order else frozenset(),
        )
