"""What can be queried: tables with the meaning of each column as the migrations tell it, and the mart's views."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.engine import Warehouse
from warehouse.tables import tables

# Column endings that carry a unit, longest first.
UNITS = (
    ("_usd_per_unit", "USD per unit"),
    ("usd_per_kwh", "USD/kWh"),
    ("_g_per_kwh", "g/kWh"),
    ("_usd", "USD"),
    ("_tokens", "tokens"),
    ("_bytes", "bytes"),
    ("_counter_j", "J, cumulative"),
    ("_j_per_success", "J per success"),
    ("_usd_per_success", "USD per success"),
    ("_g_per_success", "g per success"),
    ("_j", "J"),
    ("_w", "W"),
    ("_g", "g"),
    ("_s", "s"),
    ("_at", "UTC"),
)
SCHEMAS = ("mart", "core", "ledger", "ops", "landing")


@dataclass(frozen=True)
class ColumnInfo:
    name: str
    type: str
    unit: str
    about: str


def unit_of(name: str) -> str:
    if name in ("valid_from", "valid_to", "known_from"):
        return "UTC"
    return next((unit for ending, unit in UNITS if name.endswith(ending) or name == ending.lstrip("_")), "")


def schema(warehouse: Warehouse, denied: tuple[str, ...] = ()) -> dict[str, list[ColumnInfo]]:
    """Every table and view with its columns, marts first; `denied` ones are left out."""
    about = {(name, c.name): c.about for name, columns in tables().items() for c in columns}
    frame = warehouse.query("""
        SELECT table_schema || '.' || table_name AS name, column_name, data_type
        FROM information_schema.columns
        WHERE table_schema IN ('mart', 'core', 'ledger', 'ops', 'landing')
        ORDER BY table_schema, table_name, ordinal_position
    """)
    found: dict[str, list[ColumnInfo]] = {}
    for name, column, kind in frame.iter_rows():
        if name in denied:
            continue
        # A view's column has the meaning of the table column of the same name.
        meaning = about.get((name, column)) or next((a for (_, c), a in about.items() if c == column and a), "")
        found.setdefault(name, []).append(ColumnInfo(column, kind, unit_of(column), meaning))
    order = {schema_name: i for i, schema_name in enumerate(SCHEMAS)}
    return dict(sorted(found.items(), key=lambda item: (order[item[0].split(".")[0]], item[0])))
