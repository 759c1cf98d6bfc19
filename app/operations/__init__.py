"""Operations: what the desk can do. Console, API and command line all call these and nothing else.

An operation is a function `(desk, actor, params) -> dict` under a name and a scope. `call` checks the
scope, validates the parameters, and turns every project error into an AppError; the dict it returns
is plain JSON data. So a command gives the same answer in the running console and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from app.errors import AppError, BadRequest, Conflict, Forbidden, NotFound, Unavailable, sentences
from ingest.errors import IngestError, UnknownKind
from warehouse.errors import (
    SqlRefused,
    StaleRevision,
    WarehouseClosed,
    WarehouseCorrupt,
    WarehouseError,
    WarehouseFull,
    WarehouseLocked,
)

if TYPE_CHECKING:
    from app.desk import Desk


@dataclass(frozen=True)
class Actor:
    """Who acts, by which way: channel is console | api | cli | scheduler."""

    name: str
    role: str  # operator | downstream | reader | system
    channel: str
    scopes: frozenset[str] = frozenset()
    owner: str | None = None  # whose token it is; one person with two tokens is one person
    targets: frozenset[str] | None = None  # the only targets it may report for; None: all
    source: str | None = None  # class of the address it came from: loopback | private | public | none

    @property
    def person(self) -> str:
        """Who stands behind this actor, whatever way they came."""
        return (self.owner or self.name).strip().casefold()

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "*" in self.scopes


SYSTEM = Actor("joulebook", "system", "scheduler", frozenset({"*"}), source="none")


class Params(BaseModel):
    """Base of all parameters: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParams(Params):
    pass


Handler = Callable[["Desk", Actor, Any], dict[str, Any]]


@dataclass(frozen=True)
class Operation:
    name: str
    scope: str  # read | downstream | operator | local (only the same user on the same machine)
    params: type[Params]
    handler: Handler
    about: str


OPERATIONS: dict[str, Operation] = {}
_STEERING = ("recommend.", "routing.")  # what decides where traffic goes


def operation(name: str, *, scope: str, params: type[Params] = NoParams) -> Callable[[Handler], Handler]:
    """Register a handler under `name`."""

    def register(handler: Handler) -> Handler:
        OPERATIONS[name] = Operation(name, scope, params, handler, (handler.__doc__ or "").strip().splitlines()[0])
        return handler

    return register


def call(desk: Desk, name: str, params: Mapping[str, Any] | Params, actor: Actor) -> dict[str, Any]:
    """Run one operation as `actor`.

    Raises AppError and nothing else that the project knows: BadRequest for wrong parameters,
    Forbidden for a missing scope, Unavailable when the warehouse cannot be used.
    """
    from app.operations import auditing
    from warehouse import ledger  # brings DuckDB and polars, which a command that a console answers does not need

    found = find(name)
    if not actor.may(found.scope):
        why = (
            f"{actor.name} may not {found.about[:1].lower()}{found.about[1:].rstrip('.')}: "
            f"it needs the scope {found.scope!r}."
        )
        subject = params.get("id") if isinstance(params, Mapping) else getattr(params, "id", None)
        auditing.denied(desk, actor, name, subject, why)
        raise Forbidden(why, fix=f"use a token or role with {found.scope!r}")
    try:
        given = params if isinstance(params, found.params) else found.params.model_validate(dict(params))
    except ValidationError as error:
        raise BadRequest(sentences(error, values=True), fix="correct the named fields") from error
    try:
        with ledger.about(source=actor.source):
            if found.scope != "read" and name.startswith(_STEERING):
                _refuse_behind(desk)
            told = found.handler(desk, actor, given)
    except AppError as error:
        auditing.refused(desk, actor, found, given, error)
        raise
    except (WarehouseError, IngestError) as error:
        raise as_app_error(error) from error
    auditing.done(desk, actor, found, given, told)
    return told


def _refuse_behind(desk: Desk) -> None:
    """Nothing is decided, handed out or reported on a ledger that is older than its anchor. Raises Conflict."""
    from warehouse import ledger

    why = ledger.behind(desk.warehouse)
    if why is not None:
        raise Conflict(
            f"The ledger was restored or cut, and nobody has accepted that yet: {why}. Nothing was written.",
            fix="put the newer warehouse back, or `joulebook audit accept-restore REASON`; targets may hold changes "
            "that this ledger does not know",
        )


def as_app_error(error: WarehouseError | IngestError) -> AppError:
    """The AppError that stands for an error of a lower floor."""
    if isinstance(error, StaleRevision):
        return Conflict(error.message, fix=error.fix)
    if isinstance(error, WarehouseLocked | WarehouseCorrupt | WarehouseFull | WarehouseClosed):
        return Unavailable(error.message, fix=error.fix)
    if isinstance(error, SqlRefused):
        return BadRequest(error.message, fix=error.fix)
    if isinstance(error, UnknownKind):
        return BadRequest(error.message, fix=error.fix)
    if isinstance(error, IngestError):
        return AppError(": ".join(p for p in (error.source_id, error.field, error.message) if p), fix=error.fix)
    return AppError(error.message, fix=error.fix)


# Where operations are registered: exact names, and whole families by what stands before the dot. A command of the
# command line imports the module of its own operation and not the statistics and kernels of all the others.
_MODULES: dict[str, tuple[str, ...]] = {
    "alerts": ("alert",),
    "auditing": ("audit",),
    "billing": ("accounts", "charges", "tariffs"),
    "energy": ("energy",),
    "exporting": ("recommend.export", "recommend.exports"),
    "fleet": ("fleet",),
    "ingesting": ("import", "ingest"),
    "outcomes": ("recommend.measure", "recommend.savings"),
    "power": ("power",),
    "pricechecks": ("prices",),
    "queries": ("ping", "quarantine", "rebuild", "runs", "verify"),
    "recommending": ("recommend",),
    "replay": ("replay",),
    "replay_train": ("replay.train", "replay.trained"),
    "reporting": (
        "recommend.acknowledge",
        "recommend.actuate",
        "recommend.collect",
        "recommend.outcome",
        "recommend.rolled_back",
    ),
    "routing": ("rank", "routing"),
    "sampling": ("sample",),
    "shadowing": ("shadow",),
    "sql": ("sql",),
    "tokens": ("token",),
    "training_sets": ("replay.training_set",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def find(name: str) -> Operation:
    """The operation of that name; its module is imported on first use. Raises NotFound."""
    if name not in OPERATIONS:
        module = _MODULE_OF.get(name) or _MODULE_OF.get(name.partition(".")[0])
        if module is not None:
            import_module(f"app.operations.{module}")
    if name not in OPERATIONS:
        load_all()
        raise NotFound(f"There is no operation {name!r}.", fix=f"use one of {', '.join(sorted(OPERATIONS))}")
    return OPERATIONS[name]


def load_all() -> None:
    """Import every module that registers operations."""
    for module in _MODULES:
        import_module(f"app.operations.{module}")
