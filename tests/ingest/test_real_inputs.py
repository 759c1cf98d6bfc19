"""The parsers on real payloads, with exact counts. Skipped where the shared inputs are absent."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from ingest.base import Parsed
from ingest.billing.tariffs import reconstruct
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.read import read_file
from tests.ingest.samples import counts_add_up, rows
from tests.support import shared

NOW = datetime(2026, 5, 15, 12)


def parse(name: str, path: str | Path) -> Parsed:
    found = kind(name)
    file = shared(f"data/{path}") if isinstance(path, str) else path
    parsed = found.parse(read_file(file, source_id="real", kind=name, max_bytes=found.max_bytes, now=NOW))
    assert counts_add_up(parsed)
    return parsed


class TestOpenRouter:
    """GET /api/v1/models of 2026-05-15; counts of formats.md section 3.1."""

    FULL = "openrouter_models/models_full_2026-05-15.json.gz"

    def test_every_model_loads(self) -> None:
        parsed = parse("openrouter", self.FULL)
        assert (parsed.rows_in, parsed.rejects, parsed.complete) == (364, (), True)
        offer = parsed.tables["core.offer"]
        assert offer.height == 364
        assert offer["alias_of"].count() == 172
        assert offer["expires_at"].count() == 11
        assert offer["endpoint_context_tokens"].null_count() == 4
        assert offer["max_output_tokens"].null_count() == 72

    def test_every_price_has_its_kind(self) -> None:
        price = parse("openrouter", self.FULL).tables["core.price"]
        assert price.height == 1065
        found = Counter(price.select("component", "price_kind").iter_rows())
        assert found == {
            ("prompt", "fixed"): 332, ("prompt", "free"): 29, ("prompt", "dynamic"): 3,
            ("completion", "fixed"): 332, ("completion", "free"): 29, ("completion", "dynamic"): 3,
            ("cache_read", "fixed"): 159, ("cache_write", "fixed"): 43, ("web_search", "fixed"): 79,
            ("audio", "fixed"): 21, ("internal_reasoning", "fixed"): 18, ("image", "fixed"): 17,
        }  # fmt: skip
        assert price.filter(pl.col("price_usd_per_unit") < 0).is_empty()
        assert Decimal("0.000000083333") in set(price["price_usd_per_unit"])

    def test_t03_the_routers_with_a_dynamic_price(self) -> None:
        price = parse("openrouter", self.FULL).tables["core.price"].filter(pl.col("price_kind") == "dynamic")
        assert set(price["offer_id"]) == {"openrouter/auto", "openrouter/pareto-code", "openrouter/bodybuilder"}

    def test_t19_what_expires_on_the_day_of_the_snapshot(self) -> None:
        offer = parse("openrouter", self.FULL).tables["core.offer"]
        assert offer.filter(pl.col("expires_at") == datetime(2026, 5, 15)).height == 8

    @pytest.mark.parametrize(
        ("path", "n"), [("openrouter_models/models_sample.json", 28), ("fixtures/openrouter_models.json", 1)]
    )
    def test_the_smaller_files(self, path: str, n: int) -> None:
        parsed = parse("openrouter", path)
        assert (parsed.rows_in, parsed.tables["core.offer"].height, parsed.rejects) == (n, n, ())


class TestNeuralwattModels:
    def test_the_rebuilt_catalog(self) -> None:
        parsed = parse("neuralwatt-models", "neuralwatt_models/v1_models_REBUILT.json")
        offer = parsed.tables["core.offer"]
        assert (offer.height, parsed.tables["core.price"].height, parsed.rejects) == (22, 66, ())
        assert offer["base_model"].n_unique() == 10
        assert Counter(offer["latency_class"]) == {"interactive": 16, "flex": 6}
        assert Counter(offer["reasoning_mode"]) == {"standard": 16, "fast": 6}
        assert Counter(offer["context_variant"]) == {"full": 18, "short": 4}
        assert set(offer.filter(pl.col("access_level") == "canary")["offer_id"]) == {
            "deepseek-v4-flash-0731-canary", "deepseek-ai/DeepSeek-V4-Flash",
        }  # fmt: skip

    def test_the_gated_row(self) -> None:
        (offer,) = rows(parse("neuralwatt-models", "fixtures/neuralwatt_models.json"))
        assert (offer["access_level"], offer["base_model"], offer["latency_class"]) == ("gated", "glm-5.2", "flex")


# model -> (days, USD per charged kWh over the period, g/kWh weighted by energy); energy.md section 7
EXPORTS = {
    "deepseek-v4-flash-0731-canary": (1, 10.0, 41.40),
    "glm-5.2": (1, 5.0, 39.00),
    "glm-5.2-short-fast": (1, 5.0, 213.00),
    "glm-5.2-short-flex": (5, 5.0, 92.94),
    "kimi-k2.7-code": (4, 5.7085, 55.16),
    "kimi-k2.7-code-flex": (1, 5.0, 42.46),
    "qwen3.5-397b": (10, 8.2822, 40.21),
    "qwen3.6-35b": (1, 5.0, 41.00),
}


class TestNeuralwattUsage:
    def export(self, model: str) -> Parsed:
        return parse("neuralwatt-usage", f"neuralwatt/sample-exports/neuralwatt-export-{model}-30d.json")

    @pytest.mark.parametrize("model", EXPORTS)
    def test_an_export_loads_whole(self, model: str) -> None:
        days, usd_per_kwh, intensity = EXPORTS[model]
        parsed = self.export(model)
        assert (parsed.rows_in, parsed.rejects, parsed.notes) == (1 + days, (), ())
        whole = rows(parsed)[0]
        assert float(whole["billed_cost_usd"]) / (whole["energy_charged_j"] / 3.6e6) == pytest.approx(
            usd_per_kwh, abs=5e-5
        )
        assert whole["intensity_g_per_kwh"] == pytest.approx(intensity, abs=5e-3)
        assert whole["requested_offer"] == model

    @pytest.mark.parametrize("model", EXPORTS)
    def test_t27_the_days_add_up_to_the_period(self, model: str) -> None:
        whole, *days = rows(self.export(model))
        assert sum(d["billed_cost_usd"] for d in days) == whole["billed_cost_usd"]
        assert sum(d["energy_j"] for d in days) == pytest.approx(whole["energy_j"], rel=1e-9)
        assert sum(d["requests"] for d in days) == whole["requests"]

    def test_t15_the_flex_multiplier(self) -> None:
        whole = rows(self.export("glm-5.2-short-flex"))[0]
        assert whole["energy_j"] == pytest.approx(0.870879403 * 3.6e6, rel=1e-12)
        assert whole["energy_charged_j"] == pytest.approx(0.56607161195 * 3.6e6, rel=1e-12)
        (rule,) = reconstruct(self.export("glm-5.2-short-flex").tables["core.usage"]).frame.to_dicts()
        assert (rule["flex_multiplier"], rule["usd_per_kwh"], rule["n"]) == (0.65, Decimal(5), 5)

    @pytest.mark.parametrize(
        ("model", "changes"),
        [("qwen3.5-397b", [(9, 5), (17, 10)]), ("kimi-k2.7-code", [(13, 5), (16, 10)]), ("glm-5.2", [(14, 5)])],
    )
    def test_the_tariff_behind_each_bill(self, model: str, changes: list[tuple[int, int]]) -> None:
        found = reconstruct(self.export(model).tables["core.usage"]).frame.to_dicts()
        assert [(r["valid_from"].day, r["usd_per_kwh"]) for r in found] == changes
        assert all(r["residual_relative"] < 1e-9 for r in found)

    def test_all_exports_together_are_one_tariff_of_the_account(self) -> None:
        usage = pl.concat([self.export(model).tables["core.usage"] for model in EXPORTS])
        told = reconstruct(usage)
        assert [(r["valid_from"], r["valid_to"], r["usd_per_kwh"], r["n"]) for r in told.frame.to_dicts()] == [
            (datetime(2026, 7, 9, 4), datetime(2026, 7, 15, 4), Decimal(5), 17),
            (datetime(2026, 7, 16, 4), None, Decimal(10), 7),
        ]
        assert told.notes == ()

    @pytest.mark.parametrize("name", ["neuralwatt_quota", "neuralwatt_usage_energy"])
    def test_other_answers_are_refused_by_name(self, name: str) -> None:
        with pytest.raises(PayloadError, match="this is an answer of /v1/"):
            parse("neuralwatt-usage", f"fixtures/{name}.json")


class TestNeuralwattCompletions:
    def test_the_response(self) -> None:
        (row,) = rows(parse("neuralwatt-completions", "fixtures/neuralwatt_chat_completion.json"))
        assert row["energy_j"] == pytest.approx(190.4544)
        assert row["energy_uncapped_j"] / row["energy_j"] == pytest.approx(10.0, rel=1e-4)
        assert float(row["billed_cost_usd"]) / (row["energy_j"] / 3.6e6) == pytest.approx(8.0)

    def test_the_stream(self) -> None:
        (row,) = rows(parse("neuralwatt-completions", "fixtures/neuralwatt_stream.sse"))
        assert row["energy_j"] == pytest.approx(20.4444)
        assert (row["service_tier"], row["successes"]) == ("flex", None)  # its finish_reason was left out

    def test_blocks_without_a_request_are_quarantined(self) -> None:
        parsed = parse("neuralwatt-completions", "neuralwatt/completion_energy_cost_samples.json")
        assert (parsed.rows_in, parsed.rows_quarantined) == (4, 4)

    def test_every_energy_block_of_the_samples_is_plausible(self, tmp_path: Path) -> None:
        samples = json.loads(shared("data/neuralwatt/completion_energy_cost_samples.json").read_text())
        blocks = [s["payload"].get("energy", s["payload"]) for s in samples]
        told = [
            {"id": f"r{i}", "model": "m", "created": 1_786_449_600, "choices": [], "energy": block}
            for i, block in enumerate(blocks)
            if "energy_kwh" in block
        ]
        (tmp_path / "c.json").write_text(json.dumps(told))
        parsed = parse("neuralwatt-completions", tmp_path / "c.json")
        assert parsed.rejects == ()
        assert [r["energy_j"] for r in rows(parsed)] == pytest.approx([20.4444, 44.1036, 19.8288])


class TestUkCarbon:
    @pytest.mark.parametrize(
        ("name", "rows_in", "rejected"),
        [("uk_intensity", 2, 0), ("uk_intensity_future_actual_null", 3, 0), ("uk_duplicate_period", 6, 2)],
    )
    def test_the_fixtures(self, name: str, rows_in: int, rejected: int) -> None:
        parsed = parse("uk-carbon", f"fixtures/{name}.json")
        assert (parsed.rows_in, parsed.rows_quarantined) == (rows_in, rejected)

    def test_the_error(self) -> None:
        with pytest.raises(PayloadError, match="answered with an error"):
            parse("uk-carbon", "fixtures/uk_error_400.json")
