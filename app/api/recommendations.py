"""/v1/recommendations: read them, decide on them, report about them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.api.deps import BEARER, Called, IfMatch, Key, one_key, seen_revision
from app.api.problems import DOCUMENTED
from policies.recommend.exports import FormatName
from policies.recommend.state import State

router = APIRouter(prefix="/v1/recommendations", tags=["recommendations"], dependencies=[BEARER], responses=DOCUMENTED)

Id = Annotated[str, Path(description="Recommendation id, such as R-0001.", max_length=64)]


class Command(BaseModel):
    """`revision` and `idempotency_key` may come as headers (If-Match, Idempotency-Key) instead."""

    model_config = ConfigDict(extra="forbid")

    revision: int | None = Field(None, ge=1, description="The revision that was seen.")
    idempotency_key: str | None = Field(None, min_length=1, max_length=200)


class Decision(Command):
    reason: str | None = Field(None, max_length=2000)


class ShadowRequest(Decision):
    margins: dict[str, Any] = Field(
        default_factory=dict, description="Names of [shadow.margins] with other values; the others stay as configured."
    )


class Report(Command):
    target: str = Field(min_length=1, max_length=100, description="Which target reports.")
    detail: str | None = Field(None, max_length=2000, description="Free text, such as a checksum of what was written.")
    content_hash: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="Of the content that is carried out; another one is refused."
    )


class Acknowledgement(Report):
    rejection: str | None = Field(None, max_length=2000, description="Why the target does not carry it out.")


class OutcomeReport(Report):
    """Totals over all attempts since actuation, failures included; leave out what is unknown."""

    window_start_at: AwareDatetime
    window_end_at: AwareDatetime
    evidence_class: str = Field(description="Of energy_j: measured, allocated, calibrated or modeled.")
    attempts: int | None = None
    successes: int | None = None
    n: int | None = Field(None, description="Requests of the window.")
    energy_j: float | None = None
    billed_cost_usd: Decimal | None = Field(None, allow_inf_nan=True)
    carbon_g: float | None = None
    carbon_evidence_class: str | None = Field(
        None, description="Of carbon_g; needed with it, never stronger than evidence_class."
    )
    relative_uncertainty: float | None = Field(None, description="One standard deviation of energy_j / energy_j.")
    aborted: bool = False
    slo_s: float | None = Field(None, description="The latency objective of the stored margins, in seconds.")
    latency_n: int | None = Field(None, description="Requests with a known latency.")
    over_slo: int | None = Field(None, description="Of these, the ones that took longer than slo_s.")


def _tagged(response: Response, told: dict[str, Any]) -> dict[str, Any]:
    response.headers["ETag"] = told["etag"]
    return told


def _sending(
    caller: Called, response: Response, rec_id: Id, if_match: IfMatch = None, key: Key = None
) -> Callable[[str, Command], dict[str, Any]]:
    """What every command on a recommendation shares: its id, the revision that was seen, its key, the new ETag."""

    def send(name: str, body: Command) -> dict[str, Any]:
        given = body.model_dump(exclude={"revision", "idempotency_key"})
        revision, one = seen_revision(if_match, body.revision), one_key(key, body.idempotency_key)
        params = {**given, "id": rec_id, "revision": revision, "idempotency_key": one}
        return _tagged(response, caller.call(f"recommend.{name}", params))

    return send


Send = Annotated[Callable[[str, Command], dict[str, Any]], Depends(_sending)]


@router.get("")
def list_recommendations(
    caller: Called,
    state: Annotated[State | None, Query(description="Only this state.")] = None,
    include_closed: bool = False,
) -> dict[str, Any]:
    """List the recommendations, newest first."""
    return caller.call("recommend.list", {"state": state, "include_closed": include_closed})


@router.post("/refresh")
def refresh(caller: Called) -> dict[str, Any]:
    """Compare the routing table with the ranked one now and propose the differences."""
    return caller.call("recommend.refresh", {})


@router.get("/{rec_id}")
def read_recommendation(caller: Called, response: Response, rec_id: Id) -> dict[str, Any]:
    """Read one recommendation: evidence, targets, timeline. The ETag is its revision."""
    return _tagged(response, caller.call("recommend.show", {"id": rec_id}))


@router.get("/{rec_id}/export")
def export_recommendation(
    caller: Called,
    rec_id: Id,
    format: Annotated[FormatName, Query(description="What the documents are for.")],
    stage: Annotated[str | None, Query(max_length=40, description="The current one unless told.")] = None,
    only: Annotated[Literal["apply", "rollback"] | None, Query(description="Leave out the other document.")] = None,
    draft: Annotated[bool, Query(description="Look at what is not approved; every document says so.")] = False,
    change_only: Annotated[bool, Query(description="routing-table: only the cells that change.")] = False,
) -> dict[str, Any]:
    """Documents to apply and to roll back, with a manifest; the mapping is exports.toml of the desk's home."""
    params = {"id": rec_id, "format": format, "stage": stage, "only": only, "draft": draft, "change_only": change_only}
    return caller.call("recommend.export", params)


@router.post("/{rec_id}/shadow")
def shadow(send: Send, body: ShadowRequest | None = None) -> dict[str, Any]:
    """Store margins and begin to shadow; evidence from before, votes and verdicts no longer count."""
    return send("shadow", body or ShadowRequest())


@router.post("/{rec_id}/promote")
def promote(send: Send, body: Decision | None = None) -> dict[str, Any]:
    """Move on to the next share of the traffic, once the gate of this one has passed."""
    return send("promote", body or Decision())


@router.post("/{rec_id}/approve")
def approve(send: Send, body: Decision | None = None) -> dict[str, Any]:
    """Approve it, so that its targets collect it."""
    return send("approve", body or Decision())


@router.post("/{rec_id}/dismiss")
def dismiss(send: Send, body: Decision | None = None) -> dict[str, Any]:
    """Dismiss it; the same is not proposed again on the same evidence."""
    return send("dismiss", body or Decision())


@router.post("/{rec_id}/rollback")
def rollback(send: Send, body: Decision | None = None) -> dict[str, Any]:
    """Ask every target that received the change to restore what was there before."""
    return send("rollback", body or Decision())


@router.post("/{rec_id}/acknowledge")
def acknowledge(send: Send, body: Acknowledgement) -> dict[str, Any]:
    """A target acknowledges the command it collected, or rejects it with a reason."""
    return send("acknowledge", body)


@router.post("/{rec_id}/actuate")
def actuate(send: Send, body: Report) -> dict[str, Any]:
    """A target reports that it has carried the change out."""
    return send("actuate", body)


@router.post("/{rec_id}/outcome")
def outcome(send: Send, body: OutcomeReport) -> dict[str, Any]:
    """A target reports what was measured; the verdict is in the answer. Too little data is INCONCLUSIVE."""
    return send("outcome", body)


@router.post("/{rec_id}/rolled-back")
def rolled_back(send: Send, body: Report) -> dict[str, Any]:
    """A target reports that it has restored the previous content."""
    return send("rolled_back", body)
