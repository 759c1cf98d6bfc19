"""The report of a run from those of its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def whole(reports: Sequence[Mapping[str, Any]], run_id: str | None) -> dict[str, Any]:
    """The report of a run: what its blocks share, the first condition's front at the top, and the blocks.

    A published data set has one block, and no condition: it is told flat.
    """
    first = dict(reports[0])
    head = {"id": run_id, "stored": run_id is not None}
    if first["kind"] == "published":
        return {**head, **first}
    shared = ("dataset", "kind", "started_at", "as_of", "actor", "seed", "choices_sha256", "code_sha256", "embedder",
              "n_train", "n_test", "split", "absent", "hypervolume", "hypervolume_unit", "reference_point", "front",
              "statements")  # fmt: skip
    return {
        **head,
        **{name: first[name] for name in shared},
        "finished_at": max(r["finished_at"] for r in reports),
        "conditions": [r["words"] for r in reports],
        "across": _across(reports),
        "blocks": [dict(r) for r in reports],
    }


def _across(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each policy's joules and grams under every condition: its choices are the same, so is its accuracy."""
    each = [{p["name"]: p for p in r["policies"]} for r in reports]
    told = []
    for name, policy in each[0].items():
        if not policy["deployable"]:
            continue
        figures = [by[name]["figures"] for by in each]
        told.append(
            {
                "policy": name,
                "accuracy": policy["figures"]["accuracy"],
                "energy_j_per_query": [f["energy_j_per_query"] for f in figures],
                "gco2_per_query": [f["gco2_per_query"] for f in figures],
                "on_front": [by[name]["on_front"] for by in each],
                "evidence_class": [f["evidence_class"] for f in figures],
            }
        )
    return told
