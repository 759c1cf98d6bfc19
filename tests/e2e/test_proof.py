"""The pages of the proof in a real Chromium: drawn where it is told, by keyboard, in both themes, and narrow."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.console import Console
from tests.e2e.test_day import Windows, keep, settled, wait_for
from tests.e2e.test_day import browser as browser
from tests.e2e.test_day import window as window

pytestmark = pytest.mark.browser
PAGES = {
    "proof-recommendation": "recommendations?rec=R-0001",
    "proof-failed": "recommendations?rec=R-0003&show=All",
    "proof-shadow": "shadow?policy=R-0001",
    "proof-request": "shadow?policy=R-0001&request=neuralwatt/sample/chatcmpl-sample-organic-0362",
}

# The tables on view that do not fit, by their first words.
_CUT = """() => [...document.querySelectorAll('.jb-scroll')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && !e.closest('details:not([open])'))
  .map(e => [e.scrollWidth, e.clientWidth, e.textContent.slice(0, 60)])"""
# Both ends of the interval and the margin, in pixels of the screen.
_WHERE = """e => {
  const at = s => e.querySelector(s).getBoundingClientRect();
  return [at('u').left, at('u').right, at('.margin').left + at('.margin').width / 2];
}"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, sample_home: Path) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(sample_home, home, dirs_exist_ok=True)
    with Console(home) as running:
        yield running


def opened(window: Windows, console: Console, path: str, *, scheme: str = "light", width: int = 1440) -> Page:
    page = window(scheme, width).new_page()
    page.goto(f"{console.url}/{path}")
    expect(page.locator("table").first).to_be_visible()
    settled(page)
    assert page.locator("[data-testid=stException]").count() == 0
    return page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 1024)])
@pytest.mark.parametrize("name", PAGES)
def test_the_pages_of_the_proof_fit_in_both_themes(
    window: Windows, console: Console, name: str, scheme: str, width: int
) -> None:
    page = opened(window, console, PAGES[name], scheme=scheme, width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    cut = page.evaluate(_CUT)
    assert not cut or (width < 1440 and name == "proof-request")  # the ranking of a request scrolls within itself
    keep(page, f"{name}-{scheme}-{width}")
    page.close()


def test_each_interval_is_drawn_on_the_side_that_its_words_tell(window: Windows, console: Console) -> None:
    page = opened(window, console, PAGES["proof-failed"])
    bars = page.locator(".jb-gatebar")
    assert bars.count() >= 6
    for bar in bars.all():
        words = bar.get_attribute("aria-label") or ""
        low, high, margin = bar.evaluate(_WHERE)
        assert high > low
        below = "must lie below" in words
        good = high <= margin + 2 if below else low >= margin - 2
        assert good == words.endswith("pass"), words
    page.close()


def test_a_row_of_the_requests_opens_its_explanation_and_the_address_keeps_it(
    window: Windows, console: Console
) -> None:
    page = opened(window, console, "shadow?policy=R-0001")
    grid = page.locator("[data-testid=stDataFrame] canvas").first
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 18, box["y"] + 36 * 2 + 18)  # the mark of the second row
    expect(page.get_by_text("The ranking of that instant")).to_be_visible()
    expect(page).to_have_url(re.compile("request=neuralwatt"))
    settled(page)
    page.reload()
    expect(page.get_by_text("The ranking of that instant")).to_be_visible()
    page.get_by_role("button", name="Close the request").click()
    expect(page.get_by_text("The ranking of that instant")).to_have_count(0)
    page.close()


def test_a_person_approves_by_keyboard_and_the_dialog_tells_the_content(window: Windows, console: Console) -> None:
    page = opened(window, console, "recommendations?rec=R-0002")
    button = page.get_by_role("button", name=re.compile("^Approve rev"))
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    digest = console.json("recommend", "show", "R-0002")["content_hash"]
    expect(dialog.get_by_text(digest[:16])).to_be_visible()
    go = dialog.get_by_role("button", name=re.compile("^Approve rev"))
    go.focus()
    page.keyboard.press("Enter")
    wait_for(lambda: console.json("recommend", "show", "R-0002")["state"] == "APPROVED", "the approval")
    expect(page.get_by_text("1 of 1 approvals")).to_be_visible()
    keep(page, "proof-approved")
    page.close()


def test_the_trail_is_downloaded_and_holds_against_the_ledger(window: Windows, console: Console) -> None:
    page = opened_audit(window, console)
    page.get_by_text("Export, anchor, compare").click()
    with page.expect_download() as waited:
        page.get_by_role("button", name="Export as JSON lines").click()
    lines = waited.value.path().read_text("utf-8").splitlines()
    events, head = [json.loads(line) for line in lines[:-1]], json.loads(lines[-1])["head"]
    assert events[-1]["hash"] == head["hash"]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert console.json("verify", "--against", str(waited.value.path()))["ok"]
    keep(page, "proof-audit")
    page.close()


def opened_audit(window: Windows, console: Console) -> Page:
    page = window().new_page()
    page.goto(f"{console.url}/audit")
    expect(page.get_by_text("events in the ledger")).to_be_visible()
    settled(page)
    return page
