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
    ("shadow", "Shadow", "what policies would have chosen, and what it is worth"),
    ("pareto", "Pareto", "quality against joules, dollars and grams"),
    ("models", "Models", "the decision table and why others are excluded"),
    ("fleet", "Fleet", "backends, calibrations, what another policy or load would take"),
    ("sources", "Sources", "freshness, runs, quarantine"),
    ("sql", "SQL", "one read-only statement"),
    ("audit", "Audit", "everything that happened"),
)


def _page(name: str, title: str, about: str) -> st.Page:
    file = "sql_lab" if name == "sql" else name
    first = name == PAGES[0][0]  # served at /; its name as a path belongs to `_named`
    return st.Page(f"views/{file}.py", title=title, help=about, url_path="first" if first else name, default=first)


def _named(first: st.Page) -> st.Page:
    """Streamlit serves the first page at / alone; a link that names it must not say that there is no such page."""

    def forward() -> None:
        st.switch_page(first, query_params=st.query_params.to_dict())

    return st.Page(forward, title=PAGES[0][1], url_path=PAGES[0][0], visibility="hidden")


def main() -> None:
    pages = [_page(*told) for told in PAGES]
    page = st.navigation([*pages, _named(pages[0])], position="top")
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
