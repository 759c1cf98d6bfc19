"""The scenario that an operation is asked for: a whole one, or short words for the simple cases laid over it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.errors import BadRequest

if TYPE_CHECKING:
    from app.operations.fleet import ScenarioParams

_POOL = re.compile(
    r"(?:(?P<name>[^=:]+)=)?(?P<profile>calibration:[0-9a-f]{8,64}|[^=:]+):(?P<instances>-?\d+)(?::(?P<zone>[^:=]+))?"
)
_WORKLOAD = ("trace", "cdf", "requests_per_s", "requests", "duration_s", "scale", "prompt_tokens", "output_tokens",
             "output_share", "block_s", "from_s")  # fmt: skip
_SOURCES = ("trace", "cdf", "lengths", "prompt_tokens", "output_tokens")
_SLO = ("ttft_s", "tpot_s", "e2e_s")
_TOP = ("title", "slo_target", "horizon_s", "settle_s", "max_attempts")
_EVERY_POOL = ("context_tokens", "queue_limit", "max_wait_s", "slots")
DEFAULT_SLO = {"ttft_s": 0.5}


def scenario_of(params: ScenarioParams) -> dict[str, Any]:
    """The scenario as a document. Raises BadRequest for pools that cannot be read, or where there is none."""
    told: dict[str, Any] = dict(params.scenario)
    given = {k: v for k, v in params.model_dump(mode="json").items() if v is not None}
    if given["pool"]:
        told["pools"] = [_pool(text) for text in given["pool"]]
    if not told.get("pools"):
        raise BadRequest("The scenario has no pool.", fix="give --pool PROFILE:INSTANCES, or a scenario with pools")
    _workload(told, given)
    _lay(told, "slo", {k: given[k] for k in _SLO if k in given})
    told.setdefault("slo", DEFAULT_SLO)
    _lay(told, "balancer", {k: given[k] for k in ("policy", "fallback", "hysteresis", "dwell_s") if k in given})
    telemetry = {"interval_s": "telemetry_s", "ttl_s": "telemetry_ttl_s", "dropout": "telemetry_dropout"}
    _lay(told, "telemetry", {k: given[v] for k, v in telemetry.items() if v in given})
    told |= {k: given[k] for k in _TOP if k in given}
    if given["seeds"]:
        told["seeds"] = given["seeds"]
    if "at" in given:
        told["intensity"] = {"at": given["at"]} | {k: given[k] for k in ("signal", "basis") if k in given}
    every = {k: given[k] for k in _EVERY_POOL if k in given}
    if every and isinstance(told["pools"], list):
        told["pools"] = [{**pool, **every} if isinstance(pool, Mapping) else pool for pool in told["pools"]]
    return told


def _workload(told: dict[str, Any], given: Mapping[str, Any]) -> None:
    over = {k: given[k] for k in _WORKLOAD if k in given}
    if any(k in over for k in _SOURCES) and isinstance(told.get("workload"), Mapping):
        told["workload"] = {k: v for k, v in told["workload"].items() if k not in _SOURCES}
    _lay(told, "workload", over)
    if not told.get("workload"):
        raise BadRequest(
            "The scenario has no workload.",
            fix="give --trace NAME, --cdf NAME, or --prompt-tokens and --output-tokens, with --requests-per-s",
        )


def _lay(told: dict[str, Any], name: str, over: Mapping[str, Any]) -> None:
    if over:
        below = told.get(name) or {}
        told[name] = {**below, **over} if isinstance(below, Mapping) else over


def _pool(text: str) -> dict[str, Any]:
    """`PROFILE:INSTANCES`, `NAME=PROFILE:INSTANCES`, either with `:ZONE`; a calibration is `calibration:ID`."""
    found = _POOL.fullmatch(text.strip())
    if found is None:
        raise BadRequest(
            f"The pool {text!r} cannot be read.", fix="write PROFILE:INSTANCES or NAME=PROFILE:INSTANCES, then :ZONE"
        )
    pool: dict[str, Any] = {
        "name": found["name"] or found["profile"],
        "profile": found["profile"],
        "instances": int(found["instances"]),
    }
    return pool if found["zone"] is None else pool | {"zone": found["zone"]}
