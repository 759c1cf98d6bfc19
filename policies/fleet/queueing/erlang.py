"""Erlang-C: the probability that an arrival finds all servers busy, from one server to millions.

    C = B / (1 - rho (1 - B)),  B = pmf(c; a) / cdf(c; a) of a Poisson distribution with mean a

(Erlang 1917; e.g. Cooper, Introduction to Queueing Theory, 2nd ed., section 3). Everything is in logarithms and the
Poisson mass is told by its saddle point (Loader 2000), so nothing overflows and no sum over servers is needed.
"""

from __future__ import annotations

import math

from scipy import special

from policies.fleet.errors import QueueInvalid

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def log_erlang_c(servers: int, offered: float) -> float:
    """Natural logarithm of Erlang-C for `servers` and a load of `offered` erlangs; 0 where the load is not below them.

    Raises QueueInvalid for no servers, or a load that is negative or not a number.
    """
    if servers < 1:
        raise QueueInvalid(f"a queue of {servers} servers.", fix="give 1 or more")
    if not offered >= 0:  # NaN fails too
        raise QueueInvalid(f"an offered load of {offered} erlangs.", fix="give 0 or more")
    if offered == 0:
        return -math.inf
    if offered >= servers:
        return 0.0
    # below its median the Poisson distribution function is at least one half: no underflow in the denominator
    log_b = _log_poisson(servers, offered) - math.log(float(special.gammaincc(servers + 1.0, offered)))
    free = (servers - offered) / servers
    log_busy = log_b + math.log(offered / servers)
    return log_b - math.log(free + math.exp(log_busy))


def erlang_c(servers: int, offered: float) -> float:
    """Erlang-C itself. Raises QueueInvalid."""
    return math.exp(log_erlang_c(servers, offered))


def _log_poisson(n: int, mean: float) -> float:
    """log of the probability of n under a Poisson distribution, n >= 1, mean > 0."""
    off = (mean - n) / n
    log_ratio = math.log1p(off) if off > -0.5 else math.log(mean / n)
    return -_stirling_error(n) - n * (off - log_ratio) - 0.5 * math.log(n) - _HALF_LOG_2PI


def _stirling_error(n: int) -> float:
    """log n! less Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_2PI
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / n
