"""The peer's conventions reproduce its published figures to the digits printed, and name what is normalised.

Golden values: arXiv 2603.17280 Tables 1 and 3; outputs of `vllm-sr-sim tok-per-watt` and `grid-flex` of
vllm-project/semantic-router 3d48f8c9. The tests on its distributions need its files; those on a distribution of our own
work every figure out a second time, by plain loops.
"""

from __future__ import annotations

import math
import random

import pytest

from policies.fleet.errors import ProfileIncomplete, QueueInvalid
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.power import published
from policies.fleet.queueing import (
    Convention,
    Pool,
    Slo,
    at_utilization,
    evaluate,
    fleet,
    flex,
    full_instance,
    pairs,
    size,
    split_by_length,
    two_pools,
)
from policies.fleet.queueing.flex import LEVELS
from tests.fleet.queueing.worlds import OWN, peer_cdf, pool

PEER = Convention.PEER
H100 = published("H100-80GB")

TABLE_1 = {2048: 35.0, 4096: 17.62, 8192: 8.97, 16384: 4.69, 32768: 2.58, 65536: 1.5, 131072: 0.88}


@pytest.mark.parametrize(("context", "printed"), TABLE_1.items())
def test_table_1_of_the_one_over_w_law(context: int, printed: float) -> None:
    found = full_instance(H100, context)
    assert round(found.paper_normalised_tokens_per_j, 2) == printed
    assert found.tokens_per_j == pytest.approx(found.paper_normalised_tokens_per_j / 8)


@pytest.mark.parametrize(
    ("profile", "instances", "rho", "active", "board_w", "usd", "ttft_ms", "paper", "physical"),
    [
        ("H100-80GB", 12, 0.82, 104.4, 577.3, 0.21, 7.9, 9.38, 1.17),
        ("A100-80GB", 24, 0.83, 106.1, 382.0, 0.23, 25.9, 7.09, 0.89),
        ("A10G", 41, 0.84, 53.6, 114.2, 0.18, 71.1, 13.88, 13.88),
    ],
)
def test_tokens_per_watt_of_the_azure_workload(
    profile: str, instances: int, rho: float, active: float, board_w: float, usd: float, ttft_ms: float,
    paper: float, physical: float,
) -> None:  # fmt: skip
    found = size(pool(profile, 200.0, workload=peer_cdf("azure")), Slo(), PEER)
    assert found.instances == instances
    assert (round(found.utilization, 2), round(found.concurrency, 1)) == (rho, active)
    assert round(found.board_power_w, 1) == board_w
    assert round(found.paper_normalised_usd_per_million_output_tokens, 2) == usd
    assert round(found.ttft_s * 1e3, 1) == ttft_ms
    assert round(found.paper_normalised_tokens_per_j, 2) == paper
    assert round(found.tokens_per_j, 2) == physical
    assert found.usd_per_million_output_tokens == pytest.approx(
        found.paper_normalised_usd_per_million_output_tokens * found.boards_per_instance
    )


def test_the_sweep_of_utilization() -> None:
    azure = pool(H100, 200.0, workload=peer_cdf("azure"))
    swept = [at_utilization(azure, rho, Slo(), PEER) for rho in (0.1, 0.2, 0.4, 0.6, 0.8)]
    paper = [round(r.paper_normalised_tokens_per_j, 2) for r in swept]
    assert paper == [1.64, 2.75, 4.79, 6.78, 8.70]
    assert [round(r.utilization, 2) for r in swept] == [0.10, 0.20, 0.39, 0.58, 0.75]
    assert [round(1 / r.paper_normalised_tokens_per_j, 3) for r in swept] == [0.611, 0.364, 0.209, 0.147, 0.115]
    assert swept[1].j_per_output_token == pytest.approx(8 * 0.364, abs=0.004)  # eight boards, really


TABLE_3 = [  # workload, boundary, (GPUs, kW, tok/W) homogeneous, of two pools
    ("azure", 4096, (141, 58.3, 5.58), (68, 32.0, 9.16)),
    ("lmsys", 1536, (69, 28.5, 4.77), (38, 16.4, 7.91)),
]


@pytest.mark.parametrize(("name", "boundary", "homogeneous", "pools"), TABLE_3)
def test_table_3_homogeneous_and_pool_rows(
    name: str, boundary: int, homogeneous: tuple[int, float, float], pools: tuple[int, float, float]
) -> None:
    long = Pool("long", H100, 65536, 1000.0, peer_cdf(name))
    one = size(long, Slo(), PEER)
    assert (one.instances, round(one.paper_normalised_power_w / 1e3, 1)) == homogeneous[:2]
    assert round(one.paper_normalised_tokens_per_j, 2) == homogeneous[2]
    short = Pool("short", H100, boundary, 0.0, long.workload)
    two = fleet("two", [size(p, Slo(), PEER) for p in two_pools(short, long, boundary, PEER)])
    assert (two.instances, round(two.paper_normalised_power_w / 1e3, 1)) == pools[:2]
    assert round(two.paper_normalised_tokens_per_j, 2) == pools[2]
    # what these fleets are: 8 boards in every instance
    assert one.boards == 8 * homogeneous[0]
    assert two.power_w == pytest.approx(8 * two.paper_normalised_power_w)
    assert two.tokens_per_j == pytest.approx(two.paper_normalised_tokens_per_j / 8)


def test_two_pools_of_two_models() -> None:
    """The peer's command keeps one context for both pools. Physically the short pool's boards count once."""
    long = Pool("long", H100, 8192, 200.0, peer_cdf("azure"))
    short = Pool("short", published("A10G"), 8192, 0.0, long.workload)
    two = fleet("two", [size(p, Slo(), PEER) for p in two_pools(short, long, 6144, PEER)])
    assert two.instances == 36
    assert round(two.paper_normalised_power_w / 1e3, 1) == 5.0
    assert round(two.paper_normalised_tokens_per_j, 3) == 12.399
    assert round(two.tokens_per_j, 2) == 4.84
    assert two.models["7b-class"] == pytest.approx(0.9758, abs=1e-4)


def test_the_table_of_caps() -> None:
    """32 instances, 200 requests/s; power at the cap, whatever the load."""
    rows = flex(pool(H100, 200.0, workload=peer_cdf("azure")), 32, Slo(), PEER)
    told = {r.reduction: r for r in rows}
    assert [r.reduction for r in rows] == list(LEVELS)
    for level, cap, board_w in (
        (0.0, 128, 583), (0.10, 48, 540), (0.20, 24, 479), (0.30, 13, 413), (0.40, 6, 350), (0.50, 1, 304),
    ):  # fmt: skip
        row = told[level]
        assert row.result is not None
        assert (row.concurrency_cap, round(row.result.board_power_w)) == (cap, board_w)
        assert row.result.slo_met == row.result.stable == (level <= 0.30)
    assert [told[level].concurrency_cap for level in (0.05, 0.15, 0.25)] == [84, 33, 17]
    deepest = told[0.30].result
    assert deepest is not None
    saved_w = told[0.0].result.paper_normalised_power_w - deepest.paper_normalised_power_w  # type: ignore[union-attr]
    assert round(saved_w / 1e3, 1) == 5.4
    assert told[0.30].saved_w == pytest.approx(8 * saved_w)


def test_the_documented_case_of_caps() -> None:
    rows = flex(pool(H100, 300.0, workload=peer_cdf("azure")), 30, Slo(ttft_s=0.2), PEER)
    kept = max((r for r in rows if r.result is not None and r.result.slo_met), key=lambda r: r.reduction)
    assert kept.result is not None
    assert kept.reduction == 0.20
    assert round(kept.result.ttft_s * 1e3, 1) == 63.7
    assert round(kept.saved_w / 8 / 1e3, 1) == 3.1


def test_twelve_instances_do_not_carry_200_requests_below_a_cap_of_20_percent() -> None:
    rows = flex(pool(H100, 200.0, workload=peer_cdf("azure")), 12, Slo(), PEER, levels=(0.2, 0.3, 0.4))
    assert [r.result.ttft_s for r in rows if r.result] == [math.inf] * 3


# a distribution of our own, worked out a second time --------------------------------------------


def again(rate: float, context: int, slots: int) -> dict[str, float]:
    """The peer's figures on OWN for the H100 profile, by plain loops over its 3,000 draws."""
    rng = random.Random(42)
    services, prefills = [], []
    knots = list(zip(OWN.tokens, OWN.share, strict=True))
    for _ in range(3000):
        u, before = rng.random(), 0
        for tokens, share in knots:
            if u <= share:
                length = rng.randint(before + 1, min(context, tokens))
                prompt = max(1, int(length * 0.8))
                output = max(1, length - prompt)
                iterations = math.ceil(prompt / 1024) + output
                services.append(iterations * (0.004 + 0.00032 * (prompt + output) / 8192 * slots))
                prefills.append(math.ceil(prompt / 1024) * (0.004 + 0.00032))
                break
            before = tokens
    mean = sum(services) / len(services)
    cv2 = sum(s * s for s in services) / len(services) / mean**2 - 1
    load = rate * mean / slots
    count = math.ceil(load) + 1
    while wait_99(count * slots, rate, 1 / mean, cv2) > 0.5:
        count += 1
    count = max(count, math.ceil(load / 0.85))
    rho = load / count
    middles = [(0 + 100) / 2, 250, 700, 2000, 4500]
    output_mean = int(0.2 * sum(m * p for m, p in zip(middles, [0.1, 0.25, 0.35, 0.25, 0.05], strict=True)))
    watts = 300 + 300 / (1 + math.exp(-(math.log2(int(rho * slots)) - 4.2)))
    return {
        "count": count,
        "rho": rho,
        "ttft": wait_99(count * slots, rate, 1 / mean, cv2) + sum(prefills) / len(prefills),
        "paper": rate * output_mean / (count * watts),
    }


def wait_99(servers: int, rate: float, service: float, cv2: float) -> float:
    offered = rate / service
    if offered >= servers:
        return math.inf
    term, total = 1.0, 0.0
    for k in range(servers):
        total += term
        term *= offered / (k + 1)
    last = term / (1 - offered / servers)
    busy = last / (total + last)
    return 0.0 if busy <= 0.01 else math.log(busy / 0.01) * (1 + cv2) / 2 / (servers * service - rate)


@pytest.mark.parametrize(("rate", "context"), [(150.0, 6144), (40.0, 65536), (9.0, 65536)])
def test_a_distribution_of_our_own_by_both_ways(rate: float, context: int) -> None:
    expected = again(rate, context, min(256 * 8192 // context, 65536 // math.ceil(context / 16)))
    found = size(Pool("own", H100, context, rate, OWN), Slo(), PEER)
    assert found.instances == expected["count"]
    assert found.utilization == pytest.approx(expected["rho"], rel=1e-12)
    assert found.ttft_s == pytest.approx(expected["ttft"], rel=1e-9)
    assert found.paper_normalised_tokens_per_j == pytest.approx(expected["paper"], rel=1e-12)


def test_lengths_beyond_the_context_are_cut_by_the_peer_and_counted() -> None:
    found = evaluate(pool(context=3_000), 20, convention=PEER)
    assert found.too_long_share == pytest.approx(0.05)
    assert found.carried_per_s == 50.0


def test_a_split_keeps_the_mass_and_the_peers_gap() -> None:
    short, long, share = split_by_length(OWN, 2_000, PEER)
    assert share == pytest.approx(0.825)
    assert isinstance(short, LengthCdf) and isinstance(long, LengthCdf)
    assert short.tokens == (100, 400, 1_000, 2_000)
    assert short.share[:3] == pytest.approx([0.1 / 0.825, 0.35 / 0.825, 0.7 / 0.825])
    assert long.tokens == (3_000, 6_000)  # no knot at 2,000: its draws start at 1 token
    assert long.share[0] == pytest.approx((0.95 - 0.825) / 0.175)


def test_figures_of_the_peer_are_never_presentable() -> None:
    found = size(pool(), Slo(), PEER)
    assert not found.presentable
    assert "comparison" in found.notes[0]


def test_the_peer_knows_totals_only() -> None:
    recorded = pairs([100, 200], [10, 20], told="two requests")
    with pytest.raises(QueueInvalid, match="totals only"):
        size(Pool("x", H100, 8192, 1.0, recorded), Slo(), PEER)
    with pytest.raises(QueueInvalid, match="distributions only"):
        split_by_length(recorded, 150, PEER)


def test_a_table_of_power_has_no_asymptote_to_cap() -> None:
    with pytest.raises(ProfileIncomplete):
        flex(Pool("x", published("B200x8-context-study@8192"), 8192, 1.0, OWN), 2, Slo(), PEER)


def test_the_least_table_has_the_conventions_side_by_side() -> None:
    for convention in (PEER, Convention.PHYSICAL):
        told = size(pool(), Slo(), convention).to_dict()
        assert told["convention"] == convention.name
        assert told["paper_normalised_tokens_per_j"] == pytest.approx(8 * told["tokens_per_j"])
