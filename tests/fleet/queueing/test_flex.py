"""Power given back to the grid, at the load really carried."""

from __future__ import annotations

import math

import pytest

from policies.fleet.errors import QueueInvalid
from policies.fleet.power import published
from policies.fleet.queueing import LEVELS, Convention, evaluate, flex
from tests.fleet.queueing.worlds import peer_cdf, pool

H100 = published("H100-80GB")


def test_a_cap_that_the_load_does_not_reach_saves_nothing() -> None:
    """The peer's table promises 5.4 kW per board at 30 % on this fleet; at the load that it carries there is nothing
    to give back before the queue feels it."""
    azure = pool(H100, 200.0, workload=peer_cdf("azure"))
    told = {r.reduction: r for r in flex(azure, 32)}
    promised = {r.reduction: r for r in flex(azure, 32, convention=Convention.PEER)}
    assert promised[0.25].saved_w > 30_000
    assert abs(told[0.25].saved_w) < 1
    assert "saves nothing" in told[0.25].words
    assert told[0.0].result is not None and promised[0.0].result is not None
    assert told[0.0].result.power_w < 0.7 * promised[0.0].result.power_w


def test_every_level_has_its_cap_and_its_queue() -> None:
    rows = flex(pool(rate=100.0), 8)
    assert [r.reduction for r in rows] == list(LEVELS)
    full_w = float(H100.power.power_w([128.0])[0])
    for row in rows[1:]:
        assert row.cap_w == pytest.approx(full_w * (1 - row.reduction))
        if row.result is None:
            continue
        n = row.concurrency_cap
        assert float(H100.power.power_w([float(n)])[0]) <= row.cap_w < float(H100.power.power_w([n + 1.0])[0])
        assert row.result.slots == n
        assert row.result.instance_power_w <= row.cap_w * (1 + 1e-9)
    tails = [r.result.ttft_s for r in rows if r.result is not None]
    assert tails[0] <= tails[-1]


def test_the_first_row_is_the_pool_as_it_is() -> None:
    first = flex(pool(rate=100.0), 8)[0]
    assert first.result == evaluate(pool(rate=100.0), 8)
    assert (first.saved_w, first.j_per_request_change, first.binding) == (0, 0, False)
    assert first.words == "the cap does not bind"


def test_a_cap_below_the_load_raises_joules_per_request_and_says_so() -> None:
    rows = flex(pool(rate=100.0), 6, basis="carried")
    beyond = [r for r in rows if r.result is not None and not r.result.stable]
    assert beyond
    for row in beyond:
        assert row.result is not None
        assert row.raises_j_per_request and row.j_per_request_change > 0
        assert "RAISES joules per request" in row.words and "pile up" in row.words
        assert row.result.carried_per_s < 100.0
        assert row.saved_w > 0  # watts fall, joules per request rise
        assert row.result.ttft_s == math.inf


def test_a_reduction_of_what_is_carried_is_one_of_full_power_and_more() -> None:
    full = flex(pool(rate=60.0), 6, levels=(0.1,))[0]
    carried = flex(pool(rate=60.0), 6, levels=(0.1,), basis="carried")[0]
    assert carried.cap_w < full.cap_w
    assert carried.concurrency_cap < full.concurrency_cap


def test_a_cap_below_one_request_has_no_result_and_points_to_parking() -> None:
    row = flex(pool(rate=10.0), 2, levels=(0.6,))[0]
    assert row.concurrency_cap == 0
    assert row.result is None and row.to_dict()["result"] is None
    assert "park" in row.words
    assert row.to_dict()["saved_w"] is None


def test_rows_are_plain_json() -> None:
    told = flex(pool(rate=100.0), 6)[-2].to_dict()
    assert told["concurrency_cap"] == told["result"]["slots"]
    assert told["words"]


@pytest.mark.parametrize(("levels", "basis"), [((1.0,), "full"), ((-0.1,), "full"), ((30.0,), "full"), ((), "nominal")])
def test_levels_are_shares(levels: tuple[float, ...], basis: str) -> None:
    with pytest.raises(QueueInvalid):
        flex(pool(), 4, levels=levels, basis=basis)
