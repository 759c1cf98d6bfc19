"""A scenario from a JSON or TOML document. What it says wrong is named with its place, such as `pools[1].instances`."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from policies.fleet.errors import FleetError, ScenarioInvalid
from policies.fleet.experiments.scenario import FleetScenario

T = TypeVar("T")


def read(data: Mapping[str, Any]) -> FleetScenario:
    """Raises ScenarioInvalid and other kinds of FleetError. A null stands for the default."""
    return make(FleetScenario, data, "")


def make(cls: type[T], data: Any, where: str) -> T:
    """An instance of the dataclass `cls`. Raises ScenarioInvalid: unknown or missing names, values of another kind."""
    at = where or "the scenario"
    if not isinstance(data, Mapping):
        raise ScenarioInvalid(f"{at} is no table of names and values.", fix="write it as an object")
    hints = get_type_hints(cls)
    known = {f.name: f for f in fields(cast(Any, cls)) if f.init}
    if unknown := sorted(set(map(str, data)) - set(known)):
        raise ScenarioInvalid(f"{at} has no {unknown[0]!r}.", fix=f"use {', '.join(known)}")
    given = {
        name: _fit(hints[name], v, f"{where}.{name}" if where else name) for name, v in data.items() if v is not None
    }
    for name, f in known.items():
        if name not in given and f.default is MISSING and f.default_factory is MISSING:
            raise ScenarioInvalid(f"{name} of {at} is missing.", fix=f"give {name}")
    try:
        return cls(**given)
    except FleetError as error:
        told = error.message if not where or error.message.startswith(where) else f"{where}: {error.message}"
        raise type(error)(told, fix=error.fix) from error


def _fit(hint: Any, value: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [a for a in args if a is not types.NoneType]
        if len(options) > 1:
            options = [a for a in options if (get_origin(a) is Mapping) == isinstance(value, Mapping)] or options
        return _fit(options[0], value, where)
    if is_dataclass(hint):
        return make(cast(type[Any], hint), value, where)
    if origin is tuple:
        return _items(args, value, where)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _other(where, value, "a table of names and values")
        return {str(k): _fit(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return _items((args[0], ...), value, where)
    if origin is Literal:
        if value not in args:
            raise ScenarioInvalid(f"{where} is {value!r}.", fix=f"use one of {', '.join(map(str, args))}")
        return value
    return _simple(hint, value, where)


def _items(args: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _other(where, value, "a list")
    if len(args) == 2 and args[1] is ...:
        return tuple(_fit(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if len(value) != len(args):
        raise _other(where, value, f"a list of {len(args)}")
    return tuple(_fit(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))


def _simple(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float:
        if not number or math.isnan(value):
            raise _other(where, value, "a number")
        return float(value)
    if hint is int:
        if not number or not math.isfinite(value) or value != int(value):
            raise _other(where, value, "a whole number")
        return int(value)
    if not isinstance(value, hint):
        raise _other(where, value, {str: "a text", bool: "true or false"}.get(hint, "of another kind"))
    return value


def _other(where: str, value: Any, wanted: str) -> ScenarioInvalid:
    shown = repr(value) if isinstance(value, str | int | float | bool) else f"a {type(value).__name__}"
    return ScenarioInvalid(f"{where} is {shown[:80]}, not {wanted}.", fix=f"give {wanted}")
