"""What the marks and lines of a Pareto chart mean, in one place."""

from __future__ import annotations

from app.components import shapes
from app.components.format import MISSING
from app.components.marks import MARKS

_LINES = {
    "step": "the front",
    "dotted": "what random mixing of two points reaches",
    "crosses": "95 % intervals",
    "grey": "dominated",
}
_FIXED = {
    "frame": "a fixed arm",
    "step": "the front",
    "dotted": "mixing hull of the fixed arms",
    "crosses": "95 % intervals",
    "grey": "dominated",
    "ring": "the chosen policy",
}
_CURVES = {"thin lines": "every λ or threshold of a policy", "thick": "proved above the hull"}
_KINDS = {"reference": _LINES, "published": _FIXED, "replay": _FIXED | _CURVES}


def legend(kind: str) -> None:
    """One line each for marks and lines; `kind` of page: reference, published, replay."""
    marks = " · ".join([*(f"{m.glyph} {name}" for name, m in MARKS.items()), f"{MISSING} class not told"])
    lines = " · ".join(f"{what}: {means}" for what, means in _KINDS[kind].items())
    shapes.show(f'<span class="jb-small jb-muted">{marks}<br>{lines}</span>')
