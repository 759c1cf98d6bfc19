"""Marks and short numbers of the fleet's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app import cli_print as out


def low(quality: str | None) -> str | None:
    """A quality; LOW stands out wherever it is shown."""
    return "△ LOW" if quality == "LOW" else quality


def marked(value: float | None, evidence_class: str | None) -> str | None:
    return None if value is None else f"{value:.4g} {out.MARKS[evidence_class]}"


def percent(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def spread(figure: Mapping[str, Any] | None, scale: float = 1.0, form: str = ".4g") -> str | None:
    """A figure with its interval: `12.3 [11.9, 12.7]`."""
    if figure is None or figure["value"] is None:
        return None
    text = format(figure["value"] * scale, form)
    if figure["low"] is None:
        return text
    return f"{text} [{format(figure['low'] * scale, form)}, {format(figure['high'] * scale, form)}]"
