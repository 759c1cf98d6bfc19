"""What a document says about where it comes from, in the words of its format: comments, annotations, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "joulebook/"  # of Kubernetes annotations
_NAMES = {"energy_j": "energy", "billed_cost_usd": "cost", "carbon_g": "carbon"}


def facts(told: Mapping[str, Any]) -> dict[str, str]:
    """The origin as short texts by name; names are valid as Kubernetes annotation names without prefix."""
    gate = told["gate"]
    found = {
        "recommendation": told["recommendation"],
        "draft": "DRAFT, not approved" if told["draft"] else None,
        "decision-revision": str(told["decision_revision"]),
        "environment": told["environment"],
        "stage": f"{told['stage']} {told['share_before']:g} -> {told['share']:g}",
        "max-step": f"{told['max_step']:g}",
        "content-sha256": told["content_sha256"],
        "spec-sha256": told.get("spec_sha256"),
        "expects-sha256": told.get("expects_sha256"),
        "expires-at": told["expires_at"],
        "approved-at": told["approved_at"],
        "evidence-class": told["evidence_class"] or "unknown",
        "promise": promise(told),
        "gate": f"{gate['verdict'] or 'none'}: {gate['why']}" if gate["why"] else str(gate["verdict"]),
        "eligible-by": f"policy {told['policy_id']} on snapshot {told['snapshot_digest']} as of {told['as_of']}",
        "sample": "made from sample data" if told["is_sample"] else None,
    }
    return {name: " ".join(str(text).split()) for name, text in found.items() if text is not None}


def promise(told: Mapping[str, Any]) -> str:
    """The promised differences, each with its evidence class and n."""
    parts = []
    for name, metric in told["promise"].items():
        classes = metric["evidence_class"]
        if metric["difference"] is None:
            parts.append(f"{_NAMES.get(name, name)} unknown ({metric['note']})")
            continue
        interval = "no interval"
        if metric["interval"]:
            interval = f"95 % {metric['interval'][0]:+.1%} to {metric['interval'][1]:+.1%}"
        behind = f"{classes['to']}, n {metric['n']['from']} against {metric['n']['to']}"
        parts.append(f"{_NAMES.get(name, name)} {metric['difference']:+.1%} ({interval}; {behind})")
    return f"per {told['promise_per']}: " + ", ".join(parts)


def as_annotations(told: Mapping[str, Any]) -> dict[str, str]:
    """Kubernetes annotations, all of them text."""
    return {f"{PREFIX}{name}": text for name, text in facts(told).items()}


def comments(told: Mapping[str, Any]) -> list[str]:
    """Lines for the top of a document: what a person must know before applying it; the rest is in its metadata."""
    head = [" ".join(f"joulebook {told['recommendation']}: {told['title']}".split())]
    if told["draft"]:
        head.insert(0, "DRAFT, not approved: do not apply")
    if told["is_sample"]:
        head.append("made from sample data: do not apply")
    known = facts(told)
    return head + [f"{name}: {known[name]}" for name in ("stage", "promise", "gate", "expires-at") if name in known]
