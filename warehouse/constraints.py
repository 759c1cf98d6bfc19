"""Keys, declared once: unique indexes on the native file, data-quality queries everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warehouse.engine import Transaction, Warehouse

# `index` False: checked by query only, because an index over so many rows costs more than it protects.
KEYS: dict[str, tuple[tuple[str, ...], bool]] = {
    "landing.payload": (("payload_id",), True),
    "ops.source": (("source_id",), True),
    "ops.run": (("run_id",), True),
    "ops.quarantine": (("quarantine_id",), True),
    "ops.api_token": (("token_id",), True),
    "ops.token_target": (("token_id", "target"), True),
    "core.offer": (("provider", "offer_id", "valid_from", "known_from"), True),
    "core.price": (("provider", "offer_id", "component", "min_prompt_tokens", "valid_from", "known_from"), False),
    "core.tariff": (("provider", "account", "basis", "source_id", "valid_from", "known_from"), True),
    "core.usage": (("provider", "account", "usage_key"), False),
    "core.energy_observation": (("observation_id",), False),
    "core.device": (("device_uuid", "source_id"), True),
    "core.power_sample": (("device_uuid", "sampled_at", "source_id"), False),
    "core.grid_intensity": (("zone", "source_id", "signal", "basis", "start_at", "is_forecast", "known_from"), False),
    "core.grid_generation": (("zone", "source_id", "fuel", "flow", "start_at", "known_from"), False),
    "core.zone_map": (("system", "region", "zone_system", "source_id", "known_from"), True),
    "core.score": (("model", "category", "component", "source_id", "valid_from", "known_from"), True),
    "core.published_point": (("dataset", "policy"), True),
    "core.published_slice": (("dataset", "policy", "benchmark"), True),
    "core.policy_version": (("policy_id",), True),
    "core.backend": (("backend_id", "source_id", "valid_from", "known_from"), True),
    "core.serving_scrape": (("backend_id", "engine", "model", "scraped_at", "source_id"), False),
    "core.serving_window": (("backend_id", "engine", "model", "window_end_at", "source_id"), False),
    "ops.alert": (("alert_id",), True),
    "core.charge": (("delivery_id", "line_key"), False),
    "core.charge_delivery": (
        (
            "provider",
            "account",
            "billing_period_start_at",
            "billing_period_end_at",
            "invoice_key",
            "delivered_at",
            "source_id",
            "known_from",
        ),
        True,
    ),
    "core.fx_rate": (("from_currency", "to_currency", "rate_source", "rate_on_at", "source_id", "known_from"), True),
    "core.account_balance": (("provider", "account", "snapshot_at"), True),
    "core.account_usage": (("provider", "account", "usage_key"), True),
    "core.query": (("dataset", "query_id"), False),
    "core.arm": (("dataset", "arm"), True),
    "core.outcome": (("dataset", "query_id", "arm"), False),
    "core.replay_run": (("replay_run_id",), True),
    "core.replay_metric": (("replay_run_id", "policy", "benchmark", "metric"), False),
    "core.replay_choice": (("replay_run_id", "policy", "query_id"), False),
    "core.trained_policy": (("trained_policy_id",), True),
    "core.request_trace": (("trace", "request_no"), False),
    "core.length_cdf": (("cdf", "tokens"), True),
    "core.calibration": (("calibration_id",), True),
    "core.fleet_run": (("fleet_run_id",), True),
    "core.fleet_metric": (("fleet_run_id", "case_name", "pool", "metric"), False),
    "core.shadow_decision": (("policy_id", "request_id"), False),
    "core.shadow_pair": (("pair_id", "source_id"), False),
    "core.gate_report": (("gate_id",), True),
    "core.request_label": (("request_id", "source_id"), False),
    "ledger.event": (("seq",), True),
}


def create_keys(tx: Transaction) -> None:
    """Unique indexes for the tables that exist by now and have none; each migration calls this."""
    tables = set(tx.query("SELECT schema_name || '.' || table_name AS name FROM duckdb_tables()")["name"])
    keys = set(tx.query("SELECT index_name FROM duckdb_indexes()")["index_name"])
    for table, (columns, index) in KEYS.items():
        name = table.replace(".", "_") + "_key"
        if index and table in tables and name not in keys:
            tx.execute(f"CREATE UNIQUE INDEX {name} ON {table} ({', '.join(columns)})")


def broken_keys(warehouse: Warehouse) -> list[str]:
    """Tables whose declared key is not unique, as sentences; empty when all hold."""
    found = []
    for table, (columns, _) in KEYS.items():
        names = ", ".join(columns)
        n = warehouse.scalar(f"SELECT count(*) FROM (SELECT {names} FROM {table} GROUP BY ALL HAVING count(*) > 1)")
        if n:
            found.append(f"{table}: {n} keys ({names}) occur more than once")
    return found
