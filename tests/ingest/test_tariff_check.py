"""Tariffs from single requests, tariffs as declared, and both held against the bill."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.base import Parsed, Payload
from ingest.billing import declared_tariffs
from ingest.billing.derive import priced_requests
from ingest.billing.list_costs import list_costs
from ingest.billing.neuralwatt_usage import parse as parse_export
from ingest.billing.request_tariffs import reconstruct_requests
from ingest.billing.tariff_check import TariffCheck, check, uncovered
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.pipeline import refresh
from ingest.sample.generate import sample_payloads
from tests.ingest.billing_samples import TARIFFS
from tests.ingest.samples import counts_add_up, payload, rows, usage_export
from tests.support import shared
from warehouse.engine import Warehouse
from warehouse.tables import frame

START = datetime(2026, 8, 4)
LIST_USD = Decimal("0.001")  # of every request here, so that 3 x is 0.003


def request(
    n: int, kwh: str, rate: str, *, tier: str = "standard", cost: str | None = None, listed: Decimal | None = LIST_USD
) -> dict[str, Any]:
    """Request `n`, an hour after the one before, billed at `rate` USD/kWh or at `cost`."""
    at = START + timedelta(hours=n)
    return {
        "provider": "p",
        "account": "a",
        "usage_key": f"r{n:04d}",
        "grain": "request",
        "workload": "organic",
        "period_start_at": at,
        "period_end_at": at + timedelta(seconds=1),
        "requested_offer": "m",
        "service_tier": tier,
        "requests": 1,
        "attempts": 1,
        "billed_cost_usd": Decimal(cost) if cost is not None else Decimal(kwh) * Decimal(rate),
        "list_cost_usd": listed,
        "energy_j": float(Decimal(kwh) * 3_600_000),
        "evidence_class": "allocated",
        "method": "prorated",
    }


def usage(*requests: dict[str, Any]) -> pl.DataFrame:
    return frame("core.usage", requests)


def rule(*requests: dict[str, Any]) -> dict[str, Any]:
    (found,) = reconstruct_requests(usage(*requests)).frame.to_dicts()
    return found


PLAIN = tuple(request(n, f"0.0001{n}", "8") for n in range(5))


class TestReconstruction:
    def test_the_rate_is_what_most_requests_agree_on(self) -> None:
        found = rule(*PLAIN, request(9, "0.0002", "7.1"))
        assert (found["usd_per_kwh"], found["n"], found["basis"], found["evidence_class"]) == (
            8, 5, "reconstructed", "allocated",
        )  # fmt: skip
        assert (found["flex_multiplier"], found["list_price_ceiling_multiple"]) == (None, None)

    def test_two_bound_requests_tell_the_ceiling(self) -> None:
        bound = [request(7, "0.001", "8", cost="0.003"), request(8, "0.002", "8", cost="0.003")]
        found = rule(*PLAIN, *bound)
        assert (found["list_price_ceiling_multiple"], found["n"], found["residual_relative"]) == (3.0, 7, 0.0)

    @pytest.mark.parametrize(
        ("others", "why"),
        [
            ([request(7, "0.001", "8", cost="0.003")], "one does not tell a ceiling"),
            (
                [request(7, "0.001", "8", cost="0.003"), request(8, "0.001", "8", cost="0.004")],
                "no common multiple",
            ),
            (
                [
                    request(6, "0.001", "8", cost="0.003"),
                    request(7, "0.001", "8", cost="0.003"),
                    request(8, "0.002", "8"),
                ],
                "it is no ceiling",
            ),
        ],
    )
    def test_a_ceiling_that_the_bill_does_not_identify_is_not_guessed(
        self, others: list[dict[str, Any]], why: str
    ) -> None:
        told = reconstruct_requests(usage(*PLAIN, *others))
        assert told.frame["list_price_ceiling_multiple"].to_list() == [None]
        assert why in told.notes[0]

    def test_without_list_prices_no_ceiling_is_told(self) -> None:
        bound = [request(n, "0.001", "8", cost="0.003", listed=None) for n in (7, 8)]
        assert rule(*PLAIN, *bound)["list_price_ceiling_multiple"] is None

    def test_t15_flex_requests_tell_the_multiplier(self) -> None:
        flex = [request(n, f"0.0002{n}", "5.2", tier="flex") for n in (6, 7, 8)]
        assert rule(*PLAIN, *flex)["flex_multiplier"] == 0.65

    def test_t15_charged_energy_tells_it_outright(self) -> None:
        # the real export: 0.870879403 kWh consumed, 0.56607161195 charged
        row = {**request(7, "0.870879403", "5.2", tier="flex"), "energy_charged_j": 0.56607161195 * 3.6e6}
        assert rule(*PLAIN, row)["flex_multiplier"] == 0.65

    def test_one_flex_request_tells_nothing(self) -> None:
        assert rule(*PLAIN, request(7, "0.0002", "5.2", tier="flex"))["flex_multiplier"] is None

    def test_requests_that_agree_on_nothing_are_in_no_rule(self) -> None:
        told = reconstruct_requests(usage(*(request(n, "0.0001", f"{3 + n}") for n in range(5))))
        assert (told.frame.height, told.notes) == (0, ("5 requests agree on no rate per kWh: in no tariff rule",))

    def test_costs_rounded_to_a_millionth_still_agree(self) -> None:
        # 5.679e-06 kWh at 5 USD are 0.000028395, billed as 0.000028
        rounded = [
            request(n, k, "5", cost=str(round(Decimal(k) * 5, 6)))
            for n, k in enumerate(("0.0010001", "0.0020003", "0.0030007", "0.000005679"))
        ]
        found = rule(*rounded)
        assert (float(found["usd_per_kwh"]), found["n"]) == (pytest.approx(5, rel=1e-3), 4)

    def test_a_change_of_the_rate_begins_another_rule(self) -> None:
        later = [request(48 + n, f"0.0001{n}", "10") for n in range(4)]
        first, second = reconstruct_requests(usage(*PLAIN, *later)).frame.to_dicts()
        assert (first["usd_per_kwh"], first["valid_to"]) == (8, START + timedelta(hours=4, seconds=1))
        assert (second["usd_per_kwh"], second["valid_from"], second["valid_to"]) == (
            10, START + timedelta(hours=48), None,
        )  # fmt: skip

    @settings(deadline=None)
    @given(
        st.sampled_from([3.25, 5.0, 8.0, 10.0]),
        st.sampled_from([2, 3, 5]),
        st.sampled_from([None, 0.5, 0.65]),
        st.lists(st.integers(1, 4), min_size=2, max_size=6),
    )
    def test_whatever_the_rule_was_is_found_again(
        self, rate: float, multiple: int, flex: float | None, spikes: list[int]
    ) -> None:
        limit = LIST_USD * multiple
        below = str((limit / Decimal(str(rate)) / 3).quantize(Decimal("1e-9")))
        standard = [request(n, below, str(rate)) for n in range(4 + len(spikes))]
        bound = [request(20 + n, str(limit * s), str(rate), cost=str(limit)) for n, s in enumerate(spikes)]
        cheap = [request(40 + n, below, str(Decimal(str(rate)) * Decimal(str(flex))), tier="flex")
                 for n in range(3)] if flex else []  # fmt: skip
        told = reconstruct_requests(usage(*standard, *(b for b in bound if _spikes(b, rate, limit)), *cheap))
        (found,) = told.frame.to_dicts()
        assert float(found["usd_per_kwh"]) == pytest.approx(rate, rel=1e-6)
        assert found["flex_multiplier"] == (pytest.approx(flex) if flex else None)
        if sum(_spikes(b, rate, limit) for b in bound) >= 2:
            assert found["list_price_ceiling_multiple"] == pytest.approx(multiple)


def _spikes(row: dict[str, Any], rate: float, limit: Decimal) -> bool:
    """Whether a request is clearly above the ceiling by its energy."""
    return row["energy_j"] / 3.6e6 * rate > float(limit) * 1.02


class TestSampleData:
    def test_8_dollars_and_a_ceiling_of_3_that_binds_twice(self, warehouse: Warehouse) -> None:
        for made in sample_payloads(datetime(2026, 8, 11, 12)):

            def obtain(made: Payload = made) -> Payload:
                return made

            outcome = refresh(warehouse, kind(made.kind), made.source_id, obtain, trigger="sample")
            assert outcome.error is None
        tariffs = warehouse.query("SELECT * FROM mart.tariff")
        (found,) = tariffs.to_dicts()
        assert (found["usd_per_kwh"], found["list_price_ceiling_multiple"]) == (Decimal("8.00"), 3.0)
        (told,) = check(priced_requests(warehouse, sample=True), tariffs)
        assert (told.at_ceiling, told.unexplained, told.holds) == (2, 0, True)
        assert told.rows == told.explained == found["n"]


class TestListCosts:
    PRICE: ClassVar[dict[str, Any]] = {
        "provider": "p", "offer_id": "m", "component": "prompt", "min_prompt_tokens": 0,
        "valid_from": datetime(2026, 8, 3), "price_usd_per_unit": Decimal("0.000002"), "unit": "token",
        "price_kind": "fixed", "origin": "live",
    }  # fmt: skip

    def costs(self, at: datetime, **changes: Any) -> list[Decimal | None]:
        prices = [
            self.PRICE,
            {**self.PRICE, "valid_from": datetime(2026, 8, 10), "price_usd_per_unit": Decimal("0.000004")},
            {**self.PRICE, "component": "completion", "price_usd_per_unit": Decimal("0.00001")},
        ]
        row = {**request(0, "0.1", "8", listed=None), "prompt_tokens": 1000, "completion_tokens": 100,
               "period_start_at": at, **changes}  # fmt: skip
        known = frame("core.price", prices).with_columns(pl.lit(datetime(2026, 8, 11)).alias("known_from"))
        return list_costs(usage(row), known)

    def test_each_request_takes_the_price_of_its_time(self) -> None:
        assert self.costs(datetime(2026, 8, 4)) == [Decimal("0.003")]
        assert self.costs(datetime(2026, 8, 12)) == [Decimal("0.005")]

    def test_before_the_first_known_price_the_first_one_stands_in(self) -> None:
        assert self.costs(datetime(2026, 1, 1)) == [Decimal("0.003")]

    def test_what_the_row_tells_itself_comes_first(self) -> None:
        assert self.costs(datetime(2026, 8, 4), list_cost_usd=Decimal(7)) == [7]

    def test_an_unknown_model_has_an_unknown_cost(self) -> None:
        assert self.costs(datetime(2026, 8, 4), requested_offer="x") == [None]


def declare(body: Any) -> Parsed:
    found = declared_tariffs.parse(payload(body, "tariffs"))
    assert counts_add_up(found)
    return found


class TestDeclared:
    def test_a_declared_tariff(self) -> None:
        first, second = rows(declare(TARIFFS))
        assert (first["usd_per_kwh"], first["flex_multiplier"], first["list_price_ceiling_multiple"]) == (8, 0.65, 3.0)
        assert (first["basis"], first["evidence_class"]) == ("declared", "modeled")
        assert (second["valid_from"], second["flex_multiplier"]) == (datetime(2025, 12, 31, 23), None)

    def test_json_says_the_same(self) -> None:
        listed = [
            {"provider": "neuralwatt", "account": "default", "valid_from": "2026-05-01T00:00:00Z", "usd_per_kwh": 8.00,
             "flex_multiplier": 0.65, "list_price_ceiling_multiple": 3}
        ]  # fmt: skip
        assert rows(declare(listed)) == rows(declare(TARIFFS))[:1]

    @pytest.mark.parametrize(
        ("column", "value", "said"),
        [("valid_from", "2026-05-01T00:00:00", "zone"), ("valid_from", "soon", "ISO 8601"),
         ("usd_per_kwh", "", "missing"),
         ("usd_per_kwh", "0", "bill nothing"), ("usd_per_kwh", "-5", "negative"), ("usd_per_kwh", "$5", "not a number"),
         ("flex_multiplier", "NaN", "finite"), ("account", " ", "missing"), ("usd_per_kwh", "1e9", "plausible"),
         ("list_price_ceiling_multiple", "0", "bill nothing")],
    )  # fmt: skip
    def test_a_rule_that_does_not_hold_together_goes_alone(self, column: str, value: str, said: str) -> None:
        head, first, second = TARIFFS.splitlines()
        cells = dict(zip(head.split(","), first.split(","), strict=True)) | {column: value}
        found = declare("\n".join([head, ",".join(cells.values()), second]))
        assert (len(rows(found)), found.rows_quarantined) == (1, 1)
        assert any(said in r.reason for r in found.rejects)

    @pytest.mark.parametrize(
        "body", ["provider,account\np,a\n", "provider,account,valid_from,usd_per_kwh,zone\n", "[]", "{}"]
    )
    def test_other_columns_are_refused_whole(self, body: str) -> None:
        with pytest.raises(PayloadError):
            declare(body)


def tariff(**changes: Any) -> pl.DataFrame:
    """Rows of mart.tariff."""
    row = {
        "provider": "p", "account": "a", "valid_from": START, "valid_to": None, "usd_per_kwh": Decimal(8),
        "flex_multiplier": 0.65, "list_price_ceiling_multiple": 3.0, "basis": "declared", "evidence_class": "modeled",
        **changes,
    }  # fmt: skip
    return frame("core.tariff", [row]).with_columns(
        pl.lit("file:tariffs").alias("source_id"), pl.lit(None).cast(pl.Datetime("us")).alias("superseded_at")
    )


def checked(rules: pl.DataFrame, *requests: dict[str, Any]) -> TariffCheck:
    (found,) = check(usage(*requests), rules)
    assert found.rows == found.explained + found.below_ceiling + found.unexplained + found.unchecked
    return found


class TestCheck:
    def test_a_true_tariff_holds(self) -> None:
        found = checked(
            tariff(),
            *PLAIN,
            request(7, "0.001", "8", cost="0.003"),
            request(8, "0.0001", "5.2", tier="flex"),
        )
        assert (found.holds, found.explained, found.at_ceiling, found.unexplained) == (True, 7, 1, 0)
        assert found.billed_usd == found.expected_usd

    def test_a_wrong_rate_is_shown_with_its_residuals(self) -> None:
        found = checked(tariff(usd_per_kwh=Decimal(5)), *PLAIN)
        assert (found.holds, found.unexplained) == (False, 5)
        worst = found.worst[0]
        assert (worst.residual_usd, worst.residual_relative) == (worst.billed_usd - worst.expected_usd, 0.375)

    def test_a_missing_ceiling_is_shown(self) -> None:
        found = checked(tariff(list_price_ceiling_multiple=None), *PLAIN, request(7, "0.001", "8", cost="0.003"))
        assert [(w.usage_key, w.billed_usd, w.expected_usd) for w in found.worst] == [
            ("r0007", Decimal("0.003"), Decimal("0.008"))
        ]

    def test_flex_without_a_multiplier_is_not_checked(self) -> None:
        found = checked(tariff(flex_multiplier=None), request(8, "0.0001", "5.2", tier="flex"))
        assert (found.unchecked, found.holds) == (1, None)

    def test_rows_outside_its_span_do_not_concern_a_rule(self) -> None:
        rules = tariff(valid_from=START + timedelta(hours=2), valid_to=START + timedelta(hours=4))
        found = checked(rules, *PLAIN)
        assert found.rows == 2
        assert uncovered(usage(*PLAIN), [found]) == {("p", "a"): 3}

    def test_a_day_below_the_rate_may_be_the_ceilings_work_and_one_above_never(self) -> None:
        day = {**request(5, "1", "7", listed=None), "grain": "day"}
        assert (checked(tariff(), day).below_ceiling, checked(tariff(), day).holds) == (1, True)
        assert checked(tariff(list_price_ceiling_multiple=None), day).holds is False
        assert checked(tariff(), {**day, "billed_cost_usd": Decimal(9)}).holds is False

    def test_a_period_is_left_out_where_its_days_are_told(self) -> None:
        told = parse_export(payload(usage_export(), "neuralwatt-usage")).tables["core.usage"]
        (found,) = check(told, tariff(provider="neuralwatt", account="default", valid_from=datetime(2026, 7, 1)))
        assert found.rows == 3

    @given(st.lists(st.decimals("0.000001", "0.0003", places=7), min_size=1, max_size=12), st.integers(2, 12))
    def test_a_bill_made_by_the_rule_always_holds(self, energies: list[Decimal], rate: int) -> None:
        made = [request(n, str(kwh), "0", cost=str(min(kwh * rate, 3 * LIST_USD))) for n, kwh in enumerate(energies)]
        found = checked(tariff(usd_per_kwh=Decimal(rate)), *made)
        assert (found.holds, found.explained) == (True, len(made))
        assert found.billed_usd == sum((m["billed_cost_usd"] for m in made), Decimal(0))

    def test_the_real_exports_are_explained_to_the_cent(self) -> None:
        """Eight models, 5.00 USD/kWh until 14 July and 10.00 from the 16th, flex at 0.65."""
        folder = shared("data/neuralwatt/sample-exports")
        parts = []
        for file in sorted(folder.glob("*.json")):
            parts.append(parse_export(payload(file.read_bytes(), "neuralwatt-usage")).tables["core.usage"])
        rules = pl.concat(
            [
                tariff(provider="neuralwatt", account="default", valid_from=datetime(2026, 7, day, 4),
                       usd_per_kwh=Decimal(rate), list_price_ceiling_multiple=None,
                       valid_to=datetime(2026, 7, end, 4) if end else None)
                for day, end, rate in ((1, 15, 5), (15, None, 10))
            ]
        )  # fmt: skip
        first, second = check(pl.concat(parts), rules)
        assert (first.holds, first.explained, second.holds, second.explained) == (True, 17, True, 7)
