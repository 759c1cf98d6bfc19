"""Marks, chips, figures and tables: what they say with the colors off, and that nothing from outside becomes markup."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from app.components import marks, shapes
from app.components.recs import event_text, promise_table, target_summary, targets_table
from app.components.shapes import Figure, Moment
from warehouse.evidence import EvidenceClass

NOW = datetime(2026, 11, 29, 12, 0, 0)
HOSTILE = "<img src=x onerror=alert(1)>"


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_every_evidence_class_has_a_mark_of_its_own_in_text_and_in_charts() -> None:
    assert set(marks.MARKS) == set(EvidenceClass)
    assert len({m.glyph for m in marks.MARKS.values()}) == 4
    assert len({m.symbol for m in marks.MARKS.values()}) == 4
    # look.md: measured filled circle, allocated filled diamond in plotly, calibrated open diamond, modeled open circle.
    assert [marks.MARKS[c].symbol for c in EvidenceClass] == ["circle", "diamond", "diamond-open", "circle-open"]
    assert marks.MARKS["modeled"].dash == "dash"


def test_a_missing_class_is_a_dash() -> None:
    assert marks.glyph(None) == "—"
    assert "missing" in text_of(marks.evidence_html(None))


def test_low_quality_says_so_in_a_word() -> None:
    assert "LOW" in text_of(marks.evidence_html("modeled", "LOW"))
    assert "LOW" not in text_of(marks.evidence_html("modeled", "FAIR"))


@pytest.mark.parametrize(
    "state", ["fresh", "stale", "expired", "never", "PROPOSED", "FAILED", "ROLLED_BACK", "PARTIAL"]
)
def test_a_state_is_a_word_and_a_shape_never_color_alone(state: str) -> None:
    look, word = marks.STATES[state]
    assert word in text_of(marks.chip_html(state))
    assert "<i" in marks.chip_html(state)
    assert marks.state_text(state) == f"{marks.TEXT_ICON[look]} {word}"


def test_the_last_runs_are_told_in_words_too() -> None:
    html = marks.runs_html(["OK", "OK", "FAILED"])
    assert "2 ok, 1 failed" in text_of(html)


def test_a_figure_shows_value_unit_interval_mark_n_and_age() -> None:
    figure = Figure("energy", "211\u00a0J", "204–218 J ±3 %", "allocated", at=NOW - timedelta(minutes=2), n=42)
    told = text_of(shapes.figure_html(figure, NOW)).replace("\u00a0", " ")
    for part in ("energy", "211", "J", "204–218 J ±3 %", "◐", "allocated", "n 42", "2 min old"):
        assert part in told


def test_a_figure_without_a_value_says_why() -> None:
    told = text_of(shapes.figure_html(Figure("energy", "", refused="mixes measured and modeled")))
    assert "—" in told
    assert "mixes measured and modeled" in told


@pytest.mark.parametrize(
    ("change", "better", "word"), [(-0.1, -1, "better"), (0.1, -1, "worse"), (0.1, 1, "better"), (0.0, 1, "no change")]
)
def test_the_direction_of_better_decides_not_the_sign(change: float, better: int, word: str) -> None:
    assert word in text_of(shapes.delta_html("x", change=change, better=better))


def test_text_from_outside_never_becomes_markup() -> None:
    at = NOW
    htmls = [
        marks.chip_html(HOSTILE),
        shapes.figure_html(Figure(HOSTILE, HOSTILE, HOSTILE, HOSTILE, explain=HOSTILE)),
        shapes.timeline_html([Moment(at, HOSTILE, HOSTILE)]),
        shapes.reasons_html([HOSTILE, HOSTILE]),
        shapes.delta_html(HOSTILE, change=1, better=1),
        targets_table([{"target": HOSTILE, "rejection": HOSTILE}], rolling_back=False),
    ]
    assert all("<img" not in html for html in htmls)


def _metric(separable: str) -> dict[str, object]:
    side = {"value": 1.0, "n": 5, "interval": [0.5, 2.0], "evidence_class": "allocated", "newest_at": NOW.isoformat()}
    return {
        "unit": "J/success", "from": side, "to": side, "difference": -0.4, "interval": [-0.7, 0.2],
        "separable": separable, "note": None,
    }  # fmt: skip


def _content(separable: str) -> dict[str, object]:
    success = {"successes": 5, "attempts": 5, "rate": 1.0}
    promise = {
        "per": "success", "metrics": {"energy_j": _metric(separable)}, "success": {"from": success, "to": success},
        "proficiency": {"from": None, "to": None, "difference": None},
    }  # fmt: skip
    return {"from": "a", "to": "b", "promise": promise}


def test_a_difference_is_called_better_only_where_the_interval_leaves_no_doubt() -> None:
    assert "better" in text_of(promise_table(_content("separable")))
    doubtful = text_of(promise_table(_content("not separable")))
    assert "better" not in doubtful
    assert "not separable" in doubtful


def test_savings_and_harm_stand_in_one_table() -> None:
    told = text_of(promise_table(_content("separable")))
    assert "energy per success" in told
    assert "success rate" in told


def test_targets_are_counted_in_words() -> None:
    targets = [{"target": "a", "acknowledged_at": NOW.isoformat(), "actuated_at": None}, {"target": "b"}]
    assert target_summary({"targets": targets}) == "1 of 2 targets acknowledged, 0 of 2 actuated"


def test_events_read_as_sentences() -> None:
    assert event_text("recommendation.actuated", {"target": "lb-eu"}) == "actuated by lb-eu"
    assert event_text("recommendation.dismissed", {"reason": "not now"}) == "dismissed: not now"
    assert event_text("token.created", {}) == "token created"


def test_every_kind_of_chip_survives_an_unknown_state() -> None:
    assert "something new" in text_of(marks.chip_html("SOMETHING_NEW"))
