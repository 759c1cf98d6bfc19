"""The intensity of a zone at an instant as known at another: as-of, preference, and nothing ever mixed."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.evidence import EvidenceClass
from warehouse.intensity import Answer, Basis, Intensity, Signal, Standing, intensity_at, reader_of
from warehouse.snapshots import snapshot
from warehouse.tables import frame

T = datetime(2026, 11, 29, 12)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def figure(value: float | None = 40.0, start: datetime = T, length: timedelta = HOUR, **changes: Any) -> dict[str, Any]:
    return {
        "zone": "FI",
        "signal": "average",
        "basis": "lifecycle",
        "start_at": start,
        "end_at": start + length,
        "is_forecast": False,
        "is_estimated": False,
        "intensity_g_per_kwh": value,
        "method": "made up",
        "evidence_class": "calibrated",
        **changes,
    }


def forecast(value: float, made_at: datetime = T - HOUR, **changes: Any) -> dict[str, Any]:
    told = {"is_forecast": True, "is_estimated": True, "forecast_made_at": made_at, "evidence_class": "modeled"}
    return figure(value, **{**told, **changes})


def yearly(value: float, year: int = 2026, **changes: Any) -> dict[str, Any]:
    start = datetime(year, 1, 1)
    told = {"method": f"static factor {year} (Ember)", "evidence_class": "modeled", **changes}
    return figure(value, start, datetime(year + 1, 1, 1) - start, **told)


def know(warehouse: Warehouse, *rows: dict[str, Any], at: datetime = T, source: str = "s") -> None:
    with warehouse.transaction() as tx:
        loads.load(
            tx, "core.grid_intensity", frame("core.grid_intensity", rows), source_id=source, run_id="r", known_from=at
        )


def asked(warehouse: Warehouse, at: datetime = T + 5 * MINUTE, as_of: datetime = T + HOUR, **changes: Any) -> Answer:
    told: dict[str, Any] = {"zone": "FI", "signal": "average", "basis": "lifecycle", **changes}
    return intensity_at(warehouse.query, told.pop("zone"), at, as_of=as_of, **told)


def found(warehouse: Warehouse, *args: Any, **changes: Any) -> Intensity:
    answer = asked(warehouse, *args, **changes)
    assert answer.reason is None and answer.intensity is not None
    return answer.intensity


def test_a_figure_comes_with_all_that_must_be_shown_beside_it(warehouse: Warehouse) -> None:
    know(warehouse, figure(37.0, version="2026-11-29T12:41:02Z", estimation_method="MODE", is_estimated=True), at=T)
    told = found(warehouse)
    assert (told.intensity_g_per_kwh, told.zone, told.signal, told.basis) == (
        37.0,
        "FI",
        Signal.AVERAGE,
        Basis.LIFECYCLE,
    )
    assert (told.evidence_class, told.is_estimated, told.estimation_method) == (EvidenceClass.CALIBRATED, True, "MODE")
    assert (told.standing, told.is_fallback, told.source_id) == (Standing.ACTUAL, False, "s")
    assert (told.version, told.known_from, told.age_s, told.behind_s) == ("2026-11-29T12:41:02Z", T, 3600.0, 0.0)
    assert told.warning is None


class TestAnInterval:
    def test_holds_from_its_start_to_before_its_end(self, warehouse: Warehouse) -> None:
        # api-definitions#6: the half hour is what from and to say
        know(warehouse, figure(1.0), figure(2.0, T + HOUR))
        values = [found(warehouse, at).intensity_g_per_kwh for at in (T, T + HOUR - MINUTE, T + HOUR)]
        assert values == [1.0, 1.0, 2.0]
        assert asked(warehouse, T - MINUTE).intensity is None

    def test_that_is_zero_is_zero(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(0.0))
        assert found(warehouse).intensity_g_per_kwh == 0.0

    def test_the_finer_one_answers(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(50.0, T - 12 * HOUR, 24 * HOUR), figure(40.0, T, 5 * MINUTE * 2))
        assert found(warehouse).intensity_g_per_kwh == 40.0


class TestT39WhatWasKnownThen:
    def test_both_versions_are_kept_and_each_time_sees_its_own(self, warehouse: Warehouse) -> None:
        # electricitymaps-contrib#6351: restated five months later
        later = T + timedelta(days=150)
        know(warehouse, figure(369.0, version="v1"), at=T)
        know(warehouse, figure(340.0, version="v2"), at=later)
        assert warehouse.scalar("SELECT count(*) FROM core.grid_intensity") == 2
        then, now = found(warehouse, as_of=later - MINUTE), found(warehouse, as_of=later)
        assert (then.intensity_g_per_kwh, then.version) == (369.0, "v1")
        assert (now.intensity_g_per_kwh, now.version) == (340.0, "v2")

    def test_before_anything_was_known_there_is_a_reason(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(), at=T + HOUR)
        answer = asked(warehouse, as_of=T)
        assert answer == Answer(None, "nothing was known about the zone FI by 2026-11-29T12:00Z")

    def test_an_older_version_that_comes_later_rules_nothing(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(340.0, version="2023-12-20T22:15:38.617Z"), at=T)
        know(warehouse, figure(369.0, version="2023-07-13T01:00:00.000Z"), at=T + HOUR)
        assert found(warehouse, as_of=T + HOUR).intensity_g_per_kwh == 340.0
        assert warehouse.scalar("SELECT intensity_g_per_kwh FROM mart.grid_intensity") == 340.0

    def test_the_same_figure_published_anew_is_no_news(self, warehouse: Warehouse) -> None:
        for day in range(3):
            know(warehouse, figure(40.0, version=f"v{day}"), at=T + timedelta(days=day))
        assert warehouse.scalar("SELECT count(*) FROM core.grid_intensity") == 1

    def test_a_version_without_a_figure_withdraws_the_one_before(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(40.0), at=T)
        know(warehouse, figure(None), at=T + HOUR)
        assert found(warehouse, as_of=T).intensity_g_per_kwh == 40.0
        assert asked(warehouse, as_of=T + HOUR).intensity is None


class TestPreference:
    def test_an_actual_figure_beats_a_forecast_even_a_newer_and_finer_one(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(40.0), at=T)
        know(warehouse, forecast(50.0, length=timedelta(minutes=30)), at=T + 30 * MINUTE)
        assert found(warehouse).standing is Standing.ACTUAL

    def test_a_forecast_answers_until_then_with_its_horizon(self, warehouse: Warehouse) -> None:
        know(warehouse, forecast(50.0, made_at=T - 6 * HOUR), at=T - 6 * HOUR)
        know(warehouse, figure(40.0), at=T + HOUR)
        told = found(warehouse, as_of=T)
        assert (told.standing, told.intensity_g_per_kwh, told.horizon_s) == (Standing.FORECAST, 50.0, 6 * 3600.0)
        assert found(warehouse, as_of=T + HOUR).standing is Standing.ACTUAL
        assert "was not allowed" in str(asked(warehouse, as_of=T, forecasts=False).reason)

    def test_the_newest_forecast_known_then_answers(self, warehouse: Warehouse) -> None:
        know(warehouse, forecast(50.0, made_at=T - 6 * HOUR), at=T - 6 * HOUR)
        know(warehouse, forecast(45.0, made_at=T - 2 * HOUR), at=T - 2 * HOUR)
        assert found(warehouse, as_of=T - 3 * HOUR).intensity_g_per_kwh == 50.0
        assert found(warehouse, as_of=T).intensity_g_per_kwh == 45.0

    def test_a_figure_that_is_not_estimated_is_preferred(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(50.0, is_estimated=True), source="a", at=T + MINUTE)
        know(warehouse, figure(40.0), source="b")
        assert found(warehouse).source_id == "b"

    def test_a_sample_never_hides_what_is_real(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(1.0), source="sample:grid", at=T + MINUTE)
        assert found(warehouse).source_id == "sample:grid"
        know(warehouse, figure(40.0, is_estimated=True), source="real")
        assert found(warehouse).source_id == "real"

    def test_the_last_actual_figure_is_carried_only_as_far_as_allowed(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(40.0), figure(30.0, T - HOUR))
        late = T + 3 * HOUR
        told = found(warehouse, late, as_of=late, carry_s=2 * 3600)
        assert (told.standing, told.intensity_g_per_kwh, told.behind_s) == (Standing.CARRIED, 40.0, 2 * 3600.0)
        assert asked(warehouse, late, as_of=late, carry_s=2 * 3600 - 1).intensity is None
        assert asked(warehouse, late, as_of=late).intensity is None

    def test_a_forecast_is_never_carried(self, warehouse: Warehouse) -> None:
        know(warehouse, forecast(50.0))
        late = T + 2 * HOUR
        assert asked(warehouse, late, as_of=late, carry_s=86_400).intensity is None


class TestAYearlyFactor:
    def test_stands_in_and_says_so(self, warehouse: Warehouse) -> None:
        know(warehouse, yearly(57.2), at=T)
        told = found(warehouse)
        assert (told.is_fallback, told.standing, told.method) == (True, Standing.STATIC, "static factor 2026 (Ember)")
        assert "was not allowed" in str(asked(warehouse, fallback=False).reason)

    def test_of_the_newest_year_before_answers_where_the_year_has_none(self, warehouse: Warehouse) -> None:
        know(warehouse, yearly(81.4, 2023), yearly(66.9, 2024), yearly(57.2, 2025))
        told = found(warehouse)
        assert (told.intensity_g_per_kwh, told.method) == (57.2, "static factor 2025 (Ember)")
        assert told.behind_s == (T + 5 * MINUTE - datetime(2026, 1, 1)).total_seconds()
        assert found(warehouse, datetime(2023, 6, 1)).intensity_g_per_kwh == 81.4
        assert asked(warehouse, datetime(2022, 6, 1)).intensity is None

    def test_never_beats_a_figure_of_the_hour(self, warehouse: Warehouse) -> None:
        know(warehouse, yearly(57.2), forecast(50.0))
        assert found(warehouse).standing is Standing.FORECAST

    @pytest.mark.parametrize(("hour", "year"), [(424.584, 56.0), (2.0, 27.0)])
    def test_far_from_the_hour_warns(self, warehouse: Warehouse, hour: float, year: float) -> None:
        # codecarbon#211: France 424.584; electricitymaps-contrib#4740: Sweden 2
        know(warehouse, yearly(year), figure(hour))
        assert f"{hour:g} g/kWh is more than 5 times away from {year:g} g/kWh" in str(found(warehouse).warning)

    def test_near_the_hour_does_not(self, warehouse: Warehouse) -> None:
        know(warehouse, yearly(57.2), figure(12.0))
        assert found(warehouse).warning is None


class TestNothingIsMixed:
    def test_another_signal_or_basis_is_named_and_not_taken(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(166.0, basis="direct"), figure(500.0, signal="marginal", basis="direct"))
        answer = asked(warehouse)
        assert answer.intensity is None
        assert "average direct, marginal direct is, and is never mixed in" in str(answer.reason)

    def test_another_basis_gives_no_yearly_factor_either(self, warehouse: Warehouse) -> None:
        know(warehouse, figure(424.0, basis="direct"), yearly(56.0))
        assert found(warehouse, basis="direct").warning is None

    @pytest.mark.parametrize("wrong", [{"signal": "mean"}, {"basis": "combustion"}, {"carry_s": -1}, {"carry_s": 1e6}])
    def test_a_word_that_is_none_of_them_is_refused(self, warehouse: Warehouse, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"use one of|allowed are"):
            asked(warehouse, **wrong)

    def test_an_unknown_zone_is_unknown(self, warehouse: Warehouse) -> None:
        know(warehouse, figure())
        assert "nothing was known about the zone SE" in str(asked(warehouse, zone="SE").reason)
        assert "no zone is declared" in str(asked(warehouse, zone=None).reason)


def test_a_snapshot_covers_what_was_read(warehouse: Warehouse) -> None:
    know(warehouse, figure())
    with snapshot(warehouse, T + HOUR) as seen:
        before = seen.digest
        told = intensity_at(reader_of(seen), "FI", T, signal="average", basis="lifecycle", as_of=seen.as_of)
        assert told.intensity is not None and seen.digest != before


def test_the_view_of_now_has_one_row_per_zone_signal_and_basis(warehouse: Warehouse) -> None:
    know(
        warehouse, yearly(57.2, 2024), yearly(66.9, 2023), yearly(40.0, 2024, basis="direct"), yearly(200.0, zone="GB")
    )
    rows = warehouse.query(
        "SELECT zone, basis, intensity_g_per_kwh, standing, is_fallback FROM mart.grid_now ORDER BY ALL"
    )
    assert rows.rows() == [
        ("FI", "direct", 40.0, "static", True),
        ("FI", "lifecycle", 57.2, "static", True),
        ("GB", "lifecycle", 200.0, "static", True),
    ]


# property: against a slow and obvious reading of the same facts -----------------------------------

_ZONES = itertools.count()
_rows = st.tuples(
    st.integers(0, 3),  # hour of the start
    st.sampled_from(["average", "marginal"]),
    st.sampled_from(["lifecycle", "direct"]),
    st.booleans(),  # forecast
    st.integers(0, 5),  # learned
    st.integers(0, 500),
)


@given(
    told=st.lists(_rows, min_size=1, max_size=14),
    hour=st.integers(0, 3),
    known=st.integers(0, 5),
    signal=st.sampled_from(list(Signal)),
    basis=st.sampled_from(list(Basis)),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_the_answer_is_the_version_then_known_actual_before_forecast_and_never_mixed(
    warehouse: Warehouse,
    told: list[tuple[int, str, str, bool, int, int]],
    hour: int,
    known: int,
    signal: Signal,
    basis: Basis,
) -> None:
    zone = f"Z{next(_ZONES)}"  # each example in a zone of its own: making a warehouse takes longer than asking it
    expected: dict[bool, float] = {}
    versions = {(start, s, b, is_forecast, learned): float(value) for start, s, b, is_forecast, learned, value in told}
    for learned in range(6):
        rows = []
        for (start, of_signal, of_basis, is_forecast, when), value in versions.items():
            if when != learned:
                continue
            about: dict[str, Any] = {"zone": zone, "signal": of_signal, "basis": of_basis, "is_forecast": is_forecast}
            rows.append(figure(value, T + start * HOUR, **about))
            if (start, of_signal, of_basis) == (hour, signal, basis) and learned <= known:
                expected[is_forecast] = value
        know(warehouse, *rows, at=T + learned * HOUR)
    at, as_of = T + hour * HOUR + MINUTE, T + known * HOUR
    answer = asked(warehouse, at, as_of=as_of, zone=zone, signal=signal, basis=basis).intensity
    assert (answer is None) == (not expected)
    if answer is not None:
        assert answer.intensity_g_per_kwh == expected.get(False, expected.get(True))
        assert (answer.standing is Standing.ACTUAL) == (False in expected)
        assert (answer.signal, answer.basis) == (signal, basis)
        assert answer.known_from <= as_of
