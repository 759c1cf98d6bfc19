"""How pages reach the desk: cached reads, commands as the signed-in person, errors in words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from app.auth import console_actor
from app.components import shapes
from app.desk import Desk, current
from app.errors import AppError
from app.operations import call
from app.reads.stamp import stamp
from policies.errors import PolicyError
from warehouse.engine import Warehouse
from warehouse.errors import WarehouseError

P = ParamSpec("P")
T = TypeVar("T")


def desk() -> Desk:
    return current()


@st.cache_data(ttl="60s", max_entries=256, show_spinner=False)
def _held(
    _function: Callable[..., Any], _warehouse: Warehouse, name: str, path: str, at: str, args: tuple[Any, ...]
) -> Any:
    return _function(_warehouse, *args)


def read(function: Callable[..., T], *args: Any) -> T:
    """`function(warehouse, *args)` of `app.reads`, shared by all sessions until the warehouse changes.

    The cache key holds the stamp of the warehouse, so that a page never shows the time before a command.
    """
    warehouse = current().warehouse
    name = f"{function.__module__}.{function.__qualname__}"
    result: T = _held(function, warehouse, name, str(warehouse.path), stamp(warehouse), args)
    return result


def command(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run an operation as the person of this session; the operation checks the role again."""
    return call(current(), name, params, console_actor())


def explain(error: AppError | WarehouseError | PolicyError) -> None:
    shapes.problem(error.message, error.fix)


@contextmanager
def in_words() -> Iterator[None]:
    """Show an error of the desk as a sentence, and let the rest of the page be."""
    try:
        yield
    except (AppError, WarehouseError, PolicyError) as error:
        explain(error)


def guarded(function: Callable[P, None]) -> Callable[P, None]:
    """The same for a fragment, which reruns without the entry script around it."""

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> None:
        with in_words():
            function(*args, **kwargs)

    return inner
