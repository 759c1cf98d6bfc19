"""The controller's own account: its joules and seconds per decision, and when its training has paid for itself."""

from __future__ import annotations

from dataclasses import replace

from policies.replay.metrics import Figures


def with_router(figures: Figures, energy_j: float | None, latency_s: float | None) -> Figures:
    """The figures with the router's own joules and seconds of one decision added to every query.

    None makes what depends on it None. Per-call power is the arm's own and stays. Dollars stay, too: the router's
    joules have no price here. Grams rise with the joules.
    """
    j, s = _plus(figures.energy_j_per_query, energy_j), _plus(figures.latency_mean_s, latency_s)
    grams = None
    if figures.gco2_per_query is not None and figures.energy_j_per_query:
        grams = _times(j, figures.gco2_per_query / figures.energy_j_per_query)
    routed = 1 - figures.handed_back / figures.n if figures.n else 0.0
    return replace(
        figures,
        energy_j_per_query=j,
        energy_j_per_correct=_ratio(j, figures.accuracy),
        energy_over_time_w=_ratio(j, _times(s, routed)),
        latency_mean_s=s,
        latency_p95_s=_plus(figures.latency_p95_s, latency_s),
        gco2_per_query=grams,
        by_benchmark={name: with_router(each, energy_j, latency_s) for name, each in figures.by_benchmark.items()},
    )


def break_even(training_energy_j: float | None, saved_j_per_query: float | None) -> float | None:
    """Queries after which training has paid for itself; None where either is unknown or nothing is saved.

    `saved_j_per_query` is net of the router's own energy.
    """
    if training_energy_j is None or saved_j_per_query is None or saved_j_per_query <= 0:
        return None
    return training_energy_j / saved_j_per_query


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _times(a: float | None, b: float) -> float | None:
    return None if a is None else a * b
