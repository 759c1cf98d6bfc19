"""Where points have several evidence classes the reader chooses one: an axis never mixes them."""

from __future__ import annotations

from collections.abc import Callable

from app.components import links
from app.components.marks import glyph
from app.reads.pareto import Point
from warehouse.evidence import strongest_first


def one_class_only(points: list[Point], x_words: str, y_words: str) -> list[Point]:
    """Points of one evidence class per axis; where there are several the reader chooses, nothing is mixed."""
    points = _chosen(points, lambda p: p.evidence_class, f"Evidence: {x_words}", "evidence")
    return _chosen(points, lambda p: p.y_evidence_class, f"Evidence: {y_words}", "evidence-up")


def _chosen(points: list[Point], class_of: Callable[[Point], str | None], label: str, key: str) -> list[Point]:
    classes = strongest_first(c for c in map(class_of, points) if c)
    if len(classes) < 2:
        return points
    options = [str(classes[0]), *(str(c) for c in classes[1:]), "all"]
    chosen = links.segments(
        label,
        options,
        key,
        lambda c: c if c == "all" else f"{glyph(c)} {c}",
        help="An axis never mixes classes: a share of a measured window and a model are not the same joule.",
    )
    return points if chosen == "all" else [p for p in points if class_of(p) == chosen]
