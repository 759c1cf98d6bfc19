"""Exports: one recommendation as documents for what operators run, and which formats can say it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from app.errors import AppError, BadRequest
from app.export_files import MAPPING_NAME, home_mapping
from app.operations import Actor, Params, operation
from app.operations.routing import current_table, ranked_cells
from app.policy_errors import policy_errors
from app.recommendations import store
from policies.recommend import exports
from policies.recommend.exports import FORMATS, Asked, FormatName, Only, Proof
from policies.recommend.state import RecState, cell_key
from policies.recommend.table import Table
from warehouse.clock import iso, utcnow
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.desk import Desk


_KINDS: tuple[Only, ...] = ("apply", "rollback")


class ExportsParams(Params):
    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    stage: Annotated[str, StringConstraints(min_length=1, max_length=40)] | None = None
    draft: bool = False


class ExportParams(ExportsParams):
    """`stage`: the current one unless told; another only as a draft. `mapping`: instead of that of the home."""

    format: FormatName
    only: Only | None = None
    change_only: bool = False
    mapping: dict[str, Any] | None = Field(None)


@dataclass(frozen=True)
class _Facts:
    """What the desk knows now: the recommendation, the table in force, what is eligible."""

    state: RecState
    others: tuple[RecState, ...]  # every other recommendation
    table: Table
    proof: Proof
    max_step: float
    now: datetime


def _facts(desk: Desk, rec_id: str) -> _Facts:
    settings = desk.settings
    with snapshot(desk.warehouse) as snap:
        state, _ = store.one(desk.warehouse, rec_id)
        others = tuple(s for s in store.states(store.all_events(desk.warehouse)) if s.id != rec_id)
        table = current_table(desk.warehouse, settings, snap)
        ranked = ranked_cells(snap, settings, table)
    rankings = {
        cell_key({"category": category, "tier": tier, "latency": latency}): ranking
        for (category, tier, latency), ranking in ranked.items()
    }
    mine = Proof({key: rankings[key] for key in state.routes if key in rankings})
    environment = settings.environments.get(state.governance.environment, settings.approval_policy)
    return _Facts(state, others, table, mine, environment.max_step, utcnow())


def _export(facts: _Facts, asked: Asked, name: FormatName, mapping: dict[str, Any] | None) -> dict[str, Any]:
    state = facts.state
    with policy_errors():
        change = exports.change_of(
            state, asked, table=facts.table, proof=facts.proof, max_step=facts.max_step, now=facts.now
        )
        change = replace(change, warnings=(*change.warnings, *_shared(facts, name, asked)))
        made = exports.export(change, name, mapping)
        manifest, files = exports.files(state, change, made, name, proof=facts.proof, mapping=mapping, now=facts.now)
    return {
        "id": state.id,
        "format": name,
        "stage": manifest["stage"],
        "share": manifest["share"],
        "draft": manifest["draft"],
        "manifest": manifest,
        "files": [file.to_dict() for file in files],
        "as_of": iso(facts.now),
    }


def _shared(facts: _Facts, name: FormatName, asked: Asked) -> tuple[str, ...]:
    """A whole table is the same whatever other changes have reached, so it has none of their shares."""
    if name != "routing-table" or asked.change_only:
        return ()
    held = [s for s in facts.others if s.holds_share]
    return tuple(
        f"the whole table has no share of {s.id} ({s.label}): put in its place it "
        "would end that; export with change_only instead"
        for s in held
    )


@operation("recommend.export", scope="read", params=ExportParams)
def export(desk: Desk, actor: Actor, params: ExportParams) -> dict[str, Any]:
    """Export a recommendation as documents to apply and to roll back, with a manifest."""
    mapping = params.mapping
    if mapping is None and params.format != "routing-table":
        mapping = home_mapping(desk.settings.home)
    _no_paths(mapping)
    asked = Asked(params.stage, params.only, params.draft, params.change_only)
    if params.change_only and params.format != "routing-table":
        raise BadRequest(
            f"{params.format} has no part to leave out.", fix="use change_only with the format routing-table"
        )
    return _export(_facts(desk, params.id), asked, params.format, mapping)


def _no_paths(mapping: dict[str, Any] | None) -> None:
    """A caller elsewhere must not have files of this machine read."""
    entries = (mapping or {}).get("entries")
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if isinstance(entry, dict) and "object_file" in entry:
            raise BadRequest(
                f"entries.{name}.object_file names a file of this machine.",
                fix=f"send its text as object, or put the mapping into {MAPPING_NAME} of the home",
            )


@operation("recommend.exports", scope="read", params=ExportsParams)
def exports_(desk: Desk, actor: Actor, params: ExportsParams) -> dict[str, Any]:
    """List the export formats and say which of them can be had of a recommendation now, and why not."""
    facts = _facts(desk, params.id)
    problem: AppError | None = None
    mapping = None
    try:
        mapping = home_mapping(desk.settings.home)
    except AppError as error:
        problem = error
    formats = []
    for name in FORMATS:
        told: dict[str, Any] = {"format": name, "about": exports.about(name)}
        for only in _KINDS:
            why = problem if problem is not None and name != "routing-table" else None
            files: list[str] = []
            if why is None:
                try:
                    asked = Asked(params.stage, only, params.draft)
                    files = [f["name"] for f in _export(facts, asked, name, mapping)["files"]]
                except AppError as error:
                    why = error
            told[only] = {
                "allowed": why is None,
                "why_not": None if why is None else why.message,
                "fix": None if why is None else why.fix,
                "files": files,
            }
        formats.append(told)
    return {
        "id": params.id,
        "stage": params.stage or facts.state.stage.name,
        "stages": [{"name": s.name, "share": s.share} for s in facts.state.governance.stages],
        "mapping_file": MAPPING_NAME if mapping is not None else None,
        "formats": formats,
        "as_of": iso(facts.now),
    }
