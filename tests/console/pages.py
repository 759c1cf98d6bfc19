"""Pages without a browser: open one, read what it says, press its buttons by key."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from tests.support import ROOT

ENTRY = ROOT / "app" / "main.py"
NAMES = ("overview", "recommendations", "shadow", "pareto", "models", "fleet", "sources", "sql_lab", "audit")


def open_page(name: str = "overview", **query: str) -> AppTest:
    """The page `views/<name>.py` with its query parameters, run once."""
    test = AppTest.from_file(str(ENTRY), default_timeout=60)
    if name != "overview":
        test.run()
        test.switch_page(f"views/{name}.py")
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


def words(test: AppTest) -> str:
    """Everything a page says, as one text (HTML included)."""
    parts: list[Any] = [node.proto.body for node in test.get("html")]
    for kind in ("title", "subheader", "markdown", "caption"):
        parts += [node.value for node in test.get(kind)]
    parts += [node.label for node in (*test.button, *test.expander)]
    return "\n".join(str(p) for p in parts)


def press(test: AppTest, key: str) -> AppTest:
    """Press the button with this key."""
    return test.button(key=key).click().run()
