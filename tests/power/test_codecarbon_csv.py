"""CodeCarbon: kWh and kg; measured and modelled parts apart; one machine counts once."""

from __future__ import annotations

from datetime import datetime

import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from tests.ingest.power_samples import CODECARBON_V1, codecarbon, codecarbon_row
from tests.ingest.samples import counts_add_up, payload, rows


def read(text: str, **options: str) -> Parsed:
    parsed = kind("codecarbon-csv").parse(payload(text, "codecarbon-csv", options={"timezone": "UTC", **options}))
    assert counts_add_up(parsed)
    return parsed


def part(parsed: Parsed, scope: str) -> dict[str, object]:
    (found,) = [r for r in rows(parsed) if r["meter_scope"] == scope]
    return found


def test_the_parts_of_a_run_stay_apart_each_with_its_class() -> None:
    parsed = read(codecarbon())
    assert parsed.rejects == ()
    told = {r["meter_scope"]: (r["energy_gross_j"], r["evidence_class"], r["workload"]) for r in rows(parsed)}
    assert told == {
        "gpu": (pytest.approx(0.44 * 3.6e6), "measured", "device"),
        "cpu": (pytest.approx(0.045 * 3.6e6), "modeled", "host"),
        "ram": (pytest.approx(0.015 * 3.6e6), "modeled", "host"),
    }
    gpu = part(parsed, "gpu")
    assert (gpu["hardware_model"], gpu["hardware_count"], gpu["gpu_arch"]) == ("NVIDIA A100-SXM4-80GB", 2, "Ampere")
    assert (gpu["window_start_at"], gpu["window_end_at"]) == (datetime(2026, 8, 1, 11), datetime(2026, 8, 1, 12))
    assert gpu["quality"] != "HIGH"


def test_grams_are_energy_times_the_country_factor_and_modelled() -> None:
    gpu = part(read(codecarbon()), "gpu")
    # 0.0437 kg over 0.5 kWh is 87.4 g/kWh
    assert gpu["intensity_g_per_kwh"] == pytest.approx(87.4)
    assert gpu["carbon_g"] == pytest.approx(0.44 * 87.4)
    assert gpu["carbon_evidence_class"] == "modeled"
    assert sum(r["carbon_g"] for r in rows(read(codecarbon()))) == pytest.approx(43.7)


def test_an_impossible_factor_is_refused_and_the_energy_stays() -> None:
    parsed = read(codecarbon(codecarbon_row(kg="5")))
    assert part(parsed, "gpu")["carbon_g"] is None
    assert part(parsed, "gpu")["energy_gross_j"] == pytest.approx(0.44 * 3.6e6)
    assert "g/kWh" in parsed.rejects[0].reason


def test_a_zero_is_what_codecarbon_writes_for_what_it_could_not_read() -> None:
    # codecarbon 1316 and 393: 0 kWh for a GPU that draws power
    parsed = read(codecarbon(codecarbon_row(gpu="0.0", cpu="0", total="0.015")))
    for scope in ("gpu", "cpu"):
        assert (part(parsed, scope)["energy_gross_j"], part(parsed, scope)["gap_reason"]) == (None, "unsupported")


def test_a_machine_without_gpu_has_no_gpu_part() -> None:
    # the shape of codecarbon 2.1.3 on a laptop: RAM only
    text = codecarbon(codecarbon_row(gpu="0", gpu_count="", gpu_model="", cpu="0.0", ram="0.5", total="0.5"))
    assert {r["meter_scope"] for r in rows(read(text))} == {"cpu", "ram"}


def test_a_power_usage_effectiveness_makes_the_figure_an_assumption() -> None:
    gpu = part(read(codecarbon(codecarbon_row(pue="1.2"))), "gpu")
    assert (gpu["evidence_class"], gpu["relative_uncertainty"], gpu["quality"]) == ("modeled", None, "LOW")


def test_more_than_a_board_can_draw_is_unknown() -> None:
    gpu = part(read(codecarbon(codecarbon_row(gpu="44", total="44.06", kg="3.8"))), "gpu")
    assert (gpu["energy_gross_j"], gpu["gap_reason"]) == (None, "implausible")  # 44 kW of two boards


def test_parts_that_do_not_make_the_total_are_said() -> None:
    parsed = read(codecarbon(codecarbon_row(total="0.9")))
    (reject,) = parsed.rejects
    assert (reject.whole_row, reject.field) == (False, "energy_consumed")


def test_files_of_version_1_have_a_modelled_total() -> None:
    parsed = read(CODECARBON_V1)
    assert [(r["energy_gross_j"], r["evidence_class"], r["meter_scope"], r["method"]) for r in rows(parsed)] == [
        (pytest.approx(28_800.0), "modeled", "host", "codecarbon_total"),
        (pytest.approx(10_800.0), "modeled", "host", "codecarbon_total"),
    ]


# time and machines ------------------------------------------------------------------------------


def test_naive_stamps_are_of_the_declared_zone_and_one_with_an_offset_is_taken_at_its_word() -> None:
    assert part(read(codecarbon(), timezone="Europe/Helsinki"), "gpu")["window_end_at"] == datetime(2026, 8, 1, 9)
    told = read(codecarbon(codecarbon_row(at="2026-08-01T12:00:00+05:00")), timezone="Europe/Helsinki")
    assert part(told, "gpu")["window_end_at"] == datetime(2026, 8, 1, 7)
    with pytest.raises(PayloadError, match="no time zone"):
        kind("codecarbon-csv").parse(payload(codecarbon(), "codecarbon-csv", options={}))


def test_eight_processes_that_each_log_the_whole_machine_count_once() -> None:
    # codecarbon 936 and 544: torchrun starts eight trackers; each writes its own row, a little apart
    ranks = [codecarbon_row(run_id=f"rank-{i}", duration=f"{3600 + i * 0.2:.1f}") for i in range(8)]
    parsed = read(codecarbon(*ranks))
    assert part(parsed, "gpu")["usage_key"] == "codecarbon:rank-7"  # the longest
    assert parsed.rows_quarantined == 7
    assert all("same machine" in r.reason for r in parsed.rejects)


def test_the_same_machine_and_window_in_eight_files_is_one_observation() -> None:
    ids = {part(read(codecarbon(codecarbon_row(run_id=f"rank-{i}"))), "gpu")["observation_id"] for i in range(8)}
    assert len(ids) == 1


def test_states_of_one_run_that_was_flushed_count_as_its_last() -> None:
    parsed = read(
        codecarbon(
            codecarbon_row(
                at="2026-08-01T11:30:00", duration="1800", gpu="0.22", cpu="0.0225", ram="0.0075", total="0.25"
            ),
            codecarbon_row(),
        )
    )
    assert part(parsed, "gpu")["energy_gross_j"] == pytest.approx(0.44 * 3.6e6)
    assert "earlier state of the run of row 2" in parsed.rejects[0].reason


def test_runs_one_after_another_all_count() -> None:
    # stamps have whole seconds, so the second run may seem to begin a moment before the first ends
    later = codecarbon_row(at="2026-08-01T13:00:00", run_id="run-2", duration="3600.6")
    assert len(rows(read(codecarbon(codecarbon_row(), later)))) == 6


def test_equal_machines_that_share_a_file_are_declared_as_many() -> None:
    text = codecarbon(codecarbon_row(run_id="node-1"), codecarbon_row(run_id="node-2", duration="3599.0"))
    assert read(text).rows_quarantined == 1
    assert len(rows(read(text, machines="many"))) == 6


def test_processes_that_measured_themselves_share_only_the_gpus() -> None:
    text = codecarbon(
        codecarbon_row(run_id="a", mode="process"), codecarbon_row(run_id="b", mode="process", duration="3599.0")
    )
    parsed = read(text)
    assert [r["meter_scope"] for r in rows(parsed)].count("gpu") == 1
    assert [r["meter_scope"] for r in rows(parsed)].count("cpu") == 2
    (reject,) = parsed.rejects
    assert (reject.whole_row, reject.field) == (False, "gpu_energy")


@pytest.mark.parametrize("row", ["2020-04-31T03:26:11", "soon", ""])
def test_a_day_that_there_is_not_is_refused_and_its_siblings_load(row: str) -> None:
    # CodeCarbon's own example file has 2020-04-31 and 2020-06-31
    parsed = read(codecarbon(codecarbon_row(at=row), codecarbon_row()))
    assert parsed.rows_quarantined == 1
    assert len(rows(parsed)) == 3


def test_a_line_that_was_cut_off_is_refused() -> None:
    parsed = read(codecarbon(codecarbon_row())[:-60])
    assert (parsed.rows_in, parsed.rows_quarantined) == (1, 1)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", codecarbon().splitlines()[0] + "\n", "{}"])
def test_what_is_no_emissions_file_is_refused_whole(text: str) -> None:
    with pytest.raises(PayloadError):
        read(text)
