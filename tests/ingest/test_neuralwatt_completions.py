"""Completions: one usage row and one observation each; energy is allocated, and NULL where it is not told."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing.neuralwatt_completions import parse
from ingest.errors import PayloadError
from tests.ingest.samples import completion, counts_add_up, energy, payload, rows, stream
from warehouse.evidence import weakest

OBSERVATION = "core.energy_observation"


def parsed(body: Any) -> Parsed:
    result = parse(payload(body, "neuralwatt-completions"))
    assert counts_add_up(result)
    assert result.tables[OBSERVATION].height == result.tables["core.usage"].height
    return result


def one(body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    result = parsed(body)
    (usage,), (observation,) = rows(result), rows(result, OBSERVATION)
    return usage, observation


def test_a_response_is_a_usage_row_with_allocated_energy() -> None:
    usage, _ = one(completion())
    # energy.md section 7: 5.2904e-05 kWh = 190.4544 J, x 37.0 g/kWh = 0.001957 g, cost / energy = 8.00 USD/kWh
    assert usage["energy_j"] == pytest.approx(190.4544, rel=1e-12)
    assert usage["carbon_g"] == pytest.approx(usage["energy_j"] / 3.6e6 * 37.0, rel=1e-4)
    assert float(usage["billed_cost_usd"]) / (usage["energy_j"] / 3.6e6) == pytest.approx(8.0, rel=1e-9)
    assert usage["energy_uncapped_j"] == 1904.55
    assert (usage["evidence_class"], usage["method"]) == ("allocated", "prorated_multi_gpu_8")
    assert (usage["grain"], usage["workload"], usage["account"], usage["usage_key"]) == (
        "request", "organic", "default", "chatcmpl-1",
    )  # fmt: skip
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cached_tokens"]) == (18, 900, 2)
    assert (usage["requests"], usage["attempts"], usage["successes"], usage["requests_with_energy"]) == (1, 1, 1, 1)
    assert usage["period_start_at"] == datetime(2026, 8, 11, 12)
    assert usage["period_end_at"] == datetime(2026, 8, 11, 12, 0, 0, 613_000)


def test_its_observation_keeps_the_attribution() -> None:
    usage, observation = one(completion())
    assert (observation["energy_gross_j"], observation["energy_net_j"]) == (usage["energy_j"], None)
    assert (observation["attribution_share"], observation["attribution_capped"]) == (0.1, True)
    assert (observation["energy_uncapped_j"], observation["zone"]) == (1904.55, "FI")
    assert (observation["evidence_class"], observation["quality"], observation["coverage"]) == (
        "allocated",
        "FAIR",
        1.0,
    )
    assert (observation["logical_model"], observation["deployable_model"]) == ("glm-5.2", "glm-5.2-fast")
    assert (observation["output_tokens"], observation["usage_key"]) == (900, "chatcmpl-1")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("agent_cache", "calibrated"),  # a live average of the region
        ("regional_fallback", "modeled"),
        ("static_fallback", "modeled"),
        ("something_new", "modeled"),
        (None, "modeled"),
    ],
)
def test_a_fallback_intensity_makes_grams_modeled_and_leaves_the_joules_alone(
    source: str | None, expected: str
) -> None:
    for row in one(completion(energy=energy(carbon_source=source))):
        assert (row["carbon_evidence_class"], row["evidence_class"]) == (expected, "allocated")
    assert row["quality"] == "FAIR"


@given(st.one_of(st.none(), st.text(), st.sampled_from(["agent_cache", "regional_fallback", "static_fallback"])))
def test_grams_are_never_stronger_than_joules(source: str | None) -> None:
    usage, _ = one(completion(energy=energy(carbon_source=source)))
    assert weakest([usage["evidence_class"], usage["carbon_evidence_class"]]) == usage["carbon_evidence_class"]


def test_unknown_grams_have_no_class() -> None:
    for row in one(completion(energy=energy(carbon_g_co2eq=None))):
        assert (row["carbon_g"], row["carbon_evidence_class"]) == (None, None)


class TestShapes:
    """However a file holds completions, they are the same completions."""

    BOTH: ClassVar[list[dict[str, Any]]] = [completion("a"), completion("b", kwh=None)]

    @pytest.mark.parametrize(
        "body",
        [
            json.dumps(BOTH),
            json.dumps(BOTH, indent=2),
            "\n".join(json.dumps(c) for c in BOTH),
            "\r\n".join(json.dumps(c) for c in BOTH) + "\r\n\r\n",
        ],
    )
    def test_array_and_lines_are_alike(self, body: str) -> None:
        assert [(r["usage_key"], r["energy_j"] is None) for r in rows(parsed(body))] == [("a", False), ("b", True)]

    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    def test_streams_one_after_the_other(self, newline: str) -> None:
        text = (stream("a") + stream("b") + stream("c")).replace("\n", newline)
        assert [r["usage_key"] for r in rows(parsed(text))] == ["a", "b", "c"]

    def test_a_stream_is_like_its_response(self) -> None:
        usage, observation = one(stream())
        # the fixture of energy.md section 4.1: 5.679e-06 kWh = 20.4444 J, 2.8e-05 USD
        assert usage["energy_j"] == pytest.approx(20.4444, rel=1e-9)
        assert usage["billed_cost_usd"] == Decimal("0.000028")
        assert (usage["successes"], usage["service_tier"], usage["prompt_tokens"]) == (1, "flex", 17)
        assert observation["offer_id"] == "glm-5.2-flex"

    def test_the_last_line_may_lack_its_newline(self) -> None:
        text = stream().split("data: [DONE]")[0].rstrip()
        assert text.endswith("}")
        assert one(text)[0]["billed_cost_usd"] == Decimal("0.000028")

    def test_comments_behind_the_end_still_belong_to_the_stream(self) -> None:
        text = stream(comments=False) + ": energy " + json.dumps(energy(5.679e-06)) + "\n"
        assert one(text)[0]["energy_j"] == pytest.approx(20.4444)

    def test_a_line_separator_inside_a_text_is_no_line_end(self) -> None:
        body = json.dumps(completion(note="a\u2028b\x85c"), ensure_ascii=False)
        assert len(rows(parsed(body + "\n" + json.dumps(completion("z"))))) == 2

    def test_heartbeats_and_foreign_comments_are_passed_over(self) -> None:
        text = ': keep-alive\n\n: mcr-session {"id": 1}\n\nevent: message\nretry: 10\n' + stream()
        assert one(text)[0]["successes"] == 1

    def test_what_is_no_completion_is_refused_whole(self) -> None:
        for body, said in (
            ('{"data": [], "object": "list"}', "no completion"),
            ("hello", "neither JSON nor"),
            ("", "empty"),
        ):
            with pytest.raises(PayloadError, match=said):
                parsed(body)

    def test_a_broken_line_goes_alone(self) -> None:
        text = (
            json.dumps(completion("a")) + "\n" + json.dumps(completion("b"))[:40] + "\n" + json.dumps(completion("c"))
        )
        result = parsed(text)
        assert [r["usage_key"] for r in rows(result)] == ["a", "c"]
        assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True)]


class TestAborted:
    def test_a_stream_that_broke_off_has_no_energy_and_failed(self) -> None:
        usage, observation = one(stream(done=False))
        assert (usage["energy_j"], usage["billed_cost_usd"], usage["successes"]) == (None, None, 0)
        assert (usage["requests"], usage["attempts"], usage["requests_with_energy"]) == (1, 1, 0)
        assert (observation["energy_gross_j"], observation["gap_reason"]) == (None, "unsupported")
        assert (observation["coverage"], observation["quality"]) == (0.0, "LOW")
        assert usage["period_start_at"] < usage["period_end_at"]

    def test_an_energy_line_cut_in_the_middle_is_refused(self) -> None:
        result = parsed(stream(comments=False).replace("data: [DONE]", ': energy {"energy_jou'))
        assert rows(result)[0]["energy_j"] is None
        assert [(r.field, r.whole_row) for r in result.rejects] == [("energy", False)]

    def test_figures_without_a_stream_are_refused(self) -> None:
        result = parsed(': energy {"energy_kwh": 1}\n\n' + stream())
        assert [r["usage_key"] for r in rows(result)] == ["chatcmpl-2"]
        assert "belongs to no stream" in result.rejects[0].reason

    def test_t37_joules_per_success_never_mix_requests_with_and_without_energy(self) -> None:
        # 10 requests, 8 with energy (800 J in all), 7 of those succeeded; 800/9 would be wrong
        kwh = 100 / 3.6e6
        told = [completion(f"r{i}", kwh=kwh, energy=energy(kwh, energy_joules=100.0)) for i in range(8)]
        told[7]["choices"][0]["finish_reason"] = "content_filter"
        unmeasured = [completion(f"r{i}", kwh=None) for i in (8, 9)]
        frame = parsed(told + unmeasured).tables["core.usage"]
        with_energy = frame.filter(pl.col("energy_j").is_not_null())
        assert frame["requests_with_energy"].sum() / frame["requests"].sum() == 0.8
        assert with_energy["energy_j"].sum() == pytest.approx(800)
        assert with_energy["energy_j"].sum() / with_energy["successes"].sum() == pytest.approx(114.2857, abs=1e-4)
        assert frame["successes"].sum() == 9

    @given(st.lists(st.booleans(), min_size=1, max_size=12))
    def test_t37_coverage_is_the_share_of_streams_with_energy(self, ended: list[bool]) -> None:
        frame = parsed("".join(stream(f"r{i}", done=done) for i, done in enumerate(ended))).tables["core.usage"]
        assert frame.height == len(ended)
        assert frame["requests_with_energy"].to_list() == [int(d) for d in ended]
        assert [e is not None for e in frame["energy_j"]] == ended


class TestSuccess:
    @pytest.mark.parametrize(
        ("reason", "success"),
        [("stop", 1), ("length", 1), ("tool_calls", 1), ("content_filter", 0), ("error", 0), (None, None), (7, 0)],
    )
    def test_the_finish_reason_tells(self, reason: Any, success: int | None) -> None:
        assert one(completion(choices=[{"index": 0, "finish_reason": reason}]))[0]["successes"] == success

    def test_one_failed_choice_fails_the_request(self) -> None:
        choices = [{"index": 0, "finish_reason": "stop"}, {"index": 1, "finish_reason": "content_filter"}]
        assert one(completion(choices=choices))[0]["successes"] == 0

    def test_an_error_is_no_success(self) -> None:
        assert one(completion(error={"message": "overloaded"}))[0]["successes"] == 0

    def test_a_finished_stream_that_tells_no_reason_is_unknown(self) -> None:
        assert one(stream(finish=None))[0]["successes"] is None

    @pytest.mark.parametrize("told", [True, False])
    def test_whoever_recorded_it_knows_better(self, told: bool) -> None:
        reason = "error" if told else "stop"
        meta = {"workload": "seed_reference", "account": "a", "success": told, "attempts": 3}
        usage, observation = one(completion(choices=[{"index": 0, "finish_reason": reason}], joulebook=meta))
        assert (usage["successes"], observation["successes"]) == (int(told), int(told))
        assert (usage["workload"], usage["account"], usage["attempts"]) == ("seed_reference", "a", 3)

    def test_a_stream_may_carry_the_same_note(self) -> None:
        text = stream().replace("data: [DONE]", ': joulebook {"workload": "seed_reference"}\n\ndata: [DONE]')
        assert one(text)[0]["workload"] == "seed_reference"

    def test_an_unknown_workload_is_refused_because_it_decides_what_steers(self) -> None:
        result = parsed(completion(joulebook={"workload": "reference"}))
        assert rows(result) == []
        assert result.rejects[0].field == "joulebook.workload"


class TestEnergy:
    @pytest.mark.parametrize(
        ("changes", "gap"),
        [
            ({"energy_kwh": -1e-5}, "implausible"),
            ({"energy_kwh": 300}, "implausible"),  # 1.08e9 J
            ({"energy_kwh": float("nan")}, "implausible"),
            ({"energy_joules": float("inf")}, "implausible"),
            ({"energy_joules": "190"}, "implausible"),
            ({"energy_joules": 191.0}, "implausible"),  # 0.29 % from 190.4544
            ({"energy_kwh": None, "energy_joules": None}, "unsupported"),
            ({"measurement_available": False}, "unsupported"),
            ({"energy_kwh": 0, "energy_joules": 0}, "below_resolution"),
        ],
    )
    def test_what_cannot_be_is_null_with_its_reason(self, changes: dict[str, Any], gap: str) -> None:
        result = parsed(completion(energy=energy(**changes)))
        (usage,), (observation,) = rows(result), rows(result, OBSERVATION)
        assert (usage["energy_j"], usage["requests_with_energy"]) == (None, 0)
        assert (observation["energy_gross_j"], observation["gap_reason"]) == (None, gap)
        assert all(not r.whole_row for r in result.rejects)
        assert bool(result.rejects) == (gap != "unsupported")

    def test_both_figures_may_differ_by_their_rounding(self) -> None:
        # the fixture tells 190.46 J beside 5.2904e-05 kWh = 190.4544 J
        assert one(completion(energy=energy(energy_joules=190.46)))[0]["energy_j"] == pytest.approx(190.4544)
        assert one(completion(energy=energy(1e-9, energy_joules=0.0)))[0]["energy_j"] == pytest.approx(0.0036)

    @pytest.mark.parametrize(("missing", "joules"), [("energy_kwh", 190.45), ("energy_joules", 190.4544)])
    def test_one_figure_is_enough(self, missing: str, joules: float) -> None:
        assert one(completion(energy=energy(**{missing: None})))[0]["energy_j"] == pytest.approx(joules)

    @given(st.floats(1e-10, 200))
    def test_a_plausible_energy_is_kept_and_never_uncertainly_zero(self, kwh: float) -> None:
        found = one(completion(energy=energy(kwh)))[0]["energy_j"]
        assert found == pytest.approx(kwh * 3.6e6, rel=1e-12)

    def test_a_charged_energy_is_kept_beside_the_consumed(self) -> None:
        usage, _ = one(completion(energy=energy(energy_kwh_charged=5.2904e-05 * 0.65)))
        assert usage["energy_charged_j"] / usage["energy_j"] == pytest.approx(0.65)

    def test_an_implausible_intensity_spoils_only_itself(self) -> None:
        result = parsed(completion(energy=energy(grid_carbon_intensity_gco2perkwhr=37_000)))
        assert rows(result)[0]["intensity_g_per_kwh"] is None
        assert rows(result)[0]["energy_j"] is not None
        assert [r.field for r in result.rejects] == ["energy.grid_carbon_intensity_gco2perkwhr"]


class TestIdentity:
    def test_t25_a_response_that_is_read_again_is_spent_once(self) -> None:
        # litellm#17814
        result = parsed([completion(), completion(), completion(model="other")])
        assert [r["billed_cost_usd"] for r in rows(result)] == [Decimal("0.000423232")]
        assert [r.whole_row for r in result.rejects] == [True, True]
        assert "the same" in result.rejects[0].reason
        assert "other" in result.rejects[1].reason

    def test_the_same_id_in_two_accounts_is_two_requests(self) -> None:
        both = [completion(joulebook={"account": name}) for name in ("a", "b")]
        result = parsed(both)
        assert [r["account"] for r in rows(result)] == ["a", "b"]
        assert len({r["observation_id"] for r in rows(result, OBSERVATION)}) == 2

    def test_an_observation_has_the_same_id_in_every_import(self) -> None:
        ids = {one(body)[1]["observation_id"] for body in (completion(), completion(kwh=None), completion(model="x"))}
        assert len(ids) == 1

    @pytest.mark.parametrize(
        ("field", "value"),
        [("id", None), ("id", " "), ("id", 5), ("model", None), ("created", None), ("created", 0),
         ("created", 1_786_449_600_000), ("created", "2026-08-11T12:00:00"), ("created", True), ("created", 1e300)],
    )  # fmt: skip
    def test_a_request_that_cannot_be_placed_goes_alone(self, field: str, value: Any) -> None:
        result = parsed([completion("good"), completion(**{field: value})])
        assert [r["usage_key"] for r in rows(result)] == ["good"]
        assert [r.field for r in result.rejects if r.whole_row] == [field]

    def test_a_stream_without_duration_ends_a_second_after_its_last_chunk(self) -> None:
        text = stream(comments=False).replace("1786466250", "1786466600")
        usage, _ = one(stream(done=False) + text)
        assert usage["period_end_at"] - usage["period_start_at"] == timedelta(seconds=351)


def test_data_at_is_the_end_of_the_newest_request() -> None:
    late = completion("b", created=1_786_449_700)
    assert parsed([late, completion("a")]).data_at == datetime(2026, 8, 11, 12, 1, 40, 613_000)
