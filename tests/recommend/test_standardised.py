"""Traffic is held against traffic at one mix: who gets the easy requests is not the better one (Simpson's paradox)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from policies.recommend.figures import ratio as ratio_of_rows
from policies.recommend.figures import success_difference
from policies.recommend.outcome import Judgement, Outcome, Terms, Verdict, judge
from policies.recommend.standardised import Strata, at_mix, mix, rates, ratio
from policies.recommend.traffic import read_traffic
from tests.recommend.desks import Driver, insert, make_desk
from tests.recommend.traffic import organic
from warehouse.snapshots import snapshot

NOW = datetime(2026, 8, 11, 12)
DAY = timedelta(days=1)
SMALL, LARGE = "debugging|0-511", "debugging|8192-32767"
Z = 1.6448536269514722


def stratum(n: int, joules: float, *, successes: int | None = None, late: int = 0, spread: float = 0.1) -> Any:
    """n requests of `joules` each, give or take `spread`, of which `successes` succeed."""
    s = n if successes is None else successes
    rows = [(joules * (1 + spread * (-1) ** i), float(i < s)) for i in range(n)]
    return of_rows(rows, late)


def of_rows(rows: list[tuple[float, float]], late: int = 0) -> dict[str, Any]:
    n, x, s = len(rows), [x for x, _ in rows], [s for _, s in rows]
    part = {
        "n": n, "sum": sum(x), "units": sum(s), "squares": sum(v * v for v in x),
        "unit_squares": sum(v * v for v in s), "products": sum(a * b for a, b in rows),
    }  # fmt: skip
    counts = {"requests": n, "attempts_told": n, "successes": int(sum(s)), "latency_n": n, "over_slo": late}
    return {**counts, "metrics": {"energy_j": part} if n else {}}


def judged(before: Strata, after: Strata, *, slo_s: float | None = None, **given: Any) -> Judgement:
    def total(side: Strata, name: str) -> Any:
        return sum(told[name] for told in side.values())

    def joules(side: Strata, name: str) -> float:
        return math.fsum(told["metrics"]["energy_j"][name] for told in side.values() if told["metrics"])

    n0, s0 = total(before, "attempts_told"), total(before, "successes")
    baseline = {
        "success_rate": s0 / n0, "successes": s0, "attempts_told": n0, "slo_s": slo_s,
        "over_share": total(before, "over_slo") / n0, "latency_n": n0, "over_slo": total(before, "over_slo"),
        "strata": before,
        "figures": {"energy_j": {
            "value": joules(before, "sum") / joules(before, "units"), "se_log": 0.005, "n": n0,
            "evidence_class": "allocated",
        }},
    }  # fmt: skip
    content = {"promise": {"primary": "energy_j", "per": "success", "success": {"from": {"rate": 1}}, "metrics": {}}}
    told = Outcome(
        NOW, NOW + DAY, total(after, "attempts_told"), total(after, "successes"), joules(after, "sum"), "allocated",
        n=total(after, "requests"), relative_uncertainty=0.005, slo_s=slo_s, latency_n=total(after, "latency_n"),
        over_slo=total(after, "over_slo"),
    )  # fmt: skip
    terms = Terms(success_margin=0.02, slo_s=slo_s, baseline=baseline, own=True, look=1, strata=after)
    return judge(told, content, Terms(**{**vars(terms), **given}), actuated_at=NOW)


EVEN = {SMALL: stratum(1000, 100.0), LARGE: stratum(1000, 1000.0)}


def test_a_candidate_that_got_the_small_requests_is_not_frugal() -> None:
    """110 J for 100 and 1100 J for 1000: a tenth more in each size, and two fifths of the joules in all."""
    found = judged(EVEN, {SMALL: stratum(1800, 110.0), LARGE: stratum(200, 1100.0)})
    assert found.verdict is Verdict.FAILED and "more, not less" in found.why
    assert found.ratio == pytest.approx(1.1, rel=0.001)
    assert found.unstandardised_ratio == pytest.approx(0.38, rel=0.001)
    assert "at its mix of 2 categories and sizes, 0.380 as it came" in found.why


def test_a_candidate_that_got_the_large_requests_is_not_wasteful() -> None:
    found = judged(EVEN, {SMALL: stratum(200, 80.0), LARGE: stratum(1800, 800.0)})
    assert found.verdict is Verdict.SUCCEEDED and found.ratio == pytest.approx(0.8, rel=0.001)
    assert found.unstandardised_ratio == pytest.approx(728 / 550, rel=0.001)
    assert (found.mix_strata, found.mix_coverage, found.mix_missing) == (2, 1.0, ())


def test_a_success_rate_is_told_at_the_mix_too() -> None:
    """90 % of the easy and 60 % of the hard ones before; 85 % and 50 % since, and 81.5 % of what it got."""
    before = {SMALL: stratum(1000, 100.0, successes=900), LARGE: stratum(1000, 100.0, successes=600)}
    after = {SMALL: stratum(1800, 50.0, successes=1530), LARGE: stratum(200, 50.0, successes=100)}
    found = judged(before, after)
    assert found.verdict is Verdict.FAILED and found.success_rate == pytest.approx(0.675)
    assert found.required_success_rate == pytest.approx(0.73)
    assert 1630 / 2000 > 0.73, "as it came it would have passed"


def test_a_share_over_the_slo_is_told_at_the_mix_too() -> None:
    before = {SMALL: stratum(1000, 100.0), LARGE: stratum(1000, 100.0, late=200)}
    after = {SMALL: stratum(1800, 50.0, late=90), LARGE: stratum(200, 50.0, late=70)}
    found = judged(before, after, slo_s=2.0)
    assert found.over_slo_share == pytest.approx(0.2) and found.allowed_over_slo_share == pytest.approx(0.12)
    assert found.verdict is Verdict.FAILED and 160 / 2000 < 0.12


def test_a_stratum_without_a_request_is_never_filled_in_and_harm_elsewhere_still_shows() -> None:
    found = judged(EVEN, {SMALL: stratum(2000, 10.0)})
    assert found.verdict is Verdict.INCONCLUSIVE and found.ratio is None
    assert f"no request of {LARGE} tells energy_j and success" in found.why
    assert found.mix_missing == (LARGE,)
    assert found.success_interval is not None and found.success_interval[0] < 0.55, "it may fail on all of them"
    harm = judged(EVEN, {SMALL: stratum(2000, 10.0, successes=1800)})
    assert harm.verdict is Verdict.FAILED and "success rate 90.0%" in harm.why


def test_requests_unlike_any_before_settle_nothing_good_and_hide_no_harm() -> None:
    other = {SMALL: stratum(500, 10.0), "vision|0-511": stratum(500, 10.0)}
    found = judged(EVEN, other)
    assert found.verdict is Verdict.INCONCLUSIVE and found.mix_coverage == 0.5
    assert "50% of its requests lie in the categories and sizes" in found.why and "95% are asked" in found.why
    # Requests that failed before anybody counted their tokens are of unknown size, and are not forgotten.
    failed = {SMALL: stratum(500, 10.0), "debugging|unknown": stratum(300, 10.0, successes=0)}
    assert judged(EVEN, failed).verdict is Verdict.FAILED
    assert judged(EVEN, other, min_coverage=0.5).mix_strata == 2


def test_a_baseline_from_before_there_were_strata_is_compared_as_it_came() -> None:
    found = judged(EVEN, {SMALL: stratum(1800, 110.0), LARGE: stratum(200, 1100.0)}, strata=None)
    assert found.verdict is Verdict.SUCCEEDED and found.mix_strata is None


def test_rare_strata_hold_nothing_up_and_the_mix_is_the_incumbents() -> None:
    before = {SMALL: stratum(700, 1.0), LARGE: stratum(295, 1.0), "vision|0-511": stratum(5, 1.0)}
    assert mix(before) == pytest.approx({SMALL: 700 / 995, LARGE: 295 / 995})
    assert mix({}) == {} and at_mix({}, before) is None and at_mix(before, {}) is None


def test_one_stratum_is_the_figure_of_all_rows() -> None:
    rng = random.Random(4)
    rows = [(rng.lognormvariate(3, 0.5), float(rng.random() < 0.9)) for _ in range(60)]
    side = {SMALL: of_rows(rows)}
    wanted, found = ratio_of_rows([x for x, _ in rows], [s for _, s in rows]), ratio(side, {SMALL: 1.0}, "energy_j")
    assert wanted is not None and wanted.se_log is not None
    assert found.value == pytest.approx(wanted.value) and found.se_log == pytest.approx(wanted.se_log)
    both = rates(side, {SMALL: stratum(40, 1.0, successes=30)}, {SMALL: 1.0}, "successes", "attempts_told", Z)
    s = int(sum(s for _, s in rows))
    assert (both.low, both.high) == pytest.approx(success_difference(s, 60, 30, 40, Z))


def test_a_stratum_with_one_request_tells_no_spread() -> None:
    found = ratio({SMALL: stratum(50, 1.0), LARGE: stratum(1, 1.0)}, {SMALL: 0.5, LARGE: 0.5}, "energy_j")
    assert found.value is not None and found.se_log is None and found.note == f"one request of {LARGE} tells no spread"


def test_intervals_at_the_mix_hold_as_often_as_they_say() -> None:
    """1,500 draws of unequal strata: the log ratio's standard error is its spread; the rates' interval covers 95 %."""
    rng, shares = random.Random(11), {SMALL: 0.7, LARGE: 0.3}
    truth = {SMALL: (100.0, 0.95, 0.93), LARGE: (900.0, 0.8, 0.84)}
    logs, errors, inside, draws = [], [], 0, 1500
    for _ in range(draws):
        sides = []
        for which, sizes in ((1, (60, 90)), (2, (80, 60))):
            sides.append({
                name: of_rows([(truth[name][0] * rng.gammavariate(4, 0.25), float(rng.random() < truth[name][which]))
                               for _ in range(n)])
                for name, n in zip(shares, sizes, strict=True)
            })  # fmt: skip
        found = ratio(sides[0], shares, "energy_j")
        assert found.value is not None and found.se_log is not None
        logs.append(math.log(found.value))
        errors.append(found.se_log)
        both = rates(sides[0], sides[1], shares, "successes", "attempts_told", 1.959963984540054)
        inside += both.low <= 0.7 * 0.02 - 0.3 * 0.04 <= both.high
    mean = sum(logs) / draws
    spread = math.sqrt(sum((v - mean) ** 2 for v in logs) / (draws - 1))
    assert sum(errors) / draws == pytest.approx(spread, rel=0.06)
    assert inside / draws == pytest.approx(0.95, abs=0.02)


# through the warehouse --------------------------------------------------------------------------------------


@pytest.fixture
def driver(own_home: Path) -> Iterator[Driver]:
    """The incumbent's own traffic is half small and half large requests; R-0001 is observed since NOW."""
    with time_machine.travel(NOW, tick=False):
        made = Driver(make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n"))
        organic(made.desk, "old", 300, since=NOW - 2 * DAY, joules=100.0, **tokens(200))
        organic(made.desk, "old", 300, since=NOW - DAY, joules=1000.0, **tokens(9000))
        made.refresh()
        made.observe()
        yield made
        made.desk.close()


def tokens(n: int) -> dict[str, int]:
    return {"prompt_tokens": n // 2, "completion_tokens": n - n // 2}


def test_the_desk_measures_at_the_mix_that_was_frozen_with_the_proposal(driver: Driver) -> None:
    assert {name: s["requests"] for name, s in driver.show()["content"]["baseline"]["strata"].items()} == {
        "unknown|0-511": 300, "unknown|8192-32767": 300,
    }  # fmt: skip
    with time_machine.travel(NOW + timedelta(hours=1), tick=False):
        organic(driver.desk, "new", 540, since=NOW, joules=110.0, **tokens(200))
        organic(driver.desk, "new", 60, since=NOW, joules=1100.0, **tokens(9000))
        (told,) = driver.call("recommend.measure")["measured"]
    assert told["verdict"] == "FAILED", "two fifths of the joules as it came, a tenth more at the mix"
    assert told["judgement"]["ratio"] == pytest.approx(1.1, rel=0.03)
    assert told["judgement"]["unstandardised_ratio"] == pytest.approx(0.38, rel=0.03)


def test_labels_of_a_router_tell_the_category(driver: Driver) -> None:
    first = (
        "SELECT provider || '/' || account || '/' || usage_key AS id FROM core.usage WHERE workload = 'organic' LIMIT 7"
    )
    ids = driver.desk.warehouse.query(first)["id"].to_list()
    label = {"category": "debugging", "known_from": NOW, "source_id": "acme", "run_id": "r1", "row_sha256": "0" * 64}
    insert(driver.desk, "core.request_label", [{**label, "request_id": request} for request in ids])
    with snapshot(driver.desk.warehouse, NOW + timedelta(seconds=1)) as snap:
        found = read_traffic(snap, ["old"], NOW - 3 * DAY, NOW)["old"]
    assert found.requests == 600 == sum(s["requests"] for s in found.strata.values())
    assert sum(s["requests"] for name, s in found.strata.items() if name.startswith("debugging|")) == 7
    assert found.figures["energy_j"].n == 600
