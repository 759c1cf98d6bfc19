"""Amounts of several currencies meet only through dated rates."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing import fx_rates
from ingest.billing.currencies import FxRate, total_in
from ingest.errors import PayloadError
from tests.ingest.billing_samples import FX
from tests.ingest.samples import counts_add_up, payload, rows

DAY = date(2026, 4, 30)
CNY = FxRate("USD", "CNY", Decimal("7.2"), DAY, "ECB")
SUMS = {"CNY": Decimal("1.03"), "USD": Decimal("1.00")}


def parsed(body: str) -> Parsed:
    found = fx_rates.parse(payload(body, "fx-rates"))
    assert counts_add_up(found)
    return found


class TestTotals:
    def test_t13_without_a_rate_there_are_two_subtotals_and_no_sum(self) -> None:
        # opencode#41208, Reasonix#1369
        told = total_in("USD", DAY, SUMS, [])
        assert [(p.currency, p.amount) for p in told.parts] == [("CNY", Decimal("1.03")), ("USD", Decimal("1.00"))]
        assert (told.total, told.missing) == (None, ("CNY",))
        assert told.note == "no sum: no rate to USD on or before 2026-04-30 for CNY"

    def test_t13_with_a_dated_rate_the_sum_shows_rate_and_date(self) -> None:
        told = total_in("USD", DAY, SUMS, [CNY])
        assert told.total is not None
        assert float(told.total) == pytest.approx(1.143055, abs=1e-6)
        assert told.note == "1 USD = 7.2 CNY on 2026-04-30 (ECB)"

    def test_a_rate_is_used_in_both_directions(self) -> None:
        told = total_in("CNY", DAY, SUMS, [CNY])
        assert told.total == Decimal("1.03") + Decimal("7.2")

    def test_no_rate_of_a_later_day_and_none_through_a_third_currency(self) -> None:
        assert total_in("USD", date(2026, 4, 29), SUMS, [CNY]).missing == ("CNY",)
        euro = [FxRate("EUR", "USD", Decimal("1.1"), DAY, "ECB"), FxRate("EUR", "CNY", Decimal(8), DAY, "ECB")]
        assert total_in("USD", DAY, SUMS, euro).total is None

    def test_the_newest_rate_not_after_the_day_is_taken(self) -> None:
        older = FxRate("USD", "CNY", Decimal(7), date(2026, 4, 1), "ECB")
        (part, _) = total_in("USD", DAY, SUMS, [older, CNY]).parts
        assert part.rate == CNY

    def test_nothing_is_no_sum(self) -> None:
        assert total_in("USD", DAY, {}, [CNY]).total is None

    @pytest.mark.parametrize("rate", ["0", "-1", "NaN", "Infinity"])
    def test_a_rate_is_above_zero(self, rate: str) -> None:
        with pytest.raises(ValueError, match="above 0"):
            FxRate("USD", "CNY", Decimal(rate), DAY, "x")

    @given(
        st.dictionaries(st.sampled_from(["USD", "EUR", "CNY", "JPY"]), st.decimals(-1000, 1000, places=4)),
        st.dictionaries(st.sampled_from(["EUR", "CNY", "JPY"]), st.decimals("0.001", 1000, places=3)),
    )
    def test_t13_a_sum_exists_exactly_where_every_currency_has_a_rate(
        self, sums: dict[str, Decimal], quoted: dict[str, Decimal]
    ) -> None:
        rates = [FxRate(c, "USD", r, DAY, "x") for c, r in quoted.items()]
        told = total_in("USD", DAY, sums, rates)
        assert {p.currency: p.amount for p in told.parts} == sums
        assert set(told.missing) == set(sums) - set(quoted) - {"USD"}
        expected = sum((a * quoted.get(c, Decimal(1)) for c, a in sums.items()), Decimal(0))
        assert told.total == (None if told.missing or not sums else expected)


class TestRates:
    def test_a_rate_with_its_day_and_who_says_so(self) -> None:
        first, second = rows(parsed(FX))
        assert (first["from_currency"], first["to_currency"], first["rate"]) == ("USD", "CNY", Decimal("7.2"))
        assert (first["rate_on_at"], first["rate_source"]) == (datetime(2026, 4, 30), "ECB")
        assert second["rate"] == Decimal("1.125")

    @pytest.mark.parametrize(
        "line",
        ["2026-04-30,USD,USD,1,x", "2026-04-30,usd,EUR,1,x", "2026-04-30,USD,EUR,0,x", "2026-04-30,USD,EUR,-1,x",
         "2026-04-30,USD,EUR,,x", "2026-04-30,USD,EUR,1,", "30/04/2026,USD,EUR,1,x", "2026-04-31,USD,EUR,1,x",
         "2026-04-30T12:00:00Z,USD,EUR,1,x", "2026-04-30,USD,EUR"],
    )  # fmt: skip
    def test_what_is_no_dated_rate_goes_alone(self, line: str) -> None:
        head, good, *_ = FX.splitlines()
        found = parsed("\n".join([head, line, good]) + "\n")
        assert (len(rows(found)), found.rows_quarantined) == (1, 1)

    def test_a_missing_column_is_named(self) -> None:
        with pytest.raises(PayloadError, match="source"):
            parsed("date,from,to,rate\n2026-04-30,USD,CNY,7.2\n")
