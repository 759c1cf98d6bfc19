"""Neuralwatt portal export (usage analytics, JSON) -> core.usage.

A row of grain `period` per model of `by_model`; where the export speaks of exactly one model, also a
row of grain `day` per entry of `daily`. The two grains tell the same joules twice: sum one of them.

Time: the format writes naive stamps that are UTC, and its end is the last microsecond of the period.
`daily` holds dates of the viewer's time zone, which the export does not name; its midnight is the start
of the period ("2026-07-03T04:00:00" is midnight in New York), so day d spans start + (d - first day)
x 24 h. Where the period is no whole number of days the clocks changed inside it, and days cannot be
placed: they are refused unless the file declares `{"joulebook": {"timezone": "America/New_York"}}`.
`joulebook` may also name the `account`; otherwise it is "default".

Energy is the provider's share of a measured server (`allocated`), energy_kwh x 3.6e6. The intensity is
carbon_g / energy_kwh; the export's own `carbon_intensity` is a mean over requests and is not used.
Grams are `modeled`: the export does not tell how many of its requests had a live intensity and how many a
fallback, and the weakest input names a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from ingest.base import Parsed, Payload, Reject
from ingest.fields import J_PER_KWH, LARGEST_INTENSITY, Row, as_float
from ingest.read import field_of, read_json, refuse, shape_of
from warehouse.clock import parse_utc, to_utc
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

PROVIDER = "neuralwatt"
METHOD = "provider allocation, usage export"
LARGEST_KWH = 10**9
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class _Export:
    account: str
    start_at: datetime
    end_at: datetime
    zone: ZoneInfo | None

    def day(self, text: str) -> tuple[datetime, datetime]:
        """The UTC span of a local date. Raises ValueError where it cannot be placed."""
        local = date.fromisoformat(text)
        if self.zone is not None:
            ends = (datetime.combine(d, time(), self.zone) for d in (local, local + _DAY))
            start_at, end_at = (to_utc(e, what="daily.date") for e in ends)
        elif (self.end_at - self.start_at) % _DAY:
            raise ValueError(
                "cannot be placed: the period is no whole number of days, so the clocks changed inside it; export a "
                'period without the change, or declare {"joulebook": {"timezone": …}} in the file'
            )
        else:
            # Local midnight is start_at; its date is that of start_at, or the next one east of Greenwich.
            # 10:00Z is read as Honolulu (-10), 11:00Z as Auckland in summer (+13).
            first = (self.start_at + timedelta(hours=13)).date()
            start_at = self.start_at + (local - first)
            end_at = start_at + _DAY
        if start_at < self.start_at or end_at > self.end_at:
            raise ValueError("lies outside the period of the export")
        return start_at, end_at


def parse(payload: Payload) -> Parsed:
    """Usage rows of an export. Raises PayloadError for anything that is none, saying what it is where known."""
    document = read_json(payload, allow_nan=True)
    by_model = _models(payload, document)
    export = _export(payload, document)
    daily = field_of(payload, document, "daily", list) if document.get("daily") is not None else []
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    aliases = _aliases(document)
    totals = document.get("totals")
    alone = len(by_model) == 1
    for row_no, data in enumerate(by_model):
        model = data.get("model") if isinstance(data, dict) else None
        detail = aliases.get(model, {}) if isinstance(model, str) else {}
        total = totals if alone and isinstance(totals, dict) else {}
        _keep(rows, rejects, *_period(Row(row_no, _as_dict(data)), export, detail, total))
    notes: list[str] = []
    if alone and rows:
        for index, data in enumerate(daily):
            row = Row(len(by_model) + index, _as_dict(data))
            _keep(rows, rejects, *_day(row, export, rows[0]))
        _check_sum(rows, notes)
    elif daily:
        notes.append(f"{len(daily)} days are of {len(by_model)} models together and were left out; export one model")
    usage = frame("core.usage", _distinct(rows, rejects))
    return Parsed(
        primary="core.usage",
        tables={"core.usage": usage},
        rows_in=len(by_model) + (len(daily) if alone and rows else 0),
        rejects=tuple(rejects),
        data_at=usage["period_end_at"].filter(usage["grain"] == "day").max() or export.end_at,  # type: ignore[arg-type]
        notes=tuple(notes),
    )


def _models(payload: Payload, document: Any) -> list[Any]:
    if isinstance(document, dict) and "by_model" not in document:
        if "balance" in document or "subscription" in document:
            refuse(payload, "this is an answer of /v1/quota, which bills no model", fix="import a usage export")
        if "totals" in document and "daily" in document:
            refuse(
                payload,
                "this is an answer of /v1/usage/energy: it names no models and no costs",
                fix="import the usage export of the portal",
                field="by_model",
            )
    models: list[Any] = field_of(payload, document, "by_model", list)
    return models


def _export(payload: Payload, document: Mapping[str, Any]) -> _Export:
    period = field_of(payload, document, "period", dict)
    ends = []
    for name in ("start", "end"):
        try:
            ends.append(parse_utc(str(period.get(name)), what=f"period.{name}", assume_utc=True))
        except (ValueError, OverflowError) as error:
            refuse(payload, str(error), field=f"period.{name}", fix="export the period again")
    start_at, end_at = ends
    if end_at.microsecond == 999_999:  # the last microsecond of the period: half-open from the next one on
        end_at += timedelta(microseconds=1)
    if not start_at < end_at:
        refuse(payload, f"the period ends ({end_at}) before it begins ({start_at})", field="period")
    declared = document.get("joulebook")
    declared = declared if isinstance(declared, dict) else {}
    account, zone = declared.get("account", "default"), declared.get("timezone")
    if not _is_name(account):
        refuse(payload, f"the account is {shape_of(account)}, not a name", field="joulebook.account")
    try:
        tz = ZoneInfo(zone) if zone is not None else None
    except (OSError, ValueError, TypeError, KeyError):
        refuse(payload, f"{zone!r} is no known time zone", field="joulebook.timezone", fix="write one as Europe/Paris")
    return _Export(str(account), start_at, end_at, tz)


def _period(row: Row, export: _Export, detail: Mapping[str, Any], total: Mapping[str, Any]) -> tuple[Row, Any]:
    """The row of one model; `detail` is its alias entry, `total` the export's totals where it is alone."""
    data = row.data
    model = row.text("model", data.get("model"))
    if model is None:
        row.refuse("model", data.get("model"), "is missing, so the offer cannot be named", whole_row=True)
        return row, None
    row.key = model
    tiers = [b.get("tier") for b in detail.get("breakdown") or () if isinstance(b, dict)]
    served = data.get("served_models")
    found = _figures(row, data)
    if found is None:
        return row, None
    return row, {
        **found,
        "account": export.account,
        "usage_key": f"period:{_stamp(export.start_at)}:{_stamp(export.end_at)}:{model}",
        "grain": "period",
        "period_start_at": export.start_at,
        "period_end_at": export.end_at,
        "requested_offer": model,
        "served_offer": served[0] if isinstance(served, list) and len(served) == 1 and _is_name(served[0]) else None,
        "service_tier": tiers[0] if len(tiers) == 1 and tiers[0] in ("standard", "flex") else None,
        "prompt_tokens": row.whole("prompt_tokens", detail.get("prompt_tokens")),
        "completion_tokens": row.whole("completion_tokens", detail.get("completion_tokens")),
        "requests_with_energy": row.whole("totals.requests_with_energy", total.get("requests_with_energy")),
    }


def _day(row: Row, export: _Export, whole: Mapping[str, Any]) -> tuple[Row, Any]:
    """The row of one date; offer and tier are those of the only model."""
    text = row.data.get("date")
    row.key = f"{whole['requested_offer']} {text}"
    try:
        start_at, end_at = export.day(text if isinstance(text, str) else "")
    except (ValueError, OverflowError) as error:
        row.refuse("date", text, str(error), whole_row=True)
        return row, None
    found = _figures(row, row.data)
    if found is None:
        return row, None
    return row, {
        **found,
        "account": export.account,
        "usage_key": f"day:{_stamp(start_at)}:{whole['requested_offer']}",
        "grain": "day",
        "period_start_at": start_at,
        "period_end_at": end_at,
        "requested_offer": whole["requested_offer"],
        "served_offer": whole["served_offer"],
        "service_tier": whole["service_tier"],
    }


def _figures(row: Row, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `by_model` and `daily` tell alike; None, with a reject, where not even the requests are told."""
    requests = row.whole("requests", data.get("requests"))
    if requests is None:
        if not row.rejects:
            row.refuse("requests", None, "is missing")
        row.refuse(None, None, "a usage row without its number of requests is none", whole_row=True)
        return None
    consumed = _consumed_kwh(row, data)
    charged = row.number("charged_energy_kwh", data.get("charged_energy_kwh"), high=LARGEST_KWH)
    carbon = row.number("carbon_g", data.get("carbon_g"))
    if carbon and consumed and carbon / consumed > LARGEST_INTENSITY:
        row.refuse("carbon_g", carbon, f"makes {carbon / consumed:.6g} g/kWh, which is not plausible")
        carbon = None
    return {
        "provider": PROVIDER,
        "workload": "organic",
        "cached_tokens": row.whole("cached_tokens", data.get("cached_tokens")),
        "requests": requests,
        "attempts": requests,
        "billed_cost_usd": row.usd("cost", data.get("cost")),
        "list_cost_usd": row.usd("token_cost", data.get("token_cost")),
        "energy_j": as_float(None if consumed is None else consumed * J_PER_KWH),
        "energy_charged_j": as_float(None if charged is None else charged * J_PER_KWH),
        "carbon_g": as_float(carbon),
        "carbon_evidence_class": None if carbon is None else EvidenceClass.MODELED.value,
        "intensity_g_per_kwh": float(carbon / consumed) if carbon is not None and consumed else None,
        "evidence_class": EvidenceClass.ALLOCATED.value,
        "method": METHOD,
    }


def _consumed_kwh(row: Row, data: Mapping[str, Any]) -> Decimal | None:
    """energy_kwh, or energy_joules where only that is told; None where one is refused or both disagree."""
    before = len(row.rejects)
    kwh = row.number("energy_kwh", data.get("energy_kwh"), high=LARGEST_KWH)
    joules = row.number("energy_joules", data.get("energy_joules"), high=LARGEST_KWH * J_PER_KWH)
    if len(row.rejects) > before:
        return None
    if kwh is None or joules is None:
        return kwh if joules is None else joules / J_PER_KWH
    if abs(joules - kwh * J_PER_KWH) > kwh * J_PER_KWH / 1000 + Decimal("0.01"):
        row.refuse("energy_kwh", kwh, f"is {kwh * J_PER_KWH:.6g} J, but energy_joules is {joules:.6g}")
        return None
    return kwh


def _check_sum(rows: list[dict[str, Any]], notes: list[str]) -> None:
    """The days of an export add up to its period; where they do not, the run says so."""
    whole, days = rows[0], rows[1:]
    for name in ("billed_cost_usd", "energy_j", "requests"):
        told = [d[name] for d in days if d[name] is not None]
        if days and whole[name] is not None and abs(sum(told) - whole[name]) * 1000 > abs(whole[name]):
            notes.append(f"{name} of the days adds up to {sum(told)}, the period says {whole[name]}")


def _aliases(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """`by_model_grouped[].aliases[]` by alias: token counts and tiers that `by_model` leaves out."""
    found: dict[str, Mapping[str, Any]] = {}
    groups = document.get("by_model_grouped")
    for group in groups if isinstance(groups, list) else ():
        aliases = group.get("aliases") if isinstance(group, dict) else None
        for alias in aliases if isinstance(aliases, list) else ():
            if isinstance(alias, dict) and _is_name(alias.get("alias")):
                breakdown = alias.get("breakdown")
                found[alias["alias"]] = {**alias, "breakdown": breakdown if isinstance(breakdown, list) else []}
    return found


def _keep(rows: list[dict[str, Any]], rejects: list[Reject], row: Row, found: dict[str, Any] | None) -> None:
    rejects += row.rejects
    if found is not None:
        rows.append(found)


def _distinct(rows: list[dict[str, Any]], rejects: list[Reject]) -> list[dict[str, Any]]:
    seen: dict[str, dict[str, Any]] = {}
    for row in rows:
        key = row["usage_key"]
        if key in seen:
            how = "the same values" if seen[key] == row else "other values"
            rejects.append(Reject(f"the row came twice, with {how}; the first one was kept", natural_key=key))
        else:
            seen[key] = row
    return list(seen.values())


def _as_dict(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {"row": data}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds") + "Z"
