"""Lines of an nvidia-smi log -> typed readings and refusals, a chunk at a time.

What nvidia-smi writes where it has no value, `[N/A]` or `[Not Supported]`, is unknown and no fault. A value
that cannot be power is refused and its row stays; a line that is no row is refused whole. Single lines are
looked at only where the whole-column pass finds something wrong.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field

import polars as pl

from ingest.base import Reject
from ingest.power.localtime import LogClock
from ingest.power.sensors import LIMIT_TOLERANCE, MAX_BOARD_POWER_W, implausible_power
from ingest.power.smi_layout import ABOUT, GPU_POWER, LIMITS, MODULE_POWER, Layout

LAST_RESORT_HOST = "unknown"
_EXTRA = "one field too many"
_NOTHING = re.compile(r"\[?(n/?a|not supported|not available|no data|insufficient permissions|.*deprecated)\]?", re.I)
_LOST = re.compile(r"\[?(gpu is lost|gpu requires reset|unknown error)\]?", re.I)
_GONE = re.compile(r"device handle|gpu is lost|requires reset|fallen off the bus|unknown error", re.I)
_NAMED = re.compile(
    r"(?P<uuid>GPU-[0-9a-f]{8}[0-9a-f-]*)|GPU ?(?P<index>\d{1,2})(?![0-9a-f]+:)"
    r"|(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])",
    re.I,
)
_TWO_DECIMALS = re.compile(r"\d+\.\d\d( W)?")
_NUMBER = re.compile(r"[\d.]")
_RAW_LIMIT = 400


@dataclass
class Identity:
    """Which board a row speaks of: its UUID, or what was declared, or host and address."""

    host: str
    declared: dict[str, str]  # index or PCI address, in lower case -> UUID; "" stands for every row
    by_name: dict[str, str] = field(default_factory=dict)  # as seen: index or PCI address -> device_uuid
    scopes: dict[str, str] = field(default_factory=dict)  # device_uuid -> what its power covers, in this log

    def column(self, layout: Layout) -> pl.Expr:
        """device_uuid, None where the row names no board."""
        named: list[pl.Expr] = []
        if layout.has("uuid"):
            uuid = _text("uuid")
            named.append(pl.when(uuid.str.starts_with("GPU-")).then(uuid))
        for name in ("pci.bus_id", "index"):
            if layout.has(name):
                told = _known(name).str.to_lowercase()
                if self.declared:
                    named.append(told.replace_strict(self.declared, default=None, return_dtype=pl.String))
                if not layout.has("uuid"):
                    named.append(pl.format(f"{self.host}/{name.split('.')[0]}:{{}}", told))
        if "" in self.declared:
            named.insert(0, pl.lit(self.declared[""]))
        return pl.coalesce(named) if named else pl.lit(None, pl.String)

    def remember(self, about: pl.DataFrame) -> None:
        """Keep by which index and address each board went."""
        for uuid, index, pci in about.select("device_uuid", "index", "pci.bus_id").iter_rows():
            self.by_name |= {key.lower(): uuid for key in (index, pci, uuid) if key is not None}

    def of_message(self, text: str) -> str | None:
        """The board that a message names, or the only one there is."""
        found = _NAMED.search(text)
        if found is not None:
            if found["uuid"]:
                return found["uuid"]
            known = self.by_name | self.declared
            if found["index"]:
                return known.get(found["index"])
            return next((u for key, u in known.items() if key.endswith(found["pci"].lower())), None)
        boards = set(self.by_name.values())
        return boards.pop() if len(boards) == 1 else None


@dataclass(frozen=True)
class Told:
    """What a chunk says. `readings`: row, at, device_uuid, power_w, instant, refused, lost, is_row (False for a
    message about a board), in order; `about`: device_uuid and what the rows say of it."""

    readings: pl.DataFrame
    about: pl.DataFrame
    rejects: list[Reject]


@dataclass(frozen=True)
class Lines:
    """A block of lines as a frame of its wanted columns, one row per line, with `row`, its number from 0."""

    frame: pl.DataFrame
    first: int
    block: bytes

    @classmethod
    def of(cls, first: int, block: bytes, layout: Layout) -> Lines:
        if not block.isascii():
            block = block.decode("utf-8", "replace").encode()
        names = [*layout.names, _EXTRA]
        table = pl.read_csv(
            io.BytesIO(block),
            has_header=False,
            schema=dict.fromkeys(names, pl.String()),
            quote_char=None,
            extra_columns="ignore",
            missing_columns="insert",
        ).select(*layout.wanted, _EXTRA)
        return cls(table.with_row_index("row", first), first, block)

    def text(self) -> list[str]:
        """The lines as they came."""
        return self.block.decode("utf-8", "replace").split("\n")


def _text(name: str) -> pl.Expr:
    return pl.col(name).str.strip_chars()


def _known(name: str) -> pl.Expr:
    """A description, None where nvidia-smi has none."""
    text = _text(name)
    return pl.when(~text.str.starts_with("[") & (text != "N/A") & (text != "")).then(text)


def _watts(name: str) -> pl.Expr:
    return _text(name).str.strip_suffix(" W").cast(pl.Float64, strict=False)


def typed(lines: Lines, layout: Layout, clock: LogClock, identity: Identity) -> pl.DataFrame:
    """row, at, device_uuid, complete, power_w, instant, told, limit_w, and what rows say of their board."""
    stamp = _text("timestamp").str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="us", strict=False)
    gpu, module = ([(n, i) for n, i in columns if layout.has(n)] for columns in (GPU_POWER, MODULE_POWER))
    limits = [_watts(n) for n in LIMITS if layout.has(n)]
    first = (gpu or module)[0][0]
    table = lines.frame.select(
        "row",
        naive=stamp,
        device_uuid=identity.column(layout),
        complete=pl.col(layout.names[-1]).is_not_null() & pl.col(_EXTRA).is_null(),
        power_w=_first(gpu or module),
        instant=_instant(gpu or module),
        module_w=_first(module if gpu else []),
        module_instant=_instant(module if gpu else []),
        told=_text(first),
        limit_w=pl.coalesce(limits) if limits else pl.lit(None, pl.Float64),
        **{n: _known(n) if layout.has(n) else pl.lit(None, pl.String) for n in (*ABOUT, "index")},
    )
    table = table.with_columns(clock.to_utc(table["naive"]).alias("at"))
    if not gpu or module:
        table = _one_scope(table, identity, module_only=not gpu)
    return table


def _first(columns: list[tuple[str, bool]]) -> pl.Expr:
    watts = [_watts(n) for n, _ in columns]
    return pl.lit(None, pl.Float64) if not watts else watts[0] if len(watts) == 1 else pl.coalesce(watts)


def _instant(columns: list[tuple[str, bool]]) -> pl.Expr:
    """Whether the first column that has a value is an instant one."""
    found: pl.Expr = pl.lit(False)
    for name, instant in reversed(columns):
        found = (
            pl.lit(True)
            if instant and len(columns) == 1
            else pl.when(_watts(name).is_not_null()).then(pl.lit(instant)).otherwise(found)
        )
    return found


def _one_scope(table: pl.DataFrame, identity: Identity, *, module_only: bool) -> pl.DataFrame:
    """Power of the GPU board, or of its module: whichever its first row tells, for the whole log."""
    told = table.filter(pl.col("power_w").is_not_null() | pl.col("module_w").is_not_null())
    for uuid, has_gpu in told.group_by("device_uuid").agg(pl.col("power_w").is_not_null().first()).iter_rows():
        if uuid is not None:
            identity.scopes.setdefault(uuid, "module" if module_only or not has_gpu else "gpu")
    if module_only:
        return table
    modules = [uuid for uuid, scope in identity.scopes.items() if scope == "module"]
    of_module = pl.col("device_uuid").is_in(modules)
    return table.with_columns(
        power_w=pl.when(of_module).then("module_w").otherwise("power_w"),
        instant=pl.when(of_module).then("module_instant").otherwise("instant"),
    )


def sorted_out(lines: Lines, table: pl.DataFrame, identity: Identity) -> Told:
    """`table` as readings of boards, without what is wrong."""
    sound = pl.col("complete") & pl.col("at").is_not_null() & pl.col("device_uuid").is_not_null()
    cut = _cut_line(lines, table)
    sure = table.select(sound if cut is None else sound & (pl.col("row") != cut)).to_series()
    rows = table if sure.all() else table.filter(sure)
    about = rows.group_by("device_uuid", maintain_order=True).agg(
        pl.col(*ABOUT, "index", "limit_w").drop_nulls().last(), pl.col("instant").any()
    )
    identity.remember(about)
    rejects: list[Reject] = []
    messages: list[tuple[int, str]] = []
    if rows.height < table.height:
        rejects, messages = _bad_lines(lines, table.filter(~sure), identity)
    ceiling = pl.min_horizontal(pl.lit(MAX_BOARD_POWER_W), LIMIT_TOLERANCE * pl.col("limit_w"))
    believed = pl.col("power_w").is_finite() & (pl.col("power_w") > 0) & (pl.col("power_w") <= ceiling)
    rows = rows.with_columns(refused=(~believed).fill_null(False), lost=pl.lit(False), is_row=pl.lit(True))
    if rows["refused"].any() or rows["power_w"].null_count():
        lost, wrong = _odd_values(rows.filter(pl.col("refused") | pl.col("power_w").is_null()), rejects)
        rows = rows.with_columns(
            power_w=pl.when(pl.col("refused")).then(None).otherwise("power_w"),
            refused=pl.col("refused") | pl.col("row").is_in(wrong),
            lost=pl.col("row").is_in(lost),
        )
    readings = rows.select(_READING)
    if messages:
        readings = _with_messages(readings, table, messages)
    rejects.sort(key=lambda r: r.row_no or 0)
    return Told(readings, about, rejects)


_READING = ["row", "at", "device_uuid", "power_w", "instant", "refused", "lost", "is_row"]


def _cut_line(lines: Lines, table: pl.DataFrame) -> int | None:
    """The number of a last line that was cut off within its power.

    `12` may be the beginning of `120.00 W`. nvidia-smi ends each line and writes power with two decimals.
    """
    last = lines.block[lines.block.rfind(b"\n", 0, -1) + 1 :]
    cell = last.rpartition(b",")[2].decode("utf-8", "replace").strip()
    told = table["told"][-1]
    if last.endswith(b"\n") or told != cell or _TWO_DECIMALS.fullmatch(cell) or not _NUMBER.match(cell):
        return None
    return int(table["row"][-1])


def _bad_lines(lines: Lines, bad: pl.DataFrame, identity: Identity) -> tuple[list[Reject], list[tuple[int, str]]]:
    """A whole-row refusal per line that is none; (line, board) of the messages that a board is gone."""
    texts = lines.text()
    rejects: list[Reject] = []
    messages: list[tuple[int, str]] = []
    for row, complete, naive, at, uuid in bad.select("row", "complete", "naive", "at", "device_uuid").iter_rows():
        text = texts[row - lines.first].strip()
        if not text:
            continue
        key = None
        if _GONE.search(text) and at is None:
            key = identity.of_message(text)
            reason = "is a message that a GPU does not answer, not a row"
            if key is not None:
                messages.append((row, key))
        elif not complete:
            reason = "has not the columns of the header: a message, or a line that was cut off"
        elif uuid is not None and at is not None:
            reason = "was cut off within its power"
        elif naive is None:
            reason = "has no stamp such as 2026/08/01 12:00:00.000"
        elif at is None:
            reason = "has a stamp that its zone does not have, or has twice"
        else:
            assert uuid is None
            reason = "names no GPU: log uuid, or declare --option devices=GPU-..."
        rejects.append(Reject(f"the line {reason}", row + 1, key, raw=text[:_RAW_LIMIT]))
    return rejects, messages


def _odd_values(odd: pl.DataFrame, rejects: list[Reject]) -> tuple[list[int], list[int]]:
    """Rows whose board was lost, and rows whose power was refused; a Reject for each of the latter."""
    lost: list[int] = []
    wrong: list[int] = []
    for row, uuid, told, power_w, limit_w in odd.select("row", "device_uuid", "told", "power_w", "limit_w").iter_rows():
        text = told or ""
        if power_w is None and _NOTHING.fullmatch(text):
            continue
        if power_w is None and _LOST.fullmatch(text):
            lost.append(row)
            continue
        reason = "is no power in W" if power_w is None else f"is {implausible_power(power_w, limit_w)}"
        rejects.append(Reject(f"power.draw {reason}", row + 1, uuid, "power.draw", text[:200], whole_row=False))
        wrong.append(row)
    return lost, wrong


def _with_messages(readings: pl.DataFrame, table: pl.DataFrame, messages: list[tuple[int, str]]) -> pl.DataFrame:
    """A reading `lost` for each message, at the last stamp before it: messages carry none of their own."""
    at = dict(table.select("row", pl.col("at").fill_null(strategy="forward")).iter_rows())
    rows = [(row, at[row], uuid, None, False, False, True, False) for row, uuid in messages if at[row] is not None]
    if not rows:
        return readings
    return pl.concat([readings, pl.DataFrame(rows, schema=readings.schema, orient="row")]).sort("row")
