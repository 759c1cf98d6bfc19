"""The theme: readable in both modes, nothing fetched from elsewhere, one palette for text and charts."""

from __future__ import annotations

import re
import tomllib

import pytest

from app.components.plot_theme import DARK, LIGHT, Palette, template
from tests.support import ROOT

CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
CSS = (ROOT / "app" / "static" / "console.css").read_text()


def luminance(color: str) -> float:
    def channel(c: int) -> float:
        s = c / 255
        return s / 12.92 if s <= 0.03928 else ((s + 0.055) / 1.055) ** 2.4

    r, g, b = (channel(int(color[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_links_reach_aa_contrast(mode: str) -> None:
    theme = CONFIG["theme"][mode]
    for name in ("textColor", "linkColor"):
        assert contrast(theme[name], theme["backgroundColor"]) >= 4.5
    assert contrast("#FFFFFF", theme["primaryColor"]) >= 4.5  # the label of a primary button is white


@pytest.mark.parametrize("token", ["muted", "ok", "warn", "bad"])
def test_state_words_reach_aa_contrast_in_both_modes(token: str) -> None:
    found = re.search(rf"--jb-{token}: light-dark\((#\w{{6}}), (#\w{{6}})\)", CSS)
    assert found is not None
    assert contrast(found[1], CONFIG["theme"]["light"]["backgroundColor"]) >= 4.5
    assert contrast(found[2], CONFIG["theme"]["dark"]["backgroundColor"]) >= 4.5


def test_nothing_of_the_look_comes_from_another_machine() -> None:
    told = (ROOT / ".streamlit" / "config.toml").read_text() + CSS
    assert not re.search(r"https?://|@import|url\(", told)
    assert "fontFaces" not in CONFIG["theme"]


def test_the_server_keeps_its_manners() -> None:
    assert CONFIG["server"]["headless"] is True
    assert CONFIG["server"]["fileWatcherType"] == "none"
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"] == {"showErrorDetails": "none", "toolbarMode": "minimal"}


def test_no_page_asks_for_an_icon_of_another_machine() -> None:
    pages = [ROOT / "app" / "main.py", *sorted((ROOT / "app" / "views").glob("*.py"))]
    assert not [p.name for p in pages if ":material/" in p.read_text()]  # st.Page fetches such icons for the tab


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_series_differ_in_lightness_too_and_never_exceed_six(palette: Palette) -> None:
    assert len(palette.series) == 6
    assert len(set(palette.series)) == 6
    assert template(palette).layout.colorway == tuple(palette.series)
