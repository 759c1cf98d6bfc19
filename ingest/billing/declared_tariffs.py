"""Tariffs as an operator declares them, CSV or a JSON list -> core.tariff, basis `declared`.

Columns: provider, account, valid_from (ISO 8601 with zone), usd_per_kwh, and optionally valid_to,
flex_multiplier (charged / consumed energy of flex traffic) and list_price_ceiling_multiple (a request is never
billed more than this many times its list token price). A declared rule is somebody's word, so its class is
`modeled`; `tariffs.check` holds it against the bill.
"""

from __future__ import annotations

import csv
import io
from decimal import Decimal, InvalidOperation
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Refused, Row, as_float, money, number
from ingest.read import parse_json, read_text, refuse, shape_of
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

NEEDED = ("provider", "account", "valid_from", "usd_per_kwh")
OPTIONAL = ("valid_to", "flex_multiplier", "list_price_ceiling_multiple")
DEAREST_USD_PER_KWH = 100_000
_LARGEST_MULTIPLE = 1000


def parse(payload: Payload) -> Parsed:
    """The declared rules. Raises PayloadError where a column is missing or not known."""
    text = read_text(payload)
    listed = _json(text, payload) if text.lstrip()[0] in "[{" else _csv(text, payload)
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    rejects: list[Reject] = []
    for row_no, data in enumerate(listed):
        row = Row(row_no, data if isinstance(data, dict) else {"row": data})
        found = _rule(row)
        if found is not None:
            key = (found["provider"], found["account"], found["valid_from"])
            if key in rows:
                row.refuse("valid_from", data["valid_from"], "is declared twice for this account", whole_row=True)
            else:
                rows[key] = found
        rejects += row.rejects
    past = [r["valid_from"] for r in rows.values() if r["valid_from"] <= payload.fetched_at]
    return Parsed(
        primary="core.tariff",
        tables={"core.tariff": frame("core.tariff", rows.values())},
        rows_in=len(listed),
        rejects=tuple(rejects),
        data_at=max(past, default=None),
    )


def _json(text: str, payload: Payload) -> list[Any]:
    document = parse_json(text, payload, allow_nan=True)
    if not isinstance(document, list):
        refuse(payload, f"the payload is {shape_of(document)}, not a list of tariffs", fix="write [{…}, …]")
    if not any(isinstance(row, dict) for row in document):
        refuse(payload, "the list holds no objects", fix="write [{…}, …]")
    return document


def _csv(text: str, payload: Payload) -> list[Any]:
    try:
        records = [r for r in csv.reader(io.StringIO(text, newline="")) if any(c.strip() for c in r)]
    except csv.Error as error:
        refuse(payload, f"the payload is no CSV: {error}", fix="save it as comma separated UTF-8")
    header = [name.strip().lower() for name in records[0]] if records else []
    known = (*NEEDED, *OPTIONAL)
    if missing := [n for n in NEEDED if n not in header]:
        refuse(payload, f"the file has no column {', '.join(missing)}", field=missing[0],
               fix=f"write the columns {', '.join(known)}")  # fmt: skip
    if unknown := [n for n in header if n not in known]:
        refuse(payload, f"the column {unknown[0]!r} is not known", field=unknown[0], fix=f"use {', '.join(known)}")
    if len(set(header)) < len(header):
        refuse(payload, "a column is there twice", fix=f"use each of {', '.join(known)} once")
    rows: list[Any] = []
    for cells in records[1:]:
        values = [c.strip() or None for c in cells]
        rows.append(dict(zip(header, values, strict=True)) if len(values) == len(header) else cells)
    if not rows:
        refuse(payload, "the file has a header and no rows", fix="declare at least one tariff")
    return rows


def _rule(row: Row) -> dict[str, Any] | None:
    data = row.data
    try:
        if unknown := sorted(set(data) - {*NEEDED, *OPTIONAL}):
            name = unknown[0]
            raise Refused(f"{name} is not a part of a tariff; use {', '.join((*NEEDED, *OPTIONAL))}")
        provider, account = (_name(data, n) for n in ("provider", "account"))
        rate = _amount(data, "usd_per_kwh", high=DEAREST_USD_PER_KWH)
        if rate is None:
            raise Refused("usd_per_kwh is missing")
        flex = _amount(data, "flex_multiplier", high=_LARGEST_MULTIPLE)
        ceiling = _amount(data, "list_price_ceiling_multiple", high=_LARGEST_MULTIPLE)
    except Refused as refused:
        name = str(refused).partition(" ")[0]
        row.refuse(None, data.get(name), str(refused), whole_row=True)
        return None
    row.key = f"{provider} {account} {data.get('valid_from')}"
    before = len(row.rejects)
    start, end = (row.time(n, data.get(n)) for n in ("valid_from", "valid_to"))
    if start is None or len(row.rejects) > before or (end is not None and end <= start):
        why = "the tariff has no usable span: valid_from must be a time with its zone, valid_to none or later"
        row.refuse(None, None, why, whole_row=True)
        return None
    return {
        "provider": provider,
        "account": account,
        "valid_from": start,
        "valid_to": end,
        "usd_per_kwh": money(rate),
        "flex_multiplier": as_float(flex),
        "list_price_ceiling_multiple": as_float(ceiling),
        "basis": "declared",
        "evidence_class": EvidenceClass.MODELED.value,
    }


def _name(data: Any, name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Refused(f"{name} is missing")
    return value.strip()


def _amount(data: Any, name: str, *, high: int) -> Decimal | None:
    value = data.get(name)
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation as error:
            raise Refused(f"{name} is {value!r}, not a number") from error
    try:
        found = number(value, low=0, high=high)
    except Refused as refused:
        raise Refused(f"{name} {refused}") from refused
    if found == 0:
        raise Refused(f"{name} is 0, which would bill nothing")
    return found
