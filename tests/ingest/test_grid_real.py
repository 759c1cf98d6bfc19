"""The grid kinds on the shared inputs, with exact counts, and from payload to answer through the pipeline."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid.fuels import EIA, ENTSOE, FACTORS, STORAGE, UNKNOWN
from ingest.grid.kinds import KINDS
from ingest.kinds import kind
from ingest.pipeline import RunOutcome, refresh
from tests.ingest import grid_samples as made
from tests.ingest.samples import counts_add_up, half_hour, payload, rows
from tests.support import ROOT, shared
from warehouse.engine import Warehouse
from warehouse.intensity import Standing, intensity_at
from warehouse.zones import zone_of

NOW = datetime(2026, 11, 29, 12)


def parse(name: str, path: str, **options: str) -> Parsed:
    body = shared(f"data/{path}").read_bytes()
    parsed = kind(name).parse(payload(body, name, now=NOW, options=options))
    assert counts_add_up(parsed)
    return parsed


class TestSharedInputs:
    @pytest.mark.parametrize(
        ("name", "path", "options", "loaded", "quarantined"),
        [
            ("electricitymaps", "fixtures/electricitymaps_v3_latest.json", {"zone": "FI"}, 1, 0),
            ("electricitymaps", "fixtures/electricitymaps_v3_history_nulls.json", {"zone": "US-MIDA-PJM"}, 2, 0),
            ("electricitymaps", "fixtures/electricitymaps_v3_forecast.json", {"zone": "FI"}, 2, 0),
            ("electricitymaps", "grid_intensity/electricitymaps_v3_history_sample.json", {"zone": "US-CAR-DUK"}, 2, 0),
            ("watttime", "fixtures/watttime_v3_historical.json", {"region": "PJM_DC"}, 1, 0),
            ("eia-930", "fixtures/eia930_fuel_type.json", {"respondent": "PJM"}, 6, 0),
            ("entsoe", "fixtures/entsoe_a75_a03_compressed.xml", {"area": "10YFI-1--------U"}, 1, 0),
            ("zone-map", "fixtures/cloud_region_zone_map.csv", {}, 47, 0),
            ("grid-factors", "leadgreen/grid.json", {}, 483, 1),
        ],
    )
    def test_each_loads_and_quarantines_exactly_so_much(
        self, name: str, path: str, options: dict[str, str], loaded: int, quarantined: int
    ) -> None:
        parsed = parse(name, path, **options)
        assert (parsed.tables[parsed.primary].height, parsed.rows_quarantined) == (loaded, quarantined)

    @pytest.mark.parametrize(
        ("path", "zone", "words"),
        [
            ("fixtures/electricitymaps_v3_nodata.json", "AX", "No recent data"),
            ("fixtures/electricitymaps_v3_unauthorized.json", "FI", "Request unauthorized"),
            ("grid_intensity/electricitymaps_v3_history_sample.json", "PT-AC", "'US-CAR-DUK' answered"),  # T39
        ],
    )
    def test_errors_and_another_zone_are_refused_whole(self, path: str, zone: str, words: str) -> None:
        with pytest.raises(PayloadError, match=words):
            parse("electricitymaps", path, zone=zone)

    def test_the_golden_values(self) -> None:
        # energy.md section 7
        (watttime,) = rows(parse("watttime", "fixtures/watttime_v3_historical.json", region="PJM_DC"))
        assert watttime["intensity_g_per_kwh"] == 453.59237
        (entsoe,) = rows(parse("entsoe", "fixtures/entsoe_a75_a03_compressed.xml"))
        assert entsoe["energy_j"] == 3575 * 3.6e9
        eia = {r["fuel"]: r for r in rows(parse("eia-930", "fixtures/eia930_fuel_type.json"))}
        assert eia["COL"]["start_at"] == datetime(2026, 8, 11, 11)
        assert (eia["SUN"]["energy_j"], eia["WND"]["energy_j"]) == (0.0, None)
        assert (eia["WAT"]["energy_j"], eia["WAT"]["role"]) == (-350 * 3.6e9, "storage")

    def test_embers_factors(self) -> None:
        # energy.md section 3, offline fallbacks: FI 81.4 / 66.9 / 57.2, world 485.6 / 473.0 / 460.1
        parsed = parse("grid-factors", "leadgreen/grid.json")
        told = {(r["zone"], r["start_at"].year): r["intensity_g_per_kwh"] for r in rows(parsed)}
        assert [told["FI", year] for year in (2023, 2024, 2025)] == [81.4, 66.9, 57.2]
        assert [told["WLD", year] for year in (2023, 2024, 2025)] == [485.6, 473.0, 460.1]
        assert {r["basis"] for r in rows(parsed)} == {"lifecycle"}
        assert "static factor 2025 (Ember, Yearly electricity data, October 2026 release)" in {
            r["method"] for r in rows(parsed)
        }
        (refused,) = parsed.rejects
        assert refused.value == "-36.4"

    def test_the_zone_map(self) -> None:
        parsed = parse("zone-map", "fixtures/cloud_region_zone_map.csv")
        told = {(r["system"], r["region"], r["zone_system"]): r for r in rows(parsed)}
        assert told["azure", "northeurope", "electricitymaps"]["zone"] == "IE"  # a sample template says NL: wrong
        assert told["azure", "eastus", "eia"]["zone"] == "EIA-PJM"
        assert told["gcp", "europe-west3", "entsoe"]["zone"] == "ENTSOE-DE_LU"
        assert told["aws", "us-west-2", "electricitymaps"]["confidence"] == "low"


class TestThroughThePipeline:
    def load(self, warehouse: Warehouse, name: str, body: Any, at: datetime = NOW, **options: str) -> RunOutcome:
        told = payload(body, name, now=at, options=options or None)
        return refresh(warehouse, kind(name), told.source_id, lambda: told, trigger="import")

    def test_a_payload_twice_changes_nothing_and_a_restated_one_is_a_version(self, warehouse: Warehouse) -> None:
        first = self.load(warehouse, "electricitymaps", made.em_point())
        assert (first.state, first.rows_loaded) == ("OK", 1)
        again = self.load(warehouse, "electricitymaps", made.em_point(updatedAt="2026-10-15T11:00Z"))
        assert (again.rows_loaded, again.rows_unchanged) == (0, 1)
        restated = self.load(warehouse, "electricitymaps", made.em_point(carbonIntensity=44))
        assert restated.rows_loaded == 1
        known = warehouse.query("SELECT known_from, intensity_g_per_kwh AS v FROM core.grid_intensity ORDER BY ALL")
        assert known["v"].to_list() == [37.0, 44.0]
        at = datetime(2026, 5, 15, 10, 30)
        for as_of, value in known.iter_rows():
            told = intensity_at(warehouse.query, "FI", at, signal="average", basis="lifecycle", as_of=as_of).intensity
            assert told is not None and told.intensity_g_per_kwh == value

    def test_a_forecast_gives_way_to_its_actual(self, warehouse: Warehouse) -> None:
        body = {"data": [half_hour("2026-11-29T12:00Z", "2026-11-29T12:30Z", forecast=178, actual=None)]}
        self.load(warehouse, "uk-carbon", body)
        when = {"signal": "average", "basis": "direct", "as_of": datetime(2100, 1, 1)}
        before = intensity_at(warehouse.query, "GB", NOW, **when).intensity  # type: ignore[arg-type]
        self.load(warehouse, "uk-carbon", {"data": [half_hour("2026-11-29T12:00Z", "2026-11-29T12:30Z", actual=176)]})
        after = intensity_at(warehouse.query, "GB", NOW, **when).intensity  # type: ignore[arg-type]
        assert before is not None and after is not None
        assert (before.standing, before.intensity_g_per_kwh) == (Standing.FORECAST, 178.0)
        assert (after.standing, after.intensity_g_per_kwh) == (Standing.ACTUAL, 176.0)

    def test_generation_and_its_intensity_load_together(self, warehouse: Warehouse) -> None:
        outcome = self.load(warehouse, "eia-930", made.eia(made.eia_row("NG", 100), made.eia_row("NUC", 100)))
        assert (outcome.rows_loaded, outcome.notes) == (2, ("core.grid_intensity: 1 new or changed",))
        told = intensity_at(
            warehouse.query, "EIA-PJM", datetime(2026, 5, 15, 11, 59), signal="average", basis="lifecycle",
            as_of=datetime(2100, 1, 1),
        ).intensity  # fmt: skip
        assert told is not None and told.intensity_g_per_kwh == (490 + 12) / 2

    def test_a_revised_hour_restates_generation_and_intensity(self, warehouse: Warehouse) -> None:
        for gas in (100, 300):
            self.load(warehouse, "eia-930", made.eia(made.eia_row("NG", gas), made.eia_row("NUC", 100)))
        assert warehouse.scalar("SELECT count(*) FROM core.grid_generation") == 3
        assert warehouse.scalar("SELECT intensity_g_per_kwh FROM mart.grid_intensity") == (3 * 490 + 12) / 4
        assert warehouse.scalar("SELECT energy_j FROM mart.grid_generation WHERE fuel = 'NG'") == 300 * 3.6e9

    def test_another_zone_changes_nothing(self, warehouse: Warehouse) -> None:
        outcome = self.load(warehouse, "electricitymaps", made.em_point(zone="US-CAR-DUK"))
        assert (outcome.state, outcome.error_class) == ("FAILED", "PayloadError")
        assert warehouse.scalar("SELECT count(*) FROM core.grid_intensity") == 0

    def test_a_declared_region_leads_to_its_intensity_and_an_undeclared_one_nowhere(self, warehouse: Warehouse) -> None:
        self.load(warehouse, "zone-map", made.ZONES_WIDE)
        self.load(warehouse, "electricitymaps", made.em_point())
        later = NOW + timedelta(days=36_500)
        at = datetime(2026, 5, 15, 10)
        for region, known in (("europe-north1", True), ("europe-north2", False)):
            zone = zone_of(warehouse.query, "gcp", region, as_of=later).zone
            told = intensity_at(warehouse.query, zone, at, signal="average", basis="lifecycle", as_of=later)
            assert (told.intensity is not None) == known == (told.reason is None)


class TestTheDocs:
    TEXT = (ROOT / "docs" / "sources" / "grid.md").read_text(encoding="utf-8")

    @pytest.mark.parametrize("found", KINDS, ids=[k.name for k in KINDS])
    def test_every_kind_has_a_section_with_its_limit_and_options(self, found: Any) -> None:
        section = re.search(rf"^## {found.name}$(.*?)(?=^## |\Z)", self.TEXT, re.S | re.M)
        assert section and f"{found.max_bytes // 2**20} MiB" in section[1]
        assert [o.name for o in found.options if f"`{o.name}`" not in section[1]] == []

    @pytest.mark.parametrize("fuel", FACTORS.values(), ids=list(FACTORS))
    def test_every_factor_is_written_with_the_codes_it_stands_for(self, fuel: Any) -> None:
        row = f"| {fuel.name} | {fuel.lifecycle_g_per_kwh} | {fuel.direct_g_per_kwh} | "
        (written,) = [line for line in self.TEXT.splitlines() if line.startswith(row)]
        codes = {code for table in (EIA, ENTSOE) for code, name in table.items() if name == fuel.name}
        assert codes == set(re.findall(r"[A-Z0-9]+", " ".join(written.split("|")[4:6])))

    def test_what_is_left_out_is_written(self) -> None:
        for left_out in (STORAGE, UNKNOWN):
            codes = [c for table in (EIA, ENTSOE) for c, name in table.items() if name == left_out]
            line = next(t for t in self.TEXT.splitlines() if t.startswith("| ") and "left out" in t and codes[0] in t)
            assert all(code in line for code in codes)
