"""llm-d: targets of an InferenceModelRewrite, which renames the model of a request inside one InferencePool.

CRD llm-d.ai/v1alpha2: weight 1..1,000,000, so a target without traffic is left out, never 0; all targets of a rule
carry a weight or none does. `poolRef.group` is written out: its default is not the group that InferencePool has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.recommend.exports.documents import Doc, unshared
from policies.recommend.exports.errors import MappingMissing, NotExpressible
from policies.recommend.exports.kubernetes import cleaned, content, marked, metadata
from policies.recommend.exports.mapping import Backend, Entry, WeightedName
from policies.recommend.exports.weighted import Place, Weights


class LlmD:
    name: WeightedName = "llm-d"
    about = "llm-d InferenceModelRewrite with weighted targets"
    field = "model"
    example = "google/gemma-4-31b"
    one_model = False

    def key(self, backend: Backend, entry: Entry) -> str:
        assert backend.model is not None
        return backend.model

    def check(self, place: Place) -> None:
        entry = place.entry
        if entry.object is None:
            for field, example in (("pool", "chat-pool"), ("model", "chat")):
                if getattr(entry, field) is None:
                    meant = "which InferencePool serves it" if field == "pool" else "which model name its clients send"
                    raise MappingMissing(
                        f"The entry {place.name} does not say {meant}.",
                        fix=f'write {field} = "{example}" under [entries.{place.name}], or give it as object_file',
                    )
        for name, backend in place.backends.items():
            if None not in (backend.pool, entry.pool) and backend.pool != entry.pool:
                raise NotExpressible(
                    f"{name} is served by the pool {backend.pool}, and {place.name} rewrites inside {entry.pool}.",
                    fix="use litellm, or serve both models from one InferencePool",
                )

    def made(self, place: Place, weights: Weights) -> Doc:
        entry = place.entry
        rule = {
            "matches": [{"model": {"type": "Exact", "value": entry.model}}],
            "targets": [{"modelRewrite": name, "weight": weight} for name, weight in weights.items()],
        }
        group = "inference.networking.k8s.io"
        return {
            "apiVersion": entry.api_version,
            "kind": "InferenceModelRewrite",
            "metadata": metadata(place),
            "spec": {"poolRef": {"group": group, "kind": "InferencePool", "name": entry.pool}, "rules": [rule]},
        }

    def cleaned(self, doc: Doc) -> Doc:
        return cleaned(doc)

    def found(self, doc: Doc, place: Place) -> list[Weights]:
        return [weights for rule in self._rules(doc) if (weights := self._read(rule, place))]

    def placed(self, doc: Doc, place: Place, weights: Weights) -> Doc:
        told = unshared(doc)
        for rule in self._rules(told):
            if self._read(rule, place):
                rule["targets"] = [{"modelRewrite": name, "weight": weight} for name, weight in weights.items()]
        return dict(told)

    def marked(self, doc: Doc, place: Place, told: Mapping[str, Any]) -> Doc:
        return marked(doc, told)

    def content(self, doc: Doc) -> Any:
        return content(doc)

    @staticmethod
    def _rules(doc: Doc) -> list[Doc]:
        if doc.get("kind") != "InferenceModelRewrite":
            return []
        return [rule for rule in (doc.get("spec") or {}).get("rules") or [] if isinstance(rule, dict)]

    @staticmethod
    def _read(rule: Doc, place: Place) -> Weights | None:
        """The weights of a rule that sends anything to the incumbent; None for a rule of another model."""
        asked = [m["model"]["value"] for m in rule.get("matches") or [] if "model" in m]
        if place.entry.model is not None and asked and place.entry.model not in asked:
            return None
        weights = {t["modelRewrite"]: int(t.get("weight", 1)) for t in rule.get("targets") or []}
        return weights if set(weights) & set(place.old) else None
