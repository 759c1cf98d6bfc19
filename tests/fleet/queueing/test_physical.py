"""Physical conventions: the speed and power of what really runs, all boards, TTFT as a distribution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.fleet.errors import CapacityZero, ExtrapolationRefused, ProfileIncomplete, QueueInvalid, SloUnreachable
from policies.fleet.length_cdf import LengthCdf
from policies.fleet.power import Linear, Table, published
from policies.fleet.queueing import (
    Convention,
    Pool,
    Slo,
    at_utilization,
    convention,
    evaluate,
    fleet,
    full_instance,
    pairs,
    physical,
    size,
    two_pools,
)
from tests.fleet.queueing.worlds import OWN, peer_cdf, pool

H100 = published("H100-80GB")
LIMITS = Slo()


def test_a_result_is_one_account_of_its_watts() -> None:
    found = evaluate(pool(rate=120.0), 6)
    assert found.power_w == pytest.approx(6 * found.instance_power_w)
    assert found.instance_power_w == pytest.approx(8 * found.board_power_w)
    assert found.boards == 48
    assert found.j_per_request == pytest.approx(found.power_w / found.carried_per_s)
    parts = found.prefill_j_per_request + found.decode_j_per_request + found.idle_j_per_request
    assert parts == pytest.approx(found.j_per_request)
    assert found.tokens_per_j * found.j_per_output_token == pytest.approx(1)
    tokens = found.prompt_tokens_per_s + found.output_tokens_per_s
    assert found.total_tokens_per_j == pytest.approx(tokens / found.power_w)
    assert found.paper_normalised_tokens_per_j == pytest.approx(8 * found.tokens_per_j)
    assert found.paper_normalised_power_w == pytest.approx(found.power_w / 8)
    assert found.usd_per_hour == pytest.approx(48 * 4.02)


def test_mean_power_is_not_the_power_of_the_mean() -> None:
    """Jensen: power is concave in concurrency at the top of its curve, so its mean lies below."""
    found = evaluate(pool(rate=15.0), 1)
    at_mean = float(H100.power.power_w([found.concurrency])[0])
    assert found.instance_power_w < at_mean
    assert found.instance_power_w == pytest.approx(at_mean, rel=0.02)


def test_an_instance_that_is_idle_most_of_the_time_draws_idle_power_and_says_what_it_costs() -> None:
    found = evaluate(pool(rate=0.01), 1)
    assert found.instance_power_w == pytest.approx(8 * 300, rel=2e-3)
    assert found.idle_j_per_request > 0.9 * found.j_per_request
    silent = evaluate(pool(rate=0.0), 2)
    assert silent.power_w == 2 * 8 * 300
    assert math.isnan(silent.j_per_request) and silent.to_dict()["j_per_request"] is None


def test_concurrency_follows_little() -> None:
    found = evaluate(pool(rate=100.0), 6)
    in_service = found.e2e_mean_s - found.wait_mean_s
    assert found.concurrency * 6 == pytest.approx(found.carried_per_s * in_service)
    assert in_service == pytest.approx(found.tpot_mean_s * physical.Service.of(pool(rate=100.0)).speed.iterations)


def test_requests_that_fit_nowhere_are_rejected_and_counted() -> None:
    found = evaluate(pool(context=3_000), 20)
    assert found.too_long_share == pytest.approx(0.05)
    assert found.carried_per_s == pytest.approx(0.95 * 50)
    with pytest.raises(CapacityZero, match="give a context of"):
        evaluate(Pool("x", H100, 1_000, 1.0, pairs([2_000], [100], told="one")), 1)


def test_an_overloaded_pool_carries_its_capacity_and_no_more() -> None:
    found = evaluate(pool(rate=500.0), 2)
    assert not found.stable and not found.slo_met
    assert found.carried_per_s == pytest.approx(found.capacity_per_s)
    assert found.ttft_s == math.inf and found.to_dict()["ttft_s"] is None
    assert found.concurrency == found.slots
    assert found.j_per_request == pytest.approx(found.power_w / found.capacity_per_s)


@given(rate=st.floats(2.0, 19.0), quantile=st.sampled_from([0.5, 0.9, 0.99, 0.999]))
@settings(max_examples=12)
def test_the_quantile_of_ttft_is_that_of_draws_from_the_same_parts(rate: float, quantile: float) -> None:
    service = physical.Service.of(pool("A100-80GB", rate=rate / 2))
    found = service.at(1)
    wait = service.wait(found)
    told = physical.ttft_quantile_s(service, found, wait, quantile)
    rng = np.random.default_rng(3)
    n = 200_000
    counts, chance = service.prefill
    chunks = rng.choice(counts, n, p=chance / chance.sum())
    level = rng.choice(len(found.starts) + 1, n, p=np.append(found.starts, found.waiting))
    waits = level == len(found.starts)
    seconds = chunks * service.speed.iteration(np.where(waits, service.slots, level).astype(np.float64))
    seconds = seconds + waits * rng.exponential(1 / wait.decay_per_s, n)
    below = np.mean(seconds <= told * (1 + 1e-9))
    error = 5 * math.sqrt(quantile * (1 - quantile) / n)
    assert below >= quantile - error
    assert np.mean(seconds <= told * (1 - 1e-6)) <= quantile + error


def test_ttft_grows_with_the_quantile_and_with_the_load() -> None:
    by_quantile = [evaluate(pool(rate=100.0), 5, Slo(quantile=q)).ttft_s for q in (0.5, 0.9, 0.99, 0.999)]
    assert by_quantile == sorted(by_quantile) and by_quantile[0] < by_quantile[-1]
    by_load = [evaluate(pool(rate=r), 5).ttft_s for r in (10.0, 60.0, 110.0, 120.0)]
    assert by_load == sorted(by_load) and by_load[0] < by_load[-1]


def test_tokens_come_as_fast_as_an_iteration_lasts() -> None:
    found = evaluate(pool(rate=60.0), 4)
    speed = physical.Service.of(pool(rate=60.0)).speed
    alone, full = (float(speed.iteration(np.array([n]))[0]) for n in (1.0, float(found.slots)))
    assert alone < found.tpot_mean_s < found.itl_s < full


def test_recorded_pairs_need_no_assumption_and_distributions_name_theirs() -> None:
    recorded = pairs([900, 900, 30], [10, 10, 400], told="trace x, as recorded")
    assert recorded.probability.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert evaluate(Pool("x", H100, 8192, 5.0, recorded), 1).notes[0] == "lengths: trace x, as recorded"
    assert "80% of each request assumed" in evaluate(pool(), 5).notes[0]


# sizing -----------------------------------------------------------------------------------------


@given(
    rate=st.floats(0.5, 900.0),
    ttft_s=st.floats(0.12, 3.0),
    name=st.sampled_from(["H100-80GB", "A100-80GB"]),
    wanted=st.sampled_from([Convention.PEER, Convention.PHYSICAL]),
)
@settings(max_examples=40)
def test_a_size_keeps_the_slo_and_is_stable_and_one_instance_less_does_not(
    rate: float, ttft_s: float, name: str, wanted: Convention
) -> None:
    slo = Slo(ttft_s=ttft_s)
    try:
        found = size(pool(name, rate), slo, wanted)
    except SloUnreachable:
        floor = evaluate(pool(name, rate), 100_000, slo).ttft_s
        assert floor > ttft_s
        return
    assert found.stable and found.utilization <= slo.utilization_max + 1e-9
    if wanted.physical:
        assert found.slo_met
        if found.instances > 1:
            assert not evaluate(pool(name, rate), found.instances - 1, slo).slo_met
    else:  # its SLO is on the wait; and it always takes one more than the load needs
        assert found.wait_s <= ttft_s
        if found.instances > 2:
            less = evaluate(pool(name, rate), found.instances - 1, slo, wanted)
            assert (
                less.wait_s > ttft_s
                or less.utilization > slo.utilization_max
                or less.utilization > 1 - 1 / (found.instances - 1)
            )


@given(low=st.floats(1.0, 500.0), more=st.floats(1.01, 2.0))
@settings(max_examples=20)
def test_more_load_never_takes_fewer_instances(low: float, more: float) -> None:
    assert size(pool(rate=low)).instances <= size(pool(rate=low * more)).instances


def test_a_tighter_slo_takes_more_instances_until_no_number_does() -> None:
    a100 = pool("A100-80GB", 100.0)
    loose, tight = size(a100, Slo(ttft_s=1.0)), size(a100, Slo(ttft_s=0.12))
    assert tight.instances > loose.instances
    with pytest.raises(SloUnreachable, match=r"prefill alone takes 0\.0\d+ s"):
        size(a100, Slo(ttft_s=0.02))


def test_an_slo_between_tokens_is_kept_too() -> None:
    base = size(pool(rate=100.0))
    smooth = size(pool(rate=100.0), Slo(itl_s=0.006))
    assert base.itl_s > 0.006 >= smooth.itl_s
    assert smooth.instances > base.instances
    with pytest.raises(SloUnreachable, match="one request alone"):
        size(pool(rate=100.0), Slo(itl_s=0.004))


def test_a_fleet_of_thousands_is_sized_at_once() -> None:
    found = size(pool(rate=60_000.0))
    assert found.instances > 1_000
    assert found.slo_met


def test_at_a_utilization_the_load_stays_within_it() -> None:
    for wanted in (Convention.PEER, Convention.PHYSICAL):
        found = at_utilization(pool(rate=300.0), 0.5, convention=wanted)
        assert found.utilization <= 0.5
        assert evaluate(pool(rate=300.0), found.instances - 1, convention=wanted).utilization > 0.5


# pools together ----------------------------------------------------------------------------------


def test_a_fleet_adds_work_and_watts() -> None:
    long = pool(rate=200.0)
    short = Pool("short", H100, 1_000, 0.0, OWN)
    parts = two_pools(short, long, 1_000)
    assert [p.requests_per_s for p in parts] == pytest.approx([0.7 * 200, 0.3 * 200])
    pools = [size(p) for p in parts]
    both = fleet("both", pools)
    assert both.power_w == pytest.approx(sum(p.power_w for p in pools))
    assert both.tokens_per_j == pytest.approx(sum(p.output_tokens_per_s for p in pools) / both.power_w)
    assert both.models == {"llama-3-70b": pytest.approx(1.0)}
    assert both.to_dict()["pools"][0]["pool"] == "short"
    assert both.output_tokens_per_s == pytest.approx(size(long).output_tokens_per_s)  # nothing is lost by splitting


def test_a_boundary_beyond_all_requests_leaves_one_pool() -> None:
    assert [p.name for p in two_pools(Pool("short", H100, 8192, 0.0, OWN), pool(rate=9.0), 6_000)] == ["short"]


def test_pools_of_two_conventions_make_no_fleet() -> None:
    with pytest.raises(QueueInvalid, match="2 conventions"):
        fleet("mixed", [size(pool()), size(pool(), Slo(), Convention.PEER)])


def test_quality_and_class_of_a_fleet_are_those_of_its_weakest_pool() -> None:
    mixed = fleet("mixed", [size(pool()), size(pool("A10G", 5.0))])
    assert (mixed.quality, mixed.evidence_class, mixed.presentable) == ("LOW", "modeled", False)
    assert any("for simulation only" in note for note in mixed.notes)


# what cannot be answered --------------------------------------------------------------------------


def test_power_outside_what_was_measured_is_refused_or_marked() -> None:
    table = Table(hardware_count=8, board_idle_loaded_w=300.0, concurrency=(1.0, 8.0), board_w=(310.0, 360.0))
    profile = replace(H100, power=table)
    with pytest.raises(ExtrapolationRefused):
        evaluate(Pool("x", profile, 8192, 60.0, OWN), 3)
    marked = evaluate(Pool("x", profile, 8192, 60.0, OWN, extrapolate=True), 3)
    assert any("extrapolated" in note for note in marked.notes)


def test_a_profile_without_throughput_cannot_be_sized() -> None:
    with pytest.raises(ProfileIncomplete, match="max_slots"):
        size(Pool("x", published("B200x8-context-study@8192"), 8192, 1.0, OWN))


def test_a_profile_without_a_price_has_no_dollars() -> None:
    found = evaluate(Pool("x", replace(H100, usd_per_hour=None), 8192, 20.0, OWN), 3)
    assert found.to_dict()["usd_per_hour"] is None
    assert found.to_dict()["usd_per_million_output_tokens"] is None


def test_a_power_that_does_not_depend_on_load_costs_by_time() -> None:
    flat = replace(H100, power=Linear(hardware_count=4, board_idle_loaded_w=500.0, board_idle_w=500.0,
                                      board_w_per_request=0.0))  # fmt: skip
    found = evaluate(Pool("x", flat, 8192, 30.0, OWN), 3)
    assert found.power_w == pytest.approx(3 * 4 * 500)
    assert found.j_per_request == pytest.approx(3 * 4 * 500 / 30)


@pytest.mark.parametrize(
    "question",
    [
        lambda: evaluate(pool(), 0),
        lambda: Pool("x", H100, 8192, -1.0, OWN),
        lambda: Pool("x", H100, 8192, math.nan, OWN),
        lambda: Pool("x", H100, 8192, 1.0, OWN, concurrency_cap=0),
        lambda: at_utilization(pool(), 1.0),
        lambda: Slo(ttft_s=0.0),
        lambda: Slo(quantile=99.0),
        lambda: Slo(utilization_max=1.0),
        lambda: Slo(itl_s=-1.0),
        lambda: convention("imperial"),
    ],
)
def test_questions_that_make_no_sense_are_named(question: object) -> None:
    with pytest.raises(QueueInvalid, match="Fix:"):
        question()  # type: ignore[operator]


def test_a_full_instance_decodes_at_the_upper_end() -> None:
    full = full_instance(H100, 8192, 1_000)
    busy = size(Pool("x", H100, 8192, 500.0, pairs([200], [800], told="one length")))
    assert busy.tokens_per_j < full.tokens_per_j
    assert full.to_dict()["evidence_class"] == "modeled"


def test_the_convention_is_found_by_its_name() -> None:
    assert convention("peer") is Convention.PEER
    assert str(Convention.PHYSICAL) == "physical"


def test_the_azure_fleet_of_the_paper_beside_what_it_is() -> None:
    """9.38 tok/W is 1.17 tok/J, and 13 instances keep a TTFT of 0.5 s where 12 bend the bound on utilization."""
    azure = pool(H100, 200.0, workload=peer_cdf("azure"))
    paper, found = size(azure, LIMITS, Convention.PEER), size(azure, LIMITS)
    assert (round(paper.paper_normalised_tokens_per_j, 2), round(paper.tokens_per_j, 2)) == (9.38, 1.17)
    assert (paper.instances, found.instances) == (12, 13)
    assert found.concurrency < 0.6 * paper.concurrency  # requests run faster in a batch that is not full
    assert found.ttft_s > 5 * paper.ttft_s  # a quantile is no mean
    assert found.tokens_per_j == pytest.approx(1.14, abs=0.01)


def test_a_distribution_of_one_length_has_no_variance() -> None:
    service = physical.Service.of(Pool("x", H100, 8192, 5.0, pairs([100], [50], told="one")))
    assert service.cv2 == 0
    one = LengthCdf((1,), (1.0,))
    assert one.mean_tokens == 1
