"""The sample payloads as payloads: deterministic, parsable whole, in agreement with themselves."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from ingest.base import Payload
from ingest.errors import PayloadError
from ingest.sample import sample_payloads
from ingest.sample.published import parse, published_document
from ingest.sample.published_tables import SLICES_CITATION, TABLE_2, TABLE_3, TABLE_4
from tests.policies.world import NOW, World
from tests.sample.loading import catalog, documents, parsed
from tests.support import shared


def test_the_same_instant_gives_the_same_bytes(payloads: list[Payload]) -> None:
    assert sample_payloads(NOW - timedelta(seconds=1)) == payloads


def test_another_instant_moves_timestamps_and_nothing_else(payloads: list[Payload]) -> None:
    shift = timedelta(days=100, seconds=7)
    later = sample_payloads(NOW - timedelta(seconds=1) + shift)
    before, after = documents(payloads), documents(later)
    assert {b["created"] - a["created"] for a, b in zip(before, after, strict=True)} == {int(shift.total_seconds())}
    for document in (*before, *after):
        del document["created"]
    assert before == after
    assert [p.body for p in payloads if "completions" not in p.source_id] == [
        p.body for p in later if "completions" not in p.source_id
    ]


def test_every_payload_is_recognisable_as_sample(payloads: list[Payload]) -> None:
    assert [(p.source_id, p.kind) for p in payloads] == [
        ("sample:catalog", "neuralwatt-models"),
        ("sample:grid", "grid-factors"),
        ("sample:completions", "neuralwatt-completions"),
        ("sample:labels", "request-labels"),
        ("sample:published", "published-points"),
        ("sample:published-fixed-arms", "published-points"),
        ("sample:outcomes", "outcomes"),
        ("sample:trace", "request-trace"),
        ("sample:lengths", "length-cdf"),
    ]


def test_the_parsers_of_real_payloads_take_every_row(payloads: list[Payload]) -> None:
    for payload in payloads:
        result = parsed(payload)
        assert result.rejects == (), payload.source_id
        assert result.rows_in == result.tables[result.primary].height


def test_energy_carbon_and_cost_agree_exactly(payloads: list[Payload]) -> None:
    pricing = {row["id"]: row["metadata"]["pricing"] for row in catalog(payloads)}
    for d in (d for d in documents(payloads) if "energy" in d):
        energy = d["energy"]
        assert energy["energy_joules"] == energy["energy_kwh"] * 3_600_000
        assert energy["carbon_g_co2eq"] == energy["energy_kwh"] * energy["grid_carbon_intensity_gco2perkwhr"]
        window_j = energy["avg_power_watts"] * energy["duration_seconds"]
        assert float(energy["attribution_ratio"]) == pytest.approx(float(energy["energy_joules"] / window_j), abs=1e-6)
        price, usage = pricing[d["model"]], d["usage"]
        listed = usage["prompt_tokens"] * price["input_per_million"] + usage["completion_tokens"] * Decimal(
            price["output_per_million"]
        )
        ceiling = 3 * listed / 1_000_000
        assert d["cost"]["request_cost_usd"] == min(8 * energy["energy_kwh"], ceiling)


def test_all_observations_are_recent_and_none_is_of_the_future(payloads: list[Payload]) -> None:
    now = (NOW - timedelta(seconds=1)).replace(tzinfo=UTC).timestamp()
    for d in documents(payloads):
        took = float(d.get("energy", {}).get("duration_seconds", 1))
        assert now - 7 * 86_400 <= d["created"]
        assert d["created"] + took <= now
    newest = max(d["created"] for d in documents(payloads))
    assert now - newest < 3600


def test_organic_traffic_supports_success_rates_and_a_seven_day_trend(world: World) -> None:
    rows = world.db.execute(
        "SELECT requested_offer, successes, energy_j, billed_cost_usd, duration_s, usage_key, "
        "floor(date_diff('second', period_start_at, TIMESTAMP '2026-08-11 12:00:00') / 86400) AS day "
        "FROM core.usage WHERE workload = 'organic'"
    ).pl()
    assert 300 <= rows.height <= 600
    assert rows["requested_offer"].n_unique() >= 5
    assert set(rows["day"].cast(int)) == set(range(7))
    assert min(Counter(rows["day"]).values()) >= 30
    failed = rows.filter(rows["successes"] == 0)
    assert 0.03 < failed.height / rows.height < 0.15
    aborted = rows.filter(rows["energy_j"].is_null())
    assert 3 <= aborted.height < failed.height
    assert set(aborted["successes"]) == {0}
    assert aborted["billed_cost_usd"].null_count() == aborted["duration_s"].null_count() == aborted.height
    retries = rows.filter(rows["usage_key"].str.ends_with("-retry"))
    assert retries.height >= 5
    assert set(retries["usage_key"].str.strip_suffix("-retry")) <= set(failed["usage_key"])


# --- published points ------------------------------------------------------------------------------------------------


def published(document: object) -> Payload:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Payload("test:published", "published-points", "file:///points.json", datetime(2026, 8, 11), body)


def test_the_published_table_becomes_13_modeled_points(world: World) -> None:
    rows = world.db.execute("SELECT * FROM core.published_point WHERE dataset = 'published' ORDER BY energy_j").pl()
    assert rows.height == 13
    assert set(rows["dataset"]) == {"published"}
    assert set(rows["evidence_class"]) == {"modeled"}
    assert set(rows["method"]) == {"published table"}
    assert set(rows["n"]) == {913}
    assert "arXiv:2609.23085" in rows["citation"][0]
    knn = rows.filter(rows["policy"] == "K-NN").row(0, named=True)
    assert (knn["accuracy"], knn["energy_j"], knn["latency_s"], knn["power_w"]) == (0.790, 3697.6, 23.366, 121.3)
    assert knn["reward"] is None


def test_the_figures_are_those_of_the_paper() -> None:
    text = shared("sources/measured-joules-learned-routes.md").read_text(encoding="utf-8")
    table = text[text.index("Table 2. Held-out") : text.index("## 3. Agentic")]
    rows = [[c.strip() for c in line.strip("| ").split("|")] for line in table.splitlines() if line.startswith("|")][2:]
    expected = [
        (float(acc), None if rew == "-" else float(rew), int(ms), float(joules), float(watts))
        for _, acc, rew, ms, joules, watts in rows
    ]
    assert [row[1:] for row in TABLE_2] == expected


def test_the_fixed_arm_of_the_text_is_a_data_set_of_its_own_without_time_and_power(world: World) -> None:
    rows = world.db.execute("SELECT * FROM core.published_point WHERE dataset <> 'published'").pl()
    (row,) = rows.to_dicts()
    assert (row["dataset"], row["policy"]) == ("published-fixed-arms", "Always-Qwen2.5-7B")
    assert (row["accuracy"], row["energy_j"], row["latency_s"], row["power_w"]) == (0.640, 281.6, None, None)
    assert row["citation"].endswith("Table 8")


def test_the_slices_are_those_of_the_paper_and_name_their_own_tables(world: World) -> None:
    text = shared("sources/measured-joules-learned-routes.md").read_text(encoding="utf-8")
    slices = world.db.execute("SELECT * FROM core.published_slice WHERE dataset = 'published'").pl()
    assert slices.height == 7 * 11
    assert set(slices["citation"]) == {SLICES_CITATION}
    for number, until, table in ((3, "##### MATH-500", TABLE_3), (4, "The more direct", TABLE_4)):
        start = text.index(f"Table {number}. ")
        lines = [line for line in text[start : text.index(until, start)].splitlines() if line.startswith("|")][2:-1]
        told = [[float(c.strip().replace("k", "")) * (1000 if "k" in c else 1) for c in line.strip("| ").split("|")[1:]]
                for line in lines]  # fmt: skip
        assert [list(row) for row in table] == told


def test_a_bad_slice_is_dropped_and_its_point_stays() -> None:
    document = published_document()
    document["slices"][0]["accuracy"] = 2
    document["slices"][1]["policy"] = "nobody"
    document["slices"][2] = dict(document["slices"][3])
    document["slices"].append("nonsense")
    result = parse(published(document))
    assert result.tables["core.published_point"].height == 13
    assert result.tables["core.published_slice"].height == 7 * 11 - 3
    assert result.rows_quarantined == 0
    assert len(result.rejects) == 5  # the accuracy itself, and each row that has no place


def test_half_a_point_is_refused_and_its_siblings_load() -> None:
    document = published_document()
    document["points"][0]["energy_j"] = None
    document["points"][1]["accuracy"] = 1.5
    document["points"][2] = dict(document["points"][3])
    document["points"].append("nonsense")
    result = parse(published(document))
    assert result.rows_in == 14
    assert result.tables["core.published_point"].height == 10
    assert [r.field for r in result.rejects if r.whole_row] == ["energy_j", "accuracy", "policy", None]
    assert result.rows_in == result.tables["core.published_point"].height + result.rows_quarantined


def test_an_unusable_reward_is_dropped_and_its_point_kept() -> None:
    document = published_document()
    document["points"][0]["reward"] = "high"
    result = parse(published(document))
    assert result.tables["core.published_point"].height == 13
    assert [(r.field, r.whole_row) for r in result.rejects] == [("reward", False)]


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (b"<html></html>", "web page"),
        (b'{"points": [', "truncated"),
        ({"dataset": "d", "citation": "c"}, "no 'points'"),
        ({"points": [], "citation": "c"}, "dataset"),
        ({"points": [], "dataset": "d"}, "citation"),
    ],
)
def test_what_is_no_table_of_points_is_refused_whole(document: object, told: str) -> None:
    with pytest.raises(PayloadError, match=told):
        parse(published(document))
