"""What goes with the documents: one JSON manifest, for whoever checks or applies them, and names for the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from policies.recommend.exports.change import Change
from policies.recommend.exports.documents import Exported, dump_json
from policies.recommend.exports.eligibility import Proof
from policies.recommend.exports.mapping import FormatName
from policies.recommend.state import RecState
from warehouse.clock import iso
from warehouse.ids import content_hash, sha256

VERSION = 1


@dataclass(frozen=True)
class File:
    """One file of an export. `kind`: apply, rollback or manifest."""

    name: str
    kind: str
    object: str
    media_type: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "object": self.object,
            "media_type": self.media_type,
            "sha256": sha256(self.text.encode()),
            "text": self.text,
        }


def files(
    state: RecState,
    change: Change,
    made: Sequence[Exported],
    fmt: FormatName,
    *,
    proof: Proof,
    mapping: Mapping[str, Any] | None,
    now: datetime,
) -> tuple[dict[str, Any], list[File]]:
    """The manifest, and every file of the export with the manifest as the last."""
    stem = f"{change.id}-{change.told['stage']}" + ("-DRAFT" if change.told["draft"] else "")
    found: list[File] = []
    objects = []
    for item in made:
        documents: dict[str, dict[str, Any]] = {}
        for kind, text in (("apply", item.apply_text), ("rollback", item.rollback_text)):
            if text is None or change.asked.only not in (None, kind):
                continue
            name = f"{stem}-{fmt}" + (f"-{item.name}" if item.name != fmt else "") + f".{kind}.{item.suffix}"
            found.append(File(name, kind, item.name, f"application/{item.suffix}", text))
            documents[kind] = {
                "file": name,
                "sha256": sha256(text.encode()),
                "spec_sha256": item.apply_content_sha256 if kind == "apply" else item.rollback_content_sha256,
                "expects_sha256": list(item.apply_expects if kind == "apply" else item.rollback_expects),
            }
        if "apply" in documents:
            documents["apply"]["expects_resource_version"] = item.resource_version
        objects.append(
            {
                "object": item.name,
                "about": item.about,
                "weights": item.weights,
                "weights_before": item.weights_before,
                "documents": documents,
            }
        )
    manifest = {
        "joulebook_export": VERSION,
        "format": fmt,
        **change.told,
        "state": state.state.value,
        "revision": state.revision,
        "exported_at": iso(now),
        "cells": list(change.cells),
        "from": change.old,
        "to": change.new,
        "undo": state.content["undo"],
        "eligibility": proof.to_dict(state),
        "mapping_sha256": content_hash(dict(mapping)) if mapping is not None else None,
        "warnings": sorted({w for item in made for w in item.warnings}),
        "objects": objects,
    }
    found.append(File(f"{stem}-{fmt}.manifest.json", "manifest", "", "application/json", dump_json(manifest)))
    return manifest, found
