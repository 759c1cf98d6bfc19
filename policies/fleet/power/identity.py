"""What makes a calibration this one: the hash of its quantity, form, binding, windows and parameters.

The same fit to the same windows is the same calibration, whoever made it and when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from policies.fleet.power.curves import POWER
from policies.fleet.power.estimate import Estimate, TableFit
from policies.fleet.power.windows import Binding, MeasuredWindow
from warehouse.ids import content_hash

METHOD = "joulebook calibration 1"  # a change of the algorithm makes other calibrations


def content_id(quantity: str, form: str, binding: Binding, windows: Sequence[MeasuredWindow], fitted: Estimate) -> str:
    """The calibration's id."""
    observations = [list(w.observations) for w in windows]
    return content_hash([METHOD, quantity, form, asdict(binding), sorted(observations), parameters(fitted)])


def parameters(fitted: Estimate) -> dict[str, Any]:
    """Parameters with units in their names, and what an interval needs."""
    scale = {"degrees_of_freedom": fitted.degrees_of_freedom}
    if isinstance(fitted, TableFit):
        name = "board_w" if fitted.quantity == POWER else "output_tokens_per_s"
        table = {"concurrency": fitted.knots.tolist(), name: fitted.values.tolist()}
        return {**table, **scale, "spread_relative": _finite(fitted.spread)}
    named = dict(zip(fitted.curve.names, fitted.parameters.tolist(), strict=True))
    if "board_rise_w" in named:
        named["board_nominal_w"] = named["board_idle_w"] + named["board_rise_w"]
    return {**named, **scale, "residual_sd_relative": _finite(fitted.residual_sd), "at_bound": list(fitted.at_bound)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
