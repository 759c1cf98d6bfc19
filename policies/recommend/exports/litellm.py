"""LiteLLM proxy: `litellm_params.weight` of the deployments of one model name in its config file.

Only the strategy simple-shuffle reads weights. A deployment of weight 0 is no answer: when the weighted ones cool
down it is picked at random among what is left, so a deployment without a share is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.recommend.exports.documents import Doc, unshared
from policies.recommend.exports.errors import NotExpressible, ObjectMismatch
from policies.recommend.exports.mapping import Backend, Entry, WeightedName
from policies.recommend.exports.origin import facts
from policies.recommend.exports.weighted import Place, Weights

STRATEGY = "simple-shuffle"
_MARK = "joulebook"  # in model_info


class LiteLlm:
    name: WeightedName = "litellm"
    about = "LiteLLM proxy config with weighted deployments"
    field = "litellm"
    example = '{ model = "openai/gemma-4-31b", api_base = "http://gemma:8000/v1" }'
    one_model = False

    def key(self, backend: Backend, entry: Entry) -> str:
        assert backend.litellm is not None
        return _deployment(backend.litellm)

    def check(self, place: Place) -> None:
        pass

    def made(self, place: Place, weights: Weights) -> Doc:
        return {
            "model_list": self._deployments({}, place, weights),
            "router_settings": {"routing_strategy": STRATEGY},
        }

    def cleaned(self, doc: Doc) -> Doc:
        return unshared(doc)

    def found(self, doc: Doc, place: Place) -> list[Weights]:
        settings = doc.get("router_settings") or {}
        strategy = settings.get("routing_strategy", STRATEGY)
        if strategy != STRATEGY:
            raise NotExpressible(
                f"The proxy of {place.name} routes by {strategy}, which ignores weights.",
                fix=f"set router_settings.routing_strategy to {STRATEGY} first; it changes how every model is routed",
            )
        mine = self._mine(doc, place)
        if not mine:
            return []
        names = [_deployment(d.get("litellm_params") or {}) for d in mine]
        if len(set(names)) < len(names):
            raise ObjectMismatch(
                f"{_model_name(place)} has the same deployment twice in the proxy's config.", fix="give each once"
            )
        # Without any weight all are alike; beside a weight, none is no traffic (LiteLLM reads it as 0).
        told = [(d.get("litellm_params") or {}).get("weight") for d in mine]
        missing = 1 if all(w is None for w in told) else 0
        for weight in told:
            if weight is not None and (not isinstance(weight, int) or weight < 0):
                raise ObjectMismatch(
                    f"A weight of {_model_name(place)} is no whole number from 0 up.", fix="write whole numbers"
                )
        return [{n: missing if w is None else int(w) for n, w in zip(names, told, strict=True)}]

    def placed(self, doc: Doc, place: Place, weights: Weights) -> Doc:
        told: Doc = unshared(doc)
        mine = self._mine(told, place)
        present = {_deployment(d.get("litellm_params") or {}): d for d in mine}
        made = self._deployments(present, place, weights)
        first = told["model_list"].index(mine[0])
        others = [d for d in told["model_list"] if d not in mine]
        at = sum(d not in mine for d in told["model_list"][:first])
        told["model_list"] = [*others[:at], *made, *others[at:]]
        told["router_settings"] = {**(told.get("router_settings") or {}), "routing_strategy": STRATEGY}
        return told

    def marked(self, doc: Doc, place: Place, told: Mapping[str, Any]) -> Doc:
        made: Doc = unshared(doc)
        for deployment in self._mine(made, place):
            deployment["model_info"] = {**(deployment.get("model_info") or {}), _MARK: facts(told)}
        return made

    def content(self, doc: Doc) -> Any:
        told = unshared(doc)
        for deployment in told.get("model_list") or []:
            info = {k: v for k, v in (deployment.pop("model_info", None) or {}).items() if k != _MARK}
            if info:
                deployment["model_info"] = info
        return told

    @staticmethod
    def _mine(doc: Doc, place: Place) -> list[Doc]:
        listed = doc.get("model_list")
        if not isinstance(listed, list):
            return []
        return [d for d in listed if isinstance(d, dict) and d.get("model_name") == _model_name(place)]

    @staticmethod
    def _deployments(present: Mapping[str, Doc], place: Place, weights: Weights) -> list[Doc]:
        told: list[Doc] = []
        for name, weight in weights.items():
            kept = present.get(name)
            params = kept["litellm_params"] if kept else dict(place.backends[name].litellm or {})
            made: Doc = kept or {"model_name": _model_name(place)}
            told.append({**made, "litellm_params": {**params, "weight": weight}})
        return told


def _model_name(place: Place) -> str:
    return place.entry.model_name or place.name


def _deployment(params: Mapping[str, Any]) -> str:
    """What tells deployments of one name apart: the model and where it is served."""
    return " at ".join(str(params[k]) for k in ("model", "api_base") if params.get(k))
