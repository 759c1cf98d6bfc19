"""Serving class from the suffixes of an offer id: -flex, -fast, -short, in any combination and order."""

from __future__ import annotations

from dataclasses import dataclass

_SUFFIXES = {
    "flex": ("latency_class", "flex"),
    "fast": ("reasoning_mode", "fast"),
    "short": ("context_variant", "short"),
}


@dataclass(frozen=True)
class ServingClass:
    """What an offer id says: the logical model and how it is served."""

    base_model: str
    latency_class: str = "interactive"  # interactive | flex
    reasoning_mode: str = "standard"  # standard | fast
    context_variant: str = "full"  # full | short


def split(offer_id: str) -> ServingClass:
    """Take the known suffixes off the end of `offer_id`; whatever else it holds stays in the base model.

    Only whole words behind a hyphen count, and a base model is left in any case: "glm-5.2-short-flex"
    is glm-5.2 served short and flex, "deepseek-v4-flash" and "flex" are models of their own.
    """
    base = offer_id
    found: dict[str, str] = {}
    while True:
        stem, hyphen, last = base.rpartition("-")
        if not hyphen or not stem or stem.endswith("/") or last.lower() not in _SUFFIXES:
            return ServingClass(base, **found)
        name, value = _SUFFIXES[last.lower()]
        found[name] = value
        base = stem
