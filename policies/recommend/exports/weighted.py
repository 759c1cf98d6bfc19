"""Formats that steer by weights: what is common to them. Everything follows from the object before the change.

before  = the operator's own object, or one made from the mapping, with the incumbent's weights
stage k = before, with the incumbent's weights scaled by 1 - share_k and the candidate's by share_k
apply   = stage k, marked with its origin      expects stage k-1
rollback = before, byte for byte               expects any stage up to k
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from policies.recommend.exports.change import Change
from policies.recommend.exports.documents import Doc, Exported, dump_yaml, parse_yaml, unshared
from policies.recommend.exports.errors import MappingMissing, NotExpressible, ObjectMismatch
from policies.recommend.exports.mapping import Backend, Entry, Mapping, WeightedName
from policies.recommend.exports.origin import comments
from policies.recommend.exports.shares import integer_weights, split
from warehouse.ids import content_hash

Weights = dict[str, int]


@dataclass(frozen=True)
class Place:
    """Where the weights stand: one entry of the mapping, and its backends by the name the format knows them by."""

    name: str
    entry: Entry
    old: MappingOf[str, Backend]
    new: MappingOf[str, Backend]

    @property
    def backends(self) -> dict[str, Backend]:
        return {**self.old, **self.new}


class Format(Protocol):
    """One kind of document. No method changes what it is given."""

    name: WeightedName
    about: str
    field: str  # of a Backend, which the format needs
    example: str  # of that field
    one_model: bool  # whether it can only divide requests of one logical model

    def key(self, backend: Backend, entry: Entry) -> str:
        """What the backend is called in the document."""
        ...

    def check(self, place: Place) -> None:
        """Raises MappingMissing or NotExpressible."""
        ...

    def made(self, place: Place, weights: Weights) -> Doc:
        """A whole object from the mapping."""
        ...

    def cleaned(self, doc: Doc) -> Doc:
        """Without what a server sets itself."""
        ...

    def found(self, doc: Doc, place: Place) -> list[Weights]:
        """The weights at every place of the object that could be this one; zeros included."""
        ...

    def placed(self, doc: Doc, place: Place, weights: Weights) -> Doc:
        """The object with `weights` at every place that `found` told."""
        ...

    def marked(self, doc: Doc, place: Place, told: MappingOf[str, Any]) -> Doc:
        """The object with its origin, where the format has room for it."""
        ...

    def content(self, doc: Doc) -> Any:
        """The part that steers traffic: all but marks."""
        ...


def export(change: Change, mapping: Mapping, fmt: Format) -> list[Exported]:
    """One pair of documents per object that the change touches. Raises ExportInvalid with what to write."""
    _check_model(change, mapping, fmt)
    return [_one(change, place, fmt) for place in _places(change, mapping, fmt)]


def _check_model(change: Change, mapping: Mapping, fmt: Format) -> None:
    if change.old is None:
        raise NotExpressible(
            f"{change.id} routes cells that had no route: {fmt.name} has no document that restores nothing.",
            fix="use routing-table, or create the object by hand first",
        )
    if not fmt.one_model:
        return
    models = {}
    for offer in (change.old, change.new):
        told = mapping.offers.get(offer)
        models[offer] = (told.logical_model if told else None) or change.logical_models.get(offer)
        if models[offer] is None:
            raise MappingMissing(
                f"Nothing says which model {offer} is.", fix=f'write logical_model under [offers."{offer}"]'
            )
    if models[change.old] != models[change.new]:
        raise NotExpressible(
            f"{fmt.name} divides requests of one model over backends, and {change.id} moves them from "
            f"{models[change.old]} to {models[change.new]}.",
            fix="use llm-d (InferenceModelRewrite) or litellm, which change the model of a request",
        )


def _places(change: Change, mapping: Mapping, fmt: Format) -> list[Place]:
    found: list[Place] = []
    missing = set(change.cells)
    for name, entry in sorted(mapping.entries.items()):
        if entry.format not in (None, fmt.name):
            continue
        carried = {key for key in (*change.table, *change.cells) if entry.carries(key)}
        if not carried & set(change.cells):
            continue
        others = sorted(carried - set(change.cells))
        if others:
            raise NotExpressible(
                f"The entry {name} also carries {', '.join(others[:3])}"
                + (f" and {len(others) - 3} more" if len(others) > 3 else "")
                + f", which {change.id} does not change: {fmt.name} would move them too.",
                fix=f"give entries of their own to {', '.join(change.cells[:3])} ..., or use routing-table",
            )
        missing -= carried
        found.append(_place(change, mapping, fmt, name, entry))
    if missing:
        cell, more = sorted(missing)[0], f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise MappingMissing(
            f"No entry of the mapping carries {cell}{more}.",
            fix=f'write [entries.NAME] with cells = ["{cell}"] and what {fmt.name} needs (docs/exports.md)',
        )
    return found


def _place(change: Change, mapping: Mapping, fmt: Format, name: str, entry: Entry) -> Place:
    assert change.old is not None
    sides = []
    for offer in (change.old, change.new):
        side: dict[str, Backend] = {}
        for backend in mapping.backends(offer, fmt.field, fmt.example):
            key = fmt.key(backend, entry)
            if key in side:
                raise NotExpressible(f"{offer} names {key} twice in the mapping.", fix="give each backend once")
            side[key] = backend
        sides.append(side)
    both = sorted(set(sides[0]) & set(sides[1]))
    if both:
        raise NotExpressible(
            f"{both[0]} serves {change.old} and {change.new}: {fmt.name} cannot tell them apart there.",
            fix="use a format that names models (llm-d, litellm), or separate the backends",
        )
    place = Place(name, entry, *sides)
    fmt.check(place)
    return place


def _one(change: Change, place: Place, fmt: Format) -> Exported:
    before, text = _before(change, place, fmt)
    old = _weights_before(change, place, fmt, before)
    new = {key: backend.weight for key, backend in place.new.items()}

    def weights_at(share: Fraction) -> Weights:
        return old if share == 0 else integer_weights(split(old, new, share))

    def at(share: Fraction) -> Doc:
        return before if share == 0 else fmt.placed(before, place, weights_at(share))

    hashes = [content_hash(fmt.content(at(share))) for share in change.shares]
    _only_known(place, weights_at(change.share))
    version, warnings = place.entry.resource_version, change.warnings
    if version is None and len(change.shares) == 2 and place.entry.object:
        version = parse_yaml(place.entry.object, place.name).get("metadata", {}).get("resourceVersion")
    told = {**change.told, "spec_sha256": hashes[-1], "expects_sha256": hashes[-2], "weights": weights_at(change.share)}
    applied = unshared(fmt.marked(at(change.share), place, told))
    if version is not None and "metadata" in applied:
        applied["metadata"]["resourceVersion"] = str(version)
    return Exported(
        name=place.name,
        about=fmt.about,
        suffix="yaml",
        apply_text=None if change.asked.only == "rollback" else dump_yaml(applied, comments(told)),
        rollback_text=text,
        apply_content_sha256=hashes[-1],
        rollback_content_sha256=hashes[0],
        apply_expects=(hashes[-2],),
        rollback_expects=tuple(reversed(hashes[1:])),
        weights=weights_at(change.share),
        weights_before=weights_at(change.share_before),
        resource_version=str(version) if version is not None else None,
        warnings=warnings,
    )


def _before(change: Change, place: Place, fmt: Format) -> tuple[Doc, str]:
    """The object before the recommendation, and the very text that restores it."""
    if place.entry.object is None:
        made = fmt.made(place, {key: backend.weight for key, backend in place.old.items()})
        return made, dump_yaml(made)
    given = parse_yaml(place.entry.object, place.name)
    cleaned = fmt.cleaned(given)
    return cleaned, place.entry.object if cleaned == given else dump_yaml(cleaned)


def _weights_before(change: Change, place: Place, fmt: Format, before: Doc) -> Weights:
    found = [{k: w for k, w in weights.items() if w > 0} for weights in fmt.found(before, place)]
    if not found:
        raise ObjectMismatch(
            f"Nothing in the object of {place.name} routes to {', '.join(place.old)}, where {change.old} is served.",
            fix="give the object as it was before the recommendation, or correct the mapping",
        )
    for weights in found:
        if set(weights) != set(place.old):
            raise ObjectMismatch(
                f"The object of {place.name} routes to {', '.join(weights) or 'nothing'}, and {change.id} was made for "
                f"{', '.join(place.old)} ({change.old}).",
                fix="give the object as it was before the recommendation, or correct the mapping",
            )
        if weights != found[0]:
            raise ObjectMismatch(
                f"The object of {place.name} divides its traffic differently in different places.",
                fix="give each of them an object or an entry of its own",
            )
    return found[0]


def _only_known(place: Place, weights: Weights) -> None:
    """Nothing but a backend of the two offers of the recommendation may ever receive traffic."""
    foreign = set(weights) - set(place.old) - set(place.new)
    if foreign or not weights:
        raise NotExpressible(f"{place.name} would route to {foreign or 'nothing'}.", fix="correct the mapping")
