"""What is offered: a trace as it was recorded, blocks of it, or generated requests; the same for every policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.errors import ScenarioInvalid, TraceInvalid
from policies.fleet.experiments.workloads import _blocks
from policies.fleet.sim import Workload
from tests.fleet.experiments.made import resolved, trace
from warehouse.engine import Warehouse

TRACE = {"lengths": None, "requests_per_s": None, "requests": None, "trace": "t"}
REQUESTS = [(float(i // 2) + 3.0, 100 + i, 10 + i, ("chat", "code")[i % 2]) for i in range(40)]


def test_a_trace_is_kept_as_recorded_from_its_first_request(warehouse: Warehouse) -> None:
    trace(warehouse, REQUESTS)
    found = resolved(warehouse, workload=TRACE)
    first = found.workloads[0]
    assert first.arrival_s.tolist() == [at - 3.0 for at, *_ in REQUESTS]
    assert first.l_in.tolist() == [p for _, p, _, _ in REQUESTS]
    assert first.l_out.tolist() == [o for _, _, o, _ in REQUESTS]
    assert found.workloads[1] is first, "the same requests under every seed"
    assert found.source.requests_per_s == pytest.approx(39 / 19)


def test_a_trace_is_played_faster_without_another_change(warehouse: Warehouse) -> None:
    trace(warehouse, REQUESTS)
    slow, fast = (resolved(warehouse, workload={**TRACE, "scale": s}).workloads[0] for s in (1.0, 4.0))
    assert fast.arrival_s == pytest.approx(slow.arrival_s / 4)
    assert fast.l_in.tolist() == slow.l_in.tolist()
    at_rate = resolved(warehouse, workload={**TRACE, "requests_per_s": 10.0})
    assert at_rate.workloads[0].rate_per_s == pytest.approx(10.0)
    assert at_rate.source.requests_per_s == pytest.approx(10.0)


def test_generated_requests_hang_on_the_seed_alone(bare: Warehouse) -> None:
    one, again = resolved(bare), resolved(bare)
    assert one.workloads[0].arrival_s.tolist() == again.workloads[0].arrival_s.tolist()
    assert one.workloads[0].arrival_s.tolist() != one.workloads[1].arrival_s.tolist()


@given(
    gaps=st.lists(st.floats(0.01, 5), min_size=5, max_size=40),
    block=st.floats(0.1, 1.0),
    seed=st.integers(0, 1000),
)
def test_blocks_are_stretches_of_the_trace_in_order(gaps: list[float], block: float, seed: int) -> None:
    at = np.concatenate([[0.0], np.cumsum(gaps)])
    recorded = Workload(arrival_s=at, l_in=np.arange(1, len(at) + 1), l_out=np.ones(len(at)))
    block_s = block * recorded.duration_s
    try:
        drawn = _blocks(recorded, block_s, seed)
    except TraceInvalid:
        return  # no request lies in any of the blocks
    assert (np.diff(drawn.arrival_s) >= 0).all()
    assert drawn.arrival_s[-1] <= recorded.duration_s * (1 + 1e-9)
    assert set(drawn.l_in.tolist()) <= set(recorded.l_in.tolist())
    block_of = (drawn.arrival_s // block_s).astype(int)
    for k in set(block_of.tolist()):
        rows = drawn.l_in[block_of == k]
        steps = np.diff(rows) % len(at)
        assert (steps <= 1).all(), "neighbours of the trace stay neighbours within a block"


def test_the_first_seed_has_the_trace_itself_and_later_ones_have_blocks(warehouse: Warehouse) -> None:
    trace(warehouse, REQUESTS)
    found = resolved(warehouse, workload={**TRACE, "block_s": 5.0})
    assert found.source.varies
    assert found.workloads[0].l_in.tolist() == [p for _, p, _, _ in REQUESTS]
    assert found.workloads[1].l_in.tolist() != found.workloads[2].l_in.tolist()
    with pytest.raises(ScenarioInvalid, match="the trace lasts 19 s"):
        resolved(warehouse, workload={**TRACE, "block_s": 20.0})
