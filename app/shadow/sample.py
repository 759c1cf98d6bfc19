"""The proof of the sample: what its recommendations would have chosen, replays of both offers, and the gate on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.operations import Actor
from app.policy_errors import policy_errors
from app.recommendations import gate, store
from app.shadow.deciding import decide_round
from ingest.base import Payload
from ingest.sample.pairs import Side, pairs_csv
from policies.recommend.state import RecState, State
from warehouse.clock import utcnow

if TYPE_CHECKING:
    from app.desk import Desk

SOURCE = "sample:pairs"
_MOST_REQUESTS = 1_000_000
_MOST_PAIRS = 12_000  # a plan beyond it stays unfinished in the sample


def sample_proof(desk: Desk, actor: Actor) -> list[dict[str, Any]]:
    """Shadow the sample's requests, replay them on both offers of each recommendation that shadows, and judge.

    The outcome of the load; nothing is replayed where no recommendation shadows. Raises AppError.
    """
    from app.operations.sampling import load_payloads

    with policy_errors():
        decide_round(desk, _MOST_REQUESTS)
        states = store.states(store.all_events(desk.warehouse))
        documents = [_pairs(s) for s in states if s.content["is_sample"] and s.state is State.SHADOWING]
        found = [d for d in documents if d]
        if not found:
            return []
        header = found[0].splitlines(keepends=True)[0]
        body = header + "".join(d.removeprefix(header) for d in found)
        payload = Payload(
            SOURCE, "shadow-pairs", "generated://sample/pairs", utcnow(), body.encode(), content_type="text/csv"
        )
        outcomes = load_payloads(desk, [payload])
        gate.judge_all(desk, actor)
    return outcomes


def _pairs(state: RecState) -> str | None:
    """Replays as many as are planned, at the fixed mix; None where a reference mean is not known."""
    assert state.shadow is not None
    metrics = state.content["promise"]["metrics"]
    sides = []
    for side in ("from", "to"):
        told = [metrics[name][side]["value"] for name in ("energy_j", "billed_cost_usd", "carbon_g")]
        if any(value is None for value in told):
            return None
        sides.append(Side(state.content[side], *told))
    n = min(state.shadow.planned_n or 0, _MOST_PAIRS)
    return pairs_csv(state.id, sides[0], sides[1], state.shadow.started_at, n, state.shadow.mix)
