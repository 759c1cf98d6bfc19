"""Calibrations: the fit with its band and residuals, how well it holds out, why its quality is what it is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from app.components import fleet_jobs, links, shapes
from app.components.access import read
from app.components.fleet_charts import fitted
from app.components.format import age, count, instant, literal, parse_instant, percent, quantity
from app.components.marks import evidence_html
from app.components.plot_theme import chart
from app.reads import fleet as reads

Row = Mapping[str, Any]
_QUANTITY = {"power": "power", "throughput": "output tokens/s"}
_FORMS = ("best", "logistic_log2", "linear", "table")
KEYS = ("f-quantity", "f-cal")


def show() -> None:
    fleet_jobs.news()
    found = read(reads.calibrations)
    top = st.columns([3.2, 1.2, 2.4, 1.2], vertical_alignment="bottom")
    with top[3], st.popover("Calibrate…", key="f-calibrate", width="stretch"):
        _form()
    fleet_jobs.show(("fleet.calibrate",))
    _answer()
    if not found:
        shapes.empty(
            "A fit of power and throughput to measured windows, with its band, residuals and hold-out error",
            "No calibration is stored yet. Import ML.ENERGY v3 or energy windows, or meter your replicas, then press "
            "Calibrate.",
        )
        return
    chosen = _choose(found, top)
    told = read(reads.calibration, chosen["calibration_id"])
    left, right = st.columns([2, 1], gap="large")
    with left:
        chart(fitted(told), key=f"f-fit-{told['calibration_id'][:12]}", height=470, alt=_alt(told))
        with st.expander(f"Windows and fit as numbers: {len(told['points'])}", key="f-cal-windows", type="compact"):
            shapes.show(_windows(told))
    with right:
        shapes.show(_quality(told))
        shapes.show(_binding(told))
        shapes.show(_parameters(told))
    _all(found)


def _choose(found: Sequence[Row], top: Sequence[Any]) -> Row:
    """Model and hardware, what was fitted, version. A link names the calibration by its id."""
    groups: dict[str, list[Row]] = {}
    for row in sorted(found, key=lambda r: str(r["binding_words"])):
        groups.setdefault(str(row["binding_words"]), []).append(row)
    with top[0]:
        binding = links.select("Model × hardware", list(groups), "f-binding", on_change=links.forget, args=[KEYS])
    mine = groups[binding]
    kinds = [q for q in _QUANTITY if any(r["quantity"] == q for r in mine)]
    with top[1]:
        kind = links.select(
            "Fitted", kinds, "f-quantity", _QUANTITY.__getitem__, on_change=links.forget, args=[KEYS[1:]]
        )
    rows = {str(r["calibration_id"]): r for r in mine if r["quantity"] == kind}
    with top[2]:
        id_ = links.select("Version", list(rows), "f-cal", lambda i: _version(rows[i]), always=True)
    return rows[id_]


def _version(row: Row) -> str:
    """An instant, not an age: the browser answers with these words, which must not change meanwhile."""
    return f"v{row['version']} {row['form']}, {row['quality']}, {str(row['fitted_at'])[:16].replace('T', ' ')} UTC"


def _form() -> None:
    measured = read(reads.measured)
    if not measured:
        shapes.note(
            "No measured window tells its concurrency. Import mlenergy-v3 or energy windows, or meter replicas.", "warn"
        )
        return
    models = list(dict.fromkeys(m for m, _, _ in sorted(measured)))
    model = st.selectbox("Model", models, key="f-cal-model")
    boards = ["", *(h for m, h, _ in measured if m == model)]
    windows = {h: n for m, h, n in measured if m == model}
    st.selectbox(
        "Hardware", boards, key="f-cal-hardware",
        format_func=lambda h: f"{h}, {count(windows[h])} windows" if h else "all that was measured",
    )  # fmt: skip
    st.selectbox(
        "Form", _FORMS, key="f-cal-form", format_func=lambda f: "the one that holds out best" if f == "best" else f
    )
    st.caption("At least 5 windows at 4 concurrencies of one binding. A new fit is a new version; none is overwritten.")
    st.button(
        "Calibrate", key="f-cal-go", type="primary", disabled=fleet_jobs.busy(), on_click=_go,
        help="Something runs already" if fleet_jobs.busy() else "Fits power and throughput, stores both",
    )  # fmt: skip


def _go() -> None:
    state = st.session_state
    params = {"model": state["f-cal-model"], "form": state.get("f-cal-form", "best")}
    if state.get("f-cal-hardware"):
        params["hardware"] = state["f-cal-hardware"]
    fleet_jobs.start("fleet.calibrate", params, f"Calibrating {params['model']}")


def _answer() -> None:
    """What the last calibration fitted, and what it could not fit, with the reason."""
    last = fleet_jobs.job()
    if last is None or last.alive or last.answer is None or last.operation != "fleet.calibrate":
        return
    told = last.answer
    known = len(told["calibrations"]) - told["stored"]
    again = f", {known} the same as before" if known else ""
    shapes.note(f"{told['stored']} new calibrations from {count(told['windows'])} windows{again}.", "ok")
    for left in told["left_out"][:6]:
        shapes.problem(f"No {left['quantity']} of {left['binding']}: {left['why']}", left["fix"], look="warn")
    if told["unbound_windows"]:
        shapes.note(
            f"{count(told['unbound_windows'])} windows do not say what they were measured on; left out.", "warn"
        )


def _quality(told: Row) -> str:
    label = "holds out" if told["quality"] != "LOW" else "for simulation only, no fact about production"
    look = {"HIGH": "ok", "FAIR": "ok", "LOW": "warn"}[told["quality"]]
    chip = (
        f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{told["quality"]}</span> '
        f"{evidence_html(told['evidence_class'], told['quality'], word=True)}"
        f'<br><span class="jb-small jb-muted">{label}</span>'
    )
    why = f"<h4>What keeps it down</h4>{shapes.reasons_html(told['why'])}" if told["why"] else ""
    edge = told["holdout_edge_error_relative"]
    rows = [
        ("hold-out error, inside the range", percent(told["holdout_error_relative"])),
        ("hold-out error, at the ends", percent(edge)),
        ("left-out windows within 95 %", percent(told["coverage"], decimals=0)),
        ("residual of the fit", percent(told["residual_relative"])),
        ("windows", f"{count(told['n'])} at {count(told['levels'])} levels"),
        ("range", f"{told['concurrency_min']:.4g}–{told['concurrency_max']:.4g} at once"),
        ("fitted", f"{age(parse_instant(told['fitted_at']))} ago"),
    ]
    return f"<p>{chip}</p>{why}{shapes.table_html(('', ''), rows, numeric=(1,))}"


def _binding(told: Row) -> str:
    """What it holds for; anything else needs a calibration of its own."""
    rows = [
        (escape(k.replace("_", " ")), escape(str(v))) for k, v in told["binding"].items() if v is not None
    ]  # fmt: skip
    rows += [
        ("version", f"{told['version']}"),
        ("id", f'<span class="jb-id">{escape(told["calibration_id"])}</span>'),
        (
            "windows",
            escape(f"{told['windows_from'][:10]} to {told['windows_to'][:10]}, {told['basis_evidence_class']}"),
        ),
    ]
    return f"<h4>Holds for</h4>{shapes.table_html(('', ''), rows)}"


def _parameters(told: Row) -> str:
    errors = _errors(told["covariance"])
    rows = []
    for name, value in told["parameters"].items():
        if not isinstance(value, int | float):
            continue
        error = errors.get(name)
        rows.append((escape(name), f"{value:.4g}", "" if error is None else f"± {error:.2g}"))
    if not rows:
        return ""
    table = shapes.table_html(("", "", ""), rows, numeric=(1, 2))
    return f"<h4>Parameters ± one sd, {escape(told['parameters_unit'])}</h4>{table}"


def _errors(covariance: str | None) -> dict[str, float]:
    """Standard errors by parameter; none where the form is a table of points."""
    if covariance is None:
        return {}
    told = json.loads(covariance)
    diagonal = {name: told["matrix"][k][k] for k, name in enumerate(told["names"])}
    return {name: math.sqrt(v) for name, v in diagonal.items() if v is not None and v >= 0}


def _windows(told: Row) -> str:
    unit = told["unit"]
    rows = [
        (
            f"{p['concurrency']:.4g}",
            f"{quantity(p['observed'], unit)} {evidence_html(p['evidence_class'])}",
            f"{quantity(p['fitted'], unit)} {evidence_html(told['evidence_class'], told['quality'])}",
            percent(p["residual_relative"], signed=True, decimals=1),
        )
        for p in told["points"]
    ]
    heads = ("at once", "window", "fit", "residual")
    return shapes.table_html(heads, rows, numeric=(0, 1, 2, 3))


def _all(found: Sequence[Row]) -> None:
    with st.expander(f"All calibrations: {len(found)}", key="f-cal-all", type="compact"):
        rows = [
            (
                escape(r["binding_words"]),
                escape(_QUANTITY[r["quantity"]]),
                escape(f"v{r['version']} {r['form']}"),
                evidence_html(r["evidence_class"], r["quality"]),
                escape(r["quality"]),
                percent(r["holdout_error_relative"]),
                percent(r["coverage"], decimals=0),
                count(r["n"]),
                age(parse_instant(r["fitted_at"])),
            )
            for r in found[:200]
        ]
        heads = ("holds for", "of", "fit", "", "quality", "hold-out", "coverage", "windows", "age")
        shapes.show(shapes.table_html(heads, rows, numeric=(5, 6, 7, 8)))
        if len(found) > len(rows):
            st.caption(literal(f"The newest {len(rows)} are shown; `joulebook fleet calibrations` lists all."))


def _alt(told: Row) -> str:
    return (
        f"{_QUANTITY[told['quantity']]} of an instance of {told['binding_words']} against requests at once: "
        f"{len(told['points'])} windows, {told['form']} fit with a 95 % band, hold-out error "
        f"{percent(told['holdout_error_relative'])}, fitted {instant(parse_instant(told['fitted_at']))}. "
        "The table below has the same numbers."
    )
