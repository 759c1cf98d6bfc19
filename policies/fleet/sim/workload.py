"""Requests that a simulation offers to a fleet: when they arrive and how long they are.

A recorded trace is kept as it is, with its arrivals and its input and output lengths; a distribution of total lengths
is split by a share that the caller states. Everything random comes from a numpy Generator and a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from policies.fleet.errors import TraceInvalid
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.sim.layout import Floats, Ints

_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """n requests in order of arrival. Optional columns are empty where nothing is known.

    `model`, `category` and `tenant` hold codes into the names beside them, `session` any non-negative number
    (-1: none). Raises TraceInvalid, which names the first bad row.
    """

    arrival_s: Floats  # since the start of the run
    l_in: Ints  # prompt tokens
    l_out: Ints  # output tokens
    session: Ints = field(default_factory=lambda: _NONE)
    model: Ints = field(default_factory=lambda: _NONE)
    category: Ints = field(default_factory=lambda: _NONE)
    tenant: Ints = field(default_factory=lambda: _NONE)
    models: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    title: str = ""

    def __post_init__(self) -> None:
        arrival = _times(self.arrival_s)
        object.__setattr__(self, "arrival_s", arrival)
        for name in ("l_in", "l_out"):
            object.__setattr__(self, name, _lengths(name, getattr(self, name), len(arrival)))
        for name, names in (
            ("session", None),
            ("model", self.models),
            ("category", self.categories),
            ("tenant", self.tenants),
        ):
            codes = np.ascontiguousarray(getattr(self, name), np.int32)
            if len(codes) not in (0, len(arrival)):
                raise TraceInvalid(
                    f"{name} has {len(codes)} rows, the trace {len(arrival)}.", fix="give one per request"
                )
            if names is not None and len(codes) and (codes.min() < -1 or codes.max() >= len(names)):
                raise TraceInvalid(
                    f"a code of {name} is {int(codes.max())} and there are {len(names)} names.",
                    fix=f"name every {name}",
                )
            object.__setattr__(self, name, codes)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def duration_s(self) -> float:
        """From the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def rate_per_s(self) -> float:
        """Mean requests a second; NaN where all arrive at once."""
        return (len(self) - 1) / self.duration_s if self.duration_s > 0 else float("nan")

    @property
    def tokens(self) -> Ints:
        return self.l_in + self.l_out

    def scaled(self, factor: float) -> Workload:
        """The same requests, `factor` times as many a second: the clock of the trace runs faster."""
        if not (np.isfinite(factor) and factor > 0):
            raise TraceInvalid(f"a factor of {factor} on the rate.", fix="give one above 0")
        return replace(self, arrival_s=self.arrival_s / factor)

    def thinned(self, share: float, *, seed: int) -> Workload:
        """Each request is kept with probability `share`."""
        if not 0 < share <= 1:
            raise TraceInvalid(f"a share of {share} of the requests.", fix="give one above 0, at most 1")
        return self.rows(np.random.default_rng(seed).random(len(self)) < share)

    def rows(self, index: Any) -> Workload:
        """A selection of requests, by slice, mask or positions in order."""
        columns = {}
        for name in ("arrival_s", "l_in", "l_out", "session", "model", "category", "tenant"):
            column = getattr(self, name)
            columns[name] = column[index] if len(column) else column
        return replace(self, **columns)

    def portions(self, rows: int) -> Iterator[Workload]:
        """The same requests in portions, as `stream` takes them."""
        for first in range(0, len(self), rows):
            yield self.rows(slice(first, first + rows))


def _times(values: ArrayLike) -> Floats:
    raw = np.asarray(values)
    if raw.ndim != 1 or not len(raw):
        raise TraceInvalid("the trace is empty.", fix="give one request or more")
    if raw.dtype == object:
        raw = pl.Series(raw.tolist()).to_numpy()
    if raw.dtype.kind == "M":
        if np.isnat(raw).any():
            raise TraceInvalid(f"row {int(np.argmax(np.isnat(raw)))} has no time-stamp.", fix="leave that row out")
        raw = (raw - raw[0]) / np.timedelta64(1, "ns") * 1e-9
    if raw.dtype.kind not in "iuf":
        raise TraceInvalid(f"arrivals are {raw.dtype}.", fix="give seconds, or time-stamps as datetimes")
    found = np.ascontiguousarray(raw, np.float64)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise TraceInvalid(f"arrival_s of row {row} is {found[row]}.", fix="leave that row out")
    if found[0] < 0:
        raise TraceInvalid(f"the first request arrives at {found[0]} s.", fix="count seconds from the start of the run")
    if (falls := np.diff(found) < 0).any():
        row = int(np.argmax(falls)) + 1
        raise TraceInvalid(
            f"row {row} arrives at {found[row]:g} s, before the row above it ({found[row - 1]:g} s).",
            fix="sort the trace by arrival",
        )
    return found


def _lengths(name: str, values: ArrayLike, n: int) -> Ints:
    raw = np.asarray(values)
    if raw.shape != (n,):
        raise TraceInvalid(f"{name} has {raw.size} rows, the trace {n}.", fix="give one per request")
    if raw.dtype.kind not in "iuf":
        raise TraceInvalid(f"{name} is {raw.dtype}.", fix="give tokens as numbers")
    good = np.isfinite(raw) & (raw >= 1) & (raw < 2**30)
    if not good.all():
        row = int(np.argmin(good))
        raise TraceInvalid(f"{name} of row {row} is {raw[row]}.", fix="give 1 token or more, or leave that row out")
    if raw.dtype.kind == "f" and (raw != np.floor(raw)).any():
        row = int(np.argmax(raw != np.floor(raw)))
        raise TraceInvalid(f"{name} of row {row} is {raw[row]}.", fix="give whole tokens")
    return np.ascontiguousarray(raw, np.int32)


def from_frame(frame: pl.DataFrame, title: str = "") -> Workload:
    """A trace as `core.request_trace` holds it: arrivals and lengths stay as they were recorded.

    Columns: arrival_s (or arrived_at), prompt_tokens, output_tokens; session_id, model, category where known.
    Raises TraceInvalid.
    """
    when = "arrival_s" if "arrival_s" in frame.columns else "arrived_at"
    for name in (when, "prompt_tokens", "output_tokens"):
        if name not in frame.columns:
            raise TraceInvalid(f"the trace has no column {name}.", fix="see core.request_trace for the columns")
        if frame[name].null_count():
            row = int(frame[name].is_null().arg_max() or 0)
            raise TraceInvalid(f"{name} of row {row} is unknown.", fix="leave that row out")
    coded = {name: _codes(frame, column) for name, column in (("session", "session_id"), ("model", "model"))}
    coded["category"] = _codes(frame, "category")
    return Workload(
        arrival_s=frame[when].to_numpy(),
        l_in=frame["prompt_tokens"].to_numpy(),
        l_out=frame["output_tokens"].to_numpy(),
        session=coded["session"][0],
        model=coded["model"][0],
        category=coded["category"][0],
        models=coded["model"][1],
        categories=coded["category"][1],
        title=title,
    )


def _codes(frame: pl.DataFrame, column: str) -> tuple[Ints, tuple[str, ...]]:
    """Codes in order of first appearance, -1 for NULL, and the names."""
    if column not in frame.columns or frame[column].null_count() == frame.height:
        return _NONE, ()
    names = frame[column].drop_nulls().unique(maintain_order=True).cast(pl.String)
    codes = frame[column].cast(pl.String).replace_strict(names, pl.int_range(len(names), eager=True), default=-1)
    return codes.fill_null(-1).to_numpy().astype(np.int32), tuple(names)


def poisson(n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Arrival times of n requests of a Poisson process (n,) s."""
    if not (np.isfinite(rate_per_s) and rate_per_s > 0):
        raise TraceInvalid(f"a rate of {rate_per_s} requests a second.", fix="give one above 0")
    if n < 1:
        raise TraceInvalid(f"{n} requests.", fix="ask for 1 or more")
    found: Floats = np.cumsum(rng.exponential(1.0 / rate_per_s, n))
    return found


def generate(
    n: int,
    rate_per_s: float,
    lengths: LengthCdf,
    *,
    seed: int,
    output_share: float = 0.2,
    categories: Mapping[str, float] | None = None,
    sessions: int = 0,
) -> Workload:
    """Poisson arrivals with lengths from a distribution of total tokens, of which `output_share` are output.

    0.2 is FleetSim's split; it is an assumption, for the distribution does not tell it. `categories` are shares by
    name; `sessions` > 0 draws each request's session among so many. The same seed gives the same requests.
    """
    if not 0 < output_share < 1:
        raise TraceInvalid(f"an output share of {output_share}.", fix="give one between 0 and 1")
    if lengths.tokens[0] < 2:
        raise TraceInvalid(
            f"the distribution {lengths.name or 'of lengths'} has requests of {lengths.tokens[0]} token.",
            fix="begin its knots at 2 or more: a request has a prompt and an output",
        )
    rng = np.random.default_rng(seed)
    arrival_s, total = poisson(n, rate_per_s, rng), lengths.sample(n, rng)
    l_in = np.maximum((total * (1 - output_share)).astype(np.int32), 1)
    names = tuple(categories or ())
    drawn: NDArray[np.int64] = (
        rng.choice(len(names), n, p=np.array(list((categories or {}).values())) / sum((categories or {}).values()))
        if names
        else np.zeros(0, np.int64)
    )
    return Workload(
        arrival_s=arrival_s,
        l_in=l_in,
        l_out=np.maximum(total - l_in, 1),
        category=drawn.astype(np.int32),
        categories=names,
        session=rng.integers(0, sessions, n).astype(np.int32) if sessions else _NONE,
        title=f"{lengths.name or 'lengths'}, Poisson {rate_per_s:g}/s, seed {seed}",
    )
