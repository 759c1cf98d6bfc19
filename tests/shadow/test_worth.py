"""What differences are worth, worked out by hand, with the interval over requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from policies.proof.intervals import ratio_delta
from policies.shadow.worth import METHOD, worth


def decisions(expected: list[float | None], incumbent: list[float], band: list[str] | None = None) -> pl.DataFrame:
    """Decisions of one category, each with the joules of both offers per success."""
    n = len(expected)
    told: dict[str, Any] = {
        "category": ["chat"] * n,
        "size_band": band or ["0-511"] * n,
        "expected_energy_j": expected,
        "incumbent_energy_j": incumbent,
        "expected_energy_evidence_class": ["allocated"] * n,
        "expected_carbon_evidence_class": [None] * n,
    }
    nothing = {f"{side}_{name}": [None] * n for side in ("expected", "incumbent") for name in ("cost_usd", "carbon_g")}
    return pl.DataFrame(told | nothing, schema_overrides=dict.fromkeys(nothing, pl.Float64))


def test_the_interval_of_one_stratum_is_the_paired_delta_by_hand() -> None:
    told = worth(decisions([10.0, 20.0, 20.0, 10.0], [20.0, 20.0, 20.0, 40.0]), None)["energy_j"]
    assert told["ratio"] == pytest.approx(60 / 100)
    # psi = x1/15 - x0/25: -2/15, 8/15, 8/15, -14/15; se = sqrt(328 / 225 / 3 / 4) = 0.348542
    se = np.sqrt(np.var([-2 / 15, 8 / 15, 8 / 15, -14 / 15], ddof=1) / 4)
    assert se == pytest.approx(0.3485419365)
    assert told["low"] == pytest.approx(0.6 * np.exp(-1.959963985 * se) - 1)
    assert told["high"] == pytest.approx(0.6 * np.exp(1.959963985 * se) - 1)
    assert (told["confidence"], told["method"], told["interval_note"]) == (0.95, METHOD, None)


def test_with_many_requests_it_is_the_gates_paired_delta() -> None:
    rng = np.random.default_rng(4)
    control = rng.lognormal(3, 0.5, 4000)
    candidate = control * rng.lognormal(-0.5, 0.2, 4000)
    told = worth(decisions(candidate.tolist(), control.tolist()), None)["energy_j"]
    ones = np.ones(4000)
    low, high = ratio_delta(candidate, ones, control, ones, 0.95)
    assert (1 + told["low"], 1 + told["high"]) == pytest.approx((low, high), rel=1e-4)


def test_a_whole_stratum_of_equal_estimates_is_no_certainty() -> None:
    told = worth(decisions([10.0] * 5, [20.0] * 5), None)["energy_j"]
    assert (told["low"], told["high"]) == (None, None) and told["difference"] == pytest.approx(-0.5)
    assert told["interval_note"] == "the estimates do not differ between the requests of a stratum"


def test_a_request_alone_and_no_request_bound_nothing() -> None:
    alone = worth(decisions([10.0, 12.0, 9.0], [20.0, 20.0, 19.0], ["0-511", "0-511", "512-2047"]), None)["energy_j"]
    assert alone["ratio"] is not None and alone["low"] is None
    assert alone["interval_note"] == "one request alone in chat|512-2047"
    none = worth(decisions([None], [20.0]), None)["energy_j"]
    assert (none["ratio"], none["low"], none["note"]) == (None, None, "no decision has an estimate of both offers")
