"""Widgets whose choice stands in the address by its own value, so that a link brings it back.

Streamlit's own binding writes what the reader sees (`4 min ago`), which another day means nothing. Here the address
holds the value: it is adopted when it differs from what was written last, as after opening a link or going back.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

_WRITTEN = "_links"
_LATE_S = 5.0


@dataclass(frozen=True)
class _Link:
    """What was written for a key, what stood there before, and when (monotonic seconds)."""

    text: str | None
    before: str | None
    at_s: float


def _adopt(key: str, parse: Callable[[str], Any]) -> None:
    """Take the value of the address where it is news; one that means nothing is passed over.

    The browser shows a new address a moment after it was written. What stood there just before is no news then: it
    would undo the choice.
    """
    told, last = st.query_params.get(key), _written().get(key)
    if key in st.session_state:
        late = last is not None and told == last.before and time.monotonic() - last.at_s < _LATE_S
        if late or told == (None if last is None else last.text):
            return
        st.session_state.pop(key)
    if told is None:
        return
    with contextlib.suppress(ValueError, LookupError):
        st.session_state[key] = parse(told)


def _keep(key: str, value: Any, usual: Any) -> None:
    """Write the choice into the address, unless it is the usual one."""
    text = None if value is None or value == usual else str(value)
    last, told = _written().get(key), st.query_params.get(key)
    if last is None or last.text != text:
        _written()[key] = _Link(text, told, time.monotonic())
    if text is None:
        st.query_params.pop(key, None)
    elif told != text:
        st.query_params[key] = text


def _written() -> dict[str, _Link]:
    found: dict[str, _Link] = st.session_state.setdefault(_WRITTEN, {})
    return found


def forget(keys: Sequence[str]) -> None:
    """Choices that no longer apply, in the session and in the address."""
    for key in keys:
        st.session_state.pop(key, None)
        st.query_params.pop(key, None)
        _written().pop(key, None)


def select(
    label: str,
    options: Sequence[str],
    key: str,
    word: Callable[[str], str] = str,
    *,
    usual: int = 0,
    always: bool = False,
    **more: Any,
) -> str:
    """One of `options`, the usual one where nothing else is chosen or what was chosen is not on offer any more.

    `always`: the address names the usual one too, because another day another one may be usual.
    """
    _adopt(key, _one_of(options))
    if st.session_state.get(key) not in options:
        st.session_state[key] = options[usual]
    chosen = st.selectbox(label, options, key=key, format_func=word, **more)
    _keep(key, chosen, None if always else options[usual])
    return str(chosen)


def segments(label: str, options: Sequence[str], key: str, word: Callable[[str], str] = str, **more: Any) -> str:
    """The same as a row of buttons, of which one is always pressed; the first is the usual one."""
    _adopt(key, _one_of(options))
    if st.session_state.get(key) not in options:
        st.session_state[key] = options[0]
    chosen = st.segmented_control(label, options, required=True, key=key, format_func=word, **more)
    _keep(key, chosen, options[0])
    return str(chosen or options[0])


def number(label: str, key: str, *, usual: float | None, low: float, high: float | None = None, **more: Any) -> float:
    """A number between `low` and `high`, whole where `low` is an int; 0 where the field is empty."""
    kind = type(low)

    def parse(text: str) -> float:
        value = kind(text)
        if not low <= value <= (math.inf if high is None else high):
            raise ValueError(text)
        return value

    _adopt(key, parse)
    kept = st.session_state.get(key, usual)
    st.session_state[key] = kept if kept is None or high is None else min(kept, high)
    more |= {"min_value": low, "max_value": high, "value": None}
    chosen: float | None = st.number_input(label, key=key, **more)
    _keep(key, chosen, usual)
    return chosen or 0


def toggle(label: str, key: str, *, usual: bool) -> bool:
    _adopt(key, {"True": True, "False": False}.__getitem__)
    st.session_state.setdefault(key, usual)
    chosen = st.toggle(label, key=key)
    _keep(key, chosen, usual)
    return chosen


def _one_of(options: Sequence[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(text)
        return text

    return parse
