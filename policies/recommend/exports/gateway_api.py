"""Gateway API: weights of an HTTPRoute over InferencePools (gateway.networking.k8s.io/v1; API reference v1.4).

A weight is 0..1,000,000, in proportion to the sum of its rule; absent is 1, and 0 is no traffic. A rule with a
single backendRef of any weight above 0 sends everything there: a canary needs both sides in the same rule, and
the last stage has the candidate alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.recommend.exports.documents import Doc, unshared
from policies.recommend.exports.errors import MappingMissing
from policies.recommend.exports.kubernetes import cleaned, content, marked, metadata
from policies.recommend.exports.mapping import Backend, Entry, WeightedName
from policies.recommend.exports.weighted import Place, Weights

GROUP, KIND = "inference.networking.k8s.io", "InferencePool"


class GatewayApi:
    name: WeightedName = "gateway-api"
    about = "Gateway API HTTPRoute with weights over InferencePools"
    field = "pool"
    example = "gemma-h100"
    one_model = True

    def key(self, backend: Backend, entry: Entry) -> str:
        assert backend.pool is not None
        return backend.pool if backend.namespace in (None, entry.namespace) else f"{backend.namespace}/{backend.pool}"

    def check(self, place: Place) -> None:
        if place.entry.object is None and place.entry.gateway is None:
            raise MappingMissing(
                f"The entry {place.name} does not say which Gateway its HTTPRoute belongs to.",
                fix=f'write gateway = "NAME" under [entries.{place.name}], or give the route as object_file',
            )

    def made(self, place: Place, weights: Weights) -> Doc:
        entry = place.entry
        parent = {"name": entry.gateway}
        if entry.gateway_namespace is not None:
            parent["namespace"] = entry.gateway_namespace
        match: Doc = {"path": {"type": "PathPrefix", "value": entry.prefix}}
        if entry.headers:
            match["headers"] = [{"type": "Exact", "name": n, "value": v} for n, v in sorted(entry.headers.items())]
        spec: Doc = {"parentRefs": [parent]}
        if entry.hostnames:
            spec["hostnames"] = list(entry.hostnames)
        spec["rules"] = [{"matches": [match], "backendRefs": self._refs({}, place, weights)}]
        return {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": metadata(place),
            "spec": spec,
        }

    def cleaned(self, doc: Doc) -> Doc:
        return cleaned(doc)

    def found(self, doc: Doc, place: Place) -> list[Weights]:
        return [weights for rule in self._rules(doc) if (weights := self._read(rule, place))]

    def placed(self, doc: Doc, place: Place, weights: Weights) -> Doc:
        told = unshared(doc)
        for rule in self._rules(told):
            if self._read(rule, place):
                present = {self._name(ref, place.entry): ref for ref in rule["backendRefs"]}
                rule["backendRefs"] = self._refs(present, place, weights)
        return dict(told)

    def marked(self, doc: Doc, place: Place, told: Mapping[str, Any]) -> Doc:
        return marked(doc, told)

    def content(self, doc: Doc) -> Any:
        return content(doc)

    @staticmethod
    def _rules(doc: Doc) -> list[Doc]:
        if doc.get("kind") != "HTTPRoute":
            return []
        return [rule for rule in (doc.get("spec") or {}).get("rules") or [] if isinstance(rule, dict)]

    @staticmethod
    def _name(ref: Doc, entry: Entry) -> str:
        """The pool of a reference as `key` writes it; other kinds carry their kind and never match."""
        if ref.get("kind") != KIND or ref.get("group") != GROUP:
            return f"{ref.get('kind', 'Service')}:{ref.get('name')}"
        namespace = ref.get("namespace", entry.namespace)
        return str(ref["name"]) if namespace == entry.namespace else f"{namespace}/{ref['name']}"

    def _read(self, rule: Doc, place: Place) -> Weights | None:
        """The weights of a rule that sends anything to the incumbent; None for another rule."""
        weights = {self._name(r, place.entry): int(r.get("weight", 1)) for r in rule.get("backendRefs") or []}
        return weights if any(weights.get(name, 0) > 0 for name in place.old) else None

    def _refs(self, present: Mapping[str, Doc], place: Place, weights: Weights) -> list[Doc]:
        refs = []
        for name, weight in weights.items():
            backend = place.backends[name]
            made: Doc = {"group": GROUP, "kind": KIND, "name": backend.pool}
            if backend.namespace not in (None, place.entry.namespace):
                made["namespace"] = backend.namespace
            refs.append({**present.get(name, made), "weight": weight})
        return refs
