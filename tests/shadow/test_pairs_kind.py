"""Kinds `shadow-pairs` and `request-labels`: what loads, and what is refused by name while its siblings load."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.base import Parsed, Payload
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.quality.scores import CATEGORIES as TAUGHT
from ingest.shadow import labels, pairs
from policies.proof.bands import SIZE_BAND_EDGES, size_band
from policies.router import CATEGORIES
from tests.shadow.desks import pairs as made

NOW = datetime(2026, 3, 1, 12)
EARLIER = NOW - timedelta(hours=1)


def parsed(rows: Any, name: str = "shadow-pairs", *, lines: bool = False) -> Parsed:
    text = "\n".join(json.dumps(r) for r in rows) if lines else json.dumps(rows)
    return parse_bytes(text.encode(), name)


def parse_bytes(body: bytes, name: str = "shadow-pairs") -> Parsed:
    return kind(name).parse(Payload("replays", name, "file:///replays", NOW, body))


def one(**changes: Any) -> dict[str, Any]:
    return made(1, start=EARLIER)[0] | changes


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(
        {k: "" if v is None else str(v).lower() if isinstance(v, bool) else v for k, v in r.items()} for r in rows
    )
    return out.getvalue().encode()


def test_csv_json_lines_a_json_list_and_parquet_tell_the_same() -> None:
    rows = made(7, start=EARLIER)
    parquet = io.BytesIO()
    pl.DataFrame(rows).write_parquet(parquet)
    tables = [
        told.tables["core.shadow_pair"]
        for told in (
            parsed(rows), parsed(rows, lines=True), parsed({"pairs": rows}), parse_bytes(as_csv(rows)),
            parse_bytes(parquet.getvalue()),
        )
    ]  # fmt: skip
    assert all(t.equals(tables[0]) for t in tables[1:])
    assert tables[0].height == 7
    assert tables[0]["size_band"].unique().to_list() == ["0-511"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"control_energy_j": -1.0}, "control_energy_j is negative"),
        ({"candidate_energy_j": 0}, "candidate_energy_j is 0, but the request succeeded; unknown energy is an empty"),
        ({"candidate_energy_j": None}, "candidate_energy_j is missing, but the request succeeded and the control"),
        ({"candidate_attempts": 0}, "candidate_attempts is 0, but the request succeeded"),
        ({"control_latency_s": "inf"}, "control_latency_s is infinite, but the request succeeded"),
        ({"control_latency_s": -0.1}, "control_latency_s is negative"),
        ({"candidate_cost_usd": "-0.01"}, "candidate_cost_usd is negative"),
        ({"control_energy_j": 1e15}, "control_energy_j is above 1e+12"),
        ({"pair_id": ""}, "pair_id is missing"),
        ({"request_id": None}, "request_id is missing"),
        ({"observed_at": None}, "observed_at is missing"),
        ({"observed_at": "2026-03-01T10:00:00"}, "observed_at is not an ISO 8601 time with a zone"),
        ({"observed_at": "2026-03-01T13:00:00Z"}, "observed_at lies in the future"),
        ({"evidence_kind": "reference_workload"}, "evidence_kind is none of paired_replay, mirrored"),
        ({"candidate_offer": "old"}, "candidate_offer is the control itself"),
        ({"category": "poetry"}, "category is none of coding_general"),
        ({"size_band": "0-100"}, "size_band is none of 0-511, 512-2047, 2048-8191, 8192-32767, 32768+"),
        ({"first_arm": "both"}, "first_arm is none of control, candidate"),
        ({"evidence_class": "guessed"}, "evidence_class is none of measured, allocated, calibrated, modeled"),
        ({"evidence_class": None}, "evidence_class is missing: joules without an evidence class are no figure"),
        ({"carbon_evidence_class": None}, "carbon_evidence_class is missing: grams without an evidence class are no"),
        ({"evidence_class": "modeled"}, "carbon_evidence_class is stronger than that of the joules"),
        ({"repeat_no": -1}, "repeat_no is negative"),
        ({"pair_id": "x" * 201}, "pair_id is longer than 200 characters"),
    ],
)  # fmt: skip
def test_a_pair_that_lies_or_contradicts_itself_is_refused_and_its_siblings_load(
    changes: dict[str, Any], reason: str
) -> None:
    told = parsed([one(pair_id="a"), one(pair_id="b") | changes, one(pair_id="c")])
    (refused,) = told.rejects
    assert refused.reason.startswith(reason)
    assert refused.whole_row
    assert refused.row_no == 1
    assert told.tables["core.shadow_pair"]["pair_id"].to_list() == ["a", "c"]


@pytest.mark.parametrize(
    ("changes", "column", "reason"),
    [
        ({"control_energy_j": "NaN"}, "control_energy_j", "is not a finite number"),
        ({"control_energy_j": "many"}, "control_energy_j", "is not a finite number"),
        ({"candidate_success": "perhaps"}, "candidate_success", "is not true or false"),
        ({"tokens": 1.5}, "tokens", "is not a whole number"),
    ],
)
def test_a_figure_that_cannot_be_read_is_unknown_and_never_zero(
    changes: dict[str, Any], column: str, reason: str
) -> None:
    told = parsed([one() | changes])
    (refused,) = told.rejects
    assert reason in refused.reason and not refused.whole_row
    row = told.tables["core.shadow_pair"].row(0, named=True)
    assert row.get(column) is None
    if column == "tokens":
        assert row["size_band"] == "unknown"


def test_what_is_not_told_stays_null_and_what_never_answered_is_infinite() -> None:
    bare = {
        k: one()[k]
        for k in ("pair_id", "evidence_kind", "request_id", "control_offer", "candidate_offer", "observed_at")
    }
    row = (
        parsed([bare | {"candidate_success": False, "candidate_latency_s": "inf"}])
        .tables["core.shadow_pair"]
        .row(0, named=True)
    )
    assert row["candidate_latency_s"] == float("inf")
    assert (row["control_energy_j"], row["control_success"], row["cluster"], row["meter_class"]) == (None,) * 4
    assert (row["category"], row["size_band"], row["repeat_no"], row["aborted"]) == ("unknown", "unknown", 0, False)


def test_money_keeps_every_digit_that_the_warehouse_can() -> None:
    told = parsed([one(candidate_cost_usd="0.000123456789")]).tables["core.shadow_pair"]
    assert str(told["candidate_cost_usd"][0]) == "0.000123456789"


@pytest.mark.parametrize("column", ["control_energy_kwh", "candidate_runtime", "co2_kg", "candidate_cost_eur"])
def test_a_figure_in_an_unknown_unit_refuses_the_whole_file(column: str) -> None:
    with pytest.raises(PayloadError, match=f"'{column}' is none that is known"):
        parsed([one() | {column: 1}])


def test_other_columns_are_left_out_and_named() -> None:
    assert parsed([one() | {"prompt": "secret"}]).notes == ("columns that were left out: prompt",)


def test_rows_that_are_no_objects_and_torn_documents_are_refused() -> None:
    told = parsed([one(), 5, "x"])
    assert [r.row_no for r in told.rejects] == [1, 2]
    assert told.rows_in == 3
    with pytest.raises(PayloadError, match="truncated"):
        parse_bytes(json.dumps([one()]).encode()[:-20])
    with pytest.raises(PayloadError):
        parse_bytes(b"<html></html>")


figures = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.text(max_size=5), st.booleans())
names = st.sampled_from([n for n in pairs.COLUMNS if n != "pair_id"])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.dictionaries(names, figures, max_size=6), min_size=1, max_size=12))
def test_whatever_comes_is_loaded_or_refused_and_never_lost(changes: list[dict[str, Any]]) -> None:
    rows = [one(pair_id=f"p{i}") | told for i, told in enumerate(changes)]
    told = parsed(rows)
    frame = told.tables["core.shadow_pair"]
    assert told.rows_in == len(rows) == frame.height + sum(r.whole_row for r in told.rejects)
    for arm in ("control", "candidate"):
        energy = frame[f"{arm}_energy_j"].drop_nulls()
        assert ((energy >= 0) & energy.is_finite()).all()
        assert not (frame[f"{arm}_success"].fill_null(False) & (frame[f"{arm}_energy_j"] == 0).fill_null(False)).any()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 200_000))
def test_size_bands_are_those_of_the_proof(tokens: int) -> None:
    told = parsed([one(tokens=tokens)]).tables["core.shadow_pair"]
    assert told["size_band"][0] == size_band(tokens)


def test_bands_and_categories_are_the_same_on_both_sides() -> None:
    assert pairs.BAND_EDGES == SIZE_BAND_EDGES
    assert tuple(TAUGHT) == CATEGORIES


# labels -------------------------------------------------------------------------------------------------

LABEL = {"request_id": "acme/main/x", "category": "debugging", "tier": 2, "latency": "batch", "chosen": "old"}


def test_a_label_tells_the_question_and_the_propensity() -> None:
    told = parsed([LABEL | {"propensity": 0.9, "propensities": '{"old": 0.9, "new": 0.1}'}], "request-labels")
    row = told.tables["core.request_label"].row(0, named=True)
    assert (row["category"], row["tier"], row["propensity"]) == ("debugging", 2, 0.9)
    nested = parsed([LABEL | {"propensity": 0.9, "propensities": {"old": 0.9, "new": 0.1}}], "request-labels")
    assert nested.rejects == ()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tier": 4}, "tier"), ({"tier": "two"}, "tier"), ({"category": "x"}, "category"),
        ({"latency": "soon"}, "latency"),
        ({"propensity": 0}, "propensity"), ({"propensity": 1.2}, "propensity"), ({"propensity": "NaN"}, "propensity"),
        ({"propensities": '{"old": 0.5}'}, "propensities"), ({"propensities": "[]"}, "propensities"),
        ({"propensity": 0.5, "propensities": '{"old": 0.9, "new": 0.1}'}, "propensities"),
        ({"propensities": '{"new": 1.0}'}, "propensities"), ({"request_id": "x"}, "request_id"),
    ],
)  # fmt: skip
def test_a_label_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    (refused,) = parsed([LABEL | changes], "request-labels").rejects
    assert (refused.field, refused.whole_row) == (field, True)
    assert labels.COLUMNS
