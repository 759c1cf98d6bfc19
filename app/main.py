"""The console's entry script: chrome, navigation, and one place where errors become words."""

from __future__ import annotations

import streamlit as st

from app.auth import console_actor
from app.components import chrome, confirm
from app.components.access import explain
from app.desk import current
from app.errors import AppError, Unauthenticated
from policies.errors import PolicyError
from warehouse.errors import WarehouseError

st.set_page_config(page_title="joulebook", page_icon=chrome.STATIC / "icon.svg", layout="wide")
chrome.style()

PAGES = (
    ("overview", "Overview", "what needs me, what changed, savings with harm"),
    ("recommendations", "Recommendations", "evidence, approve, dismiss, roll back"),
    ("pareto", "Pareto", "quality against joules, dollars and grams"),
    ("models", "Models", "the decision table and why others are excluded"),
    ("sources", "Sources", "freshness, runs, quarantine"),
    ("sql", "SQL", "one read-only statement"),
    ("audit", "Audit", "everything that happened"),
)


def _page(name: str, title: str, about: str) -> st.Page:
    file = "sql_lab" if name == "sql" else name
    return st.Page(f"views/{file}.py", title=title, help=about, url_path=name, default=name == "overview")


def _first_page_by_name() -> st.Page:
    """Streamlit serves the default page at / alone; a link that names it must not say that there is no such page."""
    name, title, about = PAGES[0]
    return st.Page(f"views/{name}.py", title=title, help=about, url_path=name, visibility="hidden")


def main() -> None:
    page = st.navigation([*(_page(*told) for told in PAGES), _first_page_by_name()], position="top")
    try:
        desk = current()
        if not desk.usable:
            chrome.out_of_order(desk)
            return
        console_actor()
        chrome.top(page.title)
        page.run()
        confirm.render()
    except Unauthenticated as error:
        st.title("Sign in", anchor=False)
        explain(error)
        st.button("Sign in", type="primary", on_click=st.login)
    except (AppError, WarehouseError, PolicyError) as error:
        explain(error)


main()
