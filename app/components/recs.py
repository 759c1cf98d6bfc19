"""Recommendations in words and tables: the promise with its harm, targets, timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from app.components.format import (
    MISSING,
    NBSP,
    age,
    count,
    instant,
    interval,
    parse_instant,
    percent,
    points,
    quantity,
)
from app.components.marks import chip_html, evidence_html
from app.components.shapes import delta_html, interval_bar_html, table_html
from app.reads.audit import Entry

METRICS = (("energy_j", "energy", "J"), ("billed_cost_usd", "billed cost", "USD"), ("carbon_g", "gCO2e", "g"))

_WORDS = {
    "proposed": "proposed",
    "shadowing": "margins stored, shadowing",
    "judged": "gate judged",
    "approval_given": "approval given, more are needed",
    "approved": "approved",
    "promoted": "promoted",
    "promotion_lapsed": "promotion lapsed, nobody collected it; the stage before goes on",
    "sent": "handed to {target}",
    "acknowledged": "acknowledged by {target}",
    "actuated": "actuated by {target}",
    "rejected": "rejected by {target}",
    "observing": "every target carries it out; observing",
    "outcome": "outcome of {target}",
    "succeeded": "succeeded",
    "failed": "failed",
    "dismissed": "dismissed",
    "expired": "expired",
    "superseded": "superseded",
    "refused": "command refused, nothing changed",
    "rollback_requested": "rollback requested",
    "rollback_sent": "rollback handed to {target}",
    "rollback_acknowledged": "rollback acknowledged by {target}",
    "rollback_rejected": "rollback rejected by {target}",
    "rolled_back": "rolled back by {target}",
}
_OTHER = {
    "ledger.accepted": "a ledger older than its anchor was accepted",
    "replay.stored": "replay run stored",
    "replay.trained": "policy trained",
    "sample.loaded": "sample data loaded",
    "sample.removed": "sample data removed",
    "routing.declared": "routing table declared",
    "alert.acknowledged": "alert acknowledged",
}
_COMMANDS = {"command.done": "carried out", "command.denied": "denied, nothing changed"}


def event_text(kind: str, body: Mapping[str, Any]) -> str:
    """One ledger event as a sentence without its subject."""
    if kind in _OTHER:
        return _OTHER[kind]
    if kind in _COMMANDS:
        why = body.get("reason")
        return f"{_COMMANDS[kind]}: {why}" if why else _COMMANDS[kind]
    words = _WORDS.get(kind.partition(".")[2], kind.replace(".", " ").replace("_", " "))
    who = "this desk" if body.get("by") == "desk" else str(body.get("target") or "a target")
    text = words.format(target=who) + _particulars(kind, body)
    reason = body.get("reason")
    return f"{text}: {reason}" if reason else text


def _particulars(kind: str, body: Mapping[str, Any]) -> str:
    """What only some events tell: the verdict of a gate, the votes, the next share."""
    name = kind.partition(".")[2]
    if name == "judged":
        why = f": {body['why']}" if body.get("why") else ""
        return f" ({body.get('stage')}): {str(body.get('verdict') or 'no verdict').lower()}{why}"
    if name == "approval_given" and body.get("n"):
        return f" ({body.get('k')} of {body['n']})"
    if name == "promoted" and body.get("share"):
        return f" to {body.get('stage')}, {body['share']:.0%} of the traffic"
    if name == "outcome" and body.get("verdict"):
        return f": {str(body['verdict']).lower()}"
    return " by itself" if name == "rollback_requested" and body.get("automatic") else ""


def change_text(entry: Entry) -> str:
    subject = "" if entry.kind in _OTHER else f"{entry.subject} "
    return f"{subject}{event_text(entry.kind, entry.data)}"


def promise_line(told: Mapping[str, Any]) -> str:
    """A row of `recommend.list` on one line, as HTML: what changes, joules, dollars, grams, then success."""
    parts = [f"<span>{escape(arrow(told['title']))}</span>"]
    for name, word, _ in METRICS:
        metric = told["promise"].get(name) or {}
        if metric.get("difference") is not None:
            mark = evidence_html(metric["evidence_class"])
            parts.append(f'<span class="jb-num">{percent(metric["difference"], signed=True)}</span> {word} {mark}')
    success: str | None
    proved = told.get("proved_success")  # the gate's own, on more requests than the proposal had
    if proved is not None:
        success = f"{_difference(proved, 1)} {proved['evidence_class'].replace('_', ' ')}, n {count(proved['n'])}"
    else:
        success = success_difference(told["success"])
    if success is None:
        success = (
            "unknown"
            if told["proficiency"]["difference"] is None
            else f"unknown, proficiency {told['proficiency']['difference']:+.3f}".replace("-", "−")
        )
    parts.append(f'<span class="jb-muted">success</span> <span class="jb-num">{success}</span>')
    return " &nbsp;·&nbsp; ".join(parts)


def state_chips(told: Mapping[str, Any]) -> str:
    """The state, and PARTIAL where some targets carry the change and others do not."""
    partial = ' <span class="jb-chip warn"><i aria-hidden="true"></i>PARTIAL</span>' if told.get("partial") else ""
    return f"{chip_html(told['state'])}{partial}"


def arrow(title: str) -> str:
    return title.replace("->", "→")


def success_difference(success: Mapping[str, Any]) -> str | None:
    """Success rate of the candidate minus that of the incumbent, in percentage points, with its interval."""
    told = success.get("difference")
    if told is None:
        return None
    return _difference(told, 0)


def _difference(told: Mapping[str, Any], decimals: int) -> str:
    low, high = (points(told[end], decimals).partition(NBSP)[0] for end in ("low", "high"))
    return f"{points(told['value'])} ({low} … {high})"


def _side(side: Mapping[str, Any], unit: str) -> str:
    if side.get("value") is None:
        return f'{MISSING} <span class="jb-muted jb-small">{escape(str(side.get("note") or "unknown"))}</span>'
    span = side.get("interval")
    ci = f'<br><span class="jb-muted jb-small">{interval(span[0], span[1], unit)}</span>' if span else ""
    return f"{quantity(side['value'], unit)} {evidence_html(side.get('evidence_class'))}{ci}"


def _evidence_note(metric: Mapping[str, Any]) -> str:
    """n and age of both sides; once where they are the same."""
    told = []
    for side in (metric["from"], metric["to"]):
        old = f"{age(parse_instant(side['newest_at']))} old" if side.get("newest_at") else "age unknown"
        told.append(f"n {count(side['n'])}, {old}")
    lines = "<br>".join(dict.fromkeys(told))
    return f'<span class="jb-small jb-muted jb-nowrap">{lines}</span>'


def promise_table(content: Mapping[str, Any]) -> str:
    """incumbent | candidate | difference with interval and marks; savings first, harm right below."""
    promise = content["promise"]
    rows: list[Sequence[str]] = []
    for name, word, unit in METRICS:
        metric = promise["metrics"].get(name)
        if metric:
            rows.append(_metric_row(f"{word} per {promise.get('per', 'success')}", metric, unit))
    rows.append(_success_row(promise))
    rows.append(_proficiency_row(promise))
    heads = (
        "",
        f"incumbent {content.get('from') or 'none'}",
        f"candidate {content['to']}",
        "difference",
        "95 % interval",
        "evidence",
    )
    return table_html(heads, rows, numeric=(1, 2, 3))


def _metric_row(name: str, metric: Mapping[str, Any], unit: str) -> Sequence[str]:
    span, change = metric.get("interval"), metric.get("difference")
    if change is None:
        why = escape(str(metric.get("note") or "not known on both sides"))
        shown, bar = MISSING, f'<span class="jb-muted jb-small">{why}</span>'
    else:
        # Green and "better" only where the interval leaves no doubt; otherwise the bare number.
        doubt = metric.get("separable") != "separable"
        shown = (
            percent(change, signed=True)
            if doubt
            else delta_html(percent(change, signed=True), change=change, better=-1)
        )
        bar = '<span class="jb-muted jb-small">no interval</span>'
    if change is not None and span:
        ends = f"{percent(span[0], signed=True)} … {percent(span[1], signed=True)}"
        separable = str(metric.get("separable") or "").replace("unknown", "")
        bar = (
            f"{interval_bar_html(span[0], change, span[1])} "
            f'<span class="jb-num jb-small">{ends}</span><br><span class="jb-muted jb-small">{escape(separable)}</span>'
        )
    return (name, _side(metric["from"], unit), _side(metric["to"], unit), shown, bar, _evidence_note(metric))


def _success_row(promise: Mapping[str, Any]) -> Sequence[str]:
    success = promise.get("success") or {}

    def side(told: Mapping[str, Any]) -> str:
        if told.get("rate") is None:
            return f'{MISSING} <span class="jb-muted jb-small">no source tells success</span>'
        n = f"{count(told['successes'])} of {count(told['attempts'])}"
        return f'{percent(told["rate"])} {evidence_html("measured")}<br><span class="jb-muted jb-small">{n}</span>'

    old, new = success.get("from") or {}, success.get("to") or {}
    shown, note = MISSING, '<span class="jb-muted jb-small">judged on the outcome after actuation</span>'
    told = success.get("difference")
    if told is not None:
        settled = told["low"] > 0 or told["high"] < 0  # the interval leaves no doubt about the direction
        change = points(told["value"])
        shown = delta_html(change, change=told["value"], better=1) if settled else change
        note = (
            f"{interval_bar_html(told['low'], told['value'], told['high'])} "
            f'<span class="jb-num jb-small">{points(told["low"])} … {points(told["high"])}</span><br>{note}'
        )
    return ("success rate", side(old), side(new), shown, note, "")


def _proficiency_row(promise: Mapping[str, Any]) -> Sequence[str]:
    told = promise.get("proficiency") or {}
    change = told.get("difference")
    shown = delta_html(f"{change:+.3f}".replace("-", "−"), change=change, better=1) if change is not None else MISSING
    old, new = (MISSING if told.get(s) is None else f"{told[s]:.3f}" for s in ("from", "to"))
    return ("proficiency, mean of cells", old, new, shown, "", '<span class="jb-muted jb-small">scores 0 to 1</span>')


_STAGES = (
    ("sent_at", "collected"),
    ("acknowledged_at", "acknowledged"),
    ("actuated_at", "actuated"),
    ("rollback_sent_at", "rollback collected"),
    ("rollback_acknowledged_at", "rollback acknowledged"),
    ("rolled_back_at", "rolled back"),
)


def targets_table(targets: Iterable[Mapping[str, Any]], *, rolling_back: bool) -> str:
    """One row per target: when it collected, acknowledged, carried out; what it refused. Silence is named."""
    stages = _STAGES[2:] if rolling_back else _STAGES[:3]
    rows = []
    for target in targets:
        cells = [f'<span class="jb-id jb-nowrap">{escape(str(target["target"]))}</span>']
        cells += [_when(target.get(name)) for name, _ in stages]
        refused = target.get("rejection") or target.get("rollback_rejection")
        cells.append(escape(f"refused: {refused}") if refused else "")
        rows.append(cells)
    return table_html(("target", *(word for _, word in stages), ""), rows)


def _when(text: str | None) -> str:
    at = parse_instant(text)
    if at is None:
        return '<span class="jb-muted">not yet</span>'
    return (
        f'<span class="jb-num" title="{instant(at)}">{at:%H:%M:%S}</span><br>'
        f'<span class="jb-muted jb-small jb-nowrap">{age(at)} ago</span>'
    )


def target_summary(told: Mapping[str, Any]) -> str:
    """`2 of 3 targets acknowledged, 1 of 3 actuated`."""
    targets = told.get("targets") or []
    n = len(targets)
    if told.get("pending") == "rollback" or told.get("state") == "ROLLED_BACK":
        done = sum(bool(t.get("rolled_back_at")) for t in targets)
        return f"{done} of {n} targets rolled back"
    acked = sum(bool(t.get("acknowledged_at")) for t in targets)
    actuated = sum(bool(t.get("actuated_at")) for t in targets)
    return f"{acked} of {n} targets acknowledged, {actuated} of {n} actuated"
