"""The requests of a scenario, one list per seed; every policy is offered the same list."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import ScenarioInvalid, TraceInvalid
from policies.fleet.experiments.scenario import OTHER, FleetScenario, RequestClass, WorkloadSpec
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.queueing import Lengths, lengths_of, pairs
from policies.fleet.sim import Workload, generate, poisson
from policies.fleet.traces import Trace, read_cdf, read_trace
from warehouse.snapshots import Snapshot

DEFAULT_REQUESTS = 10_000
_CLASSES = 7  # stream of random numbers that draws classes, apart from that of the arrivals
_BLOCKS = 11


class Source:
    """What requests are made of, read once."""

    def __init__(self, snap: Snapshot, spec: WorkloadSpec) -> None:
        self.spec = spec
        self.trace: Trace | None = None
        self.cdf: LengthCdf | None = None
        if spec.trace is not None:
            to_s = None if spec.duration_s is None else spec.from_s + spec.duration_s * self._played
            self.trace = read_trace(snap, spec.trace, from_s=spec.from_s, to_s=to_s, limit=spec.requests)
        elif spec.cdf is not None:
            self.cdf = read_cdf(snap, spec.cdf)
        elif spec.lengths:
            tokens, share = zip(*spec.lengths, strict=True)
            self.cdf = LengthCdf(tuple(int(t) for t in tokens), tuple(share), "given lengths")

    @property
    def _played(self) -> float:
        """Seconds of the trace per second of the run, as far as that is known before reading."""
        return self.spec.scale if self.spec.requests_per_s is None else 1.0

    @property
    def varies(self) -> bool:
        """Whether another seed offers other requests."""
        return self.trace is None or self.spec.block_s is not None

    def requests(self, seed: int, *, first: bool) -> Workload:
        """The requests of `seed`; the first seed of a scenario has a trace as it was recorded."""
        if self.trace is None:
            return self._generated(seed)
        found = _as_recorded(self.trace)
        if self.spec.block_s is not None and not first:
            found = _blocks(found, self.spec.block_s, seed)
        factor = self.spec.scale
        if self.spec.requests_per_s is not None:
            factor *= self.spec.requests_per_s / self.trace.requests_per_s
        return found.scaled(factor) if factor != 1 else found

    @cached_property
    def lengths(self) -> Lengths:
        """For closed forms: lengths with their probabilities."""
        if self.trace is not None:
            return pairs(self.trace.prompt_tokens, self.trace.output_tokens, told=f"trace {self.trace.name}")
        if self.cdf is not None:
            return lengths_of(self.cdf, prompt_share=1 - self.spec.output_share)
        return pairs([self.spec.prompt_tokens or 1], [self.spec.output_tokens or 1], told="one length")

    @property
    def requests_per_s(self) -> float:
        rate = self.spec.requests_per_s
        if rate is None:
            assert self.trace is not None  # a generated workload has a rate
            rate = self.trace.requests_per_s
        return rate * self.spec.scale

    @property
    def name(self) -> str:
        if self.trace is not None:
            return f"trace {self.trace.name}"
        return f"distribution {self.cdf.name}" if self.cdf is not None else "one length"

    def _generated(self, seed: int) -> Workload:
        spec, rate = self.spec, self.requests_per_s
        n = spec.requests
        if n is None:
            n = DEFAULT_REQUESTS if spec.duration_s is None else max(1, round(spec.duration_s * rate))
        if self.cdf is None:
            arrival = poisson(n, rate, np.random.default_rng(seed))
            prompt, output = (np.full(n, tokens, np.int32) for tokens in (spec.prompt_tokens, spec.output_tokens))
            return Workload(arrival_s=arrival, l_in=prompt, l_out=output, title=self.name)
        totals = replace(self.cdf, name=self.name)
        return generate(n, rate, totals, seed=seed, output_share=spec.output_share, sessions=spec.sessions)


def _as_recorded(trace: Trace) -> Workload:
    return Workload(
        arrival_s=trace.arrival_s - trace.arrival_s[0],
        l_in=_int32(trace.prompt_tokens),
        l_out=_int32(trace.output_tokens),
        session=trace.session,
        model=trace.model if trace.models else trace.model[:0],
        category=trace.category if trace.categories else trace.category[:0],
        models=trace.models,
        categories=trace.categories,
        title=f"trace {trace.name}",
    )


def _int32(tokens: NDArray[np.int64]) -> NDArray[np.int32]:
    if int(tokens.max()) >= 2**30:
        raise TraceInvalid(f"a request of {int(tokens.max())} tokens.", fix="leave that request out")
    return tokens.astype(np.int32)


def _blocks(recorded: Workload, block_s: float, seed: int) -> Workload:
    """Blocks of the trace from random starts, one after the other, as long as the trace (moving blocks, circular).

    Künsch, Annals of Statistics 17 (1989): arrivals stay as bursty as they are within a block.
    """
    span = recorded.duration_s
    if not 0 < block_s <= span:
        raise ScenarioInvalid(f"block_s is {block_s:g} and the trace lasts {span:g} s.", fix="give less than the trace")
    rng, arrival, n = np.random.default_rng([seed, _BLOCKS]), recorded.arrival_s, len(recorded)
    rows, arrivals = [], []
    for k in range(math.ceil(span / block_s)):
        start, width = rng.uniform(0, span), min(block_s, span - k * block_s)
        first = int(np.searchsorted(arrival, start))
        around = np.roll(np.arange(n), -first)  # the trace as a circle, from `start` on
        since = arrival[around] - start + np.where(around < first, span, 0.0)
        within = since < width
        rows.append(around[within])
        arrivals.append(k * block_s + since[within])
    picked, at = np.concatenate(rows), np.concatenate(arrivals)
    if not len(picked):
        raise TraceInvalid("the drawn blocks of the trace have no requests.", fix="make block_s longer")
    found = {n: getattr(recorded, n) for n in ("l_in", "l_out", "session", "model", "category")}
    return Workload(
        arrival_s=at,
        **{n: column[picked] if len(column) else column for n, column in found.items()},
        models=recorded.models,
        categories=recorded.categories,
        title=f"{recorded.title}, blocks of {block_s:g} s, seed {seed}",
    )


def classes_of(scenario: FleetScenario, requests: Workload, seed: int) -> NDArray[np.int32]:
    """Class of each request (n,), an index into the scenario's classes; len(classes) is the rest."""
    n, rest = len(requests), len(scenario.classes)
    if not scenario.classes:
        return np.zeros(n, np.int32)
    if scenario.classes[0].share is not None:
        edges = np.cumsum([c.share or 0.0 for c in scenario.classes])
        drawn = np.random.default_rng([seed, _CLASSES]).random(n)
        return np.searchsorted(edges, drawn, side="right").astype(np.int32)
    kind = np.full(n, rest, np.int32)
    for k in reversed(range(rest)):  # the first class that describes a request has it
        kind[_described(scenario.classes[k], requests)] = k
    return kind


def _described(told: RequestClass, requests: Workload) -> NDArray[np.bool_]:
    found = np.ones(len(requests), np.bool_)
    for value, codes, names, what in (
        (told.category, requests.category, requests.categories, "category"),
        (told.model, requests.model, requests.models, "model"),
    ):
        if value is None:
            continue
        if value not in names:
            raise ScenarioInvalid(
                f"class {told.name} is about the {what} {value!r}, which no request has.",
                fix=f"use one of {', '.join(names)}" if names else f"the workload tells no {what}; use shares",
            )
        found &= codes == names.index(value)
    return found


def class_names(scenario: FleetScenario) -> tuple[str, ...]:
    return (*(c.name for c in scenario.classes), OTHER)


def sha256_of(workloads: Sequence[Workload]) -> str:
    """Identifies the requests that were offered, arrivals and lengths."""
    digest = hashlib.sha256()
    for w in workloads:
        for column in (w.arrival_s, w.l_in, w.l_out, w.session, w.category, w.model):
            digest.update(column.tobytes())
            digest.update(b"|")
    return digest.hexdigest()
