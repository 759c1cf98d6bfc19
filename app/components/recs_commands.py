"""The commands on a recommendation: the button, and beside it what it changes and what undoes it, or why not now."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from app.components import confirm, gate_margins, shapes
from app.components.confirm import Pending
from app.components.format import literal, percent
from app.components.recs import arrow

ORDER = ("approve", "promote", "dismiss", "rollback", "shadow")
_DONE = {
    "approve": "approval recorded",
    "promote": "promoted",
    "dismiss": "dismissed",
    "rollback": "rollback requested",
}


def labels(told: Mapping[str, Any]) -> dict[str, str]:
    """`Approve rev 3 (1/2)`, `Promote to 50 %`, `Dismiss…`, `Roll back…`."""
    votes = told.get("votes") or {}
    needed = votes.get("needed", 1)
    mine = min(votes.get("counting", 0) + 1, needed)  # which of the votes it would be
    following = next_stage(told)
    return {
        "approve": f"Approve rev {told['revision']}" + (f" ({mine}/{needed})" if needed > 1 else ""),
        "promote": f"Promote to {percent(following['share'], decimals=0)}" if following else "Promote",
        "dismiss": "Dismiss…",
        "rollback": "Roll back…",
    }


def next_stage(told: Mapping[str, Any]) -> Mapping[str, Any] | None:
    stages, no = told.get("stages") or [], (told.get("stage") or {}).get("no", 0)
    following: Mapping[str, Any] | None = stages[no + 1] if no + 1 < len(stages) else None
    return following


def pending(told: Mapping[str, Any], name: str, consequence: str) -> Pending:
    """The command as the dialog shows it: what will change, for how many requests, on which targets, what undoes it."""
    content = told["content"]
    undo = {
        "approve": f"{content['undo']} Use Roll back at any time.",
        "promote": f"{content['undo']} Roll back ends every share.",
        "dismiss": "Compare now proposes it again as soon as its evidence changes.",
        "rollback": "The same change can be proposed again by a later comparison.",
    }[name]
    verb = labels(told)[name].rstrip("…")
    return Pending(
        operation=f"recommend.{name}",
        params={},
        title=f"{verb}: {told['id']}",
        verb=verb,
        consequences=(consequence,),
        undo=undo,
        done=f"{told['id']}: {_DONE[name]}.",
        recommendation=told["id"],
        revision=told["revision"],
        ask_reason=name in ("dismiss", "rollback"),
        primary=name in ("approve", "promote"),
        facts=(
            ("change", escape(arrow(content["title"]))),
            ("revision", str(told["revision"])),
            ("content", f'<span class="jb-id">{escape(str(told["content_hash"])[:16])}…</span>'),
            ("targets", escape(", ".join(content["targets"]))),
        ),
    )


def buttons(told: Mapping[str, Any]) -> None:
    """One line per command: first those that can be given now, then the others with the reason."""
    known = {c["command"]: c for c in told["commands"]}
    names = [n for n in ORDER if n in known and not (n == "promote" and len(told.get("stages") or []) < 2)]
    names.sort(key=lambda n: not known[n]["allowed"])
    with st.container(key="decisions", gap="xsmall"):
        for name in names:
            item = known[name]
            with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="medium"):
                _button(told, name, item)
                allowed = item["allowed"]
                text = arrow(item["consequence"]) if allowed else f"Not now: {item['why_not']}"
                css = "jb-small" if allowed else "jb-small jb-muted"
                shapes.show(f'<span class="{css}">{escape(text)}</span>')
    if gate_margins.is_open(told["id"]) and "shadow" in known:
        gate_margins.form(told, known["shadow"]["consequence"])


def _button(told: Mapping[str, Any], name: str, item: Mapping[str, Any]) -> None:
    allowed = item["allowed"]
    if name == "shadow":
        return gate_margins.button(told, allowed=allowed, why_not=item["why_not"])
    st.button(
        labels(told)[name],
        key=f"{name}-{told['id']}",
        type="primary" if name in ("approve", "promote") and allowed else "secondary",
        disabled=not allowed,
        help=None if allowed else literal(item["why_not"]),
        width=160,
        on_click=confirm.ask,
        args=[pending(told, name, arrow(item["consequence"]))],
    )
    return None
