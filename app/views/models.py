"""Models: who would get a request, by which score, who is kept out and why; list price beside the bill."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Any

import polars as pl
import streamlit as st

from app.components import chrome, shapes
from app.components.access import command, desk, in_words, read
from app.components.format import MISSING, age, count, interval, literal, quantity, usd
from app.components.marks import evidence_html, glyph
from app.operations.routing import TABLE_CONTEXT_TOKENS, router_parameters
from app.reads import models as reads
from policies.router import (
    CATEGORIES,
    TIERS,
    Excluded,
    Figures,
    Interval,
    Parameters,
    Ranking,
    Request,
    Scored,
    Weights,
)
from policies.router.filters import EVIDENCE

SHOWN_EXCLUDED = 12


def question() -> Request:
    category, tier, latency, context = st.columns([3, 2, 3, 2])
    with category:
        wanted = st.selectbox("Category", CATEGORIES, key="category", bind="query-params")
    with tier:
        at_least = st.segmented_control(
            "Tier, at least", TIERS, default=1, required=True, key="tier", bind="query-params"
        )
    with latency:
        how = st.segmented_control(
            "Latency",
            ["interactive", "batch"],
            default="interactive",
            required=True,
            key="latency",
            bind="query-params",
        )
    with context:
        tokens = st.number_input(
            "Context needed (tokens)",
            min_value=0,
            max_value=10_000_000,
            value=TABLE_CONTEXT_TOKENS,
            step=1024,
            key="context",
            bind="query-params",
        )
    access = frozenset(desk().settings.policy.allowed_access)
    return Request(str(wanted), int(at_least or 1), int(tokens or 0), str(how or "interactive"), frozenset(), access)


def what_if(base: Parameters) -> Parameters:
    """Weight sliders: what would be chosen. Nothing here changes the configured weights."""
    configured = base.weights
    about = "Only on this page: the weights in force are in joulebook.toml."
    told = (
        ("w-cost", "What if cost weighed", configured.w_cost),
        ("w-eco", "carbon", configured.w_eco),
        ("w-prof", "proficiency", configured.w_prof),
    )
    given = [
        column.slider(word, 0.0, 1.0, round(value, 2), 0.05, key=key, bind="query-params", help=about)
        for column, (key, word, value) in zip(st.columns(3, gap="large"), told, strict=True)
    ]
    total = sum(given)
    if total <= 0:
        shapes.note("All weights are 0: the configured ones are shown.", "warn")
        return base
    if (
        max(
            abs(g / total - w)
            for g, w in zip(given, (configured.w_cost, configured.w_eco, configured.w_prof), strict=True)
        )
        < 0.005
    ):
        return base
    cost, eco = round(given[0] / total, 6), round(given[1] / total, 6)
    return replace(base, weights=Weights(cost, eco, round(1 - cost - eco, 6)))


def flipped(base: Parameters, other: Parameters, request: Request) -> None:
    if other is base:
        st.caption("Configured weights. Move one to see which decisions flip; nothing is changed by it.")
        return
    args = (request.latency, request.required_context_tokens, request.authorized_access)
    before, after = read(reads.table_cells, base, *args), read(reads.table_cells, other, *args)
    changed = reads.flips(before, after)
    shapes.note(f"{len(changed)} of {len(after)} decisions flip with these weights.", "warn" if changed else "")
    if changed:
        with st.expander("Which", key="flips", type="compact"):
            rows = [
                (escape(c), str(t), escape(str(a or "none")), escape(str(b or "none")))
                for (c, t), (a, b) in changed.items()
            ]
            shapes.show(shapes.table_html(("category", "tier", "configured", "what if"), rows))
    st.button("Back to the configured weights", key="reset-weights", on_click=_reset)


def _reset() -> None:
    for key in ("w-cost", "w-eco", "w-prof"):
        st.session_state.pop(key, None)
        st.query_params.pop(key, None)


def incumbent_of(request: Request) -> tuple[str | None, str]:
    told: dict[str, Any] = command("routing.table", {})
    for cell in told["cells"]:
        if (cell["category"], cell["tier"], cell["latency"]) == (request.category, request.tier, request.latency):
            return cell["offer_id"], told["basis"]
    return None, told["basis"]


def _ci(span: Interval | None, unit: str) -> str:
    if span is None:
        return ""
    return f'<br><span class="jb-muted jb-small">{interval(span.low, span.high, unit)}</span>'


def _evidence(figures: Figures) -> str:
    """Mark, n and age of the reference runs behind the figures."""
    if not figures.n:
        return f"{evidence_html(None)} no reference run"
    return f"{evidence_html(figures.evidence_class)} n {count(figures.n)}, {age(figures.newest_at)} old"


def _money(value: Any, span: Interval | None, mark: str) -> str:
    return MISSING if value is None else f"{usd(value)} {mark}{_ci(span, 'USD')}"


def _figure(value: float | None, unit: str, span: Interval | None, cls: str | None) -> str:
    return MISSING if value is None else f"{quantity(value, unit)} {evidence_html(cls)}{_ci(span, unit)}"


def eligible_table(ranking: Ranking, incumbent: str | None) -> None:
    flags = reads.inversions(ranking.eligible)
    rows = [
        _eligible_row(i, scored, incumbent, flags.get(scored.offer_id, [])) for i, scored in enumerate(ranking.eligible)
    ]
    heads = ("", "offer", "score", "list cost", "billed cost", "energy", "gCO2e", "proficiency")
    shapes.show(shapes.table_html(heads, rows, numeric=(0, 2, 3, 4, 5, 6, 7), chosen=0))
    st.caption(
        "Per run of the reference workload; list cost is the same tokens at list price. Score parts: cost / carbon / "
        "proficiency, each 0 to 1, before weights. 95 % intervals below the values."
    )


def _eligible_row(place: int, scored: Scored, incumbent: str | None, flags: list[reads.Inversion]) -> list[str]:
    f, parts = scored.figures, scored.parts
    told = f"{parts.cost:.2f} / {parts.eco:.2f} / {parts.prof:.2f}"
    usual = ("interactive", "standard", "full")
    tags = [t for t in (f.latency_class, f.reasoning_mode, f.context_variant) if t not in usual]
    under = " · ".join([f"tier {f.tier}", *tags, *(["routes now"] if f.offer_id == incumbent else [])])
    notes = [*([_inverted(flags)] if flags else []), *scored.warnings]
    said = "".join(f'<br><span class="jb-small">{escape(n)}</span>' for n in notes)
    return [
        str(place + 1),
        f'<b class="jb-nowrap">{escape(f.offer_id)}</b>'
        f'<br><span class="jb-small jb-muted">{escape(under)} · {_evidence(f)}</span>{said}',
        f'{scored.score:.3f}<br><span class="jb-small jb-muted">{told}</span>',
        _money(f.list_cost_usd, None, ""),
        _money(f.billed_cost_usd, f.cost_interval_usd, evidence_html("measured")),
        _figure(f.energy_j, "J", f.energy_interval_j, f.evidence_class),
        _figure(f.carbon_g, "g", f.carbon_interval_g, f.carbon_evidence_class),
        MISSING if f.proficiency is None else f"{f.proficiency:.3f}",
    ]


def _inverted(flags: list[reads.Inversion]) -> str:
    """`lists below X, bills 95 % more`: where list order and bill order disagree."""
    worst = flags[0]
    more = f" (and {len(flags) - 1} more)" if len(flags) > 1 else ""
    ratio = worst.bill_ratio
    bills = f"{100 * (ratio - 1):.0f} % more" if ratio < 2 else f"{ratio:.3g} times as much"
    return f"▲ lists below {worst.other}, bills {bills}{more}"


def excluded_table(excluded: tuple[Excluded, ...]) -> None:
    """Those that could have mattered first (a declared tier, or evidence); every reason of each."""
    first = [e for e in excluded if e.figures.tier is not None or e.figures.n > 0]
    rest = [e for e in excluded if e not in first]
    st.subheader(f"Excluded: {count(len(excluded))}", anchor=False)
    if not excluded:
        st.caption("nobody")
        return
    # Evidence last: an offer that a hard constraint keeps out would be out with perfect evidence, too.
    first.sort(key=lambda e: (e.first_reason.code == EVIDENCE, e.first_reason.code, e.offer_id))
    rows = [
        (
            f"<b>{escape(e.offer_id)}</b>",
            escape(e.first_reason.code),
            shapes.reasons_html([r.text for r in e.reasons]),
            f'<span class="jb-small jb-muted">{_evidence(e.figures)}</span>',
        )
        for e in first
    ]
    shapes.show(shapes.table_html(("offer", "first reason", "every reason", "evidence"), rows[:SHOWN_EXCLUDED]))
    others = [*first[SHOWN_EXCLUDED:], *rest]
    if not others:
        return
    with st.expander(f"{count(len(others))} more", key="excluded-more", type="compact"):
        frame = pl.DataFrame(
            {
                "offer": [e.offer_id for e in others],
                "provider": [e.figures.provider for e in others],
                "first reason": [e.first_reason.code for e in others],
                "every reason": ["; ".join(r.text for r in e.reasons) for e in others],
                "evidence": [glyph(e.figures.evidence_class) for e in others],
            }
        )
        st.dataframe(
            frame,
            key="excluded-all",
            height=320,
            hide_index=True,
            alt=f"{len(others)} excluded offers with every reason",
        )


def show() -> None:
    request = question()
    base = router_parameters(desk().settings)
    parameters = what_if(base)
    flipped(base, parameters, request)
    with in_words():
        incumbent, basis = incumbent_of(request)
        ranking = read(reads.decision, request, parameters, incumbent)
        if not ranking.eligible and not ranking.excluded:
            shapes.empty(
                "Every offer of the catalog, ranked for one kind of request, with price, bill, joules, grams and score",
                "The catalog is empty. Run a catalog source, or look around with sample data.",
            )
            chrome.load_sample_button()
            return
        if ranking.fallback:
            shapes.note(f"Ranked by list price, the energy-oblivious fallback: {ranking.fallback_reason}", "warn")
        _headline(ranking, incumbent, basis, parameters is not base)
        if ranking.hand_back is not None:
            shapes.problem(
                ranking.hand_back.message,
                "change the request: trim it, wait, or ask for access; nothing is truncated",
                look="warn",
            )
        else:
            eligible_table(ranking, incumbent)
        excluded_table(ranking.excluded)
        st.caption(
            f"as of {ranking.as_of:%Y-%m-%d %H:%M:%S} UTC · policy `{ranking.policy_id[:12]}` · "
            f"snapshot `{ranking.snapshot_digest[:12]}` · basis {ranking.basis}"
        )


def _headline(ranking: Ranking, incumbent: str | None, basis: str, is_what_if: bool) -> None:
    chosen = ranking.chosen_offer_id
    if chosen is None:
        return
    now = f"routes now to {literal(incumbent or 'none')} ({literal(basis)})"
    same = "the ranking agrees" if chosen == incumbent else "the ranking disagrees"
    what = " with the what-if weights" if is_what_if else ""
    st.markdown(f"**{literal(chosen)}** ranks first{what} of {len(ranking.eligible)} eligible · {now}: {same}")


show()
