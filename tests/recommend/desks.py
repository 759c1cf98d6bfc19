"""A small desk: two offers with reference runs, one of them cheaper in joules and dollars."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import time_machine

from app.desk import Desk
from app.errors import AppError
from app.operations import SYSTEM, Actor, call
from app.recommendations import store
from app.settings import load_settings
from policies.recommend.lifecycle import Command, decide
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.ids import content_hash
from warehouse.tables import columns

OPERATOR = Actor("ada@local", "operator", "console", frozenset({"*"}))
ROUTER = Actor("token:router", "downstream", "api", frozenset({"downstream", "read"}))
READER = Actor("token:board", "reader", "api", frozenset({"read"}))

# Five reference runs each, in joules; bills are 8 USD/kWh of them.
OLD_J = (100.0, 105.0, 95.0, 102.0, 98.0)
NEW_J = (50.0, 52.0, 48.0, 51.0, 49.0)


# What is tested beside the gate needs none.
_keys = count()
UNGATED = "[environments.local]\nrequire_pass = false\nauto_shadow = false\n"


@cache
def _templates() -> Path:
    """A folder of homes that are copied: opening a copy is far cheaper than making one."""
    folder = Path(tempfile.mkdtemp(prefix="joulebook-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_made: dict[Hashable, Path] = {}


def copied(home: Path, key: Hashable, make: Callable[[Path], Desk]) -> Desk:
    """A copy in `home` of the desk that `make` makes in an empty one: made once per key and frozen clock."""
    at = utcnow() if time_machine.escape_hatch.is_travelling() else None
    template = _made.get((key, at))
    if template is None:
        template = _templates() / f"home-{next(_keys)}"
        template.mkdir()
        make(template).close()
        _made[key, at] = template
    shutil.copytree(template, home, dirs_exist_ok=True)
    return _open(home)


@cache
def _empty() -> Path:
    """An empty warehouse with its schema, made once: a copy opens ten times as fast as migrations run."""
    Warehouse.open(_templates() / "empty.duckdb").close()
    return _templates() / "empty.duckdb"


def _open(home: Path) -> Desk:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        settings = load_settings()
    return Desk(settings, Warehouse.open(settings.warehouse_path))


def make_desk(home: Path, config: str = "", *, proposed: bool = False) -> Desk:
    """A desk on an own warehouse in `home`, with the two offers loaded; without a gate unless `config` says so.

    `proposed`: R-0001 is, old -> new in nine cells of tier 1.
    """
    rules = "" if "[environments." in config else UNGATED
    whole = "[sample]\nload_when_empty = false\n" + config + "\n" + rules

    def loaded(new: Path) -> Desk:
        (new / "joulebook.toml").write_text(whole)
        shutil.copy(_empty(), new / "joulebook.duckdb")
        desk = _open(new)
        add_offer(desk, "old", OLD_J)
        add_offer(desk, "new", NEW_J)
        return desk

    def with_proposal(new: Path) -> Desk:
        desk = copied(new, (whole, "loaded"), loaded)
        assert call(desk, "recommend.refresh", {}, OPERATOR)["proposed"] == ["R-0001"]
        return desk

    return copied(home, (whole, "proposed"), with_proposal) if proposed else copied(home, (whole, "loaded"), loaded)


def insert(desk: Desk, table: str, rows: list[Mapping[str, Any]]) -> None:
    schema = {c.name: c.polars for c in columns(table)}
    frame = pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema, orient="row")
    with desk.warehouse.transaction() as tx:
        tx.append(table, frame)


def add_offer(
    desk: Desk, offer_id: str, energies_j: tuple[float, ...], *, source: str = "acme", tier: int = 1, **run: Any
) -> None:
    """An offer of one tier with a price and one reference run per energy."""
    now = utcnow()
    shared = {
        "provider": "acme",
        "offer_id": offer_id,
        "valid_from": now - timedelta(days=9),
        "known_from": now - timedelta(days=9),
        "content_sha256": content_hash(offer_id),
        "source_id": source,
        "run_id": "r1",
    }
    offer = {
        **shared,
        "base_model": offer_id,
        "latency_class": "interactive",
        "reasoning_mode": "standard",
        "context_variant": "full",
        "access_level": "open",
        "lifecycle": "active",
        "context_tokens": 262_144,
        "tier": tier,
    }
    # The old offer has the lower list price, so that it is the assumed incumbent.
    usd = "0.28" if offer_id == "old" else "0.42"
    prices = [
        {
            **shared,
            "component": component,
            "min_prompt_tokens": 0,
            "price_usd_per_unit": Decimal(usd) / 1_000_000,
            "unit": "token",
            "price_kind": "fixed",
            "origin": "live",
        }
        for component in ("prompt", "completion")
    ]
    insert(desk, "core.offer", [offer])
    insert(desk, "core.price", prices)
    insert(desk, "core.usage", [run_row(offer_id, i, joules, source, run) for i, joules in enumerate(energies_j)])


def run_row(offer_id: str, i: int, energy_j: float, source: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    end = utcnow() - timedelta(days=1, seconds=i)
    return {
        "provider": "acme",
        "account": "main",
        "usage_key": f"{offer_id}/{next(_keys)}",
        "grain": "request",
        "workload": "seed_reference",
        "period_start_at": end - timedelta(seconds=2),
        "period_end_at": end,
        "requested_offer": offer_id,
        "served_offer": offer_id,
        "requests": 1,
        "attempts": 1,
        "successes": 1,
        "billed_cost_usd": (Decimal(str(energy_j)) * 8 / 3_600_000).quantize(Decimal("1e-12")),
        "energy_j": energy_j,
        "carbon_g": energy_j / 3_600_000 * 200,
        "carbon_evidence_class": "calibrated",
        "evidence_class": "allocated",
        "method": "prorated",
        "source_id": source,
        "run_id": "r1",
        "known_from": end,
        "row_sha256": content_hash([offer_id, i]),
        **changes,
    }


class Driver:
    """Sends commands with the revision in force and a key of its own, unless told otherwise."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def call(self, name: str, params: Mapping[str, Any] | None = None, actor: Actor = OPERATOR) -> dict[str, Any]:
        return call(self.desk, name, params or {}, actor)

    def show(self, rec_id: str = "R-0001") -> dict[str, Any]:
        return self.call("recommend.show", {"id": rec_id})

    def refresh(self) -> dict[str, Any]:
        return self.call("recommend.refresh")

    def send(self, name: str, rec_id: str = "R-0001", actor: Actor | None = None, **given: Any) -> dict[str, Any]:
        reports = name in ("acknowledge", "actuate", "rolled_back", "outcome")
        params = {
            "id": rec_id,
            "revision": self.show(rec_id)["revision"],
            "idempotency_key": f"key-{next(_keys)}",
            **({"target": "router"} if reports else {}),
            **given,
        }
        return self.call(f"recommend.{name}", params, actor or (ROUTER if reports else OPERATOR))

    def collect(self, target: str = "router") -> list[dict[str, Any]]:
        commands: list[dict[str, Any]] = self.call("recommend.collect", {"target": target}, ROUTER)["commands"]
        return commands

    def observe(self, rec_id: str = "R-0001") -> dict[str, Any]:
        """From PROPOSED to OBSERVING."""
        self.send("approve", rec_id)
        self.collect()
        self.send("acknowledge", rec_id)
        return self.send("actuate", rec_id)

    def judge(self, verdict: str, stage: str = "shadow", rec_id: str = "R-0001", why: str = "-") -> None:
        """What a gate says, without the pairs behind it."""
        with self.desk.warehouse.transaction() as tx:
            state, _ = store.one(tx, rec_id)
            data = {"stage": stage, "verdict": verdict, "why": why, "n": 100, "complete": True}
            drafts = decide(state, Command("judge", data=data), now=utcnow())
            store.append(tx, SYSTEM, rec_id, drafts)
        ledger.anchor(self.desk.warehouse)

    def carry(self, *targets: str, rec_id: str = "R-0001") -> dict[str, Any]:
        """Every target collects, acknowledges and actuates."""
        for target in targets or ("router",):
            assert self.collect(target)
            self.send("acknowledge", rec_id, target=target)
            self.send("actuate", rec_id, target=target)
        return self.show(rec_id)

    def events(self, kind: str | None = None) -> list[ledger.Event]:
        return ledger.events(self.desk.warehouse, kind=kind)

    def kinds(self, rec_id: str = "R-0001") -> list[str]:
        found = ledger.events(self.desk.warehouse, subject=rec_id)
        return [e.kind.removeprefix("recommendation.") for e in found]


def outcome(start: datetime, **changes: Any) -> dict[str, Any]:
    """A window after `start` in which the new offer did as promised."""
    return {
        "window_start_at": start.isoformat() + "Z",
        "window_end_at": (start + timedelta(hours=1)).isoformat() + "Z",
        "evidence_class": "allocated",
        "attempts": 1000,
        "successes": 1000,
        "n": 1000,
        "energy_j": 50_000.0,
        **changes,
    }


def refusal(action: Any) -> AppError:
    """The AppError that `action` raises."""
    try:
        action()
    except AppError as error:
        return error
    raise AssertionError("nothing was refused")
