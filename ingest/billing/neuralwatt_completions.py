"""Neuralwatt completions with their `energy` and `cost` blocks -> core.usage and core.energy_observation.

Reads what the API sends: JSON responses (one, an array, JSON lines) and SSE text whose comments carry
`: energy {…}` and `: cost {…}`. Each completion is one usage row of grain `request` and one
observation. Energy is the provider's attributed, capped and billed share of a server window, so its
class is `allocated`; energy_kwh x 3.6e6 is kept, because it carries more digits than energy_joules and
is what the cost was computed from. A stream that broke off has no energy line: its energy is NULL.

Grams have a class of their own, told by `carbon_source`: with `agent_cache` the intensity is a live average
of the serving region, so they are `calibrated`; a regional or static fallback, another or no source is a
published profile, so they are `modeled`.

A record may carry `"joulebook": {"workload": "seed_reference", "account": "a", "success": true,
"attempts": 1, "requested_offer": "m"}`, added by whoever recorded it; in a stream as `: joulebook {…}`.
Without it the workload is `organic` and the account "default". Success is told by the finish reason:
stop, length and tool_calls succeed; an error, another reason or a stream without an end fail; a
finished response that tells no reason leaves it unknown.

The window of a request is [created, created + duration_seconds), because that is all the format tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.billing.completion_records import Record, read_records
from ingest.catalog.serving_class import split
from ingest.fields import J_PER_KWH, LARGEST_INTENSITY, Row, as_float
from warehouse.evidence import EvidenceClass, Quality, grams_class
from warehouse.ids import content_hash
from warehouse.tables import frame

PROVIDER = "neuralwatt"
LARGEST_J = 10**9
_LARGEST_KWH = Decimal(LARGEST_J) / J_PER_KWH
WORKLOADS = ("seed_reference", "organic")
SUCCESSFUL = frozenset({"stop", "length", "tool_calls"})
# A request's energy is the provider's share of a measured window; its grid intensity depends on `carbon_source`.
ENERGY_CLASS = EvidenceClass.ALLOCATED
INTENSITY_CLASS = {
    "agent_cache": EvidenceClass.CALIBRATED,  # live average of the serving region
    "regional_fallback": EvidenceClass.MODELED,
    "static_fallback": EvidenceClass.MODELED,
}
_EPOCH = datetime(1970, 1, 1)
_EARLIEST_S, _LATEST_S = 1_500_000_000, 4_102_444_800  # 2017 .. 2100: milliseconds and zeros fall outside
_LONGEST_S = 7 * 86_400


@dataclass(frozen=True)
class _Energy:
    """Energy of one request, or why there is none (`gap`)."""

    joules: Decimal | None
    gap: str | None = None


@dataclass(frozen=True)
class _Request:
    """What both rows of a completion share."""

    model: str
    account: str
    meta: Mapping[str, Any]
    block: Mapping[str, Any]  # the `energy` object
    energy: _Energy
    start_at: datetime
    end_at: datetime
    duration_s: Decimal | None
    common: Mapping[str, Any]  # columns that core.usage and core.energy_observation have alike


def parse(payload: Payload) -> Parsed:
    """Usage rows and observations of the completions. Raises PayloadError where it holds none at all."""
    records = read_records(payload)
    usage: dict[tuple[str, str], dict[str, Any]] = {}
    observations: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for row_no, record in enumerate(records):
        row = Row(row_no, record.data)
        for name, text, reason in record.faults:
            row.refuse(name, text, reason)
        found = _facts(row, record)
        if found is not None:
            key = (found[0]["account"], found[0]["usage_key"])
            if key in usage:
                how = "the same" if usage[key] == found[0] else "other"
                row.refuse("id", row.key, f"came twice, with {how} values; the first one was kept", whole_row=True)
            else:
                usage[key] = found[0]
                observations.append(found[1])
        rejects += row.rejects
    ends = [row["period_end_at"] for row in usage.values()]
    return Parsed(
        primary="core.usage",
        tables={
            "core.usage": frame("core.usage", usage.values()),
            "core.energy_observation": frame("core.energy_observation", observations),
        },
        rows_in=len(records),
        rejects=tuple(rejects),
        data_at=max(ends, default=None),
    )


def _facts(row: Row, record: Record) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The usage row and the observation of one completion; None, with a whole-row reject, where it is none."""
    request = _request(row, record)
    if request is None:
        return None
    usage = _usage_row(row, request)
    return usage, _observation(row, request, usage)


def _request(row: Row, record: Record) -> _Request | None:
    data = row.data
    if record.unreadable is not None:
        row.refuse(None, None, record.unreadable, whole_row=True)
        return None
    meta = row.mapping("joulebook", data.get("joulebook"))
    row.key = row.text("id", data.get("id"))
    model = row.text("model", data.get("model"))
    created = row.whole("created", data.get("created"), low=_EARLIEST_S, high=_LATEST_S)
    if row.key is None or model is None or created is None:
        name = "id" if row.key is None else "model" if model is None else "created"
        row.refuse(name, data.get(name), "is missing or unusable, so the request cannot be placed", whole_row=True)
        return None
    workload = row.text("joulebook.workload", meta.get("workload")) or "organic"
    if workload not in WORKLOADS:
        reason = f"is none of {', '.join(WORKLOADS)}; it decides what may steer, so it is not guessed"
        row.refuse("joulebook.workload", workload, reason, whole_row=True)
        return None
    block = row.mapping("energy", data.get("energy"))
    cost = row.mapping("cost", data.get("cost"))
    start_at = _EPOCH + timedelta(seconds=created)
    duration = row.number("energy.duration_seconds", block.get("duration_seconds"), high=_LONGEST_S)
    common = {
        "provider": PROVIDER,
        "usage_key": row.key,
        "workload": workload,
        "attempts": row.whole("joulebook.attempts", meta.get("attempts"), low=1) or 1,
        "successes": _success(row, record, meta),
        "zone": row.text("energy.grid_id", block.get("grid_id")),
        "evidence_class": ENERGY_CLASS.value,
        "method": row.text("energy.attribution_method", block.get("attribution_method")) or "provider attribution",
        "billed_cost_usd": row.usd("cost.request_cost_usd", cost.get("request_cost_usd")),
        "energy_uncapped_j": _uncapped(row, block),
        **_carbon(row, block),
    }
    return _Request(
        model=model,
        account=row.text("joulebook.account", meta.get("account")) or "default",
        meta=meta,
        block=block,
        energy=_energy(row, block),
        start_at=start_at,
        end_at=_end(record, start_at, duration),
        duration_s=duration,
        common=common,
    )


def _usage_row(row: Row, request: _Request) -> dict[str, Any]:
    told = row.text("joulebook.requested_offer", request.meta.get("requested_offer"))
    tokens = row.mapping("usage", row.data.get("usage"))
    details = row.mapping("usage.prompt_tokens_details", tokens.get("prompt_tokens_details"))
    charged = row.number("energy.energy_kwh_charged", request.block.get("energy_kwh_charged"), high=_LARGEST_KWH)
    return {
        **request.common,
        "account": request.account,
        "grain": "request",
        "period_start_at": request.start_at,
        "period_end_at": request.end_at,
        "requested_offer": told or request.model,
        "served_offer": request.model,
        "service_tier": row.text("service_tier", row.data.get("service_tier")),
        "prompt_tokens": row.whole("usage.prompt_tokens", tokens.get("prompt_tokens")),
        "completion_tokens": row.whole("usage.completion_tokens", tokens.get("completion_tokens")),
        "cached_tokens": row.whole("usage.prompt_tokens_details.cached_tokens", details.get("cached_tokens")),
        "requests": 1,
        "requests_with_energy": int(request.energy.joules is not None),
        "energy_j": as_float(request.energy.joules),
        "energy_charged_j": as_float(None if charged is None else charged * J_PER_KWH),
        "duration_s": as_float(request.duration_s),
    }


def _observation(row: Row, request: _Request, usage: Mapping[str, Any]) -> dict[str, Any]:
    joules = request.energy.joules
    capped = request.block.get("ratio_was_capped")
    share = row.number("energy.attribution_ratio", request.block.get("attribution_ratio"), high=1)
    return {
        **request.common,
        "observation_id": content_hash(["completion", PROVIDER, request.account, row.key]),
        "offer_id": request.model,
        "logical_model": split(request.model).base_model,
        "deployable_model": request.model,
        "window_start_at": request.start_at,
        "window_end_at": request.end_at,
        # A share of a whole server's energy is never HIGH; without energy there is nothing to trust.
        "quality": (Quality.LOW if joules is None else Quality.FAIR).value,
        "energy_gross_j": as_float(joules),
        "gap_reason": request.energy.gap,
        "attribution_share": as_float(share),
        "attribution_capped": capped if isinstance(capped, bool) else None,
        "prompt_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
        "coverage": float(joules is not None),
    }


def _energy(row: Row, energy: Mapping[str, Any]) -> _Energy:
    """Joules of the request; NULL with its gap reason where not told, contradictory or implausible."""
    if energy.get("measurement_available") is False or not energy:
        return _Energy(None, "unsupported")
    refused = len(row.rejects)
    kwh = row.number("energy.energy_kwh", energy.get("energy_kwh"), high=_LARGEST_KWH)
    joules = row.number("energy.energy_joules", energy.get("energy_joules"), high=LARGEST_J)
    if len(row.rejects) > refused:
        return _Energy(None, "implausible")
    if kwh is None and joules is None:
        return _Energy(None, "unsupported")
    found = kwh * J_PER_KWH if kwh is not None else joules
    assert found is not None
    # energy_joules is rounded to 0.01 J, energy_kwh to about five digits
    if joules is not None and abs(joules - found) > max(found, joules) / 1000 + Decimal("0.005"):
        row.refuse("energy.energy_kwh", kwh, f"is {found:.6g} J, but energy_joules is {joules:.6g}")
        return _Energy(None, "implausible")
    if not found:
        row.refuse("energy.energy_kwh", kwh, "is 0 J, which is below what the meter resolves, not nothing")
        return _Energy(None, "below_resolution")
    return _Energy(found)


def _uncapped(row: Row, energy: Mapping[str, Any]) -> float | None:
    kwh = row.number("energy.uncapped_energy_kwh", energy.get("uncapped_energy_kwh"), high=_LARGEST_KWH)
    joules = row.number("energy.uncapped_energy_joules", energy.get("uncapped_energy_joules"), high=LARGEST_J)
    return as_float(kwh * J_PER_KWH if kwh is not None else joules)


def _carbon(row: Row, energy: Mapping[str, Any]) -> dict[str, float | str | None]:
    name = "grid_carbon_intensity_gco2perkwhr"
    grams = as_float(row.number("energy.carbon_g_co2eq", energy.get("carbon_g_co2eq")))
    source = row.text("energy.carbon_source", energy.get("carbon_source"))
    intensity_class = INTENSITY_CLASS.get(source or "", EvidenceClass.MODELED)
    return {
        "carbon_g": grams,
        "carbon_evidence_class": None if grams is None else grams_class(ENERGY_CLASS, intensity_class).value,
        "intensity_g_per_kwh": as_float(row.number(f"energy.{name}", energy.get(name), high=LARGEST_INTENSITY)),
    }


def _success(row: Row, record: Record, meta: Mapping[str, Any]) -> int | None:
    told = meta.get("success")
    if isinstance(told, bool):
        return int(told)
    if told is not None:
        row.refuse("joulebook.success", told, "is neither true nor false")
    if row.data.get("error") is not None:
        return 0
    choices = row.data.get("choices")
    reasons = [c.get("finish_reason") for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    if any(reason is not None for reason in reasons):
        return int(all(isinstance(r, str) and r in SUCCESSFUL for r in reasons))
    return 0 if record.ended is False else None


def _end(record: Record, start_at: datetime, duration: Decimal | None) -> datetime:
    """The end of the window: by duration; else a second (the step of `created`) after the last chunk."""
    if duration is not None:
        return start_at + timedelta(microseconds=max(1, int(duration * 1_000_000)))
    last = record.last_created
    known = isinstance(last, int) and not isinstance(last, bool) and _EARLIEST_S <= last <= _LATEST_S
    last_at = _EPOCH + timedelta(seconds=last) if known else start_at
    return max(start_at, last_at) + timedelta(seconds=1)
