"""Live backends: what they draw and do, how old and how sure that is, and measured beside modelled power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from app.components import chrome, links, shapes
from app.components.access import guarded, read
from app.components.fleet_charts import beside
from app.components.format import MISSING, count, duration, interval, literal, percent, quantity
from app.components.marks import chip_html, evidence_html
from app.components.plot_theme import chart
from app.reads import fleet as reads

Row = Mapping[str, Any]


def show() -> None:
    rows = read(reads.backends)
    if not rows:
        shapes.empty(
            "What each backend draws and does: power, utilization, joules per success, and measured beside modelled",
            "No backend is known yet. Import backends or serving telemetry on the Sources page, or meter replicas "
            "(power.replicas). What-if needs none of them: it works from published profiles.",
        )
        chrome.load_sample_button()
        return
    st.fragment(_live, run_every=chrome.refresh_s(30), key="fleet-backends")()
    names = [r["backend_id"] for r in rows]
    shapes.show("<h4>Measured against modelled</h4>")
    left, right = st.columns([2, 1], gap="large")
    with right:
        name = links.select("Backend", names, "f-backend", usual=names.index(_most(rows)))
    row = next(r for r in rows if r["backend_id"] == name)
    with right:
        shapes.show(_card(row))
    with left:
        _chart(row)
    _differs(row)


def _most(rows: Sequence[Row]) -> str:
    """The backend with most windows to compare; of equals one that reports, then the first."""
    return str(max(rows, key=lambda r: (int(r["residual_windows"]), _state(r) == "fresh"))["backend_id"])


@guarded
def _live() -> None:
    rows = read(reads.backends)
    _silent(rows)
    _figures(rows)
    heads = ("backend", "state", "boards", "power", "in use", "J/success, 1 h", "meter", "against", "residual")
    shapes.show(shapes.table_html(heads, [_row(r) for r in rows], numeric=(3, 5, 8)))
    shapes.show(
        '<span class="jb-small jb-muted">Power and joules are of all boards of a backend, as metered; never of the '
        "modelled curve. Residual: (measured − modelled) / measured per board, over the windows compared.</span>"
    )


def _figures(rows: Sequence[Row]) -> None:
    draw = reads.draw_now(rows)
    oldest = f"oldest {duration(draw.oldest_s)}" if draw.oldest_s is not None else ""
    shapes.figures(
        [
            shapes.Figure(
                "metered power now", quantity(draw.power_w, "W"), f"{draw.n} of {draw.of} backends, {oldest}",
                draw.evidence_class, draw.quality,
                explain="Sum of the newest windows of fresh meters of one class. " + "; ".join(draw.left_out),
                refused="" if draw.n else f"no fresh meter: {'; '.join(draw.left_out) or 'none is known'}",
            ),
            _gauge(rows, "requests running", "running_requests"),
            _gauge(rows, "requests waiting", "waiting_requests"),
        ]
    )  # fmt: skip


def _gauge(rows: Sequence[Row], words: str, name: str) -> shapes.Figure:
    """The sum over fresh telemetry of one class."""
    told = [t for r in rows if (t := r["telemetry"]) is not None and reads.freshness(t["age_s"]) == "fresh"]
    known = [t for t in told if t[name] is not None]
    classes = {t["evidence_class"] for t in known}
    if len(classes) != 1:
        return shapes.Figure(words, "", refused="telemetry of several classes" if classes else "no fresh telemetry")
    oldest = duration(max(t["age_s"] for t in known))
    return shapes.Figure(
        words, count(round(sum(t[name] for t in known))), f"{len(known)} of {len(rows)} backends, oldest {oldest}",
        classes.pop(), explain="Sum of the newest gauges of backends with fresh telemetry.",
    )  # fmt: skip


def _silent(rows: Sequence[Row]) -> None:
    """Loud by exception: who does not report, and since when."""
    late = [(state, r) for r in rows if (state := _state(r)) != "fresh"]
    if late:
        told = "; ".join(f"{r['backend_id']} {state} {_ages(r)}".strip() for state, r in late)
        look = "bad" if any(state == "expired" for state, _ in late) else "warn"
        shapes.note(f"{len(rows) - len(late)} of {len(rows)} backends report. {told}.", look)


def _state(row: Row) -> str:
    """The worse of meter and telemetry; one that is not there at all counts as never only where neither is."""
    ages = [t["age_s"] for t in (row["power"], row["telemetry"]) if t is not None]
    return reads.freshness(max(ages) if ages else None)


def _row(row: Row) -> tuple[str, ...]:
    power, profile = row["power"], row["profile"]
    where = " · ".join(str(row[k]) for k in ("pool", "zone") if row[k])
    models = ", ".join(row["models"])
    return (
        f'<span class="jb-nowrap"><b>{escape(row["backend_id"])}</b>{_small(where)}</span>{_small(models)}',
        chip_html(_state(row), _ages(row)),
        escape(_boards(row)),
        _power(power),
        _use(row),
        "<br>".join(_joules(j) for j in row["j_per_success"]) or MISSING,
        _meter(power),
        MISSING + _small(row["profile_why"] or "") if profile is None else _profile(profile),
        _residual(row),
    )


def _small(text: str) -> str:
    return f'<br><span class="jb-small jb-muted">{escape(text)}</span>' if text else ""


def _ages(row: Row) -> str:
    power, told = row["power"], row["telemetry"]
    if power is None and told is None:
        return ""
    return duration(max(t["age_s"] for t in (power, told) if t is not None))


def _boards(row: Row) -> str:
    return MISSING if row["hardware_model"] is None else f"{row['hardware_count'] or '?'} × {row['hardware_model']}"


def _power(power: Row | None) -> str:
    if power is None or power["power_w"] is None:
        return MISSING + _small("" if power is None else power["gap_reason"] or "")
    board = "" if power["board_w"] is None else f"{quantity(power['board_w'], 'W')}/board"
    return (
        f"{quantity(power['power_w'], 'W')} {evidence_html(power['evidence_class'], power['quality'])}{_small(board)}"
    )


def _use(row: Row) -> str:
    told = row["telemetry"]
    if told is None:
        return MISSING + _small("no telemetry")
    running, waiting, kv = told["running_requests"], told["waiting_requests"], told["kv_cache_utilization"]
    parts = [f"{running:g} running" if running is not None else "", f"{waiting:g} waiting" if waiting else ""]
    parts.append(f"KV {percent(kv, decimals=0)}" if kv is not None else "")
    share = row["utilization"]
    bar = MISSING
    if share is not None:
        bar = f'<span class="jb-share"><b style="width:{min(100.0, 100 * share):.0f}%"></b></span> {percent(share)}'
    return f'<span class="jb-nowrap">{bar}</span>{_small(" · ".join(p for p in parts if p))}'


def _joules(told: Row) -> str:
    mark = evidence_html(told["evidence_class"])
    if told["value"] is None:
        return f"{MISSING}{_small('no success')}"
    return f"{quantity(told['value'], 'J')} {mark}{_small('n ' + count(told['successes']))}"


def _meter(power: Row | None) -> str:
    if power is None:
        return MISSING + _small("no meter")
    error = power["relative_uncertainty"]
    sure = f"±{percent(error)}, " if error is not None else ""
    told = f"{sure}{power['method']}, quality {power['quality']}"
    return escape(power["evidence_class"]) + _small(told)


def _profile(profile: Row) -> str:
    mark = evidence_html(profile["evidence_class"], reads.quality_of(profile))
    return f"{escape(profile['name'])} {mark}"


def _residual(row: Row) -> str:
    if not row["residual_windows"]:
        return MISSING
    mean, rms = row["residual_relative_mean"], row["residual_relative_rms"]
    tail = f"rms {percent(rms)}, n {count(row['residual_windows'])}"
    return f"{percent(mean, signed=True, decimals=1)}{_small(tail)}"


def _card(row: Row) -> str:
    """Both sides of the comparison in words, each with its class; what they do not share."""
    profile = row["profile"]
    if profile is None:
        return f"<p>No profile to compare with: {escape(row['profile_why'] or 'none is known')}.</p>"
    rows = [
        ("modelled by", f"{_profile(profile)}"),
        ("stands for", escape(f"{profile['logical_model']} on {_boards(profile)}")),
        ("form", escape(profile["form"])),
        ("version", f'<span class="jb-id">{escape(profile["version"])}</span>'),
        ("its own uncertainty", MISSING if profile["relative_uncertainty"] is None
         else f"±{percent(profile['relative_uncertainty'])}"),
        ("windows compared", count(row["residual_windows"])),
        ("mean residual", percent(row["residual_relative_mean"], signed=True, decimals=1)),
        ("rms residual", percent(row["residual_relative_rms"])),
    ]  # fmt: skip
    low = ""
    if reads.quality_of(profile) == "LOW":
        low = (
            f'<div class="jb-note warn">{escape(profile["evidence_class"])}, LOW: for simulation only, no fact about '
            "production.</div>"
        )
    return shapes.table_html(("", ""), rows) + low


def _chart(row: Row) -> None:
    compared = [r for r in row["residuals"] if r["modelled_board_w"] is not None]
    refused = [r for r in row["residuals"] if r["modelled_board_w"] is None]
    if not compared:
        why = row["profile_why"] or (refused[-1]["why"] if refused else "")
        shapes.empty(
            "Measured watts per board beside the modelled curve, and their residuals",
            f"No window of {row['backend_id']} can be compared: "
            + (why or "needs meter and serving telemetry over the same time, with the gauge of running requests")
            + ".",
        )
        return
    curve: list[Row] = next(
        (p["curve"] for p in read(reads.profiles) if p["profile_id"] == row["profile"]["profile_id"]), []
    )
    watts = [r["measured_board_w"] for r in compared]
    chart(
        beside(compared, curve, row["profile"]),
        key=f"f-beside-{row['backend_id']}",
        height=400,
        alt=f"{row['backend_id']}: {len(compared)} measured windows of {interval(min(watts), max(watts), 'W')} per "
        f"board against {row['profile']['name']}; mean residual "
        f"{percent(row['residual_relative_mean'], signed=True, decimals=1)}. The table above has the same figures.",
    )
    if refused:
        st.caption(literal(f"{len(refused)} windows are outside the profile: {refused[-1]['why']}"))


def _differs(row: Row) -> None:
    names = sorted({n for r in row["residuals"] for n in r["differs"]})
    if row["profile"] is not None and names:
        told = ", ".join(n.replace("_", " ") for n in names)
        shapes.note(
            f"Backend and profile differ in {told}: the residual is no verdict on the profile. Calibrate this backend "
            "to have one that holds for it.",
            "warn",
        )
