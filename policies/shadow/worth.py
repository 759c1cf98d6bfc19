"""What shadow decisions say together: who agrees with whom, where they differ, and what that would be worth.

Worth is an estimate by the reference workload, never a measurement of these requests: it orders what to look at, and
proves nothing. It is standardised to the fixed mix, so that a policy that happened to be asked about small requests
does not look frugal. Its interval is that over requests, paired: both estimates are of the same request. How far the
reference runs themselves scatter is not in it; the promise of a recommendation tells that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from policies.proof.bands import reference_mix
from policies.proof.errors import ProofError
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, one_class

if TYPE_CHECKING:
    from policies.proof.strata import Standardised

METHOD = "paired delta on the log ratio within strata, over requests; the scatter of the reference runs is not in it"
METRICS = {"energy_j": "J/success", "cost_usd": "USD/success", "carbon_g": "gCO2eq/success"}
_CLASS = {"energy_j": "expected_energy_evidence_class", "carbon_g": "expected_carbon_evidence_class"}
KIND = "reference_workload"
CONFIDENCE = 0.95
_NO_WIDTH = 1e-9  # relative: rounding


def agreement(decisions: pl.DataFrame) -> dict[str, Any]:
    """Counts of incumbent x chosen (None: handed back), and the share that agrees."""
    cells = (
        decisions.group_by("incumbent", "chosen")
        .len("n")
        .sort("n", "incumbent", "chosen", descending=[True, False, False])
    )
    n = decisions.height
    return {
        "n": n,
        "agree": int(decisions["agrees"].sum()),
        "agree_share": float(decisions["agrees"].sum()) / n if n else None,
        "fallback": int(decisions["fallback"].sum()),
        "handed_back": int(decisions["chosen"].null_count()),
        "matrix": cells.to_dicts(),
    }


def differences(decisions: pl.DataFrame, most: int = 50) -> list[dict[str, Any]]:
    """Where another offer would have been chosen, by category and size band, most requests first."""
    other = decisions.filter(~pl.col("agrees") & pl.col("chosen").is_not_null())
    by = ["incumbent", "chosen", "category", "tier", "latency", "size_band"]
    means = [pl.col(f"{side}_{name}").mean() for name in METRICS for side in ("expected", "incumbent")]
    known = [pl.col(f"expected_{name}").is_not_null().sum().alias(f"n_{name}") for name in METRICS]
    found = other.group_by(by).agg(pl.len().alias("n"), *means, *known).sort("n", *by, descending=[True] + [False] * 6)
    return found.head(most).to_dicts()


def worth(decisions: pl.DataFrame, mix: Mapping[str, float] | None) -> dict[str, Any]:
    """Per metric the expected ratio chosen / incumbent at the mix (or, without one, as the requests came).

    low, high: bounds of `difference` = ratio - 1; None, and why in `interval_note`, where requests cannot tell them.
    """
    strata = pl.format("{}|{}", "category", "size_band").alias("stratum")
    placed = decisions.with_columns(strata)
    return {name: _metric(placed, name, mix) for name in METRICS}


def _metric(decisions: pl.DataFrame, name: str, mix: Mapping[str, float] | None) -> dict[str, Any]:
    one, zero = f"expected_{name}", f"incumbent_{name}"
    known = decisions.filter(pl.col(one).is_not_null() & pl.col(zero).is_not_null())
    told: dict[str, Any] = {
        "unit": METRICS[name], "kind": KIND, "n": known.height, "of": decisions.height, "evidence_class": None,
        "ratio": None, "difference": None, "expected": None, "incumbent": None, "missing_strata": [], "note": None,
        "low": None, "high": None, "confidence": CONFIDENCE, "method": METHOD, "interval_note": None,
    }  # fmt: skip
    if not known.height:
        return told | {"note": "no decision has an estimate of both offers"}
    try:
        cls = _class(known, name)
    except IncomparableObservations as mixed:
        return told | {"note": mixed.message}
    told["evidence_class"] = cls.value if cls else None
    if mix is None and (known["stratum"] == f"{known['stratum'][0]}").all():
        mix = {known["stratum"][0]: 1.0}
    return told | _standardised(known, one, zero, mix or reference_mix(known["stratum"].to_list()))


def _class(known: pl.DataFrame, name: str) -> EvidenceClass | None:
    if name == "cost_usd":  # a bill is a document, whatever the energy behind it
        return EvidenceClass.MEASURED
    return one_class(known[_CLASS[name]].drop_nulls(), what=METRICS[name])


def _standardised(known: pl.DataFrame, one: str, zero: str, mix: Mapping[str, float]) -> dict[str, Any]:
    ones = np.ones(known.height)
    strata = known["stratum"].to_list()
    try:
        from policies.proof.strata import ratio_standardised  # brings numba and scipy: not at every start

        found = ratio_standardised(known[one].to_numpy(), ones, known[zero].to_numpy(), ones, strata, mix, CONFIDENCE)
    except ProofError as wrong:
        return {"note": wrong.message}
    if found.missing:
        told = f"no decision in {', '.join(found.missing)}: {found.covered:.0%} of the mix is covered"
        return {"missing_strata": list(found.missing), "note": told}
    means = [_mean(known, column, strata, mix) for column in (one, zero)]
    return {
        "ratio": found.estimate,
        "difference": None if found.estimate is None else found.estimate - 1,
        "expected": means[0],
        "incumbent": means[1],
    } | _interval(found)


def _interval(found: Standardised) -> dict[str, Any]:
    """Of no width is not certain: then every request of a stratum has the same two estimates, and tells nothing."""
    if found.estimate is None:
        return {}
    if found.thin:
        return {"interval_note": f"one request alone in {', '.join(found.thin)}"}
    if found.high - found.low <= _NO_WIDTH * found.estimate:
        return {"interval_note": "the estimates do not differ between the requests of a stratum"}
    return {"low": found.low - 1, "high": found.high - 1}


def _mean(known: pl.DataFrame, column: str, strata: Sequence[str], mix: Mapping[str, float]) -> float:
    values, labels = known[column].to_numpy(), np.asarray(strata)
    return float(sum(share * values[labels == name].mean() for name, share in mix.items()))
