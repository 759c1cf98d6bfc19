"""One operator's day in a real Chromium, with the reference downstream beside it. Screenshots are kept."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser import launch_arguments, require_browser
from tests.e2e.console import JOULEBOOK, Console, artifacts

pytestmark = pytest.mark.browser
expect.set_options(timeout=20_000)
PAGES = {
    "": "Overview",
    "recommendations": "Recommendations",
    "shadow": "Shadow",
    "pareto": "Pareto",
    "models": "Models",
    "fleet": "Fleet",
    "sources": "Sources",
    "sql": "SQL",
    "audit": "Audit",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = require_browser()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=launch_arguments())
        yield opened
        opened.close()


Windows = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def window(browser: Browser) -> Windows:
    """A window of a scheme and size; its pages share what was downloaded, as those of a person do."""

    @cache
    def opened(scheme: Literal["light", "dark"] = "light", width: int = 1440) -> BrowserContext:
        height = 900 if width > 1100 else 768
        return browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)

    return opened


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, sample_home: Path) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(sample_home, home, dirs_exist_ok=True)
    with Console(home) as running:
        yield running


@pytest.fixture
def page(window: Windows) -> Iterator[Page]:
    opened = window().new_page()
    yield opened
    opened.close()


def keep(page: Page, name: str) -> None:
    page.screenshot(path=artifacts() / f"{name}.png", full_page=True)


def settled(page: Page) -> None:
    """Until Streamlit has finished its run and drawn everything."""
    page.wait_for_function("() => !document.querySelector('[data-testid=stStatusWidget]')", timeout=30_000)
    page.wait_for_timeout(400)


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited {timeout_s} s for {what}")


def state(console: Console, rec_id: str) -> str:
    told: str = console.json("recommend", "show", rec_id)["state"]
    return told


def press(page: Page, name: str | re.Pattern[str]) -> None:
    page.get_by_role("button", name=name).first.click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES, ids=list(PAGES.values()))
def test_every_page_opens_marked_as_sample_and_asks_nobody_else(
    window: Windows, console: Console, path: str, scheme: str
) -> None:
    page = window(scheme).new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    page.goto(f"{console.url}/{path}")
    expect(page.get_by_role("heading", name=PAGES[path], exact=True)).to_be_visible()
    expect(page.get_by_text("SAMPLE", exact=True).first).to_be_visible()
    settled(page)
    assert page.locator("[data-testid=stException]").count() == 0
    keep(page, f"{PAGES[path].lower()}-{scheme}")
    page.close()
    elsewhere = {u for u in asked if not u.startswith((console.url, "data:", "blob:"))}
    assert elsewhere == set()


def test_a_link_that_names_the_first_page_opens_it_without_complaint(page: Page, console: Console) -> None:
    page.goto(f"{console.url}/overview")
    expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    settled(page)
    assert page.get_by_role("dialog").count() == 0
    assert page.get_by_text("Page not found").count() == 0


def test_a_narrow_window_shows_every_page_without_sideways_scrolling(window: Windows, console: Console) -> None:
    page = window("light", 1024).new_page()
    for path, title in PAGES.items():
        page.goto(f"{console.url}/{path}")
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        settled(page)
        keep(page, f"{title.lower()}-1024")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()


def test_a_person_approves_watches_rolls_back_and_finds_it_all(page: Page, console: Console, tmp_path: Path) -> None:
    file = tmp_path / "routes.json"
    rows = console.json("recommend", "list")["recommendations"]
    rec = next(r for r in rows if r["title"].startswith("tier 1"))["id"]

    page.goto(f"{console.url}/pareto")
    expect(page.locator(".js-plotly-plot")).to_be_visible()
    keep(page, "day-1-pareto")

    page.goto(f"{console.url}/recommendations?rec={rec}")
    press(page, re.compile("^Approve rev"))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    keep(page, "day-2-confirm")
    dialog.get_by_role("button", name=re.compile("Approve")).click()
    wait_for(lambda: state(console, rec) == "APPROVED", "the approval")

    downstream = subprocess.Popen(
        [*JOULEBOOK, "downstream", "--apply-to", str(file), "--poll", "0.3"],
        env=console.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: state(console, rec) == "OBSERVING", "the actuation")
        assert json.loads(file.read_text())["routes"]["coding_general/1/interactive"] == "gemma-4-31b"
        # The page was not touched: it follows by itself.
        expect(page.get_by_text("1 of 1 targets acknowledged, 1 of 1 actuated").first).to_be_visible()
        settled(page)
        keep(page, "day-3-actuated")

        press(page, re.compile("^Roll back"))
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name=re.compile("Roll back")).click()
        wait_for(lambda: state(console, rec) == "ROLLED_BACK", "the rollback")
    finally:
        downstream.terminate()
        downstream.wait(15)
    assert json.loads(file.read_text())["routes"]["coding_general/1/interactive"] == "deepseek-v4-flash"
    page.goto(f"{console.url}/recommendations?rec={rec}")
    settled(page)
    keep(page, "day-4-rolled-back")

    page.goto(f"{console.url}/audit")
    expect(page.get_by_text(re.compile("rolled.back")).first).to_be_visible()
    settled(page)
    keep(page, "day-5-audit")
    kinds = console.json("sql", f"SELECT kind, actor FROM mart.audit WHERE subject = '{rec}' ORDER BY seq")["rows"]
    for _ in range(30):  # the SQL lab reads a snapshot of up to 10 s ago
        if kinds and kinds[-1][0] == "recommendation.rolled_back":
            break
        time.sleep(0.5)
        kinds = console.json("sql", f"SELECT kind, actor FROM mart.audit WHERE subject = '{rec}' ORDER BY seq")["rows"]
    story = [k.removeprefix("recommendation.") for k, _ in kinds]
    for step in ("proposed", "approved", "sent", "acknowledged", "actuated", "observing", "rolled_back"):
        assert step in story
    assert console.json("verify")["ok"]


def test_the_sql_page_answers_refuses_and_offers_downloads(page: Page, console: Console) -> None:
    page.goto(f"{console.url}/sql")
    expect(page.get_by_role("heading", name="SQL", exact=True)).to_be_visible()
    settled(page)
    editor = page.locator("textarea").first
    editor.fill("SELECT provider, count(*) AS offers FROM mart.offer GROUP BY provider")
    editor.press("Control+Enter")
    expect(page.get_by_text(re.compile(r"1 row")).first).to_be_visible()
    keep(page, "sql-answer")
    editor = page.locator("textarea").first
    editor.fill("DELETE FROM core.offer")
    editor.press("Control+Enter")
    expect(page.get_by_text(re.compile("SELECT", re.I)).first).to_be_visible()
    settled(page)
    keep(page, "sql-refused")
    assert console.json("sql", "SELECT count(*) FROM core.offer")["rows"][0][0] > 0


def test_a_file_is_imported_from_the_sources_page(page: Page, console: Console, tmp_path: Path) -> None:
    file = tmp_path / "factors.csv"
    file.write_text(
        "zone,intensity_g_per_kwh,year,basis,source\nXX,123,2025,lifecycle,test\nYY,-5,2025,lifecycle,test\n"
    )
    page.goto(f"{console.url}/sources")
    page.get_by_text("Import a file").click()
    page.get_by_role("combobox", name=re.compile("Kind")).first.click()
    page.get_by_role("option", name="grid-factors").click()
    page.locator("input[type=file]").set_input_files(file)
    settled(page)
    press(page, re.compile("^Import$"))
    expect(page.get_by_text("2 rows in, 1 loaded, 0 unchanged, 1 quarantined")).to_be_visible()
    settled(page)
    keep(page, "sources-import")
    assert any(s["source_id"] == "file:grid-factors" for s in console.json("ingest", "list")["sources"])
    assert not list((console.home / ".joulebook" / "uploads").iterdir())


def test_sample_data_is_removed_by_one_button(browser: Browser, tmp_path: Path) -> None:
    with Console(tmp_path) as own:
        page = browser.new_page()
        page.goto(own.url)
        press(page, "Remove sample data")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name=re.compile("Remove")).click()
        wait_for(lambda: _gone(own), "the removal")
        page.goto(own.url)
        settled(page)
        assert page.get_by_text("SAMPLE", exact=True).count() == 0
        for path, title in PAGES.items():
            page.goto(f"{own.url}/{path}")
            expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            settled(page)
            assert page.locator("[data-testid=stException]").count() == 0
            keep(page, f"{title.lower()}-empty")
        page.close()


def _gone(console: Console) -> bool:
    sources = console.json("ingest", "list")["sources"]
    return not any(s["is_sample"] for s in sources)


def test_a_corrupt_warehouse_keeps_the_console_up_and_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "joulebook.duckdb"
    file.write_bytes(b"garbage" * 5000)
    console = Console(tmp_path)
    console.start(healthy=False)
    try:
        page = browser.new_page()
        page.goto(console.url)
        expect(page.get_by_text(re.compile("cannot be read as a warehouse")).first).to_be_visible()
        keep(page, "warehouse-corrupt")
        page.close()
        assert file.read_bytes() == b"garbage" * 5000
    finally:
        console.stop()


def test_the_console_stops_within_seconds_of_sigterm_with_a_page_open(browser: Browser, tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.start()
    page = browser.new_page()
    page.goto(console.url)
    settled(page)
    assert console.stop() < 8
    page.close()
    assert not (tmp_path / ".joulebook" / "runtime.json").exists()
    assert not (tmp_path / "joulebook.duckdb.wal").exists()  # checkpointed at a clean stop
