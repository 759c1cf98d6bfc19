"""`outcomes`: a long table, its units, its refusals."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from tests.ingest.outcome_samples import LONG
from tests.ingest.outcomes.loading import Desk, long_csv
from tests.ingest.samples import counts_add_up, payload, rows

CELL = "dataset,query_id,arm,correct"


def parse(body: str | bytes, **options: str) -> Parsed:
    return kind("outcomes").parse(payload(body, "outcomes", options=options))


def refused(body: str, **options: str) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        parse(body, **options)
    return caught.value


# what is read --------------------------------------------------------------------------------------------------------


def test_a_row_becomes_a_cell_an_arm_and_a_query() -> None:
    told = parse(LONG)
    assert told.rejects == ()
    (cell,) = [r for r in rows(told) if (r["query_id"], r["arm"]) == ("q2", "large")]
    assert cell == {
        "dataset": "toy", "query_id": "q2", "arm": "large", "correct": 0.5, "answered": None, "energy_j": 120.0,
        "energy_evidence_class": "calibrated", "energy_method": None, "power_w": None, "latency_s": 1.5,
        "prompt_tokens": None, "output_tokens": 11, "output_chars": None, "cost_usd": Decimal("0.000040000000"),
    }  # fmt: skip
    assert [(a["arm"], a["model"]) for a in rows(told, "core.arm")] == [("small", "small"), ("large", "large")]
    one, two = rows(told, "core.query")
    assert (one["query_id"], one["benchmark"], one["split"], one["text"]) == ("q1", "sums", "train", "What is 2 + 3?")
    # sha256 of the UTF-8 text, as `printf 'What is 17 x 23?' | sha256sum` gives it
    assert two["text_sha256"] == "052cab3742d11993c4daff97cf2033959933a59e8f69198aec5d0ffe55fb06b7"
    assert two["prompt_chars"] == 16


def test_units_stand_in_the_names_of_columns_and_are_converted() -> None:
    body = long_csv(
        f"{CELL},energy_wh,evidence_class,latency_ms,input_price_usd_per_million_tokens",
        [("d", "q", "a", 1, 0.5, "measured", 250, 0.2)],
    )
    told = parse(body)
    (cell,), (arm,) = rows(told), rows(told, "core.arm")
    assert (cell["energy_j"], cell["latency_s"]) == (1800.0, 0.25)
    assert arm["input_price_usd_per_token"] == Decimal("0.0000002")
    (cell,) = rows(parse(long_csv(f"{CELL},energy_kwh,evidence_class", [("d", "q", "a", 1, 1e-6, "measured")])))
    assert cell["energy_j"] == pytest.approx(3.6)


def test_an_empty_cell_is_unknown_and_never_0() -> None:
    body = long_csv(f"{CELL},energy_j,evidence_class,latency_s,cost_usd,output_tokens",
                    [("d", "q", "a", "", "", "measured", "", "", "")])  # fmt: skip
    (cell,) = rows(parse(body))
    unknown = ("correct", "energy_j", "energy_evidence_class", "latency_s", "cost_usd", "output_tokens")
    assert {name: cell[name] for name in unknown} == dict.fromkeys(unknown)


def test_correctness_may_be_true_false_or_a_share() -> None:
    body = long_csv(CELL, [("d", f"q{i}", "a", told) for i, told in enumerate(("True", "false", "1", "0.25", "1e-1"))])
    assert [r["correct"] for r in rows(parse(body))] == [1, 0, 1, 0.25, 0.1]


def test_dataset_split_and_class_may_be_declared_for_the_whole_file() -> None:
    body = long_csv("query_id,arm,correct,energy_j", [("q", "a", 1, 3)])
    told = parse(body, dataset="mine", split="test", evidence_class="allocated", energy_method="share")
    (cell,), (query,) = rows(told), rows(told, "core.query")
    assert (cell["dataset"], cell["energy_evidence_class"], cell["energy_method"]) == ("mine", "allocated", "share")
    assert query["split"] == "test"


def test_a_dollar_keeps_every_digit_and_exponents_are_read() -> None:
    body = long_csv(f"{CELL},cost_usd", [("d", "q", "a", 1, "0.000000123456"), ("d", "q", "b", 1, "1.5e-05")])
    assert [r["cost_usd"] for r in rows(parse(body))] == [Decimal("0.000000123456"), Decimal("0.000015")]


def test_parquet_says_the_same_as_csv(desk: Desk) -> None:
    frame = pl.read_csv(io.StringIO(LONG))
    path = desk.folder / "x.parquet"
    frame.write_parquet(path)
    by_parquet, by_csv = parse(path.read_bytes()), parse(LONG)
    for table, expected in by_csv.tables.items():
        assert by_parquet.tables[table].equals(expected), table
    assert desk.load_file("outcomes", path).rows_loaded == 4
    assert desk.load("outcomes", LONG, file="x.csv.gz").rows_unchanged == 4


def test_other_columns_are_left_out_and_named() -> None:
    told = parse(long_csv(f"{CELL},grader,notes", [("d", "q", "a", 1, "x", "y")]))
    assert told.notes == ("columns that were left out: grader, notes",)


# the whole file is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["energy", "joules", "latency", "cost", "price", "power", "energy_mj", "duration"])
def test_a_quantity_without_a_known_unit_is_refused_by_name(name: str) -> None:
    error = refused(long_csv(f"{CELL},{name}", [("d", "q", "a", 1, 5)]))
    assert error.field == name
    assert "unit" in error.message
    assert "_" in error.fix  # it names columns that do tell one


def test_joules_without_an_evidence_class_are_refused_by_name() -> None:
    error = refused(long_csv(f"{CELL},energy_j", [("d", "q", "a", 1, 5)]))
    assert "no evidence class" in error.message
    assert "measured|allocated|calibrated|modeled" in error.fix


def test_two_classes_in_one_column_are_refused_by_name() -> None:
    both = [("d", "q", "a", 1, 5, "measured"), ("d", "q", "b", 1, 9, "modeled")]
    body = long_csv(f"{CELL},energy_j,evidence_class", both)
    assert "measured in some rows and modeled in others" in refused(body).message


def test_two_data_sets_of_one_file_may_differ_in_class() -> None:
    both = [("d", "q", "a", 1, 5, "measured"), ("e", "q", "a", 1, 9, "modeled")]
    told = parse(long_csv(f"{CELL},energy_j,evidence_class", both))
    assert told.tables["core.outcome"].height == 2


@pytest.mark.parametrize("missing", ["query_id", "arm", "correct"])
def test_a_column_that_is_needed_is_named(missing: str) -> None:
    columns = [c for c in CELL.split(",") if c != missing]
    assert refused(long_csv(",".join(columns), [("d", "q", "a")])).field == missing


def test_a_figure_that_two_columns_tell_is_refused() -> None:
    assert "tell the same" in refused(long_csv(f"{CELL},latency_s,latency_ms", [("d", "q", "a", 1, 1, 1000)])).message


def test_a_file_without_a_data_set_is_told_how_to_name_it() -> None:
    assert "--option dataset=NAME" in refused(long_csv("query_id,arm,correct", [("q", "a", 1)])).fix


# to quarantine, while the siblings load ------------------------------------------------------------------------------

_BAD = [
    ({"correct": "1.5"}, "correct is outside 0 to 1"),
    ({"correct": "-0.01"}, "correct is outside 0 to 1"),
    ({"correct": "nan"}, "correct is outside 0 to 1"),
    ({"correct": "yes"}, "correct is not a number, true or false"),
    ({"energy_j": "0"}, "energy_j is not a finite number above 0; unknown energy is an empty cell, never 0"),
    ({"energy_j": "-3"}, "energy_j is not a finite number above 0; unknown energy is an empty cell, never 0"),
    ({"energy_j": "inf"}, "energy_j is not a finite number above 0; unknown energy is an empty cell, never 0"),
    ({"energy_j": "NaN"}, "energy_j is not a finite number above 0; unknown energy is an empty cell, never 0"),
    ({"energy_j": "12 J"}, "energy_j is not a number"),
    ({"evidence_class": ""}, "evidence_class is missing: joules without an evidence class are no figure"),
    ({"evidence_class": "guessed"}, "evidence_class is none of measured, allocated, calibrated, modeled"),
    ({"split": "dev"}, "split is none of train, test"),
    ({"query_id": ""}, "query_id is missing"),
    ({"arm": " "}, "arm is missing"),
    ({"arm": "a" * 201}, "arm is longer than 200 characters"),
    ({"dataset": "no/name"}, "dataset is no name of letters, digits and _ . : - (64 at most)"),
    ({"dataset": "sample"}, "dataset is a name that is taken: sample and published* are ours"),
    ({"dataset": "published"}, "dataset is a name that is taken: sample and published* are ours"),
]
_GOOD = {
    "dataset": "d", "query_id": "q", "arm": "a", "correct": "1", "energy_j": "5", "evidence_class": "measured",
    "split": "",
}  # fmt: skip


@pytest.mark.parametrize(("changed", "reason"), _BAD, ids=[f"{next(iter(c.items()))}"[:40] for c, _ in _BAD])
def test_a_bad_cell_is_refused_with_its_reason_and_its_sibling_loads(changed: dict[str, str], reason: str) -> None:
    sibling = {**_GOOD, "query_id": "sibling"}
    told = parse(long_csv(",".join(_GOOD), [({**_GOOD, **changed}).values(), sibling.values()]))
    (reject,) = told.rejects
    assert reject.reason == reason
    assert (reject.whole_row, reject.row_no, reject.field) == (True, 0, next(iter(changed)))
    assert [r["query_id"] for r in rows(told)] == ["sibling"]
    assert [r["query_id"] for r in rows(told, "core.query")] == ["sibling"]
    assert counts_add_up(told)


def test_a_field_out_of_range_is_unknown_and_its_cell_loads() -> None:
    body = long_csv(f"{CELL},latency_s,output_tokens,cost_usd,power_w,answered,model",
                    [("d", "q", "a", 1, -1, 2.5, "x", 0, "maybe", "m" * 201)])  # fmt: skip
    told = parse(body)
    (cell,) = rows(told)
    assert [cell[n] for n in ("latency_s", "output_tokens", "cost_usd", "power_w", "answered")] == [None] * 5
    assert {r.field for r in told.rejects} == {"latency_s", "output_tokens", "cost_usd", "power_w", "answered", "model"}
    assert not any(r.whole_row for r in told.rejects)
    assert rows(told, "core.arm")[0]["model"] == "a"
    assert counts_add_up(told)


def test_a_row_of_another_length_and_one_of_other_bytes_cost_only_themselves() -> None:
    told = parse(f"{CELL}\nd,q1,a,1\nd,q2,a\nd,q3,\xff,1\nd,q4,a,0\n".encode("latin-1"))
    assert [r["query_id"] for r in rows(told)] == ["q1", "q4"]
    assert sorted(r.reason for r in told.rejects) == [
        "the row has 3 fields, the header 4", "the row holds bytes that are no UTF-8 text",
    ]  # fmt: skip
    assert counts_add_up(told)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "query_id": st.sampled_from(["q1", "q2", "q3"]),
                "arm": st.sampled_from(["a", "b", ""]),
                "correct": st.one_of(st.floats(-0.5, 1.5).map(repr), st.sampled_from(["", "true", "nan", "x"])),
                "energy_j": st.one_of(st.floats(-1, 1e6).map(repr), st.sampled_from(["", "inf"])),
                "split": st.sampled_from(["", "train", "test", "dev"]),
                "latency_s": st.sampled_from(["", "0", "-1", "2.5"]),
            }
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_what_loads_holds_and_every_row_is_accounted_for(table: list[dict[str, str]]) -> None:
    columns = ("query_id", "arm", "correct", "energy_j", "split", "latency_s")
    body = long_csv(",".join(columns), ([row[name] for name in columns] for row in table))
    told = parse(body, dataset="d", evidence_class="measured")
    assert counts_add_up(told)
    for cell in rows(told):
        assert cell["correct"] is None or 0 <= cell["correct"] <= 1
        assert cell["energy_j"] is None or cell["energy_j"] > 0
        assert (cell["energy_j"] is None) == (cell["energy_evidence_class"] is None)
    loaded = {(c["query_id"], c["arm"]) for c in rows(told)}
    assert loaded <= {(r["query_id"], r["arm"]) for r in table}


def test_a_table_of_many_pieces_is_one_data_set(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are cut by bytes; each arm and query comes in many of them and is stored once."""
    from ingest.billing import sheets

    monkeypatch.setattr(sheets, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(sheets, "ROWS", 100)
    cells = [("d", f"q{i}", f"a{k}", (i + k) % 2, "b") for k in range(3) for i in range(900)]
    body = long_csv(f"{CELL},benchmark", cells)
    told = desk.load("outcomes", body)
    assert (told.state, told.rows_loaded) == ("OK", 2700)
    assert desk.rows("SELECT (SELECT count(*) FROM core.arm), (SELECT count(*) FROM core.query)") == [(3, 900)]
    assert desk.load("outcomes", body).rows_unchanged == 2700


def test_the_example_of_the_docs_loads(desk: Desk) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "sources" / "outcomes.md").read_text(encoding="utf-8")
    example = text.split("## outcomes")[1].split("```text\n")[1].split("```")[0]
    told = desk.load("outcomes", example)
    assert (told.state, told.rows_loaded) == ("OK", 3)
