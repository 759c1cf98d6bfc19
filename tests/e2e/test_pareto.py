"""The Pareto page of a replay in a real Chromium: a click chooses a policy, a link brings everything back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import Page, expect

from tests.app.replaying import outcomes
from tests.console.replayed import replayed_file as replayed_file
from tests.e2e.console import Console
from tests.e2e.test_day import Windows, keep, settled
from tests.e2e.test_day import browser as browser
from tests.e2e.test_day import window as window

pytestmark = pytest.mark.browser

# Where the point of a policy is on the screen, by plotly's own scales.
_WHERE = """(name) => {
  const plot = document.querySelector('.js-plotly-plot'), box = plot.getBoundingClientRect();
  for (const trace of plot._fullData) {
    const i = (trace.customdata || []).findIndex(each => each[0] === name);
    if (i < 0) continue;
    const {xaxis, yaxis} = plot._fullLayout;
    return [box.x + xaxis._offset + xaxis.d2p(trace.x[i]), box.y + yaxis._offset + yaxis.d2p(trace.y[i])];
  }
}"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, replayed_file: Path) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("home")
    shutil.copy(replayed_file, home / "joulebook.duckdb")
    with Console(home) as running:
        yield running


def opened(window: Windows, console: Console, path: str, *, scheme: str = "light", width: int = 1440) -> Page:
    page = window(scheme, width).new_page()
    page.goto(f"{console.url}/{path}")
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    settled(page)
    assert page.locator("[data-testid=stException]").count() == 0
    return page


def chosen(page: Page, key: str = "r-policy") -> str:
    return page.locator(f".st-key-{key} input").first.input_value()


def test_a_click_on_a_point_shows_its_card_and_the_address_keeps_it(window: Windows, console: Console) -> None:
    page = opened(window, console, "pareto?dataset=ours&r-policy=benchmark")
    assert chosen(page).startswith("benchmark")
    page.mouse.click(*page.evaluate(_WHERE, "oracle"))
    expect(page.get_by_text("bound, not deployable")).to_be_visible()
    expect(page).to_have_url(re.compile("r-policy=oracle"))
    settled(page)
    assert chosen(page).startswith("oracle")
    page.mouse.click(*page.evaluate(_WHERE, "always-small"))  # a second click is not swallowed by the first
    expect(page.get_by_text("role smallest")).to_be_visible()
    expect(page).to_have_url(re.compile("r-policy=always-small"))
    settled(page)
    page.reload()
    expect(page.get_by_text("role smallest")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("bound, not deployable")).to_be_visible()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_conditions_stand_side_by_side_from_a_link(window: Windows, console: Console, scheme: str) -> None:
    runs = console.json("replay", "report", "--dataset", "ours")
    second = runs["blocks"][1]["replay_run_id"]
    path = f"pareto?dataset=ours&r-x=gco2_per_query&r-beside={second}&r-policy=benchmark&r-with=always-small"
    page = opened(window, console, path, scheme=scheme)
    expect(page.locator(".js-plotly-plot .xaxislayer-above")).to_have_count(2)
    expect(page.get_by_text("only A right").first).to_be_visible()
    keep(page, f"pareto-beside-{scheme}")
    page.close()


def test_a_narrow_window_holds_the_replay_without_sideways_scrolling(window: Windows, console: Console) -> None:
    page = opened(window, console, "pareto?dataset=ours&r-with=always-small", width=1024)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    keep(page, "pareto-replay-1024")
    page.close()


def test_what_was_never_replayed_is_replayed_from_the_page(window: Windows, console: Console, tmp_path: Path) -> None:
    # So many queries take seconds to replay, however fast the machine: what is cancelled here runs.
    long = outcomes(tmp_path / "long.csv", n=60_000)
    pl.read_csv(long).drop("prompt").write_csv(long)
    assert console.json("import", "outcomes", str(long), "--option", "dataset=long")["state"] == "OK"
    page = window().new_page()
    page.goto(f"{console.url}/pareto?dataset=long")
    page.get_by_role("button", name="Replay now").click()
    expect(page.get_by_text(re.compile("^Replaying long: "))).to_be_visible()
    page.get_by_role("button", name="Cancel the replay").click()
    expect(page.get_by_text("The replay was cancelled; nothing of it was kept.")).to_be_visible(timeout=60_000)
    page.goto(f"{console.url}/pareto?dataset=untouched")
    expect(page.get_by_text("No replay of untouched is stored yet")).to_be_visible()
    keep(page, "pareto-empty")
    page.get_by_role("button", name="Replay now").click()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible(timeout=120_000)
    settled(page)
    keep(page, "pareto-replayed")
    assert page.locator("[data-testid=stException]").count() == 0
    page.close()
