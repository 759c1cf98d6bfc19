"""No statement reads or writes a file, changes or reveals what is closed, or outlives its limits."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import duckdb
import pytest

from tests.sandbox.attacks import CRASHES, GROUPS, READ_FILES, RESOURCES, SECRET_TABLES
from tests.sandbox.conftest import SECRET, Lab
from tests.support import shared
from warehouse.errors import SqlFailed, SqlRefused, SqlTimeout, WarehouseError
from warehouse.sandbox.client import SqlResult

DEADLINE_S = 1.5


def _texts(outcome: SqlResult | WarehouseError) -> str:
    if isinstance(outcome, WarehouseError):
        return str(outcome)
    return str(outcome.table.to_pydict()) + str(outcome.columns)


def _paths_not_asked_for(text: str, statement: str, lab: Lab) -> bool:
    return any(path in text and path not in statement for path in (str(lab.folder), str(lab.snapshot), "/.venv/"))


def test_there_are_more_than_two_hundred_attacks_of_our_own() -> None:
    assert sum(map(len, GROUPS.values())) + len(RESOURCES) > 200


def test_without_the_sandbox_the_attacks_are_real(lab: Lab, tmp_path: Path) -> None:
    copy = tmp_path / "snapshot.duckdb"
    copy.write_bytes(lab.snapshot.read_bytes())
    n_got = 0
    for attack in READ_FILES + SECRET_TABLES:
        if "127.0.0.1" in attack:
            continue  # needs an extension that is not there
        with duckdb.connect(str(copy), read_only=True) as connection:
            connection.execute("SET search_path = 'core,ops,landing,main'")
            try:
                n_got += SECRET in str(connection.execute(lab.fill(attack)).fetchall())
            except duckdb.Error:
                continue
    assert n_got >= 60


@pytest.mark.parametrize("group", GROUPS)
def test_every_attack_of_the_group_is_refused_or_fails_and_leaves_no_trace(lab: Lab, group: str) -> None:
    before = lab.state()
    got_through: list[str] = []
    for attack in GROUPS[group]:
        outcome = lab.outcome(attack, timeout_s=5.0)
        text = _texts(outcome)
        assert SECRET not in text, attack[:200]
        assert not _paths_not_asked_for(text, lab.fill(attack), lab), text
        if isinstance(outcome, SqlResult):
            got_through.append(attack[:200])
        else:
            assert isinstance(outcome, SqlRefused | SqlFailed), attack[:200]
    harmless = {attack[:200] for attack in CRASHES if attack.startswith("SELECT ((((")}  # brackets are no crime
    assert set(got_through) <= harmless
    assert lab.state() == before


@pytest.mark.parametrize("attack", RESOURCES, ids=lambda attack: attack[:48])
def test_a_resource_attack_ends_within_its_deadline_and_leaves_this_process_as_it_was(lab: Lab, attack: str) -> None:
    before = lab.state()
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()

    outcome = lab.outcome(attack, timeout_s=DEADLINE_S)

    assert time.monotonic() - started < DEADLINE_S + 2.0
    assert isinstance(outcome, SqlRefused | SqlFailed | SqlTimeout)
    assert outcome.fix
    assert not _paths_not_asked_for(str(outcome), attack, lab)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before
    assert grown_kib < 200 * 1024
    assert lab.state() == before


def test_every_published_attack_is_harmless(lab: Lab) -> None:
    before = lab.state()
    statements = json.loads(shared("cases/sql_attacks.json").read_text(encoding="utf-8"))["statements"]
    assert len(statements) > 80
    for statement in statements:
        started = time.monotonic()
        outcome = lab.outcome(statement, timeout_s=DEADLINE_S)
        assert time.monotonic() - started < DEADLINE_S + 2.0, statement
        assert isinstance(outcome, SqlRefused | SqlFailed | SqlTimeout), statement
        assert SECRET not in str(outcome), statement
        assert not _paths_not_asked_for(str(outcome), lab.fill(statement), lab), str(outcome)
    assert lab.state() == before


def test_the_snapshot_answers_as_before_after_all_that(lab: Lab) -> None:
    assert lab.rows("SELECT count(*) FROM core.price") == [(3,)]
