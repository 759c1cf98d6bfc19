"""Rollout in words and shapes: stages as steps, who approved what revision, targets with silence and PARTIAL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from app.components.format import age, duration, instant, parse_instant
from app.components.gate import VERDICTS
from app.components.shapes import table_html

_FLIGHT = ("APPROVED", "SENT", "ACKED", "ACTUATED", "OBSERVING")
_STARTED = (*_FLIGHT, "SUCCEEDED", "FAILED", "ROLLED_BACK")


def steps(told: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(look, name, words) per step: shadow, every stage with its share, outcome."""
    state, gates = told["state"], told.get("gates") or {}
    found = [_shadow_step(told, state, gates.get("shadow"))]
    no = (told.get("stage") or {}).get("no", 0)
    # A share that was never handed over has not begun, whatever the number of the stage says.
    begun = state in _STARTED and (told.get("approved_at") is not None or any(t["sent_at"] for t in told["targets"]))
    for i, stage in enumerate(told.get("stages") or []):
        name = f"{stage['name']} {stage['share']:.0%}"
        found.append(_stage_step(told, i, no, name, gates.get(stage["name"]), begun=begun))
    found.append(_outcome_step(told, state))
    return found


def _shadow_step(told: Mapping[str, Any], state: str, said: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if said is not None:
        look, word = VERDICTS.get(said["verdict"], ("unknown", said["verdict"]))
        return look, "shadow", f"{word}, {said['n']:,} of {said['planned_n'] or 0:,}"
    if told.get("margins") is None:
        skipped = state in _STARTED
        return "unknown", "shadow", "skipped" if skipped else "no margins yet"
    return "active", "shadow", "collecting evidence"


def _stage_step(
    told: Mapping[str, Any], i: int, no: int, name: str, said: Mapping[str, Any] | None, *, begun: bool
) -> tuple[str, str, str]:
    if not begun or i > no:
        return "unknown", name, "not yet"
    gate = f", gate {VERDICTS.get(said['verdict'], ('', said['verdict']))[1]}" if said else ""
    if i < no:
        return "ok", name, f"done{gate}"
    if told["state"] == "ROLLED_BACK" or told.get("pending") == "rollback":
        return "unknown", name, "rolled back" if told["state"] == "ROLLED_BACK" else "rolling back"
    if told.get("partial"):
        return "warn", name, "PARTIAL"
    words = {"APPROVED": "approved, not collected", "OBSERVING": "carried out", "SUCCEEDED": "done", "FAILED": "failed"}
    look = {"FAILED": "bad", "SUCCEEDED": "ok"}.get(told["state"], "active")
    return look, name, f"{words.get(told['state'], 'under way')}{gate}"


def _outcome_step(told: Mapping[str, Any], state: str) -> tuple[str, str, str]:
    last = (told.get("outcomes") or [None])[-1]
    if state in ("SUCCEEDED", "FAILED") and (last is not None or state == "SUCCEEDED"):
        return ("ok", "outcome", "succeeded") if state == "SUCCEEDED" else ("bad", "outcome", "failed")
    if last is not None and state == "OBSERVING":
        return "warn", "outcome", str(last.get("verdict") or "not judged").lower()
    return "unknown", "outcome", "observing" if state == "OBSERVING" else "not yet"


def steps_html(told: Mapping[str, Any]) -> str:
    """The stepper: each step with a shape, its name and a word."""
    items = "".join(
        f'<li class="{look}"><span class="jb-chip {look}"><i aria-hidden="true"></i>{escape(name)}</span>'
        f'<span class="jb-small jb-muted">{escape(words)}</span></li>'
        for look, name, words in steps(told)
    )
    return f'<ol class="jb-steps" aria-label="stages">{items}</ol>'


# approvals --------------------------------------------------------------------------------------------

_VOIDED_BY = {
    "recommendation.proposed": "its content changed",
    "recommendation.shadowing": "other margins were stored",
}


def approvals(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Everybody who ever approved it: person, role, revision, when, and why that no longer counts (None: it does)."""
    found: list[dict[str, Any]] = []
    for event in told["timeline"]:
        kind, body = event["kind"], event["body"]
        if kind in ("recommendation.approved", "recommendation.approval_given"):
            found.append(
                {
                    "person": body.get("person") or event["actor"],
                    "role": body.get("role") or event["role"],
                    "at": event["at"],
                    "of": _seen(event),
                    "void": None,
                    "channel": event["channel"],
                }
            )
            continue
        why = _VOIDED_BY.get(kind)
        if kind == "recommendation.judged" and body.get("stage") == "shadow" and body.get("verdict") != "PASS":
            why = f"the gate says {str(body.get('verdict')).lower()}"
        if kind == "recommendation.proposed" and event["seq"] == told["timeline"][0]["seq"]:
            why = None
        if why is not None:
            for one in found:
                one["void"] = one["void"] or f"{why} (rev {event['revision']})"
    _lapse(found, told.get("votes") or {})
    return found


def _seen(event: Mapping[str, Any]) -> int | None:
    """The revision that was approved: the one before the event's own."""
    before = event["body"].get("before")
    seen = before.get("revision") if isinstance(before, Mapping) else None
    return seen if seen is not None else (event["revision"] - 1 if event["revision"] else None)


def _lapse(found: list[dict[str, Any]], votes: Mapping[str, Any]) -> None:
    over = {(g["person"], g["at"]) for g in votes.get("given") or [] if g["lapsed"]}
    for one in found:
        if one["void"] is None and (one["person"], one["at"]) in over:
            one["void"] = f"it lapsed after {duration(votes.get('expires_s'))}"


def approvals_line(told: Mapping[str, Any]) -> str:
    """`1 of 2 approvals, by operator; not by ana (set the margins); each holds for 2 d`."""
    votes = told.get("votes") or {}
    roles = ", ".join(votes.get("roles") or [])
    parts = [f"{votes.get('counting', 0)} of {votes.get('needed', 1)} approvals, by {roles}"]
    if votes.get("not_by"):
        parts.append(f"not by {', '.join(votes['not_by'])}, who set the margins")
    if votes.get("expires_s"):
        parts.append(f"each holds for {duration(votes['expires_s'])}")
    if told.get("frozen"):
        parts.append(str(told["frozen"]))
    return "; ".join(parts)


def approvals_html(told: Mapping[str, Any]) -> str:
    found = approvals(told)
    if not found:
        return '<span class="jb-muted jb-small">nobody has approved it yet</span>'
    rows = []
    for one in found:
        at = parse_instant(one["at"])
        shown = (
            f'<span class="jb-chip unknown"><i aria-hidden="true"></i>void</span> '
            f'<span class="jb-small jb-muted">{escape(one["void"])}</span>'
            if one["void"]
            else '<span class="jb-chip ok"><i aria-hidden="true"></i>counts</span>'
        )
        rows.append(
            (
                f'{escape(str(one["person"]))}<br><span class="jb-small jb-muted">{escape(str(one["role"]))}, '
                f"{escape(one['channel'])}</span>",
                "—" if one["of"] is None else f"rev {one['of']}",
                f'<span title="{escape(instant(at))}">{escape(age(at))} ago</span>',
                shown,
            )
        )
    return table_html(("approved by", "what", "when", ""), rows)


# targets ----------------------------------------------------------------------------------------------


def waiting_html(waiting: Sequence[Mapping[str, Any]]) -> str:
    """What each silent target owes, for how long, and whether that is beyond its deadline."""
    items = []
    for owed in waiting:
        limit = f" of {duration(owed['limit_s'])} allowed" if owed["limit_s"] is not None else ""
        if owed["rejection"]:
            text = f"{owed['target']} refused: {owed['rejection']}"
        else:
            text = f"{owed['target']} owes: {owed['owes']}, silent for {duration(owed['for_s'])}{limit}"
        look = "bad" if owed["overdue"] else "active"
        word = "refused" if owed["rejection"] else ("overdue" if owed["overdue"] else "waiting")
        items.append(f'<li><span class="jb-chip {look}"><i aria-hidden="true"></i>{word}</span> {escape(text)}</li>')
    return f'<ul class="jb-plain">{"".join(items)}</ul>' if items else ""
