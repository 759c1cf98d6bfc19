"""Exports: an approved change as documents for what operators run, each with its exact rollback."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import Any

from policies.recommend.exports import routing_table, weighted
from policies.recommend.exports.change import Asked, Change, Only, change_of
from policies.recommend.exports.documents import Exported
from policies.recommend.exports.eligibility import Proof
from policies.recommend.exports.envoy import Envoy
from policies.recommend.exports.errors import MappingMissing
from policies.recommend.exports.gateway_api import GatewayApi
from policies.recommend.exports.litellm import LiteLlm
from policies.recommend.exports.llm_d import LlmD
from policies.recommend.exports.manifest import File, files
from policies.recommend.exports.mapping import FormatName, parse
from policies.recommend.exports.weighted import Format

__all__ = [
    "FORMATS",
    "Asked",
    "Change",
    "Exported",
    "File",
    "FormatName",
    "Only",
    "Proof",
    "about",
    "change_of",
    "export",
    "files",
    "parse",
]

_WEIGHTED: dict[str, Format] = {f.name: f for f in (GatewayApi(), LlmD(), LiteLlm(), Envoy())}
FORMATS: tuple[FormatName, ...] = ("routing-table", "gateway-api", "llm-d", "litellm", "envoy")


def about(name: FormatName) -> str:
    """What the format is, in a few words."""
    return routing_table.ABOUT if name == routing_table.NAME else _WEIGHTED[name].about


def export(change: Change, name: FormatName, mapping: MappingOf[str, Any] | None) -> list[Exported]:
    """The documents of `change` in one format. Raises ExportInvalid, which says what to write."""
    if name == routing_table.NAME:
        return routing_table.export(change)
    if mapping is None:
        raise MappingMissing(
            f"{name} needs a mapping: how {change.old} and {change.new} are called where traffic is steered.",
            fix="write exports.toml in JOULEBOOK_HOME, or give a file with --map (docs/exports.md)",
        )
    return weighted.export(change, parse(mapping), _WEIGHTED[name])
