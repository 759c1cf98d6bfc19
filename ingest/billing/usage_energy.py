"""Neuralwatt `/v1/usage/energy`, `/usage/summary` and `/usage/by-model` -> core.account_usage.

These are the provider's own totals: to check request by request records by, never to add to them. Three
shapes, told apart by what they hold:
- energy: `period`, `totals` {requests, requests_with_energy, energy_kwh, energy_joules}, `daily[]`;
- summary: `accounting_method` and {energy_kwh_consumed, energy_kwh_charged, total_cost_usd}, under `totals` or at
  the top level, with or without `period` and `time_series[]`;
- by-model: `products[]` {requested_model, …} or `models[]` {model, …}.

A date is a day of the zone `timezone`, UTC where nothing is declared, as the stamps of these endpoints are.
A period of dates includes its last one; a period of stamps is half-open. An answer without a period
says nothing until `period_start` and `period_end` are declared. charged = standard + multiplier x flex.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ingest.base import Parsed, Payload
from ingest.billing.quota import ACCOUNT, LARGEST_KWH, PROVIDER
from ingest.fields import J_PER_KWH, LARGEST_MONEY, Row, as_float, money
from ingest.kind import Option
from ingest.read import field_of, read_json, refuse, shape_of
from warehouse.clock import parse_utc, to_utc
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

OPTIONS = (
    ACCOUNT,
    Option("timezone", "zone of the dates in the answer", default="UTC"),
    Option("period_start", "begin of the period, ISO 8601 with zone, where the answer tells none"),
    Option("period_end", "end of the period (exclusive), ISO 8601 with zone, where the answer tells none"),
)
_SUMMARY = ("energy_kwh_consumed", "energy_kwh_charged", "total_cost_usd")
_METHOD = "provider totals, {} report"
_LISTS = {"products": "requested_model", "models": "model"}


@dataclass(frozen=True)
class _Report:
    account: str
    name: str  # energy | summary | by-model
    start_at: datetime
    end_at: datetime
    zone: ZoneInfo
    accounting_method: str | None


def parse(payload: Payload) -> Parsed:
    """Totals of an answer. Raises PayloadError for one that has none of the three shapes, or no period."""
    document = read_json(payload, allow_nan=True)
    if not isinstance(document, dict):
        refuse(payload, f"the payload is {shape_of(document)}, not an object", fix="check kind and address")
    name = _shape(payload, document)
    zone = _zone(payload)
    start_at, end_at = _period(payload, document, zone)
    told = document.get("accounting_method")
    method = told if isinstance(told, str) and told else None
    account = (payload.options.get("account") or "default").strip()
    report = _Report(account, name, start_at, end_at, zone, method)
    rows: dict[str, dict[str, Any]] = {}
    readers = [Row(n, data) for n, data in enumerate(_entries(document, name))]
    for row in readers:
        found = _row(row, report)
        if found is None:
            continue
        if found["usage_key"] in rows:
            row.refuse(None, None, "the same span and model came twice; the first one was kept", whole_row=True)
        else:
            rows[found["usage_key"]] = found
    return Parsed(
        primary="core.account_usage",
        tables={"core.account_usage": frame("core.account_usage", rows.values())},
        rows_in=len(readers),
        rejects=tuple(r for row in readers for r in row.rejects),
        data_at=min(end_at, payload.fetched_at),
    )


def _shape(payload: Payload, document: Mapping[str, Any]) -> str:
    if any(name in document for name in _LISTS):
        return "by-model"
    totals = document.get("totals")
    if any(name in document for name in _SUMMARY) or (isinstance(totals, dict) and set(_SUMMARY) & totals.keys()):
        return "summary"
    if "totals" in document and "daily" in document:
        return "energy"
    known = ", ".join(sorted(map(str, document))[:8]) or "nothing"
    field_of(payload, document, "totals", dict)  # an error answer is told as such
    refuse(payload, f"this is no energy, summary or by-model report; it has {known}", field="totals",
           fix="fetch /v1/usage/energy, /v1/usage/summary or /v1/usage/by-model")  # fmt: skip


def _entries(document: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The rows of a report: the whole first, then its days or models, each with a mark of what it is."""
    if name == "by-model":
        for where, model in _LISTS.items():
            listed = document.get(where)
            for entry in listed if isinstance(listed, list) else ():
                yield {"joulebook.model": model, **entry} if isinstance(entry, dict) else {"row": entry}
        return
    totals = document.get("totals")
    yield dict(totals) if isinstance(totals, dict) else {k: v for k, v in document.items() if k in _SUMMARY}
    days = document.get("daily" if name == "energy" else "time_series")
    for entry in days if isinstance(days, list) else ():
        yield {"joulebook.day": True, **entry} if isinstance(entry, dict) else {"row": entry}


def _row(row: Row, report: _Report) -> dict[str, Any] | None:
    data = row.data
    if "row" in data and len(data) == 1:
        row.refuse("row", data["row"], f"is {shape_of(data['row'])}, not an object", whole_row=True)
        return None
    start_at, end_at, grain, offer = report.start_at, report.end_at, "period", None
    if "joulebook.model" in data:
        name = data["joulebook.model"]
        offer = row.text(name, data.get(name))
        if offer is None:
            row.refuse(name, None, "is missing, so the model cannot be named", whole_row=True)
            return None
    elif "joulebook.day" in data:
        grain = "day"
        try:
            start_at, end_at = _day(data.get("date"), report.zone)
        except (ValueError, OverflowError) as error:
            row.refuse("date", data.get("date"), str(error), whole_row=True)
            return None
    row.key = f"{report.name} {start_at:%Y-%m-%d} {offer or ''}".strip()
    return {
        "provider": PROVIDER,
        "account": report.account,
        "usage_key": f"{report.name}:{grain}:{start_at.isoformat()}Z:{end_at.isoformat()}Z:{offer or ''}",
        "report": report.name,
        "grain": grain,
        "period_start_at": start_at,
        "period_end_at": end_at,
        "offer_id": offer,
        "accounting_method": report.accounting_method,
        "evidence_class": EvidenceClass.ALLOCATED.value,
        "method": _METHOD.format(report.name),
        **_figures(row, data),
    }


def _figures(row: Row, data: Mapping[str, Any]) -> dict[str, Any]:
    whole = ("requests", "requests_with_energy", "prompt_tokens", "completion_tokens", "cached_tokens", "total_tokens")
    cost_name = "total_cost_usd" if "total_cost_usd" in data else "cost_usd"
    cost = row.number(cost_name, data.get(cost_name), high=LARGEST_MONEY)
    charged = row.number("energy_kwh_charged", data.get("energy_kwh_charged"), high=LARGEST_KWH)
    return {
        **{name: row.whole(name, data.get(name)) for name in whole},
        "billed_cost_usd": None if cost is None else money(cost),
        "energy_j": _consumed(row, data),
        "energy_charged_j": as_float(None if charged is None else charged * J_PER_KWH),
    }


def _consumed(row: Row, data: Mapping[str, Any]) -> float | None:
    """energy_kwh(_consumed) x 3.6e6, or energy_joules; NULL where one is refused or both disagree."""
    name = "energy_kwh_consumed" if data.get("energy_kwh_consumed") is not None else "energy_kwh"
    before = len(row.rejects)
    kwh = row.number(name, data.get(name), high=LARGEST_KWH)
    joules = row.number("energy_joules", data.get("energy_joules"), high=LARGEST_KWH * J_PER_KWH)
    if len(row.rejects) > before:
        return None
    if kwh is None or joules is None:
        return as_float(joules if kwh is None else kwh * J_PER_KWH)
    told = kwh * J_PER_KWH
    if abs(joules - told) > max(told, joules) / 1000 + 1:  # both are rounded: 0.003463 kWh and 12469 J are one
        row.refuse(name, kwh, f"is {told:.6g} J, but energy_joules is {joules:.6g}")
        return None
    return float(told)


def _period(payload: Payload, document: Mapping[str, Any], zone: ZoneInfo) -> tuple[datetime, datetime]:
    told = document.get("period")
    period = told if isinstance(told, dict) else {}
    ends: list[datetime] = []
    for name, days in (("start", 0), ("end", 1)):
        declared = payload.options.get(f"period_{name}")
        text = period.get(name) if period.get(name) is not None else declared
        if not isinstance(text, str):
            refuse(
                payload,
                f"the answer tells no {name} of its period",
                field=f"period.{name}",
                fix="declare --option period_start=… and --option period_end=…",
            )
        try:
            ends.append(_day(text, zone)[days] if len(text) == 10 else parse_utc(text, what=f"period.{name}"))
        except (ValueError, OverflowError) as error:
            refuse(payload, str(error), field=f"period.{name}", fix="write ISO 8601 with a zone")
    if not ends[0] < ends[1]:
        refuse(payload, f"the period ends ({ends[1]}) before it begins ({ends[0]})", field="period")
    return ends[0], ends[1]


def _day(text: Any, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The UTC span of a local date. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("is no date YYYY-MM-DD")
    day = date.fromisoformat(text)
    start, end = (datetime.combine(d, time(), zone) for d in (day, day + timedelta(days=1)))
    return to_utc(start, what="date"), to_utc(end, what="date")


def _zone(payload: Payload) -> ZoneInfo:
    name = payload.options.get("timezone") or "UTC"
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        refuse(payload, f"{name!r} is no known time zone", field="timezone", fix="write one as Europe/Paris")
