"""Bills of electricity with a ceiling: what recorded requests would cost at another price of a kilowatt-hour.

A request is billed min(tariff x charged energy, ceiling), the ceiling being a multiple of its list token price. The
sum over requests is piecewise linear and concave in the tariff, with a kink where the ceiling of a request begins to
rule; above the last kink no price of electricity moves the bill any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats, same_length, vector
from policies.proof.errors import ValuesInvalid

J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Bill:
    """USD per consumed joule of some requests as a function of the tariff; `Bill()` has no ceiling.

    kinks: (k,) ascending, USD per kWh. linear, fixed: (k + 1,) what the bill is between two kinks, namely
    linear x tariff / 3.6e6 + fixed. scale: a factor on all of it.
    """

    kinks: Floats = field(default_factory=lambda: np.empty(0))
    linear: Floats = field(default_factory=lambda: np.ones(1))
    fixed: Floats = field(default_factory=lambda: np.zeros(1))
    scale: float = 1.0

    def per_j(self, tariff_usd_per_kwh: npt.ArrayLike) -> Floats:
        """USD per joule at each tariff."""
        tariff = np.asarray(tariff_usd_per_kwh, dtype=np.float64)
        place = np.searchsorted(self.kinks, tariff)
        return np.asarray(self.scale * (self.linear[place] * tariff / J_PER_KWH + self.fixed[place]))

    def scaled(self, by: float) -> Bill:
        return replace(self, scale=self.scale * by)


def bill_of(energy_j: npt.ArrayLike, charged_j: npt.ArrayLike, ceiling_usd: npt.ArrayLike) -> Bill:
    """The bill of requests (n,): joules consumed, joules charged, and the most that each is billed (inf: no ceiling).

    Raises ValuesInvalid for no request or a figure that is not above 0, LengthsDiffer.
    """
    consumed, charged = vector(energy_j, "energy_j"), vector(charged_j, "charged_j")
    ceiling = vector(ceiling_usd, "ceiling_usd", endless=True)
    same_length(energy_j=consumed, charged_j=charged, ceiling_usd=ceiling)
    if not consumed.size or min(consumed.min(), charged.min(), ceiling.min()) <= 0:
        raise ValuesInvalid("a request without joules or with a ceiling of 0.", fix="leave out what was not billed")
    kinks = ceiling / charged * J_PER_KWH
    order = np.argsort(kinks, kind="stable")
    bound = order[np.isfinite(kinks[order])]
    total = float(consumed.sum())
    released = np.concatenate([[0.0], np.cumsum(charged[bound])])
    # Of no ceiling left nothing may remain of the sums' rounding: the bill stands still then.
    linear = np.where(np.arange(bound.size + 1) == charged.size, 0.0, (charged.sum() - released) / total)
    fixed = np.concatenate([[0.0], np.cumsum(ceiling[bound])]) / total
    return Bill(kinks[bound], linear, fixed)
