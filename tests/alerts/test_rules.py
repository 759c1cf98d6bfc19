"""Each rule with its golden case, its limit from both sides, and what must not raise it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from policies.alerts import AlertKind, Severity, Thresholds
from policies.errors import ParametersInvalid
from tests.alerts.world import DAY, HOUR, NOW, World

K = AlertKind


def test_nothing_is_wrong_with_an_empty_warehouse(world: World) -> None:
    assert world.conditions() == []


def test_the_same_snapshot_gives_the_same_conditions(world: World) -> None:
    for offer in ("b", "a", "c"):
        world.price("1", NOW - 9 * DAY, offer=offer)
        world.price("2", NOW - HOUR, offer=offer)
    first, second = world.conditions(), world.conditions()
    assert first == second
    assert [c.subject for c in first] == ["acme/a", "acme/b", "acme/c"]


# price ------------------------------------------------------------------------------------------------


def test_a_price_beyond_the_limit_tells_before_after_and_size(world: World) -> None:
    world.price("0.28", NOW - 9 * DAY)
    world.price("0.42", NOW - HOUR)
    told = world.one(K.PRICE_CHANGE)
    assert told.subject == "acme/m"
    assert told.title == "prompt price of m: $0.28/1M tokens to $0.42/1M tokens (+50 %)"
    assert told.severity is Severity.WARNING
    assert told.detail["before"] == "$0.28/1M tokens"
    assert told.detail["limit"] == 0.1
    assert told.detail["evidence"] == "live"
    assert told.degree == pytest.approx(5.0)  # 50 % against a limit of 10 %


@pytest.mark.parametrize(("after", "told"), [("1.10", False), ("1.100001", True), ("0.90", False), ("0.899999", True)])
def test_the_limit_itself_is_not_beyond_it(world: World, after: str, told: bool) -> None:
    world.price("1", NOW - 9 * DAY)
    world.price(after, NOW - HOUR)
    assert bool(world.conditions(K.PRICE_CHANGE)) is told


def test_small_steps_add_up(world: World) -> None:
    for day, usd in ((9, "1.00"), (6, "1.06"), (4, "1.12"), (2, "1.19")):
        world.price(usd, NOW - day * DAY)
    assert "(+19 %)" in world.one(K.PRICE_CHANGE).title


def test_a_price_that_came_back_is_no_change(world: World) -> None:
    for day, usd in ((9, "1"), (3, "5"), (1, "1")):
        world.price(usd, NOW - day * DAY)
    assert world.conditions(K.PRICE_CHANGE) == []


def test_news_grows_old(world: World) -> None:
    world.price("1", NOW - 30 * DAY)
    world.price("2", NOW - 8 * DAY)
    assert world.conditions(K.PRICE_CHANGE) == []
    assert world.conditions(K.PRICE_CHANGE, recent=timedelta(days=9))


def test_a_change_that_was_learned_late_is_told_all_the_same(world: World) -> None:
    world.price("1", NOW - 60 * DAY)
    world.price("2", NOW - 30 * DAY, known_from=NOW - HOUR)
    assert "(+100 %)" in world.one(K.PRICE_CHANGE).title


def test_a_new_price_is_no_change(world: World) -> None:
    world.price("1", NOW - HOUR)
    world.price(None, NOW - 9 * DAY, kind="unknown", offer="n")
    world.price("3", NOW - HOUR, offer="n")
    assert world.conditions(K.PRICE_CHANGE) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (("1", "fixed"), ("0", "free"), "$1/1M tokens to free (−100 %)"),
        (("0", "free"), ("1", "fixed"), "free to $1/1M tokens"),
        (("1", "fixed"), (None, "dynamic"), "$1/1M tokens to dynamic"),
        (("1", "fixed"), (None, "unknown"), "$1/1M tokens to unknown"),
    ],
)
def test_free_dynamic_and_unknown_are_three_different_changes(
    world: World, before: tuple[str, str], after: tuple[str | None, str], words: str
) -> None:
    world.price(before[0], NOW - 9 * DAY, kind=before[1])
    world.price(after[0], NOW - HOUR, kind=after[1])
    assert words in world.one(K.PRICE_CHANGE).title


def test_a_price_that_vanishes_is_bad_where_the_offer_is_in_use(world: World) -> None:
    world.price("1", NOW - 9 * DAY)
    world.price(None, NOW - HOUR, kind="unknown")
    assert world.one(K.PRICE_CHANGE).severity is Severity.WARNING
    assert world.one(K.PRICE_CHANGE, routed=("m",)).severity is Severity.BAD


def test_one_alert_per_offer_names_its_largest_change(world: World) -> None:
    for component, tier, after in (("prompt", 0, "1.2"), ("completion", 0, "3"), ("prompt", 200_000, "1.5")):
        world.price("1", NOW - 9 * DAY, component=component, min_prompt_tokens=tier)
        world.price(after, NOW - HOUR, component=component, min_prompt_tokens=tier)
    told = world.one(K.PRICE_CHANGE)
    assert told.title == "completion price of m: $1/1M tokens to $3/1M tokens (+200 %), and 2 more"
    assert len(told.detail["changes"]) == 3


# offers that end --------------------------------------------------------------------------------------


def test_a_deprecated_offer_is_told_and_bad_where_it_is_in_use(world: World) -> None:
    world.offer("deprecated", at=NOW - 2 * DAY)
    told = world.one(K.OFFER_DEPRECATED)
    assert told.title == "m is deprecated since 2026-11-27 12:00 UTC"
    assert told.severity is Severity.WARNING
    world.usage("m")
    assert world.one(K.OFFER_DEPRECATED).severity is Severity.BAD
    assert world.one(K.OFFER_DEPRECATED).title.endswith(", and it is in use")


def test_an_offer_that_is_active_again_is_no_alert(world: World) -> None:
    world.offer("deprecated", at=NOW - 2 * DAY)
    world.offer("active", at=NOW - DAY)
    assert world.conditions() == []


def polled(world: World, *, transport: str = "http") -> None:
    """The source was polled at -4 h (m listed) and -3 h (m gone)."""
    world.source(transport=transport)
    world.offer(at=NOW - 4 * HOUR, run_id="p1")
    world.offer("removed", at=NOW - 3 * HOUR, run_id="p2")
    world.run("p1", NOW - 4 * HOUR)
    world.run("p2", NOW - 3 * HOUR)


def test_one_absence_is_no_removal_two_are(world: World) -> None:
    polled(world)
    assert world.conditions(K.OFFER_REMOVED) == []
    world.run("p3", NOW - 2 * HOUR, not_modified=True)
    told = world.one(K.OFFER_REMOVED)
    assert told.title == "m is no longer listed since 2026-11-29 09:00 UTC"
    assert told.detail["absent_polls"] == 2


@pytest.mark.parametrize("state", ["FAILED", "ABORTED", "SKIPPED", "MISSED", "RUNNING"])
def test_a_poll_that_failed_confirms_no_absence(world: World, state: str) -> None:
    polled(world)
    world.run("p3", NOW - 2 * HOUR, state=state)
    assert world.conditions(K.OFFER_REMOVED) == []


def test_the_poll_of_another_source_confirms_no_absence(world: World) -> None:
    polled(world)
    world.run("q1", NOW - 2 * HOUR, source_id="other")
    assert world.conditions(K.OFFER_REMOVED) == []


def test_a_listing_that_flaps_raises_none(world: World) -> None:
    polled(world)
    for i in range(1, 4):
        back, gone = NOW - 3 * HOUR + i * timedelta(minutes=40), NOW - 3 * HOUR + i * timedelta(minutes=50)
        world.offer(at=back, run_id=f"b{i}")
        world.run(f"b{i}", back)
        world.offer("removed", at=gone, run_id=f"g{i}")
        world.run(f"g{i}", gone)
        assert world.conditions(K.OFFER_REMOVED) == []


def test_the_same_file_twice_is_one_poll(world: World) -> None:
    polled(world, transport="file")
    payload = {
        "kind": "openrouter", "url": "file:///x", "sha256": "s", "size_bytes": 1, "encoding": "zlib", "body": b"",
    }  # fmt: skip
    world.add("landing.payload", {"payload_id": "f2", "fetched_at": NOW - 3 * HOUR, **payload})
    world.add("landing.payload", {"payload_id": "f3", "fetched_at": NOW - 2 * HOUR, **payload})
    for run in ("i1", "i2"):
        world.run(run, NOW - HOUR, payload_id="f2")
    assert world.conditions(K.OFFER_REMOVED) == []
    world.run("i3", NOW - HOUR, payload_id="f3")
    assert world.one(K.OFFER_REMOVED).detail["absent_polls"] == 2


def test_a_removal_grows_old_unless_the_offer_is_in_use(world: World) -> None:
    world.source()
    world.offer("removed", at=NOW - 10 * DAY, run_id="p1")
    world.run("p1", NOW - 10 * DAY)
    world.run("p2", NOW - 9 * DAY)
    assert world.conditions(K.OFFER_REMOVED) == []
    assert world.one(K.OFFER_REMOVED, routed=("m",)).severity is Severity.BAD


@pytest.mark.parametrize(
    ("left", "told"),
    [(8 * DAY, None), (6 * DAY, "m expires at 2026-12-05 12:00 UTC"), (-DAY, "m expired at 2026-11-28 12:00 UTC")],
)
def test_an_offer_that_expires_soon_or_has_expired_is_told(world: World, left: timedelta, told: str | None) -> None:
    world.offer(expires_at=NOW + left)
    assert [c.title for c in world.conditions(K.OFFER_EXPIRING)] == ([told] if told else [])


def test_the_last_day_of_an_offer_in_use_is_bad(world: World) -> None:
    world.offer(expires_at=NOW + 20 * HOUR)
    assert world.one(K.OFFER_EXPIRING).severity is Severity.WARNING
    assert world.one(K.OFFER_EXPIRING, routed=("m",)).severity is Severity.BAD


# sources ----------------------------------------------------------------------------------------------


def test_a_stale_source_is_a_warning_an_expired_one_is_bad(world: World) -> None:
    world.source()
    world.run("p1", NOW - 3 * HOUR)
    told = world.one(K.SOURCE_STALE)
    assert told.title == "acme is stale: last refreshed 2026-11-29 09:00 UTC, limit 2 h"
    assert told.severity is Severity.WARNING
    assert world.one(K.SOURCE_STALE, at=NOW + 2 * DAY).severity is Severity.BAD
    assert world.conditions(K.SOURCE_STALE, at=NOW - 2 * HOUR) == []


def test_a_source_that_is_off_was_never_fetched_or_is_sample_is_no_alert(world: World) -> None:
    world.source("off", enabled=False)
    world.run("p1", NOW - 3 * DAY, source_id="off")
    world.source("never")
    world.source("sample:x", is_sample=True)
    world.run("p2", NOW - 3 * DAY, source_id="sample:x")
    assert world.conditions() == []


def test_the_error_of_a_stale_source_is_told_with_its_fix(world: World) -> None:
    world.source()
    world.run("p1", NOW - 3 * HOUR)
    world.run("p2", NOW - HOUR, state="FAILED", error_text="acme: HTTP 503", error_fix="wait")
    told = world.one(K.SOURCE_STALE).detail
    assert (told["last_error"], told["fix"]) == ("acme: HTTP 503", "wait")


def test_quarantine_that_grows_is_told_against_the_loads_before(world: World) -> None:
    world.run("l1", NOW - 3 * HOUR, payload_id="l1", rows_in=1000)
    world.run("l2", NOW - 2 * HOUR, payload_id="l2", rows_in=1000)
    world.refused("l1", 5)
    world.refused("l2", 5)
    assert world.conditions(K.QUARANTINE_GROWTH) == []
    world.run("l3", NOW - HOUR, payload_id="l3", rows_in=1000)
    world.refused("l3", 60)
    told = world.one(K.QUARANTINE_GROWTH)
    assert told.title == "acme: 6 % of the rows of the newest load went to quarantine, 0.5 % before"
    assert told.detail["most_common_reason"] == "it is negative"
    assert (told.detail["rows_refused"], told.detail["loads_before"]) == (60, 2)


def test_the_same_refusals_in_each_load_are_no_growth(world: World) -> None:
    for i in range(5):
        world.run(f"l{i}", NOW - (5 - i) * HOUR, payload_id=f"l{i}", rows_in=100)
        world.refused(f"l{i}", 3)
    assert world.conditions(K.QUARANTINE_GROWTH) == []


def test_the_same_payload_loaded_again_does_not_hide_its_refusals(world: World) -> None:
    """The second load of a payload writes no quarantine row of its own."""
    world.run("l1", NOW - 2 * HOUR, payload_id="p", rows_in=10)
    world.refused("p", 9)
    world.run("l2", NOW - HOUR, payload_id="p", rows_in=10)
    assert world.conditions(K.QUARANTINE_GROWTH) == []  # as bad as before, and no worse
    assert world.one(K.QUARANTINE_GROWTH, at=NOW - HOUR - timedelta(minutes=1)).severity is Severity.BAD


def test_several_refused_fields_of_a_row_are_one_row(world: World) -> None:
    world.run("l1", NOW - HOUR, payload_id="p", rows_in=1000)
    world.refused("p", 8)
    world.add(
        "ops.quarantine",
        *(
            {
                "quarantine_id": f"again{i}", "run_id": "l1", "source_id": "acme", "kind": "openrouter",
                "payload_id": "p", "row_no": 3, "reason": "x", "quarantined_at": NOW,
            }
            for i in range(20)
        ),
    )  # fmt: skip
    assert world.conditions(K.QUARANTINE_GROWTH) == []  # 8 of 1000


# the bill ---------------------------------------------------------------------------------------------


def test_tokens_of_a_model_without_a_price_are_the_whole_share(world: World) -> None:
    """litellm#35914: 365 calls, 37.4M tokens, model unknown, silently $0."""
    for i in range(365):
        world.usage(
            "mystery-model",
            provider="openai",
            prompt_tokens=102_000 if i else 104_465,
            completion_tokens=459,
            billed_cost_usd=Decimal(0) if i % 2 else None,
            at=NOW - timedelta(minutes=i),
        )
    told = world.one(K.UNPRICED_SHARE)
    assert told.title.startswith("unpriced share 100 % of tokens of openai: no price is known for mystery-model")
    assert told.severity is Severity.BAD
    assert told.detail["requests"] == told.detail["unpriced_requests"] == 365
    assert told.detail["unpriced_tokens"] == 102_000 * 364 + 104_465 + 459 * 365 == 37_400_000
    assert told.detail["offers"] == ["mystery-model"]


@pytest.mark.parametrize(("unpriced", "told"), [(5, False), (6, True)])
def test_the_share_is_of_tokens_and_its_limit_is_5_percent(world: World, unpriced: int, told: bool) -> None:
    world.price("1", NOW - 9 * DAY)
    world.usage("m", prompt_tokens=(100 - unpriced) * 1000, completion_tokens=0)
    world.usage("n", prompt_tokens=unpriced * 1000, completion_tokens=0)
    assert bool(world.conditions(K.UNPRICED_SHARE)) is told


@pytest.mark.parametrize(
    "row",
    [{"billed_cost_usd": Decimal("0.1")}, {"list_cost_usd": Decimal("0.1")}, {"served_offer": "priced"}],
    ids=["billed", "list cost", "served by a priced offer"],
)
def test_what_a_bill_or_a_list_price_tells_is_priced(world: World, row: dict[str, object]) -> None:
    world.price("1", NOW - 9 * DAY, offer="priced")
    world.usage("n", **row)
    assert world.conditions(K.UNPRICED_SHARE) == []


@pytest.mark.parametrize(("kind", "told"), [("free", False), ("dynamic", True), ("unknown", True)])
def test_free_is_a_price_dynamic_and_unknown_are_none(world: World, kind: str, told: bool) -> None:
    world.price("0" if kind == "free" else None, NOW - 9 * DAY, kind=kind)
    world.usage("m")
    assert bool(world.conditions(K.UNPRICED_SHARE)) is told


def test_requests_and_their_period_are_not_counted_twice(world: World) -> None:
    world.price("1", NOW - 9 * DAY)
    world.usage("m", prompt_tokens=100_000)
    world.usage("n", grain="period", prompt_tokens=10_000_000)
    assert world.conditions(K.UNPRICED_SHARE) == []


def test_rows_without_tokens_say_nothing_about_a_share_of_tokens(world: World) -> None:
    world.usage("n", prompt_tokens=None, completion_tokens=None)
    assert world.conditions(K.UNPRICED_SHARE) == []


def test_a_tariff_that_doubled_tells_since_when(world: World) -> None:
    """The real exports of July 2026: 5 USD/kWh until the 15th, 10 from the 16th."""
    july = NOW.replace(month=7, day=1, hour=4)
    for day, rate in ((9, "5"), (14, "5"), (16, "10"), (31, "10")):
        world.tariff(rate, july.replace(day=day), known_from=NOW - HOUR)
    told = world.one(K.TARIFF_CHANGE)
    assert told.title == "tariff of acme/main: USD/kWh 5 to 10 (+100 %) since 2026-07-16 04:00 UTC"
    assert told.detail["evidence"] == "calibrated"


def test_a_tariff_within_a_percent_or_known_for_long_is_no_alert(world: World) -> None:
    world.tariff("5", NOW - 40 * DAY)
    world.tariff("5.04", NOW - DAY)
    world.tariff("5", NOW - 40 * DAY, account="other")
    world.tariff("10", NOW - 20 * DAY, account="other")
    assert world.conditions(K.TARIFF_CHANGE) == []


def test_a_flex_multiplier_that_moves_is_a_tariff_change(world: World) -> None:
    world.tariff("5", NOW - 40 * DAY, flex_multiplier=0.65)
    world.tariff("5", NOW - DAY, flex_multiplier=0.8)
    assert "flex multiplier 0.65 to 0.8 (+23 %)" in world.one(K.TARIFF_CHANGE).title


def covered(world: World, *days: tuple[int, int]) -> None:
    """(requests, of these with energy) per day, oldest first, ending today."""
    for back, (requests, known) in enumerate(reversed(days)):
        at = NOW - back * DAY
        world.usage(at=at, requests=requests, requests_with_energy=known, billed_cost_usd=Decimal(1))


def test_a_day_with_less_energy_than_the_week_before_is_told(world: World) -> None:
    covered(world, *[(100, 98)] * 7, (100, 60))
    told = world.one(K.COVERAGE_DROP)
    assert told.title == "energy of acme is known for 60 % of requests on 2026-11-29, 98 % on the days before"
    assert told.severity is Severity.WARNING
    assert (told.detail["before"], told.detail["after"]) == (0.98, 0.6)


def test_no_energy_at_all_is_bad(world: World) -> None:
    covered(world, (100, 98), (100, 0))
    assert world.one(K.COVERAGE_DROP).severity is Severity.BAD


@pytest.mark.parametrize(
    "days",
    [[(100, 90), (100, 81)], [(100, 60)], [(100, 100), (19, 0)], [(100, 50), (100, 90)]],
    ids=["within the limit", "the first day", "too few requests", "better than before"],
)
def test_what_is_no_drop(world: World, days: list[tuple[int, int]]) -> None:
    covered(world, *days)
    assert world.conditions(K.COVERAGE_DROP) == []


def test_a_source_that_never_tells_coverage_is_no_drop(world: World) -> None:
    for back in range(3):
        world.usage(at=NOW - back * DAY, requests=100, requests_with_energy=None, billed_cost_usd=Decimal(1))
    assert world.conditions(K.COVERAGE_DROP) == []


# power ------------------------------------------------------------------------------------------------


def test_a_sensor_whose_stamp_stands_still_is_frozen(world: World) -> None:
    world.device()
    world.readings(11, sensor_at=NOW - 2 * HOUR, power_w=None)
    told = world.one(K.SENSOR_FROZEN)
    assert told.title == "sensor of H100 GPU-1 is frozen: its own stamp stands at 2026-11-29 10:00 UTC for 5 min"
    assert told.severity is Severity.BAD


def test_a_counter_that_stands_still_under_power_is_frozen(world: World) -> None:
    world.readings(11, energy_counter_j=5000.0)
    assert "energy counter stands at 5000 J while it reports power" in world.one(K.SENSOR_FROZEN).title


def test_the_very_same_power_without_a_counter_is_frozen(world: World) -> None:
    world.readings(11, energy_counter_j=None, power_w=70.5, sensor_at=None)
    assert "every reading is 70.5 W" in world.one(K.SENSOR_FROZEN).title


@pytest.mark.parametrize(
    ("n", "every_s", "fixed"),
    [
        (11, 30.0, {}),
        (11, 30.0, {"power_w": 70.5}),  # the counter moves
        (4, 100.0, {"energy_counter_j": 5000.0}),  # too few readings
        (11, 5.0, {"energy_counter_j": 5000.0}),  # too short
        (11, 30.0, {"energy_counter_j": 5000.0, "power_w": 0.0}),  # nothing flows
        (11, 30.0, {"energy_counter_j": None, "power_w": None, "sensor_at": None}),  # nothing is told
    ],
    ids=["moves", "steady load", "few", "short", "off", "silent"],
)
def test_what_is_not_frozen(world: World, n: int, every_s: float, fixed: dict[str, object]) -> None:
    world.readings(n, every_s=every_s, **fixed)
    assert world.conditions(K.SENSOR_FROZEN) == []


def test_a_lost_board_is_bad_until_it_reports_again(world: World) -> None:
    world.device("lost")
    told = world.one(K.GPU_LOST)
    assert told.title == "H100 GPU-1 of n1 is lost since 2026-11-29 11:00 UTC"
    assert told.severity is Severity.BAD
    with world.warehouse.transaction() as tx:
        tx.execute("UPDATE core.device SET state = 'ok'")
    assert world.conditions(K.GPU_LOST) == []


def test_a_lost_board_of_an_old_log_is_history_and_no_alert(world: World) -> None:
    world.device("lost", updated_at=NOW - 25 * HOUR)
    assert world.conditions(K.GPU_LOST) == []


def test_implausible_energy_is_told_per_device_or_offer(world: World) -> None:
    world.observation()
    world.observation(gap="implausible")
    world.observation(gap="counter_reset")
    world.observation(gap="implausible", device_uuid=None, provider="acme", offer_id="m")
    world.observation(gap="implausible", at=NOW - 2 * DAY, device_uuid="GPU-2")
    told = world.conditions(K.IMPLAUSIBLE_ENERGY)
    assert [c.subject for c in told] == ["GPU-1", "acme/m"]
    assert (told[0].detail["after"], told[0].detail["windows"]) == (1, 3)


# sample, time travel, words -----------------------------------------------------------------------------


def test_sample_data_raises_nothing(world: World) -> None:
    sample = {"source_id": "sample:x"}
    world.price("1", NOW - 9 * DAY, **sample)
    world.price("9", NOW - HOUR, **sample)
    world.offer("deprecated", **sample)
    world.usage("n", **sample)
    world.tariff("5", NOW - 2 * DAY, **sample)
    world.tariff("9", NOW - DAY, **sample)
    world.device("lost", **sample)
    world.observation(gap="implausible", **sample)
    world.readings(11, energy_counter_j=5.0, **sample)
    world.run("l", NOW - HOUR, source_id="sample:x", payload_id="p", rows_in=1)
    world.refused("p", 1, source_id="sample:x")
    assert world.conditions() == []


def test_what_was_not_known_then_is_not_told_then(world: World) -> None:
    world.price("1", NOW - 9 * DAY)
    world.price("2", NOW - HOUR)
    assert world.conditions(at=NOW - 2 * HOUR) == []


def test_titles_stay_the_same_while_the_condition_does(world: World) -> None:
    world.source()
    world.run("p1", NOW - 3 * HOUR)
    world.offer("deprecated", at=NOW - 2 * DAY, expires_at=NOW + DAY)
    world.device("lost")
    titles = [c.title for c in world.conditions()]
    assert titles == [c.title for c in world.conditions(at=NOW + timedelta(minutes=10))]
    assert len(titles) == 4


def test_a_very_long_name_from_outside_is_cut(world: World) -> None:
    world.offer("deprecated", offer="x" * 5000)
    told = world.one(K.OFFER_DEPRECATED)
    assert len(told.title) <= 500
    assert len(told.subject) <= 500


@pytest.mark.parametrize("limit", [-0.1, float("nan"), float("inf")])
def test_a_limit_that_is_no_share_is_refused(limit: float) -> None:
    with pytest.raises(ParametersInvalid, match=r"alerts\.price_change"):
        Thresholds(price_change=limit)
