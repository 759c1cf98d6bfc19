"""No data, NaN or a shadow that was aborted: the page says inconclusive, and its approval button is off."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app import desk as desks
from app.operations import SYSTEM
from app.recommendations import gate, store
from tests.console.pages import open_page, words
from tests.recommend.desks import refusal
from tests.shadow.desks import Shadow, pairs, shadow_desk
from warehouse.clock import utcnow
from warehouse.snapshots import snapshot


@pytest.fixture
def shadow(own_home: Path) -> Iterator[Shadow]:
    """R-0001 shadows, and pages find its desk as the current one."""
    made = shadow_desk(own_home)
    desks.set_current(made)
    driver = Shadow(made)
    driver.refresh()
    yield driver
    desks.set_current(None)
    made.close()


def judge_after_the_deadline(shadow: Shadow) -> str | None:
    desk, late = shadow.desk, utcnow() + timedelta(days=15)
    with snapshot(desk.warehouse, late) as snap, desk.warehouse.transaction() as tx:
        state, _ = store.one(tx, "R-0001")
        return gate.run_gate(tx, desk, SYSTEM, state, snap, late)


@pytest.mark.parametrize(
    "broken",
    [None, {"candidate_energy_j": math.nan}, {"candidate_success": None}, {"aborted": True}],
    ids=["n = 0", "NaN", "unknown success", "aborted"],
)
def test_t42_without_data_the_page_is_inconclusive_and_its_approval_button_off(
    shadow: Shadow, broken: dict[str, Any] | None
) -> None:
    if broken is not None:
        shadow.push([row | broken for row in pairs(360)])
    assert judge_after_the_deadline(shadow) == "INCONCLUSIVE"
    assert shadow.show()["state"] == "INCONCLUSIVE"
    page = open_page("recommendations", rec="R-0001")
    assert not page.exception
    assert page.button(key="approve-R-0001").disabled
    assert "inconclusive" in words(page).lower()
    assert "only READY can be approved" in refusal(lambda: shadow.send("approve")).message
