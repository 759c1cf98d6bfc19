"""What objects of Kubernetes have in common: names, annotations, and what the server writes into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from policies.recommend.exports.documents import Doc, unshared
from policies.recommend.exports.errors import MappingMissing
from policies.recommend.exports.origin import PREFIX, as_annotations

if TYPE_CHECKING:
    from policies.recommend.exports.weighted import Place

# An object that is applied with these is refused or ignored by the server: it sets them itself.
_SERVER_SET = ("resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "selfLink")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def metadata(place: Place) -> Doc:
    """Raises MappingMissing where the entry's name is no name of an object and no other is given."""
    name = place.entry.name or place.name
    if name != name.lower() or not name.replace("-", "").replace(".", "").isalnum():
        raise MappingMissing(
            f"The entry {place.name} has no name that Kubernetes takes.",
            fix=f'write name = "..." (lower case, digits, dashes) under [entries.{place.name}]',
        )
    return {"name": name, "namespace": place.entry.namespace}


def cleaned(doc: Doc) -> Doc:
    """Without status and what the server sets; `kubectl get -o yaml` prints them."""
    told = {key: value for key, value in unshared(doc).items() if key != "status"}
    meta = {k: v for k, v in (told.get("metadata") or {}).items() if k not in _SERVER_SET}
    noted = {k: v for k, v in (meta.get("annotations") or {}).items() if k != _LAST_APPLIED}
    if "annotations" in meta:
        meta["annotations"] = noted
        if not noted:
            del meta["annotations"]
    if "metadata" in told:
        told["metadata"] = meta
    return told


def marked(doc: Doc, told: Mapping[str, Any]) -> Doc:
    """With the origin as annotations."""
    made: Doc = unshared(doc)
    meta = made.setdefault("metadata", {})
    kept = {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith(PREFIX)}
    meta["annotations"] = {**kept, **as_annotations(told)}
    return made


def content(doc: Doc) -> Any:
    """What steers traffic: identity and spec."""
    meta = doc.get("metadata") or {}
    return {
        "apiVersion": doc.get("apiVersion"),
        "kind": doc.get("kind"),
        "name": meta.get("name"),
        "namespace": meta.get("namespace"),
        "spec": doc.get("spec"),
    }
