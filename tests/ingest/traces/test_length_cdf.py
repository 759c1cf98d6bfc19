"""`length-cdf`: a distribution is taken whole or not at all."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.operations.sampling import _delete
from ingest.base import Payload
from ingest.errors import PayloadError
from ingest.kinds import KINDS
from ingest.pipeline import refresh
from ingest.sample import sample_payloads
from policies.fleet.power import published
from policies.fleet.queueing import Pool, size
from policies.fleet.traces import cdfs, read_cdf, read_trace, traces
from tests.ingest.traces.loading import AT, load, parse, rows
from tests.support import shared
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot

KNOTS = [[64, 0.0], [512, 0.5], [4096, 0.9], [8192, 1.0]]


def test_a_list_of_knots() -> None:
    found = rows(parse("length-cdf", json.dumps(KNOTS), "mine.json"))
    assert [(r["tokens"], r["share"]) for r in found] == [tuple(k) for k in KNOTS]
    assert {r["cdf"] for r in found} == {"mine"} and {r["citation"] for r in found} == {None}


def test_an_object_tells_where_it_comes_from() -> None:
    body = json.dumps({"cdf": KNOTS, "source": "synthetic", "provenance": "made up", "seed": 42})
    assert rows(parse("length-cdf", body))[0]["citation"] == "synthetic: made up"
    assert rows(parse("length-cdf", body, citation="mine", cdf="x"))[0] == {
        "cdf": "x", "tokens": 64, "share": 0.0, "citation": "mine",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "is empty"),
        ("[]", "0 knots"),
        ('{"lengths": []}', "where its knots should be"),
        ("[[64, 0.5], [128, 0.99]]", "some requests have no length.*with share 1"),
        ("[[64, 0.5], [128, 0.4], [256, 1]]", "knot 1 has share 0.4 after 0.5"),
        ("[[64, 0.5], [64, 1]]", "knot 1 has 64 tokens after 64"),
        ("[[0, 0.5], [64, 1]]", "knot 0 is below 1"),
        ("[[64.5, 1]]", "not a whole number"),
        ("[[64, 1.2]]", "is above"),
        ("[[64, -0.1], [65, 1]]", "is negative"),
        ("[[64, NaN], [65, 1]]", "not a finite number"),
        ("[[64], [65, 1]]", "not \\[tokens, share\\]"),
        ('[["64", 1]]', "not a number"),
        ("[[64, null]]", "no tokens or no share"),
        ("[[64, 0.5", "truncated"),
    ],
)
def test_one_bad_knot_refuses_them_all(body: str, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        parse("length-cdf", body)


def test_a_last_share_that_is_1_but_for_rounding_is_1() -> None:
    assert rows(parse("length-cdf", "[[64, 0.4], [128, 0.9999999]]"))[-1]["share"] == 1.0


@given(
    st.dictionaries(st.integers(1, 100_000), st.integers(1, 1_000), min_size=1, max_size=40),
)
@settings(max_examples=20)
def test_every_distribution_comes_back(counts: dict[int, int]) -> None:
    total, running, knots = sum(counts.values()), 0, []
    for tokens in sorted(counts):
        running += counts[tokens]
        knots.append([tokens, running / total])
    found = rows(parse("length-cdf", json.dumps(knots)))
    assert [[r["tokens"], r["share"]] for r in found] == knots


def test_a_name_means_the_same_distribution_for_ever(warehouse: Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    for body, state in (
        (KNOTS, "OK"),
        (KNOTS, "OK"),
        ([*KNOTS[:2], [4096, 0.91], KNOTS[3]], "FAILED"),
        (KNOTS[1:], "FAILED"),
        ([[32, 0.0], *KNOTS], "FAILED"),
    ):
        file.write_text(json.dumps(body))
        assert load(warehouse, "length-cdf", file).state == state
    assert warehouse.scalar("SELECT count(*) FROM core.length_cdf") == 4
    assert load(warehouse, "length-cdf", file, cdf="other").rows_loaded == 5


def test_the_peers_distributions_load(warehouse: Warehouse) -> None:
    for name in ("azure", "lmsys", "agent_heavy"):
        assert load(warehouse, "length-cdf", shared(f"data/fleetsim_cdf/{name}_cdf.json")).rows_loaded == 18


def test_the_sample_has_a_workload_and_takes_it_away(warehouse: Warehouse) -> None:
    payloads = [p for p in sample_payloads(AT) if p.kind in ("request-trace", "length-cdf")]
    for payload in payloads:
        outcome = refresh(
            warehouse, KINDS[payload.kind], payload.source_id, partial(_itself, payload), trigger="sample"
        )
        assert (outcome.state, outcome.rows_quarantined) == ("OK", 0)
    with snapshot(warehouse) as snap:
        trace, cdf = read_trace(snap, "sample"), read_cdf(snap, "sample")
    assert (len(trace), trace.models, len(trace.categories)) == (2_000, ("llama-3-70b",), 3)
    assert 1_000 < trace.sessions < 1_600 and 8 < trace.requests_per_s < 10
    assert cdf.citation == "made up for the sample"
    for workload in (trace, cdf):
        assert size(Pool("x", published("H100-80GB"), 8192, 40.0, workload)).slo_met
    with warehouse.transaction() as tx:
        _delete(tx)
    with snapshot(warehouse) as snap:
        assert traces(snap) == [] == cdfs(snap)


def _itself(payload: Payload) -> Payload:
    return payload
