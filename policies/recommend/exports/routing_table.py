"""joulebook's own routing table as JSON: the whole table, or only the cells that change.

A cell has one offer. While a stage moves only a share, `routes` keep the incumbent and `shares` tell the division,
as the desk's own table does: it changes when the whole of the traffic has moved.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from policies.recommend.exports.change import Change
from policies.recommend.exports.documents import Doc, Exported, dump_json
from policies.recommend.exports.origin import facts
from policies.recommend.exports.shares import integer_weights
from policies.recommend.table import ASSUMED
from warehouse.ids import content_hash

NAME = "routing-table"
ABOUT = "joulebook's routing table"


def export(change: Change) -> list[Exported]:
    """One pair of documents. The functional content is all but the key `joulebook`."""
    docs = [_at(change, share) for share in change.shares]
    hashes = [content_hash(doc) for doc in docs]
    told: dict[str, Any] = {**change.told, "spec_sha256": hashes[-1], "expects_sha256": hashes[-2]}
    scope = "change" if change.asked.change_only else "table"
    marked: Doc = {"joulebook": {**facts(told), "scope": scope}, **docs[-1]}
    return [
        Exported(
            name=NAME,
            about=f"{ABOUT} ({'only the cells that change' if change.asked.change_only else 'all cells'})",
            suffix="json",
            apply_text=None if change.asked.only == "rollback" else dump_json(marked),
            rollback_text=dump_json(docs[0]),
            apply_content_sha256=hashes[-1],
            rollback_content_sha256=hashes[0],
            apply_expects=(hashes[-2],),
            rollback_expects=tuple(reversed(hashes[1:])),
            weights=_weights(change, change.share),
            weights_before=_weights(change, change.share_before),
            warnings=(*change.warnings, *_assumed(change)),
        )
    ]


def _assumed(change: Change) -> tuple[str, ...]:
    if change.told["table_basis"] != ASSUMED or change.asked.change_only:
        return ()
    return (f"the cells that do not change are the {ASSUMED}, not what anybody declared",)


def _at(change: Change, share: Fraction) -> Doc:
    routes = dict(sorted(change.table.items()))
    if share == 1:
        routes |= dict.fromkeys(change.cells, change.new)
    if change.asked.change_only:
        routes = {key: offer for key, offer in routes.items() if key in change.cells}
    doc: Doc = {"routes": routes}
    if not change.asked.change_only:
        doc["fallbacks"] = dict(sorted(change.fallbacks.items()))
    if 0 < share < 1:
        part = {"candidate": change.new, "share": float(share), "recommendation": change.id}
        doc["shares"] = dict.fromkeys(sorted(change.cells), part)  # as the reference downstream writes it
    return doc


def _weights(change: Change, share: Fraction) -> dict[str, int]:
    return integer_weights({str(change.old): 1 - share, change.new: share})
