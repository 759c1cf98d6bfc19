"""How sure a recommendation is: the chance that its choice flips, and the values at which it would.

Three questions, each with its own margin, control minus candidate, per success; above 0 the candidate is chosen:

    joules    R0 - R1                    R1 = ratio x R0 x s1 / s
    dollars   W0 - W1                    W = R (bill + carbon price x intensity / 3.6e6) + fee + failure (1 - s) / s
    grams     (R0 I0 - R1 I1) / 3.6e6

R0 is the control's J per success, `ratio` the candidate's over it (with the interval that was found), s the
candidate's success rate and s1 its value now. Where the account's tariff is known, `bill` is the USD per joule that it
makes of the reference runs, each at most its ceiling (`policies.proof.bills`), and `fee` is what the bill has beyond
it; otherwise the bill is all fee. Nothing here is a measurement: it is arithmetic on evidence, as sure as that, and
says where it ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from policies.proof.bills import J_PER_KWH, Bill
from policies.proof.checked import Floats
from policies.proof.sensitivity import (
    Flip,
    Input,
    Inputs,
    Margin,
    Share,
    break_even,
    break_even_pieces,
    flip_probability,
    sobol,
)

_Z = 1.959963984540054
DRAWS = 10_000


@dataclass(frozen=True)
class Ratio:
    """Candidate over control, per success, with its 95 % interval; and the level of the control."""

    level: float
    ratio: float
    low: float | None
    high: float | None

    @property
    def sd(self) -> float:
        """Standard deviation, from the width of the interval on the logarithm; 0 where there is none."""
        if self.low is None or self.high is None or not 0 < self.low <= self.high:
            return 0.0
        return self.ratio * math.log(self.high / self.low) / (2 * _Z)


@dataclass(frozen=True)
class Facts:
    """What is known about both offers. kind: outcome evidence; *_class: evidence class of each figure.

    bills: what the tariff makes of the joules of control and candidate; without a ceiling unless told.
    """

    kind: str
    n: int
    energy: Ratio | None
    usd: Ratio | None
    carbon: Ratio | None
    success: tuple[float, float] | None  # control, candidate
    energy_class: str | None = None
    carbon_class: str | None = None
    tariff_usd_per_kwh: float | None = None
    bills: tuple[Bill, Bill] = (Bill(), Bill())


@dataclass(frozen=True)
class Assumed:
    """What nobody measures here: prices of harm, and how well tariff and grid intensity are known (1 sd, relative)."""

    carbon_usd_per_t: float = 0.0
    failure_usd: float = 0.0
    intensity_sd: float = 0.10
    tariff_sd: float = 0.0


@dataclass(frozen=True)
class Turn:
    """Where one input turns the choice. at: the nearest such value within low..high, None: nowhere in it.

    high is infinite where no value at all turns it.
    """

    name: str
    unit: str
    now: float
    at: float | None
    low: float
    high: float

    @property
    def upwards(self) -> bool:
        return self.at is not None and self.at > self.now


@dataclass(frozen=True)
class Answer:
    """One question: is the candidate chosen, how often that flips, what turns it, whose uncertainty it is."""

    name: str  # energy | usd | carbon
    chosen: bool
    flip: Flip
    turns: tuple[Turn, ...]
    shares: tuple[Share, ...]
    evidence_class: str | None


def _energy(x: Inputs) -> Floats:
    return np.asarray(x["control_j"] - _candidate_j(x))


def _candidate_j(x: Inputs) -> Floats:
    return np.asarray(x["ratio"] * x["control_j"] * x["success_now"] / x["success"])


def _usd(x: Inputs, bills: tuple[Bill, Bill]) -> Floats:
    def cost(joules: Floats, per_j: Floats, arm: str, success: Floats) -> Floats:
        carbon = x["carbon_usd_per_t"] * x[f"intensity_{arm}"] / 1e6 / J_PER_KWH
        lost = x["failure_usd"] * (1 - success) / success
        return np.asarray(joules * (per_j + carbon) + fees[arm] + lost)

    fees = {"control": x["fee_control"], "candidate": x["fee_candidate"] * x["success_now"] / x["success"]}
    # More joules per request reach the ceiling sooner, as a dearer kilowatt-hour does; more attempts do not.
    more = x["ratio"] / x["ratio_now"]
    candidate = _candidate_j(x)
    return np.asarray(
        cost(np.asarray(x["control_j"]), bills[0].per_j(x["tariff"]), "control", x["success_control"])
        - cost(candidate, bills[1].per_j(x["tariff"] * more) / more, "candidate", x["success"])
    )


def _carbon(x: Inputs) -> Floats:
    return np.asarray(
        (x["control_j"] * x["intensity_control"] - _candidate_j(x) * x["intensity_candidate"]) / J_PER_KWH
    )


_UNITS = {
    "ratio": "J",
    "success": "share",
    "tariff": "USD/kWh",
    "intensity_control": "gCO2e/kWh",
    "intensity_candidate": "gCO2e/kWh",
    "carbon_usd_per_t": "USD/t",
    "failure_usd": "USD",
}
# Which inputs an operator asks about, and how far they are looked for: a factor of the value now, or up to a value.
_TURNS = {
    "energy": ("ratio", "success"),
    "usd": ("tariff", "success", "carbon_usd_per_t", "failure_usd"),
    "carbon": ("intensity_candidate", "intensity_control", "success"),
}
_UP_TO = {"carbon_usd_per_t": 10_000.0, "failure_usd": 10.0}
_FACTOR = 20.0
_NO_SHARE = 0.005  # of the variance: not worth a word


def _margins(facts: Facts) -> Mapping[str, Margin]:
    return {"energy": _energy, "usd": partial(_usd, bills=facts.bills), "carbon": _carbon}


def answers(facts: Facts, assumed: Assumed) -> list[Answer]:
    """Every question that `facts` can answer."""
    inputs = _inputs(facts, assumed)
    found = []
    for name, margin in _margins(facts).items():
        if inputs is None or not _known(facts, name):
            continue
        own = _used(name, inputs)
        values = {k: i.value for k, i in own.items()}
        flip = flip_probability(margin, own, draws=DRAWS)
        turns = tuple(t for each in _TURNS[name] if (t := _turn(margin, each, values, facts)) is not None)
        shares = tuple(s for s in sobol(margin, own, n=256) if s.total > _NO_SHARE)
        found.append(Answer(name, flip.margin > 0, flip, turns, shares, _class(facts, name)))
    return found


def _known(facts: Facts, name: str) -> bool:
    return {"energy": facts.energy, "usd": facts.usd, "carbon": facts.carbon}[name] is not None


def _class(facts: Facts, name: str) -> str | None:
    return {"energy": facts.energy_class, "usd": "measured", "carbon": facts.carbon_class}[name]


def _inputs(facts: Facts, assumed: Assumed) -> dict[str, Input] | None:
    energy = facts.energy
    if energy is None or energy.level <= 0 or energy.ratio <= 0:
        return None
    control, candidate = facts.success or (1.0, 1.0)
    if control <= 0 or candidate <= 0:
        return None
    tariff = facts.tariff_usd_per_kwh or 0.0
    intensity = _intensities(facts)
    told = {
        "control_j": Input(energy.level, 0.0),
        "ratio": Input(energy.ratio, energy.sd, low=1e-9),
        "ratio_now": Input(energy.ratio, 0.0),
        "success": Input(candidate, 0.0),  # its sampling error is in the ratio already
        "success_now": Input(candidate, 0.0),
        "success_control": Input(control, 0.0),
        "tariff": Input(tariff, assumed.tariff_sd * tariff, low=0.0),
        "carbon_usd_per_t": Input(assumed.carbon_usd_per_t, 0.0),
        "failure_usd": Input(assumed.failure_usd, 0.0),
    }
    for arm, value in zip(("control", "candidate"), intensity, strict=True):
        told[f"intensity_{arm}"] = Input(value, assumed.intensity_sd * value, low=0.0)
    return told | _fees(facts, energy, tariff)


def _intensities(facts: Facts) -> tuple[float, float]:
    """gCO2e per kWh of either offer's joules, as their grams imply."""
    if facts.carbon is None or facts.energy is None:
        return 0.0, 0.0
    one = facts.carbon.level * facts.carbon.ratio / (facts.energy.level * facts.energy.ratio)
    return facts.carbon.level / facts.energy.level * J_PER_KWH, one * J_PER_KWH


def _fees(facts: Facts, energy: Ratio, tariff: float) -> dict[str, Input]:
    if facts.usd is None:
        return {"fee_control": Input(0.0, 0.0), "fee_candidate": Input(0.0, 0.0)}
    bills = (facts.usd.level, facts.usd.level * facts.usd.ratio)
    joules = (energy.level, energy.level * energy.ratio)
    control, candidate = (
        bill - j * float(rule.per_j(tariff)) for bill, j, rule in zip(bills, joules, facts.bills, strict=True)
    )
    # Where joules carry the bill, its scatter is theirs; drawn again as a fee it would count twice.
    spread = 0.0 if tariff else facts.usd.level * facts.usd.sd
    return {"fee_control": Input(control, 0.0), "fee_candidate": Input(candidate, spread)}


def _used(name: str, inputs: dict[str, Input]) -> dict[str, Input]:
    """The inputs of one question: what another one depends on must not look like its uncertainty."""
    if name == "usd":
        bills = inputs["tariff"].value > 0 or inputs["carbon_usd_per_t"].value > 0
        return inputs if bills else {**inputs, "ratio": replace(inputs["ratio"], sd=0.0)}
    kept = {"control_j", "ratio", "success", "success_now"}
    if name == "carbon":
        kept |= {"intensity_control", "intensity_candidate"}
    own = {k: i for k, i in inputs.items() if k in kept}
    return _shared(own) if name == "carbon" else own


def _shared(own: dict[str, Input]) -> dict[str, Input]:
    """Both offers in one zone err together: their intensity says nothing about which of them is better."""
    control, candidate = own["intensity_control"], own["intensity_candidate"]
    if not math.isclose(control.value, candidate.value, rel_tol=1e-6):
        return own
    still = {"intensity_control": replace(control, sd=0.0), "intensity_candidate": replace(candidate, sd=0.0)}
    return {**own, **still}


def _turn(margin: Margin, each: str, values: dict[str, float], facts: Facts) -> Turn | None:
    now = values[each]
    if each == "success" and facts.success is None:
        return None
    if each == "tariff":
        return None if facts.tariff_usd_per_kwh is None else _turn_of_tariff(margin, values, facts)
    if each.startswith("intensity") and math.isclose(values["intensity_control"], values["intensity_candidate"]):
        return None
    low = 1e-6 if each in ("success", "ratio") else 0.0
    high = 1.0 if each == "success" else _UP_TO.get(each, max(now * _FACTOR, 1e-9))
    found = [x for x in break_even(margin, values, each, (low, high)) if x > low + 1e-9 * high]
    nearest = min(found, key=lambda x: abs(x - now)) if found else None
    unit = values["control_j"] if each == "ratio" else 1.0  # a ratio is told as the candidate's joules
    at = None if nearest is None else nearest * unit
    return Turn(each, _UNITS[each], now * unit, at, low * unit, high * unit)


def _turn_of_tariff(margin: Margin, values: dict[str, float], facts: Facts) -> Turn:
    """Exact: bills are straight between the prices at which the ceiling of a run begins to rule."""
    kinks = np.concatenate([bill.kinks for bill in facts.bills])
    now = values["tariff"]
    found = break_even_pieces(margin, values, "tariff", kinks)
    at = min(found, key=lambda x: abs(x - now)) if found else None
    return Turn("tariff", _UNITS["tariff"], now, at, 0.0, math.inf)
