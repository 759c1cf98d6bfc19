"""Evidence classes and their algebra (design section 4): the weakest input names the result."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from warehouse.errors import IncomparableObservations


class EvidenceClass(StrEnum):
    """How a figure came to be, strongest first."""

    MEASURED = "measured"  # a meter on the whole device over the window
    ALLOCATED = "allocated"  # a provider's or our own share of a measured window
    CALIBRATED = "calibrated"  # a model fitted to measured windows
    MODELED = "modeled"  # a published or projected profile


class Quality(StrEnum):
    HIGH = "HIGH"
    FAIR = "FAIR"
    LOW = "LOW"


_STRENGTH = {cls: rank for rank, cls in enumerate(EvidenceClass)}
_QUALITY = {q: rank for rank, q in enumerate(Quality)}


def weakest(classes: Iterable[str]) -> EvidenceClass | None:
    """The class an aggregate of `classes` inherits; None when there is no input."""
    known = [EvidenceClass(c) for c in classes]
    return max(known, key=_STRENGTH.__getitem__) if known else None


def strongest_first(classes: Iterable[str]) -> list[EvidenceClass]:
    """The distinct classes of `classes`, strongest first."""
    return sorted({EvidenceClass(c) for c in classes}, key=_STRENGTH.__getitem__)


def grams_class(energy_class: str, intensity_class: str) -> EvidenceClass:
    """The class of grams = energy x grid intensity: that of the weaker factor, so never stronger than the joules."""
    return max(EvidenceClass(energy_class), EvidenceClass(intensity_class), key=_STRENGTH.__getitem__)


def lowest_quality(values: Iterable[str]) -> Quality | None:
    known = [Quality(v) for v in values]
    return max(known, key=_QUALITY.__getitem__) if known else None


def one_class(classes: Iterable[str], *, what: str) -> EvidenceClass | None:
    """The single class of `classes`.

    Raises IncomparableObservations when they differ: averaging over mixed classes is refused.
    """
    distinct = strongest_first(classes)
    if len(distinct) > 1:
        raise IncomparableObservations(
            f"{what} mixes evidence classes {', '.join(distinct)}.",
            fix="choose one evidence class; each class can be shown as its own figure",
        )
    return distinct[0] if distinct else None
