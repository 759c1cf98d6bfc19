"""Power of one serving instance by the number of requests that it runs at once.

Three states, never mixed:

    idle empty    no model on the boards
    idle loaded   a model on the boards, no request running: concurrency below 1
    active        concurrency of 1 and more: the model's form

Parameters are per **board** and say so (`board_*_w`); every method answers per **instance**, which is
`hardware_count` boards (a tensor-parallel 8 instance draws eight). Forms, with b the concurrency:

    logistic_log2   board_idle + (board_nominal - board_idle) / (1 + exp(-k (log2 b - x0)))
                    Liang, Chung, Chowdhury, Chen, Dvorkin, arXiv 2602.05116
    linear          board_idle + board_per_request b
    table           measured points, linear in log2 b between them

`concurrency_min`, `concurrency_max` are the range that the parameters come from; a question outside is refused
(`ExtrapolationRefused`) or, with `extrapolate=True`, answered by the formula (by the end point, for a table);
`outside` says for which concurrencies. A published formula without a range knows no outside.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policies.fleet.errors import ExtrapolationRefused, ProfileIncomplete, ProfileInvalid

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PowerModel(ABC):
    """Base of the forms. Raises ProfileInvalid where a parameter is none that a machine can have."""

    form: ClassVar[str]

    hardware_count: int
    board_idle_empty_w: float | None = None  # None: not known
    board_idle_loaded_w: float | None = None
    concurrency_min: float | None = None
    concurrency_max: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.hardware_count, int) or self.hardware_count < 1:
            raise ProfileInvalid(
                f"hardware_count is {self.hardware_count!r}.", fix="give the boards of one instance, 1 or more"
            )
        for name in ("board_idle_empty_w", "board_idle_loaded_w"):
            watts = getattr(self, name)
            if watts is not None and not (math.isfinite(watts) and watts >= 0):
                raise ProfileInvalid(f"{name} is {watts}.", fix="give W of one board, 0 or more, or leave it unknown")
        low, high = self.concurrency_min, self.concurrency_max
        if low is not None and high is not None and not 0 < low <= high < math.inf:
            raise ProfileInvalid(
                f"the range of concurrency is {low} to {high}.", fix="give 0 < concurrency_min <= concurrency_max"
            )

    @abstractmethod
    def board_active_w(self, concurrency: Array) -> Array:
        """W of one board, by the form alone, for concurrencies of 1 and more; no state, no range."""

    @property
    def idle_empty_w(self) -> float:
        """W of the instance with no model on its boards. Raises ProfileIncomplete where that is not known."""
        return self._idle("board_idle_empty_w")

    @property
    def idle_loaded_w(self) -> float:
        """W of the instance with a model on its boards and no request. Raises ProfileIncomplete."""
        return self._idle("board_idle_loaded_w")

    def outside(self, concurrency: ArrayLike) -> NDArray[np.bool_]:
        """Which of these concurrencies the parameters were not taken from; the idle state is a state of its own."""
        n = np.asarray(concurrency, dtype=np.float64)
        low = -math.inf if self.concurrency_min is None else self.concurrency_min
        high = math.inf if self.concurrency_max is None else self.concurrency_max
        return (n >= 1) & ((n < low * (1 - 1e-9)) | (n > high * (1 + 1e-9)))

    def power_w(self, concurrency: ArrayLike, *, extrapolate: bool = False) -> Array:
        """W of the instance, in the shape of `concurrency`. Below one request it is the idle loaded state.

        Raises ExtrapolationRefused outside the range, ProfileIncomplete where the idle state is asked for and
        not known, ProfileInvalid for concurrencies that are negative or not numbers.
        """
        n = np.asarray(concurrency, dtype=np.float64)
        if not np.all(n >= 0):  # NaN fails too
            raise ProfileInvalid("a concurrency is negative or not a number.", fix="give the requests running at once")
        if not extrapolate and np.any(beyond := self.outside(n)):
            raise ExtrapolationRefused(
                f"concurrency {float(n[beyond].flat[0]):g} lies outside {self._range()}, which this "
                f"{self.form} model was taken from.",
                fix="stay within the range, measure more windows, or ask for a marked extrapolation",
            )
        active = n >= 1
        watts: Array = self.hardware_count * self.board_active_w(np.maximum(n, 1.0))
        return watts if np.all(active) else np.where(active, watts, self.idle_loaded_w)

    def marginal_w(self, concurrency: ArrayLike, *, extrapolate: bool = False) -> Array:
        """W that one more request adds to an instance that runs `concurrency`."""
        n = np.asarray(concurrency, dtype=np.float64)
        return self.power_w(n + 1, extrapolate=extrapolate) - self.power_w(n, extrapolate=extrapolate)

    def tabulated(self, max_slots: int, *, extrapolate: bool = False) -> Array:
        """W of the instance at 0, 1, …, max_slots requests, for compiled loops; index 0 is idle loaded."""
        return self.power_w(np.arange(max_slots + 1), extrapolate=extrapolate)

    def inverse(self, power_w: float, max_slots: int, *, extrapolate: bool = False) -> int:
        """The largest concurrency up to `max_slots` that keeps the instance at or below `power_w`.

        As a cap it must hold on the way, too: no concurrency from 1 up to the answer draws more. 0 where one
        request already does; compare `idle_loaded_w` to know whether even the idle instance stays below.
        """
        if not math.isfinite(power_w):
            raise ProfileInvalid(f"a power of {power_w} W is no cap.", fix="give W of the instance")
        above = self.power_w(np.arange(1, max_slots + 1), extrapolate=extrapolate) > power_w * (1 + 1e-12)
        return int(np.argmax(above)) if above.any() else max_slots

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `power_model` reads them."""
        return {"form": self.form, **asdict(self)}

    def _idle(self, name: str) -> float:
        watts = getattr(self, name)
        if watts is None:
            raise ProfileIncomplete(f"{name} of this {self.form} model is not known.", fix=f"measure or declare {name}")
        return float(self.hardware_count * watts)

    def _range(self) -> str:
        low, high = self.concurrency_min, self.concurrency_max
        return f"{'1' if low is None else f'{low:g}'} to {'infinity' if high is None else f'{high:g}'}"


@dataclass(frozen=True, kw_only=True)
class Logistic(PowerModel):
    """Logistic in log2(concurrency). `board_idle_w` is its lower asymptote, which is not an idle state."""

    form: ClassVar[str] = "logistic_log2"

    board_idle_w: float
    board_nominal_w: float  # upper asymptote, never reached
    k: float
    x0: float  # log2 of the concurrency half-way up

    def __post_init__(self) -> None:
        super().__post_init__()
        _finite(self)
        if not 0 <= self.board_idle_w <= self.board_nominal_w:
            raise ProfileInvalid(
                f"board_idle_w is {self.board_idle_w} and board_nominal_w {self.board_nominal_w}.",
                fix="give 0 <= board_idle_w <= board_nominal_w",
            )
        if self.k <= 0:
            raise ProfileInvalid(f"k is {self.k}.", fix="give k above 0: power does not fall with concurrency")

    def board_active_w(self, concurrency: Array) -> Array:
        rise = np.exp(np.minimum(-self.k * (np.log2(concurrency) - self.x0), 700.0))
        watts: Array = self.board_idle_w + (self.board_nominal_w - self.board_idle_w) / (1.0 + rise)
        return watts


@dataclass(frozen=True, kw_only=True)
class Linear(PowerModel):
    """Linear in concurrency."""

    form: ClassVar[str] = "linear"

    board_idle_w: float
    board_w_per_request: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _finite(self)
        if self.board_idle_w < 0 or self.board_w_per_request < 0:
            raise ProfileInvalid(
                f"board_idle_w is {self.board_idle_w} and board_w_per_request {self.board_w_per_request}.",
                fix="give both as 0 or more",
            )

    def board_active_w(self, concurrency: Array) -> Array:
        return self.board_idle_w + self.board_w_per_request * concurrency


@dataclass(frozen=True, kw_only=True)
class Table(PowerModel):
    """Measured points. The range is that of the points; power need not rise with concurrency."""

    form: ClassVar[str] = "table"

    concurrency: tuple[float, ...]
    board_w: tuple[float, ...]

    def __post_init__(self) -> None:
        knots, watts = np.asarray(self.concurrency, dtype=np.float64), np.asarray(self.board_w, dtype=np.float64)
        if knots.ndim != 1 or not len(knots) or knots.shape != watts.shape:
            raise ProfileInvalid(
                f"a table of {knots.size} concurrencies and {watts.size} powers.", fix="give one power per concurrency"
            )
        if not (np.isfinite(knots).all() and np.isfinite(watts).all() and (watts >= 0).all()):
            raise ProfileInvalid("a point of the table is negative or not a number.", fix="leave that point out")
        if knots[0] < 1 or (np.diff(knots) <= 0).any():
            raise ProfileInvalid(
                "the concurrencies of the table do not rise from 1 or more.", fix="sort them and average repeats"
            )
        object.__setattr__(self, "concurrency", tuple(map(float, knots)))
        object.__setattr__(self, "board_w", tuple(map(float, watts)))
        object.__setattr__(self, "concurrency_min", float(knots[0]))
        object.__setattr__(self, "concurrency_max", float(knots[-1]))
        super().__post_init__()

    def board_active_w(self, concurrency: Array) -> Array:
        return np.interp(np.log2(concurrency), np.log2(self.concurrency), self.board_w)


FORMS: Mapping[str, type[PowerModel]] = {form.form: form for form in (Logistic, Linear, Table)}


def power_model(data: Mapping[str, Any]) -> PowerModel:
    """The model that `to_dict` wrote. Raises ProfileIncomplete and ProfileInvalid, naming the parameter."""
    form = FORMS.get(str(data.get("form")))
    if form is None:
        raise ProfileInvalid(f"form is {data.get('form')!r}.", fix=f"give one of {', '.join(FORMS)}")
    names = {f.name: f for f in fields(form)}
    if unknown := sorted(set(data) - set(names) - {"form"}):
        raise ProfileInvalid(f"{unknown[0]!r} is no parameter of form {form.form}.", fix=f"give {', '.join(names)}")
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items() if name != "form"}
    for name, field in names.items():
        if name not in given and field.default is not None:
            raise ProfileIncomplete(f"{name} is missing from a {form.form} model.", fix=f"declare {name}")
    make: Callable[..., PowerModel] = form
    return make(**given)


def _finite(model: PowerModel) -> None:
    for f in fields(model):
        value = getattr(model, f.name)
        if f.default is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise ProfileInvalid(f"{f.name} is {value!r}.", fix="give a finite number")
