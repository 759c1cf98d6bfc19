"""Erlang-C in logarithms: exact for few servers, finite for millions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.errors import QueueInvalid
from policies.fleet.queueing import erlang_c, log_erlang_c, mgc


def summed(servers: int, offered: Fraction) -> float:
    """The definition, in exact fractions."""
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1 - offered / servers)
    return float(last / (sum(terms) + last))


@given(servers=st.integers(1, 40), share=st.fractions(Fraction(1, 50), Fraction(199, 200), max_denominator=500))
def test_it_is_the_sum_of_its_definition(servers: int, share: Fraction) -> None:
    offered = servers * share
    assert erlang_c(servers, float(offered)) == pytest.approx(summed(servers, offered), rel=1e-11)


def test_one_server_is_busy_as_often_as_it_is_loaded() -> None:
    assert erlang_c(1, 0.37) == pytest.approx(0.37, rel=1e-14)


def test_a_table_value() -> None:
    # Cooper, Introduction to Queueing Theory: 10 servers, 7 erlangs
    assert erlang_c(10, 7.0) == pytest.approx(0.22173, abs=1e-5)


@pytest.mark.parametrize(("servers", "beta"), [(10**6, 1.0), (10**6, 0.5), (10**5, 2.0)])
def test_a_million_servers_follow_the_square_root_law(servers: int, beta: float) -> None:
    """Halfin and Whitt 1981: 1 / (1 + beta Phi(beta) / phi(beta)) as servers grow with beta fixed."""
    phi = math.exp(-(beta**2) / 2) / math.sqrt(2 * math.pi)
    limit = 1 / (1 + beta * (1 + math.erf(beta / math.sqrt(2))) / 2 / phi)
    assert erlang_c(servers, servers - beta * math.sqrt(servers)) == pytest.approx(limit, rel=6 / math.sqrt(servers))


def test_the_logarithm_lives_where_the_probability_underflows() -> None:
    assert erlang_c(10**6, 10.0) == 0.0
    servers, offered = 10**6, 10.0
    expected = servers * math.log(offered) - math.lgamma(servers + 1) - offered  # B is the Poisson mass here
    assert log_erlang_c(servers, offered) == pytest.approx(expected, rel=1e-9)


@given(servers=st.integers(1, 200_000), low=st.floats(0.01, 0.98), step=st.floats(1e-4, 0.015))
def test_more_load_waits_more_and_more_servers_wait_less(servers: int, low: float, step: float) -> None:
    here = log_erlang_c(servers, low * servers)
    assert here < log_erlang_c(servers, (low + step) * servers)
    assert here > log_erlang_c(servers + 1, low * servers)


def test_a_load_of_all_servers_or_more_always_waits() -> None:
    assert erlang_c(5, 5.0) == 1.0
    assert erlang_c(5, 9.0) == 1.0
    assert erlang_c(5, 0.0) == 0.0


@pytest.mark.parametrize(("servers", "offered"), [(0, 1.0), (3, -1.0), (3, math.nan)])
def test_what_no_queue_can_have_is_named(servers: int, offered: float) -> None:
    with pytest.raises(QueueInvalid, match="Fix: give"):
        log_erlang_c(servers, offered)


def test_the_wait_of_one_exponential_server_is_exact() -> None:
    """M/M/1: P(W > t) = rho exp(-(mu - lambda) t)."""
    wait = mgc(1, 0.8, 1.0)
    assert wait.exceeds(3.0) == pytest.approx(0.8 * math.exp(-0.2 * 3))
    assert wait.mean_s == pytest.approx(0.8 / 0.2)
    assert wait.quantile_s(0.99) == pytest.approx(math.log(0.8 / 0.01) / 0.2)


def test_the_mean_wait_of_one_general_server_is_that_of_pollaczek_and_khinchine() -> None:
    assert mgc(1, 0.8, 1.0, cv2=0.25).mean_s == pytest.approx(0.8 * (1 + 0.25) / 2 / (1 - 0.8))


@given(servers=st.integers(1, 3000), load=st.floats(0.05, 0.999), cv2=st.floats(0, 5), quantile=st.floats(0.5, 0.9999))
def test_a_quantile_is_the_wait_that_the_rest_exceeds(servers: int, load: float, cv2: float, quantile: float) -> None:
    wait = mgc(servers, load * servers * 2.5, 2.5, cv2)
    seconds = wait.quantile_s(quantile)
    if seconds > 0:
        assert wait.exceeds(seconds) == pytest.approx(1 - quantile, rel=1e-9)
    else:
        assert wait.probability <= 1 - quantile + 1e-12


def test_a_queue_that_grows_waits_for_ever() -> None:
    wait = mgc(4, 10.0, 2.5)
    assert not wait.stable
    assert wait.quantile_s(0.5) == wait.mean_s == math.inf
    assert wait.exceeds(1e9) == 1.0


@pytest.mark.parametrize("quantile", [0.0, 1.0, 99.0, math.nan])
def test_a_quantile_is_a_share(quantile: float) -> None:
    with pytest.raises(QueueInvalid, match="between 0 and 1"):
        mgc(2, 1.0, 1.0).quantile_s(quantile)
