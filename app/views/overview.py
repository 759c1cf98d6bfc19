"""Overview: what needs me, savings beside harm, what changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from html import escape

import plotly.graph_objects as go
import streamlit as st

from app.components import alerts, audit_chain, chrome, recs_needs, recs_savings, shapes
from app.components.access import command, desk, guarded, in_words, read
from app.components.format import age, count, interval, percent, points, quantity, signed
from app.components.marks import glyph, mark_of
from app.components.plot_theme import chart, fill, palette
from app.components.recs import change_text, promise_line, state_chips
from app.components.shapes import Figure, Moment
from app.reads import audit, overview, sources
from app.reads.intervals import Ratio
from warehouse.clock import utcnow

WINDOWS = {"24 h": 86_400.0, "7 d": 7 * 86_400.0, "30 d": 30 * 86_400.0}
BEFORE = " than the window before"
ENOUGH = 30  # rows in both windows below which a change between windows is not shown


@guarded
def needs_you() -> None:
    """What waits for a person, each with the way there."""
    recommendations = command("recommend.list", {"include_closed": True})["recommendations"]
    old, failed = sources.troubles(desk().warehouse)
    alarms = command("alert.list", {})["alerts"]
    alarmed = alerts.summary(alarms)
    named = {a["subject"] for a in alarms if a["kind"] == "source_stale"}
    old = [s for s in old if s.source_id not in named]  # it counts among the alerts
    told = recs_needs.counts(recommendations, utcnow())
    parts = list(told.parts)
    if alarmed:
        parts.append(alarmed)
    if failed:
        parts.append(f"last run failed: {', '.join(s.source_id for s in failed)}")
    if old:
        parts.append(f"{', '.join(f'{s.source_id} {s.status}' for s in old)}")
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="needs-you"):
        look = "NEEDS YOU" if parts else "Nothing needs you"
        st.html(f'<div class="jb"><b>{look}</b></div>', width="content")
        if parts:
            st.html(f'<div class="jb">{escape(" · ".join(parts))}</div>', width="content")
        if told.parts:
            st.page_link("views/recommendations.py", label="Open recommendations", width="content")
        if old or failed or alarmed:
            st.page_link("views/sources.py", label="Open sources", width="content")
        if told.shadowing:
            st.page_link("views/shadow.py", label=f"{told.shadowing} shadowing", width="content")
    for row in told.rows[:4]:
        with st.container(
            horizontal=True, wrap=False, vertical_alignment="center", gap="small", key=f"waiting-{row['id']}"
        ):
            st.page_link(
                "views/recommendations.py", label=f"**{row['id']}**", query_params={"rec": row["id"]}, width="content"
            )
            why = recs_needs.why(row)
            tail = f' <span class="jb-small jb-muted">{escape(why)}</span>' if why else ""
            shapes.show(f"{state_chips(row)} {promise_line(row)}{tail}")


@dataclass(frozen=True)
class _Kpi:
    name: str
    unit: str
    pick: Callable[[overview.Traffic], dict[str, Ratio]]  # per evidence class, the one to show first
    explain: str


def _of(evidence_class: str, found: Ratio | None) -> dict[str, Ratio]:
    return {} if found is None else {evidence_class: found}


_KPIS = (
    _Kpi(
        "energy per success",
        "J",
        lambda t: _of(t.evidence_class, t.energy_j),
        "sum of energy over all attempts / sum of successes, organic requests; core.usage.energy_j",
    ),
    _Kpi(
        "cost per success",
        "USD",
        # A bill is a document of its own: measured, whatever energy lies behind it.
        lambda t: _of("measured", t.cost_usd),
        "sum of billed cost over all attempts / sum of successes; core.usage.billed_cost_usd, not list price",
    ),
    _Kpi(
        "gCO2e per success",
        "g",
        lambda t: t.carbon_g,
        "sum of grams / sum of successes; energy x grid intensity of the serving zone, of the weaker class of "
        "both; core.usage.carbon_g",
    ),
)


def _ratio_figure(kpi: _Kpi, traffic: overview.Traffic, before: overview.Traffic | None) -> Figure:
    told = kpi.pick(traffic)
    if not told:
        return Figure(kpi.name, "", refused=f"no organic {traffic.evidence_class} row tells it", explain=kpi.explain)
    cls, found = next(iter(told.items()))
    earlier = kpi.pick(before).get(cls) if before else None  # a change is told within one class
    span = interval(found.low, found.high, kpi.unit) if found.low is not None else "no interval below n 2"
    plus = f" ±{found.relative * 100:.0f} %" if found.relative is not None else ""
    delta = ""
    if earlier is not None and min(found.n, earlier.n) >= ENOUGH and earlier.value:
        change = found.value / earlier.value - 1
        delta = shapes.delta_html(percent(change, signed=True), change=change, better=-1, tail=BEFORE)
    return Figure(
        kpi.name,
        quantity(found.value, kpi.unit),
        f"{span}{plus}",
        cls,
        None,
        traffic.newest_at,
        found.n,
        delta,
        kpi.explain,
    )


def kpis(traffic: overview.Traffic, before: overview.Traffic | None, now: datetime) -> None:
    """Savings and harm in one row: joules, dollars, grams beside success rate and latency."""
    savings = [_ratio_figure(kpi, traffic, before) for kpi in _KPIS]
    shapes.figures([*savings, _success(traffic, before), _latency(traffic, before)], now)


def _success(traffic: overview.Traffic, before: overview.Traffic | None) -> Figure:
    explain = "successes / requests where the source tells success; Wilson interval"
    if traffic.success is None:
        return Figure("success rate", "", refused="no source tells success", explain=explain)
    value, low, high = traffic.success
    delta = ""
    if before is not None and before.success is not None and min(traffic.success_n, before.success_n) >= ENOUGH:
        change = value - before.success[0]
        delta = shapes.delta_html(points(change), change=change, better=1, tail=BEFORE)
    span = interval(100 * low, 100 * high, "%")
    return Figure(
        "success rate", percent(value), span, "measured", None, traffic.newest_at, traffic.success_n, delta, explain
    )


def _latency(traffic: overview.Traffic, before: overview.Traffic | None) -> Figure:
    explain = "95th percentile of request duration; interval by order statistics (needs n >= 72)"
    if traffic.p95_s is None:
        return Figure("P95 latency", "", refused="no source tells durations", explain=explain)
    value, low, high = traffic.p95_s
    delta = ""
    if before is not None and before.p95_s is not None and min(traffic.p95_n, before.p95_n) >= ENOUGH:
        change = value - before.p95_s[0]
        delta = shapes.delta_html(signed(change, "s"), change=change, better=-1, tail=BEFORE)
    span = interval(low, high, "s") if low is not None else "no interval below n 72"
    return Figure(
        "P95 latency", quantity(value, "s"), span, "measured", None, traffic.newest_at, traffic.p95_n, delta, explain
    )


def energy_chart(traffic: overview.Traffic, moments: list[audit.Entry]) -> None:
    frame = read(overview.energy_series, traffic.evidence_class, traffic.start_at, traffic.end_at)
    mark, colors = mark_of(traffic.evidence_class), palette()
    figure = go.Figure()
    at, low, high = frame["at"].to_list(), frame["low"].to_list(), frame["high"].to_list()
    known = [i for i, value in enumerate(low) if value is not None]
    figure.add_scatter(
        x=[at[i] for i in known] + [at[i] for i in reversed(known)],
        y=[high[i] for i in known] + [low[i] for i in reversed(known)],
        fill="toself",
        fillcolor=fill(colors.accent, 0.15),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=at,
        y=frame["value"].to_list(),
        mode="lines+markers",
        showlegend=False,
        line={"color": colors.accent, "width": 1.5, "dash": mark.dash},
        marker={"symbol": mark.symbol, "size": 7, "color": colors.accent},
        customdata=frame.select("n", "low", "high").rows(),
        hovertemplate=(
            "%{x|%m-%d %H:%M} UTC<br>%{y:.3s}J per success<br>95 % %{customdata[1]:.3s}J to %{customdata[2]:.3s}J"
            f"<br>{traffic.evidence_class} {mark.glyph}, n %{{customdata[0]}}<extra></extra>"
        ),
    )
    for moment in moments:
        figure.add_vline(x=moment.at, line={"color": colors.muted, "width": 1, "dash": "dot"})
    figure.update_yaxes(
        title=f"J per success ({traffic.evidence_class} {mark.glyph})", rangemode="tozero", tickformat="~s"
    )
    figure.update_xaxes(range=[traffic.start_at, traffic.end_at])
    if frame.height:
        last = frame.row(-1, named=True)
        alt = f"Energy per success over the window; last bucket {quantity(last['value'], 'J')}, n {last['n']}."
    else:
        alt = "Energy per success over the window; no bucket has a success."
    chart(figure, key="energy-series", height=300, alt=alt)


def power_now() -> None:
    frame = read(overview.fleet_power, utcnow().replace(second=0, microsecond=0))
    if frame.is_empty():
        power = next((s for s in sources.freshness_rows(desk().warehouse) if s.source_id == "power:nvml"), None)
        why = power.why if power else "no power source is known"
        shapes.empty("Power of each device over the last 15 min, measured ●", f"Nothing sampled here: {why}.")
        return
    colors = palette()
    figure = go.Figure()
    for i, (uuid, part) in enumerate(frame.partition_by("device_uuid", as_dict=True, maintain_order=True).items()):
        figure.add_scatter(
            x=part["bucket_at"].to_list(),
            y=part["power_w"].to_list(),
            mode="lines",
            name=f"{part['name'][0]} {str(uuid[0])[-6:]}",
            line={"width": 1.5, "color": colors.series[i % len(colors.series)]},
            hovertemplate="%{x|%H:%M:%S} UTC<br>%{y:.3s}W measured ●<extra>%{fullData.name}</extra>",
        )
    figure.update_yaxes(title="W (measured ●)", rangemode="tozero", tickformat="~s")
    chart(
        figure, key="fleet-power", height=300, alt=f"Power of {frame['device_uuid'].n_unique()} devices, last 15 min."
    )


def recent_changes(entries: list[audit.Entry]) -> None:
    moments = [Moment(e.at, change_text(e), f"{e.actor} · {e.channel}", e.look) for e in entries]
    moments += [Moment(c.at, f"{c.subject}: {c.text}", "price") for c in read(overview.price_changes)]
    moments.sort(key=lambda m: m.at, reverse=True)
    if not moments:
        shapes.empty("Approvals, actuations, rollbacks and price changes", "Nothing has changed yet.")
        return
    shapes.show(shapes.timeline_html(moments[:14]))


def show() -> None:
    audit_chain.restore_banner()
    st.fragment(needs_you, run_every=chrome.refresh_s(15), key="needs-you-now")()
    now = utcnow()
    with st.container(horizontal=True, vertical_alignment="bottom", key="overview-head"):
        label = st.segmented_control(
            "Window", list(WINDOWS), default="7 d", required=True, key="window", bind="query-params"
        )
        told = read(overview.overview, WINDOWS[label or "7 d"], now.replace(second=0, microsecond=0))
        chosen = None
        if told is not None and len(told.classes) > 1:
            names = [t.evidence_class for t in told.classes]
            chosen = st.segmented_control(
                "Evidence",
                names,
                default=names[0],
                required=True,
                key="evidence",
                bind="query-params",
                format_func=lambda c: f"{glyph(c)} {c}",
                help="Classes are never mixed: each is its own set of figures.",
            )
    entries = read(audit.changes, 14)
    if told is None:
        shapes.empty(
            "Energy, dollars and grams per successful request, beside success rate and latency",
            "No organic traffic is known yet. Import a usage export or completions: "
            "joulebook import neuralwatt-completions FILE. Or look around with sample data.",
        )
        chrome.load_sample_button()
    elif told.classes:
        traffic = next((t for t in told.classes if t.evidence_class == chosen), told.classes[0])
        _caption(told, traffic)
        kpis(traffic, told.before.get(traffic.evidence_class), now)
    with in_words():
        recs_savings.section()
    left, right = st.columns([3, 2], gap="large")
    with left, in_words():
        if told is not None and told.classes:
            st.subheader("Joules per success", anchor=False)
            energy_chart(
                traffic, [e for e in entries if e.kind in audit.ACTUAL and traffic.start_at < e.at < traffic.end_at]
            )
        st.subheader("Recent changes", anchor=False)
        recent_changes(entries)
    with right, in_words():
        st.subheader("Fleet power now", anchor=False)
        power_now()


def _caption(told: overview.Overview, traffic: overview.Traffic) -> None:
    where = (
        "now"
        if told.is_current
        else f"{told.end_at:%Y-%m-%d %H:%M} UTC, the newest organic request ({age(told.end_at)} old)"
    )
    cover = (
        f"energy known for {percent(traffic.coverage)} of them"
        if traffic.coverage is not None
        else "energy coverage unknown"
    )
    others = [
        f"{count(t.requests)} {glyph(t.evidence_class)} {t.evidence_class}" for t in told.classes if t is not traffic
    ]
    others += [f"grams of {count(r.n)} {glyph(c)} {c}" for c, r in list(traffic.carbon_g.items())[1:]]
    mixed = f" · kept apart: {', '.join(others)}" if others else ""
    st.caption(f"organic traffic up to {where} · {count(traffic.requests)} requests · {cover}{mixed}")


show()
