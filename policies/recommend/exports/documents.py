"""Documents as text: stable, without anchors, and hashed by what they mean rather than by how they are laid out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import yaml

from policies.recommend.exports.errors import ObjectMismatch

Doc = dict[str, Any]
T = TypeVar("T")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Time-stamps stay text: they are copied, never computed with."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass(frozen=True)
class Exported:
    """One object: its documents, and the hashes of its functional content that each may be applied over.

    `apply_text` is None where only the rollback was asked for. Hashes are sha256 of canonical JSON.
    """

    name: str
    about: str
    suffix: str
    apply_text: str | None
    rollback_text: str
    apply_content_sha256: str
    rollback_content_sha256: str
    apply_expects: tuple[str, ...]
    rollback_expects: tuple[str, ...]
    weights: dict[str, int]
    weights_before: dict[str, int]
    resource_version: str | None = None
    warnings: tuple[str, ...] = ()


def parse_yaml(text: str, what: str) -> Doc:
    """One YAML or JSON object. Raises ObjectMismatch in words that do not repeat the text."""
    try:
        told = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise ObjectMismatch(
            f"The object of {what} is not one YAML or JSON document{where}.", fix="correct it"
        ) from None
    if not isinstance(told, dict):
        raise ObjectMismatch(f"The object of {what} is no mapping.", fix="give one object per file")
    doc: Doc = unshared(told)
    return doc


def unshared(value: T) -> T:
    """A copy in which nothing is shared, so that a change in one place stays there (YAML anchors share)."""
    if isinstance(value, dict):
        return cast(T, {key: unshared(item) for key, item in value.items()})
    if isinstance(value, list):
        return cast(T, [unshared(item) for item in value])
    return value


def dump_yaml(doc: Doc, comments: Sequence[str] = ()) -> str:
    """The same text for the same document, keys in their order, each comment a line of its own on top."""
    head = "".join(f"# {line}\n" for line in comments)
    return head + str(yaml.dump(doc, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))


def dump_json(doc: Doc) -> str:
    return json.dumps(doc, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
