"""Every family by name: `roster` turns names such as "knn-40" or "fixed" into policies for one outcome table.

Predicting families take an operating point after an @: "knn-40@0.001" runs at lambda 0.001 per joule,
"uniroute-8@200J" within 200 J per query. Without one they run at each of `lambdas`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from policies.errors import ParametersInvalid
from policies.replay.errors import NothingToLearn, PolicyUnknown
from policies.replay.policy import Diagnostic, Policy
from policies.replay.routers.decision_table import DecisionTable
from policies.replay.routers.fixed import FixedArm, MixingHull, Random, fixed_arms, half_of_best, roles
from policies.replay.routers.greenserv import GreenServ
from policies.replay.routers.knn import Knn
from policies.replay.routers.operating import Point
from policies.replay.routers.oracle import Oracle
from policies.replay.routers.regression import Regression
from policies.replay.routers.smoothie import Outputs, Smoothie
from policies.replay.routers.strong_weak import StrongWeak
from policies.replay.routers.uniroute import ByBenchmark, UniRoute
from policies.replay.table import OutcomeTable

Either = Policy | Diagnostic
LEARNED = "policies.replay.controller"


@dataclass(frozen=True)
class Family:
    """`names` is how a reader asks for it; `rule` is its rule in one sentence; `needs` what it must be given."""

    names: str
    rule: str
    needs: str = "outcomes"
    deployable: bool = True


FAMILIES: dict[str, Family] = {
    "fixed": Family("fixed, always-ARM, always-smallest|medium|large", "always the same arm"),
    "hull": Family("hull, hull@200J", "random mixing of the two fixed arms that enclose a joule budget", "joules"),
    "random": Family("random", "every arm with the same probability, as an expectation"),
    "oracle": Family("oracle", "the cheapest arm with the query's best score", deployable=False),
    "knn": Family("knn-K, knn-K:model", "mean score and joules of the K nearest training queries", "embeddings"),
    "uniroute": Family("uniroute-K, uniroute-K:model", "mean error and joules per k-means cluster", "embeddings"),
    "benchmark": Family("benchmark, benchmark:model", "mean error and joules per benchmark; the control", "benchmarks"),
    "regression": Family(
        "regression, regression-embedding", "hardness and length of a query by regression, then each arm on these"
    ),
    "strong-weak": Family(
        "strong-weak, strong-weak:ARM:ARM, strong-weak:ARM:ARM@0.3share",
        "strong where the probability that it answers better passes a threshold",
        "embeddings",
    ),
    "greenserv": Family("greenserv-W, greenserv:task-W", "LinUCB on a small context, warmed, frozen", "joules"),
    "decision-table": Family("decision-table-1|2|3", "the desk's own score per benchmark and tier"),
    "smoothie": Family(
        "smoothie, smoothie-K", "the arm whose output lies nearest to all outputs", "outputs", deployable=False
    ),
    "learned": Family(
        "learned, sft, grpo@1, kl-grpo@1, grpo-joules@0.001",
        "the learned controller: its roster, or one training at a weight of energy",
    ),
}

# In the order of the issue; the learned controller is trained apart and asked for by name.
DEFAULT = (
    *("fixed", "hull", "random", "oracle", "knn-40", "knn-40:model", "uniroute-8", "uniroute-8:model", "benchmark"),
    *("regression", "smoothie", "strong-weak", "greenserv-0.4", "greenserv:task-0.4"),
    *("decision-table-1", "decision-table-2", "decision-table-3"),
)

_POINT = re.compile(r"^(?P<name>.+)@(?P<value>[0-9.]+(?:[eE][-+]?[0-9]+)?)(?P<unit>J|share)?$")
_LEARNED = re.compile(r"^(?:sft|(?P<stage>(?:kl-)?grpo)(?P<joules>-joules)?@(?P<lam>[0-9.]+(?:[eE][-+]?[0-9]+)?))$")
_SIZED = re.compile(r"^(?P<family>knn|uniroute)-(?P<size>[0-9]+)(?P<model>:model)?$")


def roster(
    table: OutcomeTable,
    names: Sequence[str] | None = None,
    *,
    lambdas: Sequence[float] | None = None,
    rank_lambdas: Sequence[float] | None = None,
    seed: int = 0,
    outputs: Outputs | None = None,
) -> list[Either]:
    """The policies for `names`, DEFAULT where None; no policy twice. Only the training part is looked at.

    `lambdas` (1/J) are the points of predicting families. None: lambda 0 (accuracy first), and within half the
    joules per query of the most accurate fixed arm. The mixing hull is run at that same budget. `rank_lambdas` are the
    weights of the energy rank at which `learned` is trained on the gated reward; None: its own.
    Raises PolicyUnknown for a name that no family answers to, ArmUnknown, ParametersInvalid.
    """
    builder = _Builder(table, _points(table, lambdas), seed, outputs, rank_lambdas)
    found: dict[str, Either] = {}
    for name in DEFAULT if names is None else names:
        for policy in builder.build(name, asked=names is not None):
            found.setdefault(policy.about.name, policy)
    return list(found.values())


def _points(table: OutcomeTable, lambdas: Sequence[float] | None) -> list[Point]:
    if lambdas is not None:
        return [Point(lambda_per_j=value) for value in lambdas]
    budget = half_of_best(table)
    return [Point()] + ([Point(budget_j=budget)] if budget is not None else [])


@dataclass(frozen=True)
class _Builder:
    table: OutcomeTable
    points: list[Point]
    seed: int
    outputs: Outputs | None
    rank_lambdas: Sequence[float] | None = None

    def build(self, name: str, *, asked: bool) -> list[Either]:
        """The policies of one name. A name of the default roster that fits nothing of this table gives none."""
        whole: dict[str, Callable[[], list[Either]]] = {
            "fixed": self._fixed,
            "random": lambda: [Random()],
            "oracle": lambda: [Oracle()],
            "smoothie": lambda: [Smoothie(None, self.outputs)],
            "hull": lambda: self._hull(asked),
            "strong-weak": lambda: self._default_pair(asked),
            "learned": self._learned,
        }
        if name in whole:
            return whole[name]()
        if name.startswith("always-"):
            return [self._always(name.removeprefix("always-"))]
        if (trained := _LEARNED.match(name)) is not None:
            return [self._trained(name, trained)]
        base, points, share = self._split(name)
        if base.startswith("strong-weak:"):
            return self._pair(name, base, points, share)
        if share is None and (found := self._predicting(base, points)):
            return found
        if points is self.points and (single := _single(base, self.outputs)) is not None:
            return [single]
        raise _unknown(name)

    def _split(self, name: str) -> tuple[str, list[Point], float | None]:
        """Name without its point, the points to run at, and the share of a strong/weak policy."""
        match = _POINT.match(name)
        if match is None:
            return name, self.points, None
        value = float(match["value"])
        if match["unit"] == "share":
            return match["name"], [Point()], value
        return match["name"], [Point(budget_j=value) if match["unit"] else Point(lambda_per_j=value)], None

    def _predicting(self, base: str, points: list[Point]) -> list[Either]:
        if sized := _SIZED.match(base):
            size, model = int(sized["size"]), bool(sized["model"])
            if sized["family"] == "knn":
                return [Knn(size, "model" if model else "neighbours", point) for point in points]
            return [UniRoute(size, "model" if model else "cluster", point=point) for point in points]
        if base in ("benchmark", "benchmark:model"):
            return [ByBenchmark("model" if base.endswith("model") else "benchmark", point=point) for point in points]
        if base in ("regression", "regression-embedding"):
            return [Regression(base.endswith("embedding"), point) for point in points]
        if base == "hull" and points is not self.points:
            return [MixingHull(point.budget_j) for point in points if point.budget_j is not None]
        return []

    def _fixed(self) -> list[Either]:
        role = {arm: name for name, arm in roles(self.table).items()}
        return [FixedArm(arm, role.get(arm)) for arm in self.table.names]

    def _always(self, arm: str) -> Either:
        """An arm by its own name, else by its role."""
        named = roles(self.table)
        role_of = {of: role for role, of in named.items()}
        if arm not in self.table.names:
            arm = named.get(arm, arm)
        self.table.arm_index(arm)
        return FixedArm(arm, role_of.get(arm))

    def _hull(self, asked: bool) -> list[Either]:
        budget = half_of_best(self.table)
        if budget is not None:
            return [MixingHull(budget)]
        if asked:
            raise NothingToLearn(
                f"{self.table.dataset} has no two arms to mix: no joules are known, or the best arm is the cheapest.",
                fix="join joules to the outcomes, or name a budget, such as hull@200J",
            )
        return []

    def _default_pair(self, asked: bool) -> list[Either]:
        """The two dearest corners of the training hull: the pair between which mixing is hardest to beat."""
        try:
            figures = fixed_arms(self.table.train())
        except NothingToLearn:
            if asked:
                raise
            return []
        corners = figures.hull()
        if len(corners) < 2:
            if asked:
                raise NothingToLearn(
                    f"One arm of {self.table.dataset} is both cheapest and most accurate.",
                    fix="name a pair, such as strong-weak:ARM:ARM",
                )
            return []
        weak, strong = (self.table.names[arm] for arm in corners[-2:])
        return self._at_points(strong, weak, self.points)

    def _pair(self, name: str, base: str, points: list[Point], share: float | None) -> list[Either]:
        """Arms may hold ':' and '@' themselves: the whole name is read first, then the one without its point."""
        if pair := self._arms_in(name):
            return self._at_points(*pair, self.points)
        if pair := self._arms_in(base):
            return [StrongWeak(*pair, share)] if share is not None else self._at_points(*pair, points)
        raise PolicyUnknown(
            f"The policy {name!r} does not name two arms of {self.table.dataset}.",
            fix=f"write strong-weak:STRONG:WEAK with two of {', '.join(self.table.names)}",
        )

    def _arms_in(self, name: str) -> tuple[str, str] | None:
        parts = name.removeprefix("strong-weak:").split(":")
        for at in range(1, len(parts)):
            strong, weak = ":".join(parts[:at]), ":".join(parts[at:])
            if strong in self.table.names and weak in self.table.names:
                return strong, weak
        return None

    @staticmethod
    def _at_points(strong: str, weak: str, points: list[Point]) -> list[Either]:
        if strong == weak:
            raise ParametersInvalid(f"strong and weak are both {strong!r}.", fix="name two different arms")
        return [StrongWeak(strong, weak, point=point) for point in points]

    def _learned(self) -> list[Either]:
        """The learned controller at lambdas of its own: they weigh ranks of energy in a reward, not joules."""
        found: list[Either] = self._controller().policies(self.table, lambdas=self.rank_lambdas, seed=self.seed)
        return found

    def _trained(self, name: str, told: re.Match[str]) -> Either:
        """One training by the name that it has in a report."""
        try:
            lam = None if told["lam"] is None else float(told["lam"])
        except ValueError:
            raise _unknown(name) from None
        reward = "joules" if told["joules"] else "gated"
        found: Either = self._controller().one(self.table, stage=told["stage"] or "sft", reward=reward, lam=lam)
        return found

    @staticmethod
    def _controller() -> Any:
        try:
            return importlib.import_module(LEARNED)
        except ModuleNotFoundError as error:
            if error.name != LEARNED:
                raise
            raise PolicyUnknown(
                "This installation has no learned controller.", fix=f"use one of {_allowed(learned=False)}"
            ) from None


def _single(base: str, outputs: Outputs | None) -> Either | None:
    """Families whose one number is their own, and no operating point."""
    family, _, value = base.rpartition("-")
    if family == "smoothie" and value.isdecimal():
        return Smoothie(int(value), outputs)
    if family == "decision-table" and value in ("1", "2", "3"):
        return DecisionTable(int(value))
    if family in ("greenserv", "greenserv:task") and re.fullmatch(r"[0-9]*\.?[0-9]+", value):
        return GreenServ(float(value), "task" if family.endswith("task") else "full")
    return None


def _unknown(name: str) -> PolicyUnknown:
    return PolicyUnknown(f"No policy answers to {name!r}.", fix=f"use one of {_allowed()}")


def _allowed(*, learned: bool = True) -> str:
    return "; ".join(family.names for key, family in FAMILIES.items() if learned or key != "learned")
