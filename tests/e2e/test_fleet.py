"""The Fleet page in a real Chromium: a what-if runs and its answer is shown; nothing runs off the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from app.desk import open_desk
from app.settings import load_settings
from tests.browser import launch_arguments, require_browser
from tests.console.fleeted import live
from tests.e2e.console import Console, artifacts

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("fleet-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        patch.setenv("JOULEBOOK_OFFLINE", "true")
        desk = open_desk(load_settings())
        live(desk)
        desk.close()
    running = Console(home, JOULEBOOK_SAMPLE__LOAD_WHEN_EMPTY="false")
    running.start(timeout_s=180.0)
    yield running
    running.stop()


@pytest.fixture
def page(console: Console) -> Iterator[Page]:
    path = require_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=launch_arguments())
        yield browser.new_context(viewport={"width": 1024, "height": 768}).new_page()
        browser.close()


def fits(page: Page) -> bool:
    """Nothing makes the page itself scroll sideways."""
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def settled(page: Page) -> None:
    """Until Streamlit has finished its run: a click on a button that is being drawn anew is lost."""
    page.wait_for_timeout(500)
    page.wait_for_function("() => !document.querySelector('[data-testid=stStatusWidget]')", timeout=30_000)


def test_backends_a_what_if_and_its_link(page: Page, console: Console) -> None:
    page.goto(f"{console.url}/fleet")
    expect(page.get_by_text("2 of 3 backends report.")).to_be_visible(timeout=30_000)
    expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=30_000)
    assert fits(page)
    page.screenshot(path=artifacts() / "fleet-backends.png", full_page=True)
    page.get_by_role("radio", name="What-if").or_(page.get_by_role("button", name="What-if")).first.click()
    expect(page.get_by_text("No experiment is stored yet.")).to_be_visible()
    many = page.get_by_label("How many", exact=True)
    many.fill("300")
    many.press("Enter")
    settled(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(
        page.get_by_text("takes the least joules").or_(page.get_by_text("no policy keeps the SLO")).first
    ).to_be_visible(timeout=60_000)
    expect(page.get_by_text("capacity, all slots busy")).to_be_visible()
    assert fits(page)
    page.screenshot(path=artifacts() / "fleet-what-if.png", full_page=True)
    assert "f-run-id=" in page.url
    page.goto(page.url)  # the link brings the same run back
    expect(page.get_by_text("capacity, all slots busy")).to_be_visible(timeout=30_000)
