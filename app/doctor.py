"""`joulebook doctor`: every part looked at once, each finding in words with its fix."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any

from app import runtime
from app.asgi import check_address
from app.client import Client
from app.delivery.checks import check_channels
from app.errors import AppError, ConfigError
from app.secret_store import secret, secrets_file
from app.settings import Settings, config_path, home_dir, load_settings, unknown_environment
from app.sources import http_source_of
from ingest.errors import DeviceError, IngestError
from ingest.power.nvml import Nvml

_LOW_DISK_BYTES = 1 << 30


def _check(check: str, state: str, what: str, fix: str = "") -> dict[str, str]:
    return {"check": check, "state": state, "what": what, "fix": fix}


def diagnose() -> dict[str, Any]:
    """{'ok': no check is bad, 'checks': [{check, state ok|warning|bad, what, fix}]}."""
    checks: list[dict[str, str]] = []
    try:
        settings = load_settings()
    except ConfigError as error:
        checks.append(_check("configuration", "bad", error.message, error.fix))
        return {"ok": False, "checks": checks}
    checks += _configuration(settings)
    checks += _secrets(settings)
    checks += _sources(settings)
    checks += check_channels(settings)
    checks.append(_disk(settings))
    checks += _warehouse(settings)
    checks.append(_driver(settings))
    return {"ok": all(c["state"] != "bad" for c in checks), "checks": checks}


def _configuration(settings: Settings) -> list[dict[str, str]]:
    path = config_path(home_dir())
    told = f"{path} is read" if path.exists() else f"no {path.name} in {settings.home}: defaults are in force"
    checks = [_check("configuration", "ok", told)]
    for name in unknown_environment():
        checks.append(_check("environment", "warning", f"{name} sets nothing", "correct or unset it"))
    weights = settings.weights
    if weights.cost + weights.eco + weights.prof == 0:
        checks.append(_check("weights", "bad", "all weights are 0: nothing can be ranked", "set [weights]"))
    try:
        check_address(settings)
        checks.append(_check("address", "ok", f"listens on {settings.server.address}:{settings.server.port}"))
    except ConfigError as error:
        checks.append(_check("address", "bad", error.message, error.fix))
    incumbent = settings.routing.incumbent_file
    if incumbent is not None and not (settings.home / incumbent).exists():
        checks.append(
            _check("routing", "bad", f"routing.incumbent_file {incumbent} is not there", "correct it or unset it")
        )
    return checks


def _secrets(settings: Settings) -> list[dict[str, str]]:
    path = settings.home / ".streamlit" / "secrets.toml"
    try:
        secrets_file(settings)
    except ConfigError as error:
        return [_check("secrets", "bad", error.message, error.fix)]
    if path.exists() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return [_check("secrets", "warning", f"{path} can be read by others", f"chmod 600 {path}")]
    return [_check("secrets", "ok", "no secret is readable by others")]


def _sources(settings: Settings) -> list[dict[str, str]]:
    if settings.offline:
        return [_check("sources", "ok", "offline = true: nothing is fetched")]
    checks = []
    for name, told in sorted(settings.sources.items()):
        try:
            source = http_source_of(name, told)
        except (AppError, IngestError) as error:
            checks.append(_check(f"source {name}", "bad", error.message, error.fix))
            continue
        if not told.enabled:
            checks.append(_check(f"source {name}", "ok", "switched off"))
        elif told.secret and secret(settings, told.secret) is None:
            variable = f"JOULEBOOK_SECRET_{told.secret.upper().replace('-', '_')}"
            checks.append(_check(f"source {name}", "bad", f"its secret {told.secret!r} is not set", f"set {variable}"))
        elif source.stale_after_s < source.cadence_s:
            checks.append(
                _check(
                    f"source {name}",
                    "warning",
                    f"it is stale after {source.stale_after_s:.0f} s but fetched every {source.cadence_s:.0f} s",
                    "raise stale_after or shorten cadence",
                )
            )
        else:
            checks.append(_check(f"source {name}", "ok", f"{source.kind.name} every {source.cadence_s:.0f} s"))
    return checks


def _disk(settings: Settings) -> dict[str, str]:
    folder = settings.warehouse_path.parent
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return _check("disk", "bad", f"{folder} cannot be written", "check its permissions")
    free = shutil.disk_usage(folder).free
    if free < _LOW_DISK_BYTES:
        return _check("disk", "warning", f"{free / 1e6:.0f} MB free at {folder}", "free some space")
    return _check("disk", "ok", f"{free / 1e9:.0f} GB free at {folder}")


def _warehouse(settings: Settings) -> list[dict[str, str]]:
    try:
        with Client(settings) as client:
            where = f"through the console at {client.console.base_url}" if client.console else "opened here"
            checks = [_check("warehouse", "ok", f"{settings.warehouse_path} is usable ({where})")]
            found = runtime.read(settings)
            if client.console is None and found is not None:
                checks.append(
                    _check("console", "warning", "a runtime file of a dead console lies about", "start or ignore it")
                )
            told = client.call("verify")
            if told["ok"]:
                checks.append(_check("ledger", "ok", f"{told['events']} events, the chain holds"))
            else:
                checks.append(
                    _check("ledger", "bad", "; ".join(told["problems"][:3]), "keep the file; see docs/operations.md")
                )
            checks += _tokens(client, settings)
            for source in client.call("ingest.list")["sources"]:
                if source["enabled"] and source["status"] in {"stale", "expired"}:
                    checks.append(
                        _check(
                            f"source {source['source_id']}",
                            "warning",
                            f"{source['status']}: {source['why']}",
                            source["last_fix"] or "see Sources",
                        )
                    )
            return checks
    except AppError as error:
        return [_check("warehouse", "bad", error.message, error.fix)]


def _tokens(client: Client, settings: Settings) -> list[dict[str, str]]:
    """Tokens with which one downstream could report for another."""
    targets = settings.guardrails.targets
    loose = [
        told
        for told in client.call("token.list")["tokens"]
        if told["revoked_at"] is None and "downstream" in told["scopes"] and not told["targets"]
    ]
    return [
        _check(
            f"token {told['name']}",
            "warning",
            f"it collects and reports for every target: {', '.join(targets)}",
            "make one for each with `joulebook token create NAME --scope downstream --target TARGET`, "
            f"then revoke {told['name']}",
        )
        for told in loose
        if len(targets) > 1
    ]


def _driver(settings: Settings) -> dict[str, str]:
    if not settings.power.enabled:
        return _check("power", "ok", "power.enabled = false: no GPU power is sampled")
    backend = Nvml()
    try:
        return _check("power", "ok", f"{len(backend.open())} NVIDIA devices")
    except DeviceError as error:
        return _check("power", "ok", f"{error.message}: no GPU power from this host")
    finally:
        backend.close()
