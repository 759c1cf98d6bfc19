"""Numbers as an operator reads them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.components import format as fmt

NOW = datetime(2026, 11, 29, 12, 0, 0)


def spaced(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (211, "J", "211 J"),
        (0.41, "J/token", "0.410 J/token"),
        (1_412_000, "J", "1.41 MJ"),
        (999.6, "J", "1.00 kJ"),  # three digits of 999.6 are 1000: the next prefix
        (0.00034, "g", "340 µg"),
        (505, "g/kWh", "505 g/kWh"),
        (0.034, "s", "34.0 ms"),
        (75, "s", "75.0 s"),  # no kiloseconds
        (98.7, "%", "98.7 %"),
        (0, "J", "0 J"),
        (-12.34, "J", "−12.3 J"),
        (9.8e-5, "USD", "$0.0000980"),
        (12.3, "USD", "$12.30"),
        (5254, "", "5,254"),
    ],
)
def test_a_quantity_has_three_digits_a_prefix_and_its_unit(value: float, unit: str, shown: str) -> None:
    assert spaced(fmt.quantity(value, unit)) == shown


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf")])
def test_unknown_is_a_dash_and_never_zero(unknown: float | None) -> None:
    assert fmt.quantity(unknown, "J") == fmt.MISSING
    assert fmt.usd(unknown) == fmt.MISSING
    assert fmt.percent(unknown) == fmt.MISSING


@given(st.floats(min_value=1e-8, max_value=9e11))
def test_a_formatted_joule_reads_back_within_half_a_percent(value: float) -> None:
    factors = {"G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    number, unit = spaced(fmt.quantity(value, "J")).split(" ")
    assert float(number.replace(",", "")) * factors[unit[:-1]] == pytest.approx(value, rel=0.005)


def test_changes_carry_their_sign_and_no_change_has_none() -> None:
    assert spaced(fmt.percent(-0.14, signed=True)) == "−14 %"
    assert spaced(fmt.percent(0.031, signed=True)) == "+3.1 %"
    assert spaced(fmt.percent(0.00001, signed=True)) == "0.0 %"
    assert spaced(fmt.points(-0.001)) == "−0.1 pp"
    assert spaced(fmt.signed(0.04, "s")) == "+40.0 ms"


def test_an_interval_has_one_unit_for_both_ends() -> None:
    assert spaced(fmt.interval(204, 218, "J")) == "204–218 J"
    assert spaced(fmt.interval(940, 1100, "J")) == "0.940–1.10 kJ"
    assert fmt.interval(None, 1, "J") == fmt.MISSING


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(3, "3 s"), (60, "1 min"), (3599, "60 min"), (3 * 3600, "3 h"), (47 * 3600, "47 h"), (2 * 86400, "2 d")],
)
def test_an_age_is_told_in_one_unit(seconds: float, shown: str) -> None:
    assert spaced(fmt.age(NOW - timedelta(seconds=seconds), NOW)) == shown


def test_ages_of_nothing_and_of_the_future() -> None:
    assert fmt.age(None) == "never"
    assert spaced(fmt.age(NOW + timedelta(days=2), NOW)) == "in 2 d"


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("![]()*_`$<>|:/@\\\n")), max_size=60))
def test_literal_text_has_no_live_markdown(text: str) -> None:
    shown = fmt.literal(text)
    assert len(shown.splitlines()) <= 1
    without_escapes = re.sub(r"\\[\\`*_{}\[\]()#+!|~$<>&:]", "", shown)
    assert not re.search(r"[`*_{}\[\]()#+!|~$<>&:]", without_escapes)


def test_an_address_in_a_reason_is_neither_an_image_nor_a_link() -> None:
    shown = fmt.literal("![x](http://a.test/b.png) and www.a.test and ann@a.test")
    assert "http://" not in shown.replace("\\", "")
    assert "www." not in shown
    assert "@a" not in shown
