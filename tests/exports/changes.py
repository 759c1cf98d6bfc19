"""A change of one cell group, and mappings for it, without a desk."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import yaml

from policies.recommend.exports import Asked, Change, FormatName, export
from policies.recommend.exports.documents import Exported
from policies.recommend.exports.shares import as_fraction

CELLS = ("debugging/1/interactive", "coding_general/1/interactive")
TABLE: dict[str, str | None] = {**dict.fromkeys(CELLS, "old"), "debugging/2/interactive": "big"}


def told(share: float = 1.0, before: float = 0.0, **changes: Any) -> dict[str, Any]:
    """What documents say about their origin, as `change_of` makes it."""
    metric = {
        "unit": "J/success", "difference": -0.5, "interval": [-0.55, -0.45], "separable": "separable", "note": None,
        "evidence_class": {"from": "allocated", "to": "allocated"}, "n": {"from": 5, "to": 5},
    }  # fmt: skip
    return {
        "recommendation": "R-0001", "title": "tier 1: old -> new", "decision_revision": 3, "draft": False,
        "environment": "local", "stage": "canary" if share < 1 else "full", "share": share, "share_before": before,
        "max_step": 1.0, "content_sha256": "c" * 64, "expires_at": "2026-09-01T00:00:00Z",
        "approved_at": "2026-08-11T12:00:00Z", "approved_by": [{"person": "ada", "role": "operator"}],
        "evidence_class": "allocated", "promise": {"energy_j": metric}, "promise_per": "success",
        "gate": {"verdict": "PASS", "why": "no harm: all shown", "n": 300},
        "policy_id": "p" * 64, "policy_name": "router", "snapshot_digest": "s" * 64,
        "as_of": "2026-08-11T11:00:00Z", "is_sample": False,
        "table_basis": "declared", **changes,
    }  # fmt: skip


def change(*shares: float, asked: Asked | None = None, old: str | None = "old", **changes: Any) -> Change:
    """The change to the last of `shares`, those before it having been carried out."""
    steps = shares or (1.0,)
    before = steps[-2] if len(steps) > 1 else 0.0
    given: dict[str, Any] = {
        "id": "R-0001", "old": old, "new": "new", "cells": CELLS, "table": TABLE, "fallbacks": {"old": "big"},
        "shares": (Fraction(0), *map(as_fraction, steps)), "asked": asked or Asked(),
        "logical_models": {"old": "gemma", "new": "gemma"}, "told": told(steps[-1], before), "warnings": (),
    }  # fmt: skip
    return Change(**{**given, **changes})


def backend(name: str, weight: int = 1) -> dict[str, Any]:
    """A backend that every format finds its field in."""
    return {
        "weight": weight,
        "pool": f"pool-{name}",
        "model": f"org/{name}",
        "cluster": f"c_{name}",
        "litellm": {"model": f"openai/{name}", "api_base": f"http://{name}:8000/v1"},
    }


def mapping(old: dict[str, int] | None = None, new: dict[str, int] | None = None, **entry: Any) -> dict[str, Any]:
    """`old` and `new` are backends with their weights; `entry` lies over that of the object `chat`."""
    sides = {"old": old or {"a": 1}, "new": new or {"b": 1}}
    offers = {o: {"backends": [backend(n, w) for n, w in told.items()]} for o, told in sides.items()}
    for offer in offers.values():
        for each in offer["backends"]:
            if "pool" in entry:
                each.pop("pool", None)
    return {
        "offers": offers,
        "entries": {"chat": {"cells": ["*/1/*"], "gateway": "inference", "model": "chat", **entry}},
    }


def one(made: Change, fmt: FormatName, told: dict[str, Any] | None = None) -> Exported:
    """The only object of an export."""
    if told is None:
        told = mapping(**({"pool": "chat-pool"} if fmt == "llm-d" else {}))
    (found,) = export(made, fmt, told)
    return found


def doc(text: str | None) -> dict[str, Any]:
    assert text is not None
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


WEIGHTED: tuple[FormatName, ...] = ("gateway-api", "llm-d", "litellm", "envoy")


def weights(fmt: str, document: dict[str, Any]) -> dict[str, int]:
    """The weights that stand in a document of one place, by backend: an own reading of each format."""
    if fmt == "gateway-api":
        return {r["name"]: r.get("weight", 1) for r in document["spec"]["rules"][0]["backendRefs"]}
    if fmt == "llm-d":
        return {t["modelRewrite"]: t.get("weight", 1) for t in document["spec"]["rules"][0]["targets"]}
    if fmt == "litellm":
        return {d["litellm_params"]["model"]: d["litellm_params"]["weight"] for d in document["model_list"]}
    action = document["virtual_hosts"][0]["routes"][0]["route"]
    return {c["name"]: c["weight"] for c in action["weighted_clusters"]["clusters"]}


def named(fmt: str, name: str) -> str:
    """What `backend(name)` is called in a format."""
    return {"gateway-api": f"pool-{name}", "llm-d": f"org/{name}", "litellm": f"openai/{name}", "envoy": f"c_{name}"}[
        fmt
    ]
