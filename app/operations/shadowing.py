"""Shadow: ask policies about logged requests, take pairs of outcomes, and say what both come to."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from app.operations import Actor, NoParams, Params, operation
from app.policy_errors import policy_errors
from app.shadow import deciding, pushing, reporting

if TYPE_CHECKING:
    from app.desk import Desk

Source = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]


class DecideParams(Params):
    """`most`: requests of this round, per policy; unset: `shadow.batch`."""

    most: int | None = Field(None, ge=1, le=1_000_000)


@operation("shadow.decide", scope="operator", params=DecideParams)
def decide(desk: Desk, actor: Actor, params: DecideParams) -> dict[str, Any]:
    """Ask every shadowing policy about logged requests that it has not seen; `left` says what remains."""
    with policy_errors():
        return asdict(deciding.decide_round(desk, params.most or desk.settings.shadow.batch))


@operation("shadow.status", scope="read", params=NoParams)
def status(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Say how far every shadow is: requests asked about, pairs of the planned number, verdict so far."""
    with policy_errors():
        return reporting.status(desk)


class ReportParams(Params):
    """`id`: a recommendation, or `router` for the measured router."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)] = reporting.ROUTER


@operation("shadow.report", scope="read", params=ReportParams)
def report(desk: Desk, actor: Actor, params: ReportParams) -> dict[str, Any]:
    """Say where a policy would have chosen otherwise, what that is worth, and what its gate says."""
    with policy_errors():
        return reporting.report(desk, params.id)


class RequestParams(Params):
    """`request_id`: provider/account/usage_key."""

    request_id: Annotated[str, StringConstraints(min_length=1, max_length=600)]


@operation("shadow.request", scope="read", params=RequestParams)
def one_request(desk: Desk, actor: Actor, params: RequestParams) -> dict[str, Any]:
    """Explain what each policy would have chosen for one logged request."""
    with policy_errors():
        return reporting.one_request(desk, params.request_id)


class PairsParams(Params):
    """`source`: a name of the sender's own, such as of a replay run; pairs are known by pair_id within it."""

    pairs: list[Any] = Field(min_length=1, max_length=100_000)
    source: Source | None = None


@operation("shadow.pairs", scope="downstream", params=PairsParams)
def pairs(desk: Desk, actor: Actor, params: PairsParams) -> dict[str, Any]:
    """Take mirrored and replayed pairs; one that contradicts itself is quarantined with the reason."""
    return pushing.push(desk, actor, "shadow-pairs", params.pairs, params.source)


class LabelsParams(Params):
    requests: list[Any] = Field(min_length=1, max_length=100_000)
    source: Source | None = None


@operation("shadow.labels", scope="downstream", params=LabelsParams)
def labels(desk: Desk, actor: Actor, params: LabelsParams) -> dict[str, Any]:
    """Take what a router knew of requests that were billed: category, tier, session, propensity."""
    return pushing.push(desk, actor, "request-labels", params.requests, params.source)
