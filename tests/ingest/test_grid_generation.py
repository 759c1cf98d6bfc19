"""EIA-930 and ENTSO-E: exact energy by fuel, and an intensity only where the whole mix is told."""

from __future__ import annotations

import gzip
import io
import zipfile
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.grid import eia, entsoe
from ingest.grid.fuels import EIA, ENTSOE, FACTORS, STORAGE, UNKNOWN
from tests.ingest import grid_samples as made
from tests.ingest.grid_samples import eia_row, entsoe_series
from tests.ingest.samples import counts_add_up, payload, rows

MWH = 3.6e9  # J
NOON = datetime(2026, 5, 15, 12)


def us(*listed: Any, page: dict[str, Any] | None = None, **options: str) -> Parsed:
    result = eia.parse(payload(page or made.eia(*listed), "eia-930", options=options))
    assert counts_add_up(result)
    return result


def eu(*series: str, body: str | bytes | None = None, **options: str) -> Parsed:
    result = entsoe.parse(payload(made.entsoe(*series) if body is None else body, "entsoe", options=options))
    assert counts_add_up(result)
    return result


def intensity(parsed: Parsed) -> list[float]:
    return [row["intensity_g_per_kwh"] for row in rows(parsed, "core.grid_intensity")]


class TestFactors:
    def test_every_fuel_of_either_source_has_a_factor_is_storage_or_is_unknown(self) -> None:
        assert {*EIA.values(), *ENTSOE.values()} <= {*FACTORS, STORAGE, UNKNOWN}

    @pytest.mark.parametrize(
        ("fuel", "lifecycle", "direct"),
        [("hard coal", 820, 760), ("natural gas", 490, 370), ("nuclear", 12, 0), ("hydro", 24, 0), ("solar", 48, 0),
         ("wind onshore", 11, 0), ("wind offshore", 12, 0), ("geothermal", 38, 0), ("biomass", 230, 0)],
    )  # fmt: skip
    def test_those_of_ar5_are_its_medians(self, fuel: str, lifecycle: int, direct: int) -> None:
        # IPCC AR5 WG3 Annex III, Table A.III.2
        found = FACTORS[fuel]
        assert found.lifecycle_g_per_kwh == lifecycle
        assert found.direct_g_per_kwh == direct

    def test_those_worked_out_follow_their_stated_formula(self) -> None:
        # IPCC 2006 Table 2.2: lignite 101 kg/GJ; 101 x 3.6 / 0.38 = 956.8
        assert FACTORS["lignite"].direct_g_per_kwh == 957
        assert FACTORS["lignite"].lifecycle_g_per_kwh == 957 + 60
        assert all(f.lifecycle_g_per_kwh >= f.direct_g_per_kwh >= 0 and f.origin for f in FACTORS.values())


class TestEia:
    def test_a_period_is_the_end_of_its_hour(self) -> None:
        # energy.md section 7: period 12 is 11:00 to 12:00Z
        (row,) = rows(us(eia_row("NUC", 100, "2026-05-15T12")))
        assert (row["start_at"], row["end_at"]) == (datetime(2026, 5, 15, 11), NOON)
        assert row["zone"] == "EIA-PJM"

    def test_a_number_the_text_of_one_and_null_are_read_as_they_are_meant(self) -> None:
        # electricitymaps-contrib: `float(v) if v else None` made solar's 0 missing
        told = us(eia_row("COL", "15000"), eia_row("NG", 45000.5), eia_row("SUN", "0"), eia_row("WND", None))
        assert [r["energy_j"] for r in rows(told)] == [15000 * MWH, 45000.5 * MWH, 0.0, None]

    def test_the_intensity_is_the_mean_weighted_by_energy(self) -> None:
        listed = [eia_row("COL", 15000), eia_row("NG", 45000), eia_row("NUC", 32000), eia_row("SUN", 0)]
        assert intensity(us(*listed)) == [(15000 * 820 + 45000 * 490 + 32000 * 12) / 92000]
        assert intensity(us(*listed, basis="direct")) == [(15000 * 760 + 45000 * 370) / 92000]
        (row,) = rows(us(*listed, basis="direct"), "core.grid_intensity")
        assert (row["basis"], row["signal"], row["is_estimated"], row["evidence_class"]) == (
            "direct", "average", True, "calibrated",
        )  # fmt: skip
        assert "direct factors (IPCC AR5" in row["method"]

    def test_negative_hydro_is_storage_no_generation_and_said_so(self) -> None:
        told = us(eia_row("NUC", 100), eia_row("WAT", "-350"))
        assert [(r["energy_j"], r["role"]) for r in rows(told)] == [(100 * MWH, "generation"), (-350 * MWH, "storage")]
        assert intensity(told) == [12.0]
        assert told.notes == ("EIA-PJM: WAT is negative: taken from the grid, no generation (1 hour)",)
        assert told.rejects == ()

    @pytest.mark.parametrize("fuel", ["BAT", "PS", "OES", "UES"])
    @pytest.mark.parametrize("value", [-50, 50])
    def test_storage_is_left_out_both_ways(self, fuel: str, value: int) -> None:
        told = us(eia_row("NUC", 100), eia_row(fuel, value))
        assert intensity(told) == [12.0]
        assert fuel in told.notes[0]

    def test_a_fuel_that_is_not_told_leaves_the_hour_without_a_figure(self) -> None:
        listed = [eia_row("COL", 100), eia_row("WND", None)]
        told = us(*listed)
        assert intensity(told) == []
        assert told.notes == ("EIA-PJM: no intensity, because WND is not told (1 hour)",)
        (row,) = rows(us(*listed, incomplete="estimate"), "core.grid_intensity")
        assert (row["intensity_g_per_kwh"], row["evidence_class"]) == (820.0, "modeled")
        assert "without WND, not told" in row["estimation_method"]

    def test_so_does_one_that_other_hours_tell(self) -> None:
        told = us(eia_row("COL", 100), eia_row("WND", 100), eia_row("COL", 100, "2026-05-15T13"))
        assert [r["end_at"] for r in rows(told, "core.grid_intensity")] == [NOON]

    @pytest.mark.parametrize(
        "bad",
        [
            eia_row("WND", "1,000"),
            eia_row("WND", "many"),
            eia_row("WND", True),
            eia_row("WND", 2_000_000),
            eia_row("WND", 5, **{"value-units": "megawatts"}),
            eia_row("WND", 5, "2026-05-15T12-05"),  # local-hourly
            eia_row("WND", 5, "2026-05-15"),
            eia_row("XYZ", 5),
        ],
    )
    def test_a_refused_row_goes_alone_and_takes_no_part_as_0(self, bad: dict[str, Any]) -> None:
        told = us(eia_row("COL", 100), bad)
        assert [r["fuel"] for r in rows(told)] == ["COL"]
        assert [(r.row_no, r.whole_row) for r in told.rejects] == [(1, True)]
        assert intensity(told) == []

    def test_another_respondent_than_the_one_asked_for_is_refused(self) -> None:
        told = us(eia_row("COL", 100), eia_row("COL", 100, respondent="MISO"), respondent="PJM")
        assert [r.field for r in told.rejects] == ["respondent"]

    def test_a_row_that_comes_twice_is_kept_once(self) -> None:
        told = us(eia_row("COL", 100), eia_row("COL", 200))
        assert [r["energy_j"] for r in rows(told)] == [100 * MWH]
        assert "another value" in told.rejects[0].reason
        pages = [made.eia(eia_row("COL", 100)), made.eia(eia_row("COL", "100"), eia_row("NG", 1))]
        result = eia.parse(payload(pages, "eia-930"))
        assert (result.rows_in, result.rejects) == (2, ())

    @pytest.mark.parametrize("frequency", ["local-hourly", "daily", None, 5])
    def test_only_hours_of_utc_are_taken(self, frequency: Any) -> None:
        # opennem#641, cloud-carbon-footprint#903: local hours shift at DST
        with pytest.raises(PayloadError, match="only hourly"):
            us(page=made.eia(frequency=frequency))

    def test_fuels_without_a_factor_are_named_and_too_much_of_them_is_no_figure(self) -> None:
        little, much = us(eia_row("COL", 95), eia_row("OTH", 5)), us(eia_row("COL", 80), eia_row("OTH", 20))
        (row,) = rows(little, "core.grid_intensity")
        assert row["intensity_g_per_kwh"] == 820.0
        assert "without OTH, no factor" in row["estimation_method"]
        assert intensity(much) == []
        assert "more than 10%" in much.notes[0]

    def test_no_generation_is_no_intensity(self) -> None:
        assert intensity(us(eia_row("SUN", 0))) == []

    def test_an_error_answer_is_refused_in_its_words(self) -> None:
        with pytest.raises(PayloadError, match="API_KEY_INVALID"):
            us(page={"error": {"code": "API_KEY_INVALID"}})

    @given(st.dictionaries(st.sampled_from(sorted(EIA)), st.integers(-500, 50_000), min_size=1))
    def test_an_intensity_lies_between_the_factors_of_its_fuels(self, mix: dict[str, int]) -> None:
        told = us(*(eia_row(fuel, value) for fuel, value in mix.items()))
        used = [FACTORS[EIA[f]].lifecycle_g_per_kwh for f, v in mix.items() if v > 0 and EIA[f] in FACTORS]
        for value in intensity(told):
            assert min(used) - Decimal("1e-9") <= Decimal(value) <= max(used) + Decimal("1e-9")


class TestEntsoe:
    def test_a03_repeats_what_it_leaves_out(self) -> None:
        # energy.md section 7: 3600, 3600, 3600, 3500 MW are 3575 MWh
        (row,) = rows(eu())
        assert row["energy_j"] == 3575 * MWH
        assert (row["zone"], row["fuel"], row["flow"], row["role"]) == ("ENTSOE-FI", "B14", "production", "generation")
        assert (row["start_at"], row["end_at"]) == (datetime(2026, 5, 15, 11), NOON)

    def test_a01_has_every_position_and_a_missing_one_is_unknown(self) -> None:
        whole = [(1, 3600), (2, 3600), (3, 3600), (4, 3500)]
        assert rows(eu(entsoe_series(points=whole, curve="A01")))[0]["energy_j"] == 3575 * MWH
        holed = eu(entsoe_series(points=[whole[0], whole[3]], curve="A01"))
        assert (rows(holed)[0]["energy_j"], intensity(holed)) == (None, [])

    def test_before_its_first_point_a03_says_nothing(self) -> None:
        assert rows(eu(entsoe_series(points=[(2, 3600)])))[0]["energy_j"] is None

    @pytest.mark.parametrize(("resolution", "points"), [("PT60M", [(1, 800)]), ("PT30M", [(1, 700), (2, 900)])])
    def test_every_resolution_gives_the_hour(self, resolution: str, points: Any) -> None:
        told = eu(entsoe_series("B19", points, resolution=resolution))
        assert (rows(told)[0]["energy_j"], intensity(told)) == (800 * MWH, [11.0])

    def test_the_mix_of_an_hour(self) -> None:
        told = eu(entsoe_series("B14", [(1, 3000)]), entsoe_series("B04", [(1, 1000)], resolution="PT60M"))
        assert intensity(told) == [(3000 * 12 + 1000 * 490) / 4000]

    def test_what_pumps_take_is_consumption_and_pumped_storage_no_generation(self) -> None:
        told = eu(entsoe_series(), entsoe_series("B10", [(1, 500)]), entsoe_series("B10", [(1, 900)], domain="out"))
        assert [(r["fuel"], r["flow"], r["role"]) for r in rows(told)[1:]] == [
            ("B10", "production", "storage"), ("B10", "consumption", "storage"),
        ]  # fmt: skip
        assert intensity(told) == [12.0]
        assert any("consumption" in note for note in told.notes)

    def test_an_hour_that_a_type_leaves_out_has_no_figure(self) -> None:
        wind = entsoe_series("B19", [(1, 100)], end="2026-05-15T13:00Z")
        assert [r["start_at"].hour for r in rows(eu(entsoe_series(), wind), "core.grid_intensity")] == [11]

    @pytest.mark.parametrize(
        "bad",
        [
            entsoe_series("B99"),
            entsoe_series("B19", unit="KWH"),
            entsoe_series("B19", curve="A02"),
            entsoe_series("B19", resolution="P1D"),
            entsoe_series("B19", [(0, 5)]),
            entsoe_series("B19", [(5, 5)]),
            entsoe_series("B19", [(1, 5), (1, 6)]),
            entsoe_series("B19", [(1, -5)]),
            entsoe_series("B19", [(1, "NaN")]),
            entsoe_series("B19", [(1, 900_000)]),
            entsoe_series("B19", []),
            entsoe_series("B19", start="2026-05-15T11:00"),  # naive
            entsoe_series("B19", start="2026-05-15T11:05Z"),
            entsoe_series("B19", start="2024-05-15T11:00Z"),
            entsoe_series("B19", eic="10YFI"),
        ],
    )
    def test_a_period_that_cannot_be_read_goes_alone(self, bad: str) -> None:
        told = eu(entsoe_series(), bad)
        assert [r["fuel"] for r in rows(told)] == ["B14"]
        assert (told.rows_in, told.rows_quarantined) == (2, 1)

    def test_and_leaves_its_hours_without_a_figure(self) -> None:
        assert intensity(eu(entsoe_series(), entsoe_series("B19", [(1, -5)]))) == []
        later = entsoe_series("B19", [(1, -5)], start="2026-05-15T12:00Z", end="2026-05-15T13:00Z")
        assert intensity(eu(entsoe_series(end="2026-05-15T13:00Z", points=[(1, 100)]), later)) == [12.0]

    def test_an_interval_that_comes_twice_keeps_the_first(self) -> None:
        told = eu(entsoe_series(), entsoe_series(points=[(1, 1)]))
        assert [r["energy_j"] for r in rows(told)] == [3575 * MWH]
        assert "other values" in told.rejects[0].reason
        assert intensity(told) == [12.0]

    def test_another_area_than_the_one_asked_for_is_refused(self) -> None:
        assert eu(area="10YFR-RTE------C").rows_quarantined == 1

    def test_an_acknowledgement_is_an_error_in_its_words(self) -> None:
        with pytest.raises(PayloadError, match="No matching data found"):
            eu(body=made.acknowledgement("No matching data found"))

    def test_another_document_is_refused_by_its_type(self) -> None:
        with pytest.raises(PayloadError, match="not generation per type"):
            eu(body=made.entsoe(kind="A69"))

    @pytest.mark.parametrize(
        "body",
        [
            '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><GL_MarketDocument>&b;</GL_MarketDocument>',
            '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><GL_MarketDocument>&f;</GL_MarketDocument>',
            '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><GL_MarketDocument/>',
            '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x">%p;]><GL_MarketDocument/>',
        ],
    )
    def test_a_document_type_or_entity_is_never_read(self, body: str) -> None:
        with pytest.raises(PayloadError, match="declares a document type or an entity"):
            eu(body=body)

    def test_a_document_that_nests_without_end_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="nests deeper"):
            eu(body="<a>" * 50)

    def test_a_few_bytes_that_tell_years_of_quarters_are_refused(self) -> None:
        year: dict[str, Any] = {"start": "2025-01-01T00:00Z", "end": "2026-01-01T00:00Z", "points": [(1, 1)]}
        many = (entsoe_series("B14", eic=f"10Y{n:013d}", **year) for n in range(60))
        with pytest.raises(PayloadError, match="quarter hours"):
            eu(*many)

    def test_packed_answers_are_unpacked_and_bounded(self) -> None:
        plain = made.entsoe().encode()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("1.xml", plain)
            archive.writestr("2.xml", made.entsoe(entsoe_series("B19", [(1, 500)])))
        assert [r["fuel"] for r in rows(eu(body=packed.getvalue()))] == ["B14", "B19"]
        assert rows(eu(body=gzip.compress(plain, mtime=0))) == rows(eu(body=plain))
        for broken in (packed.getvalue()[:-40], gzip.compress(plain, mtime=0)[:-20]):
            with pytest.raises(PayloadError):
                eu(body=broken)

    def test_a_zip_bomb_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ingest.grid.entsoe_xml.MAX_UNPACKED_BYTES", 10_000)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("1.xml", b" " * 10**6)
        for body in (packed.getvalue(), gzip.compress(b" " * 10**6, mtime=0)):
            with pytest.raises(PayloadError, match="unpacks to more than"):
                eu(body=body)

    @given(st.lists(st.none() | st.integers(0, 5000), min_size=4, max_size=12).filter(lambda v: len(v) % 4 == 0))
    def test_a03_and_a01_say_the_same_hours(self, quarters: list[int | None]) -> None:
        """Leaving out what repeats loses nothing."""
        full: list[int] = []
        for value in quarters:
            full.append(value if value is not None else (full[-1] if full else 0))
        kept = [(i, v) for i, v in enumerate(full, 1) if i == 1 or v != full[i - 2]]
        end = f"2026-05-15T{11 + len(full) // 4}:00Z"
        short = eu(entsoe_series(points=kept, end=end))
        long = eu(entsoe_series(points=list(enumerate(full, 1)), curve="A01", end=end))
        assert rows(short) == rows(long)
        assert sum(r["energy_j"] for r in rows(short)) == pytest.approx(sum(full) / 4 * MWH)
