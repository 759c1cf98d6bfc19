"""The mapping that every weighted format needs: what offers and cells are called where the traffic is steered."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from policies.recommend.exports.errors import MappingInvalid, MappingMissing
from policies.recommend.exports.shares import LARGEST

FormatName = Literal["routing-table", "gateway-api", "llm-d", "litellm", "envoy"]
WeightedName = Literal["gateway-api", "llm-d", "litellm", "envoy"]

# RFC 1123, as Kubernetes asks of names of objects and of namespaces.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
ObjectName = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
Namespace = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}$", max_length=63)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]

_SECRETS = ("key", "token", "secret", "password", "credential")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Backend(_Model):
    """One place that serves an offer; each format reads its own field. `weight` divides among an offer's backends."""

    weight: int = Field(1, ge=1, le=LARGEST)
    pool: ObjectName | None = None
    namespace: Namespace | None = None  # of the pool, where it is not that of the route
    model: Name | None = None  # the name that its model server answers to
    cluster: Name | None = None
    litellm: dict[str, Any] | None = None  # litellm_params without weight

    @field_validator("litellm")
    @classmethod
    def _no_secrets(cls, told: dict[str, Any] | None) -> dict[str, Any] | None:
        if told is None:
            return None
        if not isinstance(told.get("model"), str):
            raise ValueError("litellm needs its model, such as openai/gemma-4-31b")
        if "weight" in told:
            raise ValueError("litellm.weight is what the export writes; put the backend's weight beside litellm")
        for name, value in told.items():
            looks_secret = any(word in name.lower().split("_") for word in _SECRETS)
            if looks_secret and not str(value).startswith("os.environ/"):
                raise ValueError(f"litellm.{name} must be os.environ/NAME: no document carries a secret")
        return told


class Offer(_Model):
    """`logical_model`: which model this is, whatever serves it (default: the base model of the catalog)."""

    logical_model: Name | None = None
    backends: tuple[Backend, ...] = Field(min_length=1)


class Entry(_Model):
    """One object that steers traffic, and the cells of the routing table (`category/tier/latency`, globs) it carries.

    `object`: the text of the object as it was before the recommendation; all but its weights is kept, and the
    rollback is that text. Without it a whole object is made from the other fields.
    """

    format: WeightedName | None = None  # unset: for every format
    cells: tuple[str, ...] = ("*",)
    object_file: str | None = None  # read into `object` by whoever reads the mapping file
    object: str | None = None
    # Kubernetes
    name: ObjectName | None = None
    namespace: Namespace = "default"
    resource_version: str | None = None
    gateway: ObjectName | None = None
    gateway_namespace: Namespace | None = None
    hostnames: tuple[Name, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict)
    prefix: str = Field("/", pattern="^/")
    # llm-d
    pool: ObjectName | None = None
    model: Name | None = None
    api_version: Literal["llm-d.ai/v1alpha2", "inference.networking.x-k8s.io/v1alpha2"] = "llm-d.ai/v1alpha2"
    # LiteLLM
    model_name: Name | None = None
    # Envoy
    route_config: Name | None = None
    route: Name | None = None
    domains: tuple[Name, ...] = ("*",)

    def carries(self, key: str) -> bool:
        """Whether requests of this cell pass through this object."""
        return any(fnmatchcase(key, pattern) for pattern in self.cells)


class Mapping(_Model):
    offers: dict[str, Offer] = Field(default_factory=dict)
    entries: dict[str, Entry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names(self) -> Mapping:
        for name in self.entries:
            if not name or "/" in name or name.startswith("."):
                raise ValueError(
                    f"entries.{name}: the name becomes part of a file name; use letters, digits and dashes"
                )
        return self

    def backends(self, offer: str, field: str, example: str) -> tuple[Backend, ...]:
        """The backends of an offer, each with `field`. Raises MappingMissing naming the offer and what to write."""
        told = self.offers.get(offer)
        if told is None:
            known = ", ".join(sorted(self.offers)) or "none"
            raise MappingMissing(
                f"The mapping does not say where {offer} is served (it names {known}).",
                fix=f'write [[offers."{offer}".backends]] with {field} = {_toml(example)}',
            )
        for backend in told.backends:
            if getattr(backend, field) is None:
                raise MappingMissing(
                    f"A backend of {offer} has no {field}, which this format needs.",
                    fix=f'write {field} = {_toml(example)} under [[offers."{offer}".backends]]',
                )
        return told.backends


def _toml(example: str) -> str:
    return example if example.startswith("{") else f'"{example}"'


def parse(told: MappingOf[str, Any]) -> Mapping:
    """The checked mapping. Raises MappingInvalid, one sentence per mistake."""
    try:
        return Mapping.model_validate(dict(told))
    except ValidationError as error:
        said = "; ".join(
            f"{'.'.join(str(p) for p in item['loc']) or 'mapping'}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors()
        )
        raise MappingInvalid(
            f"The mapping is wrong: {said}.", fix="correct the named fields; see docs/exports.md"
        ) from None
