"""The SQL editor: a plain monospace text area of our own, in which Ctrl+Enter runs the statement.

Without JavaScript of components (and in tests without a browser) the page falls back to st.text_area.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

_HTML = """
<label class="vh" for="sql">SQL statement</label>
<textarea id="sql" spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off"
  aria-describedby="hint"></textarea>
<div id="hint">Ctrl+Enter runs · Tab indents, Esc then Tab leaves</div>
"""

_CSS = """
.vh { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
textarea {
  box-sizing: border-box; width: 100%; height: 150px; resize: vertical; padding: 10px 12px;
  font-family: var(--st-code-font); font-size: 13px; line-height: 1.5; tab-size: 2; white-space: pre;
  color: var(--st-text-color); background: var(--st-secondary-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-base-radius);
}
textarea:focus { outline: 2px solid var(--st-primary-color); outline-offset: -1px; }
#hint { font-family: var(--st-font); font-size: 12px; color: var(--st-text-color); opacity: .65; padding-top: 2px; }
"""

_JS = """
export default function (component) {
  const { data, parentElement, setStateValue, setTriggerValue } = component;
  const area = parentElement.querySelector("textarea");
  // Only a text that Python chose replaces what is being typed (an example, a table name).
  if (area.dataset.version !== String(data.version)) {
    area.value = data.text;
    area.dataset.version = String(data.version);
  }
  let leave = false;
  const save = () => setStateValue("text", area.value);
  area.onchange = save;
  area.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      save();
      setTriggerValue("run", area.value);
    } else if (event.key === "Escape") {
      leave = true;
    } else if (event.key === "Tab" && !leave && !event.shiftKey) {
      event.preventDefault();
      area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
    } else if (event.key !== "Shift") {
      leave = false;
    }
  };
}
"""

_editor = st.components.v2.component("joulebook_sql_editor", html=_HTML, css=_CSS, js=_JS)


@dataclass(frozen=True)
class Edited:
    """`text` as it stands, `run` when Ctrl+Enter asked for it in this run."""

    text: str
    run: bool


def sql_editor(text: str, *, version: int, key: str) -> Edited:
    """Show the editor. `text` replaces what is typed only when `version` changes."""
    told: Any = _editor(
        data={"text": text, "version": version},
        key=key,
        default={"text": text},
        on_text_change=_nothing,
        on_run_change=_nothing,
    )
    ran = getattr(told, "run", None)
    typed = getattr(told, "text", None)
    return Edited(ran or (text if typed is None else typed), bool(ran))


def _nothing() -> None:
    """The value itself is read from the result."""
