"""Envoy: `weighted_clusters` of a route in a v3 RouteConfiguration, plain or as a file for file-based RDS.

Weights are 32-bit and in proportion to their sum, which is told in the metadata (`total_weight` is deprecated).
A cluster of weight 0 would still be checked for existence and get no traffic; it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.recommend.exports.documents import Doc, unshared
from policies.recommend.exports.mapping import Backend, Entry, WeightedName
from policies.recommend.exports.origin import facts
from policies.recommend.exports.weighted import Place, Weights

TYPE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
_MARK = "joulebook"  # in filter_metadata of the route


class Envoy:
    name: WeightedName = "envoy"
    about = "Envoy v3 RouteConfiguration with weighted clusters"
    field = "cluster"
    example = "gemma_h100"
    one_model = True

    def key(self, backend: Backend, entry: Entry) -> str:
        assert backend.cluster is not None
        return backend.cluster

    def check(self, place: Place) -> None:
        pass

    def made(self, place: Place, weights: Weights) -> Doc:
        entry = place.entry
        match: Doc = {"prefix": entry.prefix}
        if entry.headers:
            match["headers"] = [
                {"name": name, "string_match": {"exact": value}} for name, value in sorted(entry.headers.items())
            ]
        route = {"name": entry.route or place.name, "match": match, "route": _action({}, weights)}
        host = {"name": place.name, "domains": list(entry.domains), "routes": [route]}
        return {"@type": TYPE, "name": entry.route_config or place.name, "virtual_hosts": [host]}

    def cleaned(self, doc: Doc) -> Doc:
        return unshared(doc)

    def found(self, doc: Doc, place: Place) -> list[Weights]:
        return [weights for route in _routes(doc) if (weights := self._read(route, place))]

    def placed(self, doc: Doc, place: Place, weights: Weights) -> Doc:
        told: Doc = unshared(doc)
        for route in _routes(told):
            if self._read(route, place):
                route["route"] = _action(route["route"], weights)
        return told

    def marked(self, doc: Doc, place: Place, told: Mapping[str, Any]) -> Doc:
        made: Doc = unshared(doc)
        texts = {**facts(told), "weight-sum": str(sum(told["weights"].values()))}
        for route in _routes(made):
            named = place.entry.route in (None, route.get("name"))
            if named and _weights(route) == told["weights"]:
                meta = route.setdefault("metadata", {})
                meta["filter_metadata"] = {**(meta.get("filter_metadata") or {}), _MARK: texts}
        return made

    def content(self, doc: Doc) -> Any:
        told = unshared(doc)
        told.pop("version_info", None)
        for route in _routes(told):
            meta = route.get("metadata") or {}
            (meta.get("filter_metadata") or {}).pop(_MARK, None)
            if not meta.get("filter_metadata"):
                meta.pop("filter_metadata", None)
            if not meta:
                route.pop("metadata", None)
        return told

    @staticmethod
    def _read(route: Doc, place: Place) -> Weights | None:
        """The weights of a route that sends anything to the incumbent; None for another route."""
        if place.entry.route is not None and route.get("name") != place.entry.route:
            return None
        weights = _weights(route)
        return weights if any(weights.get(name, 0) > 0 for name in place.old) else None


def _routes(doc: Doc) -> list[Doc]:
    """Every route with an action, of one RouteConfiguration or of each resource of an RDS file."""
    configs = doc.get("resources") if isinstance(doc.get("resources"), list) else [doc]
    return [
        route
        for config in configs or []
        for host in config.get("virtual_hosts") or []
        for route in host.get("routes") or []
        if isinstance(route, dict) and isinstance(route.get("route"), dict)
    ]


def _weights(route: Doc) -> Weights:
    action = route["route"]
    if "cluster" in action:
        return {str(action["cluster"]): 1}
    clusters = (action.get("weighted_clusters") or {}).get("clusters") or []
    return {str(c["name"]): int(c.get("weight", 0)) for c in clusters}


def _action(action: Doc, weights: Weights) -> Doc:
    """The same action with these clusters; what stands beside the weights (filters, headers) is kept."""
    before = action.get("weighted_clusters") or {}
    present = {c["name"]: c for c in before.get("clusters") or []}
    clusters = [{**present.get(name, {"name": name}), "weight": weight} for name, weight in weights.items()]
    kept = {k: v for k, v in action.items() if k not in ("cluster", "weighted_clusters")}
    rest = {k: v for k, v in before.items() if k not in ("clusters", "total_weight")}
    return {"weighted_clusters": {"clusters": clusters, **rest}, **kept}
