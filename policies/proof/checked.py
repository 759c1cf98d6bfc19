"""Checks of what comes in: every estimator refuses the same nonsense in the same words."""

from __future__ import annotations

import math
import operator
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from policies.proof.errors import ConfidenceInvalid, CountsInvalid, LengthsDiffer, NoData, ValuesInvalid

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]


def probability(value: float, name: str = "confidence") -> float:
    """`value` as a float within the open interval (0, 1). Raises ConfidenceInvalid."""
    if not 0.0 < value < 1.0:  # false for NaN, too
        raise ConfidenceInvalid(f"{name} is {value}.", fix="give a share above 0 and below 1, such as 0.95")
    return float(value)


def z_two_sided(confidence: float) -> float:
    """Standard normal quantile of a two-sided interval."""
    from scipy.special import ndtri  # slow to import: not at every start

    return float(ndtri(0.5 + probability(confidence) / 2))


def t_two_sided(confidence: float, df: int) -> float:
    """Student's quantile of a two-sided interval with `df` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + probability(confidence) / 2))


def count(value: SupportsIndex | float, name: str) -> int:
    """`value` as a whole number of at least 0 (10.0 is one, 10.5 and NaN are not). Raises CountsInvalid."""
    try:
        if isinstance(value, float | np.floating):
            if not math.isfinite(value) or value != int(value):
                raise TypeError
            whole = int(value)
        else:
            whole = operator.index(value)
    except TypeError:
        raise CountsInvalid(f"{name} is {value!r}.", fix="give a whole number of requests, 0 or more") from None
    if whole < 0:
        raise CountsInvalid(f"{name} is {whole}.", fix="give a whole number of requests, 0 or more")
    return whole


def total(value: SupportsIndex | float, name: str = "n") -> int:
    """A count of at least 1. Raises CountsInvalid, and NoData for 0."""
    whole = count(value, name)
    if whole == 0:
        raise NoData(f"{name} is 0.", fix="wait for evidence: no data bounds nothing")
    return whole


def vector(values: npt.ArrayLike, name: str, *, signed: bool = False, endless: bool = False) -> Floats:
    """`values` as floats (n,), finite unless `endless`, not negative unless `signed`.

    Raises ValuesInvalid, and NoData for n = 0.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValuesInvalid(
            f"{name} holds something that is not a number.", fix="give one number per request"
        ) from None
    if array.ndim != 1:
        raise ValuesInvalid(f"{name} has {array.ndim} dimensions.", fix="give one number per request")
    if not array.size:
        raise NoData(f"{name} is empty.", fix="wait for evidence: no data bounds nothing")
    bad = np.isnan(array) | (np.isinf(array) & (not endless)) | ((array < 0) & (not signed))
    if bad.any():
        at = int(np.argmax(bad))
        allowed = "finite numbers" if signed else "finite numbers of at least 0"
        raise ValuesInvalid(
            f"{name}[{at}] is {array[at]}.", fix=f"give {allowed}; leave out requests that tell nothing"
        )
    return array


def same_length(**arrays: npt.NDArray[np.generic]) -> int:
    """The common length of `arrays`. Raises LengthsDiffer."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise LengthsDiffer(f"lengths differ: {told}.", fix="give one row per request, the same requests on both sides")
    return next(iter(lengths.values()))
