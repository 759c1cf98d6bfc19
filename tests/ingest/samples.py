"""Small payloads of each kind, made for these tests, in the wire format of their sources."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ingest.base import Parsed, Payload
from tests.ingest import (
    billing_samples,
    grid_samples,
    log_samples,
    outcome_samples,
    power_samples,
    serving_samples,
    trace_samples,
)

NOW = datetime(2026, 5, 15, 12)


def payload(body: Any, kind: str = "test", *, now: datetime = NOW, options: dict[str, str] | None = None) -> Payload:
    """`body` (bytes, text, or anything that JSON can write) as a payload, with the declarations of its kind."""
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
    told = body if isinstance(body, bytes) else body.encode()
    declared = OPTIONS.get(kind, {}) if options is None else options
    return Payload(f"src-{kind}", kind, "https://example.test/x", now, told, options=declared)


def rows(parsed: Parsed, table: str | None = None) -> list[dict[str, Any]]:
    return parsed.tables[table or parsed.primary].to_dicts()


def counts_add_up(parsed: Parsed) -> bool:
    """The invariant of `Parsed`."""
    return parsed.rows_in == parsed.tables[parsed.primary].height + parsed.rows_quarantined


def openrouter_model(offer_id: str = "acme/one", **changes: Any) -> dict[str, Any]:
    return {
        "id": offer_id,
        "canonical_slug": offer_id,
        "name": "Acme: One",
        "description": "A model.",
        "context_length": 1_000_000,
        "architecture": {"modality": "text->text"},
        "pricing": {"prompt": "0.000002", "completion": "0.00001"},
        "top_provider": {"context_length": 262_144, "max_completion_tokens": 65_536, "is_moderated": False},
        "default_parameters": {"temperature": 0.7},
        "expiration_date": None,
        **changes,
    }


def openrouter_doc(*models: Any) -> dict[str, Any]:
    return {"data": list(models or (openrouter_model(),))}


def neuralwatt_model(offer_id: str = "glm-5.2-short-flex", **metadata: Any) -> dict[str, Any]:
    return {
        "id": offer_id,
        "object": "model",
        "owned_by": "neuralwatt",
        "max_model_len": 199_984,
        "metadata": {
            "display_name": "GLM 5.2",
            "description": None,
            "pricing": neuralwatt_pricing(),
            "limits": {"max_context_length": 199_984, "max_output_tokens": 32_000},
            "deprecated": False,
            **metadata,
        },
    }


def neuralwatt_pricing(**changes: Any) -> dict[str, Any]:
    return {
        "input_per_million": 1.45,
        "output_per_million": 4.5,
        "cached_input_per_million": 0.145,
        "cached_output_per_million": None,
        "currency": "USD",
        "pricing_tbd": False,
        **changes,
    }


def completion(request_id: str = "chatcmpl-1", *, kwh: float | None = 5.2904e-05, **changes: Any) -> dict[str, Any]:
    """A non-stream response of 190.4544 J billed at 8 USD/kWh; without energy and cost where kwh is None."""
    document: dict[str, Any] = {
        "id": request_id,
        "created": 1_786_449_600,  # 2026-08-11T12:00:00Z
        "model": "glm-5.2-fast",
        "service_tier": "standard",
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 18, "completion_tokens": 900, "prompt_tokens_details": {"cached_tokens": 2}},
    }
    if kwh is not None:
        document["energy"] = energy(kwh)
        document["cost"] = {"request_cost_usd": 0.000423232}
    return {**document, **changes}


def energy(kwh: float = 5.2904e-05, **changes: Any) -> dict[str, Any]:
    return {
        "energy_joules": round(kwh * 3.6e6, 2),
        "energy_kwh": kwh,
        "duration_seconds": 0.613,
        "attribution_method": "prorated_multi_gpu_8",
        "attribution_ratio": 0.1,
        "ratio_was_capped": True,
        "uncapped_energy_joules": 1904.55,
        "carbon_g_co2eq": 0.0019574,
        "grid_carbon_intensity_gco2perkwhr": 37.0,
        "grid_id": "FI",
        "carbon_source": "agent_cache",
        **changes,
    }


def stream(
    request_id: str = "chatcmpl-2", *, finish: str | None = "stop", done: bool = True, comments: bool = True
) -> str:
    """An SSE stream; `done` False breaks it off before its figures."""
    chunk = {"id": request_id, "created": 1_786_466_250, "model": "glm-5.2-flex", "service_tier": "flex"}
    lines = [
        "data: " + json.dumps({**chunk, "choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}]}),
        "",
    ]
    if done:
        lines += [
            "data: " + json.dumps({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
            "",
            "data: " + json.dumps({**chunk, "choices": [], "usage": {"prompt_tokens": 17, "completion_tokens": 64}}),
            "",
        ]
        if comments:
            lines += [": energy " + json.dumps(energy(5.679e-06)), "", ': cost {"request_cost_usd": 2.8e-05}', ""]
        lines += ["data: [DONE]", ""]
    return "\n".join(lines)


def usage_figures(kwh: float, usd_per_kwh: float, *, requests: int = 10, multiplier: float = 1.0) -> dict[str, Any]:
    return {
        "requests": requests,
        "cached_tokens": 5,
        "cost": round(kwh * multiplier * usd_per_kwh, 12),
        "token_cost": 1.25,
        "energy_kwh": kwh,
        "energy_joules": kwh * 3.6e6,
        "carbon_g": kwh * 41.0,
    }


def usage_export(
    model: str = "m", *, days: dict[str, tuple[float, float]] | None = None, multiplier: float = 1.0, **changes: Any
) -> dict[str, Any]:
    """An export of one model, of days {date: (kWh, USD/kWh)}, seen from New York."""
    days = days or {"2026-07-13": (0.1, 5.0), "2026-07-14": (0.2, 5.0), "2026-07-16": (0.05, 10.0)}
    figures = [usage_figures(kwh, rate, multiplier=multiplier) for kwh, rate in days.values()]
    whole = {name: sum(f[name] for f in figures) for name in figures[0]}
    whole["charged_energy_kwh"] = whole["energy_kwh"] * multiplier
    tier = "flex" if multiplier != 1.0 else "standard"
    return {
        "period": {"start": "2026-07-03T04:00:00", "end": "2026-08-03T03:59:59.999999"},
        "totals": {"requests_with_energy": whole["requests"], "carbon_intensity": 999.0},
        "by_model": [{"model": model, "served_models": [model], **whole}],
        "by_model_grouped": [
            {
                "aliases": [
                    {"alias": model, "prompt_tokens": 900, "completion_tokens": 30, "breakdown": [{"tier": tier}]}
                ]
            }
        ],
        "daily": [{"date": date, **f} for date, f in zip(days, figures, strict=True)],
        **changes,
    }


def half_hour(start: str = "2026-11-29T11:30Z", end: str = "2026-11-29T12:00Z", **intensity: Any) -> dict[str, Any]:
    return {"from": start, "to": end, "intensity": intensity or {"forecast": 181, "actual": 176, "index": "moderate"}}


FACTORS_CSV = """zone,year,basis,source,intensity_g_per_kwh
FI,2025,lifecycle,Ember,57.2
GB,2025,lifecycle,Ember,218.2
US-MIDA-PJM,2024,direct,"EPA, eGRID",384.4
"""

# kind -> one sound payload body
SOUND: dict[str, str] = {
    "openrouter": json.dumps(openrouter_doc(openrouter_model(), openrouter_model("acme/two:free"))),
    "neuralwatt-models": json.dumps({"object": "list", "data": [neuralwatt_model(), neuralwatt_model("m-fast")]}),
    "neuralwatt-usage": json.dumps(usage_export()),
    "neuralwatt-completions": stream("a") + stream("b", done=False) + stream("c"),
    "uk-carbon": json.dumps({"data": [half_hour(), half_hour("2026-11-29T12:00Z", "2026-11-29T12:30Z", forecast=178)]}),
    "grid-factors": FACTORS_CSV,
    **serving_samples.SOUND,
    **grid_samples.SOUND,
    **billing_samples.SOUND,
    **log_samples.SOUND,
    **power_samples.SOUND,
    **outcome_samples.SOUND,
    **trace_samples.SOUND,
}

# kind -> what a person must declare for it
OPTIONS: dict[str, dict[str, str]] = {**grid_samples.OPTIONS, **power_samples.OPTIONS, **outcome_samples.OPTIONS}
