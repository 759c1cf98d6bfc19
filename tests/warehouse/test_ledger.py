"""The ledger: whatever is done to the stored events, `verify` finds it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warehouse import ledger
from warehouse.engine import Warehouse


def fill(warehouse: Warehouse, n: int) -> None:
    for i in range(n):
        with warehouse.transaction() as tx:
            ledger.append(
                tx,
                kind="recommendation.proposed",
                subject=f"R-{i:04}",
                body={"i": i},
                actor="ada",
                role="operator",
                channel="cli",
                revision=1,
                idempotency_key=f"k{i}",
            )
        ledger.anchor(warehouse)


def tamper(warehouse: Warehouse, *statements: str) -> list[str]:
    with warehouse.transaction() as tx:
        for statement in statements:
            tx.execute(statement)
    return ledger.verify(warehouse).problems


def test_an_untouched_chain_holds_also_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    warehouse = Warehouse.open(path)
    assert ledger.verify(warehouse).ok
    fill(warehouse, 5)
    head = ledger.verify(warehouse).head
    warehouse.close()
    again = Warehouse.open(path)
    told = ledger.verify(again)
    again.close()
    assert (told.ok, told.events, told.head) == (True, 5, head)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("body", "'{\"i\":99}'"),
        ("actor", "'mallory'"),
        ("happened_at", "TIMESTAMP '2020-01-01'"),
        ("revision", "7"),
        ("revision", "NULL"),
        ("subject", "'R-9999'"),
        ("kind", "'recommendation.approved'"),
        ("role", "'system'"),
        ("channel", "'api'"),
        ("idempotency_key", "NULL"),
        ("event_id", "'x'"),
    ],
)
def test_an_edit_of_any_column_is_found_and_named(warehouse: Warehouse, column: str, value: str) -> None:
    fill(warehouse, 4)
    problems = tamper(warehouse, f"UPDATE ledger.event SET {column} = {value} WHERE seq = 2")
    assert any("event 2 " in p and "edited" in p for p in problems)


def test_a_dropped_event_in_the_middle_is_found(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert any("missing" in p for p in tamper(warehouse, "DELETE FROM ledger.event WHERE seq = 2"))


def test_a_dropped_first_event_is_found(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert tamper(warehouse, "DELETE FROM ledger.event WHERE seq = 1")


def test_a_cut_tail_is_found_by_the_anchor(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert any("tail was cut" in p for p in tamper(warehouse, "DELETE FROM ledger.event WHERE seq >= 3"))


def test_an_emptied_ledger_is_found_by_the_anchor(warehouse: Warehouse) -> None:
    fill(warehouse, 2)
    assert tamper(warehouse, "DELETE FROM ledger.event")


def test_swapped_events_are_found(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert tamper(
        warehouse,
        "UPDATE ledger.event SET seq = 100 WHERE seq = 2",
        "UPDATE ledger.event SET seq = 2 WHERE seq = 3",
        "UPDATE ledger.event SET seq = 3 WHERE seq = 100",
    )


def test_renumbering_after_a_drop_is_found(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert tamper(warehouse, "DELETE FROM ledger.event WHERE seq = 2", "UPDATE ledger.event SET seq = 2 WHERE seq = 3")


def test_a_chain_rewritten_with_right_hashes_is_found_by_the_anchor(warehouse: Warehouse, tmp_path: Path) -> None:
    fill(warehouse, 4)
    kept = tmp_path / "head"
    shutil.copy(ledger.anchor_path(warehouse), kept)
    with warehouse.transaction() as tx:
        tx.execute("DELETE FROM ledger.event WHERE seq >= 3")
    fill(warehouse, 2)  # the forger writes a chain of the same length, each hash right
    shutil.copy(kept, ledger.anchor_path(warehouse))
    assert any("rewritten" in p for p in ledger.verify(warehouse).problems)


def test_writing_on_after_a_cut_does_not_hide_it(warehouse: Warehouse) -> None:
    """The anchor never moves on to a chain that does not contain it: an old copy put back stays noticed."""
    fill(warehouse, 4)
    assert tamper(warehouse, "DELETE FROM ledger.event WHERE seq >= 3")
    fill(warehouse, 1)
    assert any("tail was cut" in p for p in ledger.verify(warehouse).problems)
    fill(warehouse, 1)
    assert any("rewritten" in p for p in ledger.verify(warehouse).problems)


def test_an_operator_accepts_a_restored_ledger_on_record(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert tamper(warehouse, "DELETE FROM ledger.event WHERE seq >= 3")
    event = ledger.accept(warehouse, reason="restored", actor="ada", role="operator", channel="cli")
    assert "tail was cut" in event.data["problems"][0]
    fill(warehouse, 1)
    told = ledger.verify(warehouse)
    assert (told.ok, told.events) == (True, 4)


def test_accepting_does_not_mend_an_edited_event(warehouse: Warehouse) -> None:
    fill(warehouse, 4)
    assert tamper(warehouse, "UPDATE ledger.event SET actor = 'mallory' WHERE seq = 2")
    ledger.accept(warehouse, reason="looks fine", actor="ada", role="operator", channel="cli")
    assert any("event 2 " in p for p in ledger.verify(warehouse).problems)


def test_an_unreadable_anchor_is_reported_and_kept(warehouse: Warehouse) -> None:
    fill(warehouse, 1)
    ledger.anchor_path(warehouse).write_text("{")
    fill(warehouse, 1)
    assert ledger.verify(warehouse).problems == [f"the anchor {ledger.anchor_path(warehouse).name} cannot be read"]


def test_a_lost_anchor_is_reported_and_stays_reported_when_events_go_on(warehouse: Warehouse) -> None:
    fill(warehouse, 1)
    ledger.anchor_path(warehouse).unlink()
    assert any("anchor" in p for p in ledger.verify(warehouse).problems)
    fill(warehouse, 2)
    assert any("begun anew at event 2" in p for p in ledger.verify(warehouse).problems)


def test_an_event_of_a_rolled_back_transaction_never_was(warehouse: Warehouse) -> None:
    fill(warehouse, 1)
    with pytest.raises(RuntimeError), warehouse.transaction() as tx:
        ledger.append(tx, kind="x", subject="s", body={}, actor="a", role="operator", channel="cli")
        raise RuntimeError
    fill(warehouse, 1)
    told = ledger.verify(warehouse)
    assert (told.ok, told.events) == (True, 2)


_EDITS: list[Callable[[int], str]] = [
    lambda seq: f"DELETE FROM ledger.event WHERE seq = {seq}",
    lambda seq: f"UPDATE ledger.event SET actor = actor || '!' WHERE seq = {seq}",
    lambda seq: f"UPDATE ledger.event SET seq = seq + 50 WHERE seq = {seq}",
    lambda seq: f"UPDATE ledger.event SET prev_hash = hash WHERE seq = {seq}",
    lambda seq: f"UPDATE ledger.event SET hash = prev_hash WHERE seq = {seq}",
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seqs=st.lists(st.integers(1, 6), min_size=1, max_size=3), edits=st.lists(st.sampled_from(_EDITS), min_size=1))
def test_any_single_or_combined_edit_is_found(
    warehouse: Warehouse, seqs: list[int], edits: list[Callable[[int], str]]
) -> None:
    with warehouse.transaction() as tx:
        tx.execute("DELETE FROM ledger.event")
    ledger.anchor_path(warehouse).unlink(missing_ok=True)  # that of the example before
    fill(warehouse, 6)
    assert tamper(warehouse, *(edit(seq) for seq, edit in zip(seqs, edits, strict=False)))
