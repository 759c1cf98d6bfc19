"""One data set of several files, in any order: what stays, what conflicts, what is refused."""

from __future__ import annotations

import json

import pytest

from tests.ingest.outcome_samples import LLMROUTER, LLMROUTER_MODELS, LLMROUTER_QUERIES, LONG, QUERIES
from tests.ingest.outcomes.loading import Desk, long_csv

CELL = "dataset,query_id,arm,correct"
BARE = long_csv(f"{CELL},benchmark", [("toy", "q1", "small", 1, "sums"), ("toy", "q2", "small", 0, "sums")])
_QUERY = "SELECT query_id, benchmark, split, text, text_sha256, prompt_chars FROM core.query ORDER BY query_id"


@pytest.mark.parametrize("first", ["outcomes", "texts"])
def test_texts_may_come_before_the_outcomes_or_after(desk: Desk, first: str) -> None:
    texts = QUERIES.replace("task,", "", 1).replace("sums,", "")  # which tell no benchmark
    steps = [lambda: desk.load("outcomes", BARE), lambda: desk.load("replay-queries", texts, dataset="toy")]
    for step in steps if first == "outcomes" else steps[::-1]:
        assert step().state == "OK"
    told = desk.rows(_QUERY)
    assert [r[:4] for r in told] == [
        ("q1", "sums", None, "What is 2 + 3?"), ("q2", "sums", None, "What is 17 x 23, in words?"),
    ]  # fmt: skip
    assert [r[5] for r in told] == [14, 26]
    assert all(len(r[4]) == 64 for r in told)
    assert desk.load("outcomes", BARE).rows_unchanged == 2  # the outcomes again take no text away
    assert desk.rows(_QUERY) == told


def test_texts_alone_wait_for_their_outcomes(desk: Desk) -> None:
    assert desk.load("replay-queries", QUERIES, dataset="toy").rows_loaded == 2
    assert desk.rows("SELECT count(*) FROM core.outcome") == [(0,)]


def test_llmrouters_files_give_the_same_data_set_in_any_order(desk: Desk) -> None:
    files = {
        "train.json": json.dumps(LLMROUTER[:1]),
        "test.json": json.dumps(LLMROUTER[1:]),
        "default_query_train.jsonl": "".join(json.dumps(q) + "\n" for q in LLMROUTER_QUERIES),
    }
    told = "SELECT q.benchmark, q.split, o.arm, o.correct, q.text FROM core.outcome o"
    sql = f"{told} JOIN core.query q USING (dataset, query_id)"
    found = []
    one, two, three = files
    for number, order in enumerate([(one, two, three), (three, two, one), (two, three, one)]):
        for name in order:
            assert desk.load("llmrouter-outcomes", files[name], file=name, dataset=f"d{number}").state == "OK"
        found.append(desk.rows(f"{sql} WHERE dataset = 'd{number}' ORDER BY ALL"))
    assert len(found[0]) == 3
    assert all(f == found[0] for f in found)


def test_a_file_that_tells_less_of_an_arm_takes_nothing_away(desk: Desk) -> None:
    desk.load("llmrouter-outcomes", LLMROUTER, file="train.json")
    told = desk.load("llmrouter-outcomes", LLMROUTER_MODELS, file="models.json")
    assert (told.state, told.rows_loaded) == ("OK", 2)
    desk.load("llmrouter-outcomes", LLMROUTER, file="train.json")
    assert desk.rows("SELECT arm, model, parameters_b FROM core.arm ORDER BY arm") == [
        ("codegemma-7b", "google/codegemma-7b", 7.0), ("gemma-2-9b-it", "google/gemma-2-9b-it", 9.0),
    ]  # fmt: skip


def test_an_arm_without_outcomes_is_refused_by_name(desk: Desk) -> None:
    desk.load("llmrouter-outcomes", LLMROUTER, file="train.json")
    told = desk.load("llmrouter-outcomes", {**LLMROUTER_MODELS, "llama": {"size": "70B"}}, file="models.json")
    assert (told.state, told.rows_loaded, told.rows_quarantined) == ("PARTIAL", 2, 1)
    assert desk.reasons() == ["arm is unknown in the data set llmrouter: it has codegemma-7b, gemma-2-9b-it"]


def test_facts_of_arms_before_any_outcome_are_told_to_wait(desk: Desk) -> None:
    told = desk.load("llmrouter-outcomes", LLMROUTER_MODELS, file="models.json")
    assert told.state == "FAILED"
    assert told.error is not None
    assert "import those first" in told.error


def test_a_late_correction_restates_a_cell(desk: Desk) -> None:
    desk.load("outcomes", LONG)
    told = desk.load("outcomes", LONG.replace("toy,q2,small,0", "toy,q2,small,1"))
    assert (told.rows_loaded, told.rows_unchanged) == (1, 3)
    assert desk.rows("SELECT correct FROM core.outcome WHERE query_id = 'q2' AND arm = 'small'") == [(1.0,)]


# duplicate cells -----------------------------------------------------------------------------------------------------


def test_a_cell_told_twice_alike_counts_as_unchanged(desk: Desk) -> None:
    told = desk.load("outcomes", long_csv(CELL, [("d", "q", "a", 1), ("d", "q", "a", 1), ("d", "q", "b", 0)]))
    assert (told.state, told.rows_loaded, told.rows_unchanged) == ("OK", 2, 1)


def test_a_cell_told_twice_differently_is_a_named_conflict_and_the_first_is_kept(desk: Desk) -> None:
    told = desk.load("outcomes", long_csv(CELL, [("d", "q", "a", 1), ("d", "q", "a", 0), ("d", "q", "b", 0)]))
    assert (told.state, told.rows_loaded, told.rows_quarantined) == ("PARTIAL", 2, 1)
    assert desk.reasons() == ["the same dataset, query_id, arm came twice with different values; the first was kept"]
    assert desk.rows("SELECT natural_key FROM ops.quarantine") == [("d / q / a",)]
    assert desk.rows("SELECT correct FROM core.outcome WHERE arm = 'a'") == [(1.0,)]


def test_a_query_with_two_texts_keeps_the_first_and_says_so(desk: Desk) -> None:
    told = desk.load("outcomes", long_csv(f"{CELL},prompt", [("d", "q", "a", 1, "one"), ("d", "q", "b", 1, "two")]))
    assert (told.state, told.rows_loaded) == ("PARTIAL", 2)
    assert desk.rows("SELECT text FROM core.query") == [("one",)]
    assert len(desk.reasons()) == 1


def test_tokens_of_a_prompt_may_differ_between_arms(desk: Desk) -> None:
    told = desk.load("outcomes", long_csv(f"{CELL},prompt_tokens", [("d", "q", "a", 1, 10), ("d", "q", "b", 1, 12)]))
    assert told.state == "OK"
    assert desk.rows("SELECT prompt_tokens FROM core.query") == [(10,)]
    assert desk.rows("SELECT prompt_tokens FROM core.outcome ORDER BY arm") == [(10,), (12,)]


# splits --------------------------------------------------------------------------------------------------------------

SPLIT = f"{CELL},split,prompt"


def test_a_query_in_two_splits_of_one_file_is_refused_with_its_cells(desk: Desk) -> None:
    body = long_csv(
        SPLIT, [("d", "q1", "a", 1, "train", "x"), ("d", "q1", "b", 1, "test", "x"), ("d", "q2", "a", 1, "train", "y")]
    )
    told = desk.load("outcomes", body)
    assert (told.state, told.rows_loaded, told.rows_quarantined) == ("PARTIAL", 1, 2)
    assert desk.reasons() == ["the query is told in train and in test; its 2 cells in this file were left out"]
    assert desk.rows("SELECT query_id FROM core.query") == [("q2",)]


def test_a_query_that_is_loaded_in_the_other_split_is_refused(desk: Desk) -> None:
    desk.load("outcomes", long_csv(SPLIT, [("d", "q1", "a", 1, "train", "x")]))
    told = desk.load("outcomes", long_csv(SPLIT, [("d", "q1", "a", 0, "test", "x"), ("d", "q2", "a", 1, "test", "y")]))
    assert (told.rows_loaded, told.rows_quarantined) == (1, 1)
    assert "the query is in train already and is told in test" in desk.reasons()[0]
    assert desk.rows("SELECT correct FROM core.outcome WHERE query_id = 'q1'") == [(1.0,)]


def test_a_held_out_text_that_is_in_train_is_refused_under_any_id(desk: Desk) -> None:
    held = [("d", "held", arm, 1, "test", "same") for arm in "ab"]
    rest = [("d", "seen", "a", 1, "train", "same"), ("d", "other", "a", 1, "test", "else")]
    told = desk.load("outcomes", long_csv(SPLIT, [*held, *rest]))
    assert (told.rows_loaded, told.rows_quarantined) == (2, 2)
    assert desk.reasons() == [
        "the text of this test query is in the other part too, as seen; its 2 cells in this file were left out"
    ]
    assert desk.rows("SELECT query_id FROM core.query ORDER BY 1") == [("other",), ("seen",)]


@pytest.mark.parametrize(("first", "second"), [("train", "test"), ("test", "train")])
def test_of_two_files_with_one_text_in_both_parts_the_later_one_gives_way(desk: Desk, first: str, second: str) -> None:
    desk.load("outcomes", long_csv(SPLIT, [("d", "q1", "a", 1, first, "same")]))
    told = desk.load(
        "outcomes", long_csv(SPLIT, [("d", "q2", "a", 1, second, "same"), ("d", "q3", "a", 1, second, "z")])
    )
    assert (told.rows_loaded, told.rows_quarantined) == (1, 1)
    assert desk.rows("SELECT query_id, split FROM core.query ORDER BY 1") == [("q1", first), ("q3", second)]


def test_other_data_sets_are_other_worlds(desk: Desk) -> None:
    body = long_csv(SPLIT, [("d", "q", "a", 1, "train", "same"), ("e", "q", "a", 1, "test", "same")])
    assert desk.load("outcomes", body).state == "OK"


def test_texts_that_show_a_leak_afterwards_are_kept_and_the_leak_is_told(desk: Desk) -> None:
    desk.load("outcomes", long_csv(f"{CELL},split", [("d", "q1", "a", 1, "train"), ("d", "q2", "a", 1, "test")]))
    told = desk.load("replay-queries", "query_id,question\nq1,same\nq2,same\n", dataset="d")
    assert (told.state, told.rows_loaded, told.rows_quarantined) == ("PARTIAL", 2, 0)
    assert desk.reasons() == ["the text of this test query is in the other part too, as q1"]


def test_a_text_told_for_the_other_split_is_refused(desk: Desk) -> None:
    desk.load("outcomes", long_csv(f"{CELL},split", [("d", "q1", "a", 1, "train")]))
    told = desk.load("replay-queries", "query_id,question,split\nq1,same,test\n", dataset="d")
    assert told.state == "FAILED"
    assert desk.rows("SELECT split, text FROM core.query") == [("train", None)]


# evidence classes ----------------------------------------------------------------------------------------------------

ENERGY = f"{CELL},energy_j,evidence_class"


def test_a_file_of_another_class_is_refused_whole(desk: Desk) -> None:
    desk.load("outcomes", long_csv(ENERGY, [("d", "q1", "a", 1, 5, "measured")]))
    told = desk.load("outcomes", long_csv(ENERGY, [("d", "q2", "a", 1, 5, "modeled")]))
    assert told.state == "FAILED"
    assert told.error is not None
    assert "the data set d would hold joules of measured and modeled" in told.error
    assert told.fix is not None
    assert "--option dataset=" in told.fix
    assert desk.rows("SELECT query_id FROM core.outcome") == [("q1",)]


def test_a_file_that_restates_every_cell_may_change_the_class(desk: Desk) -> None:
    desk.load("outcomes", long_csv(ENERGY, [("d", "q1", "a", 1, 5, "modeled"), ("d", "q2", "a", 1, 6, "modeled")]))
    told = desk.load(
        "outcomes", long_csv(ENERGY, [("d", "q1", "a", 1, 7, "measured"), ("d", "q2", "a", 1, 8, "measured")])
    )
    assert (told.state, told.rows_loaded) == ("OK", 2)
    assert desk.rows("SELECT DISTINCT energy_evidence_class FROM core.outcome") == [("measured",)]


def test_cells_without_joules_agree_with_any_class(desk: Desk) -> None:
    desk.load("outcomes", long_csv(ENERGY, [("d", "q1", "a", 1, 5, "measured")]))
    assert desk.load("outcomes", long_csv(CELL, [("d", "q2", "a", 1)])).state == "OK"


# the whole way -------------------------------------------------------------------------------------------------------


def test_an_import_by_hand_and_its_rebuild_give_the_same(desk: Desk) -> None:
    """Rebuilding reads the landed bytes as payloads; streams and payloads must settle alike."""
    from ingest.rebuild import rebuild
    from warehouse.engine import Warehouse

    body = long_csv(
        SPLIT, [("d", "q1", "a", 1, "train", "x"), ("d", "q1", "b", 1, "test", "x"), ("d", "q2", "a", 1, "train", "y")]
    )
    desk.load("outcomes", body)
    desk.load("routellm-outcomes", "prompt,m\nWhy?,True\n", file="mmlu_anatomy.csv")
    new = Warehouse.open(desk.folder / "new.duckdb")
    try:
        told = rebuild(desk.warehouse, new)
        assert (told.payloads, told.failed) == (2, [])
        for table in ("core.query", "core.arm", "core.outcome"):
            sql = f"SELECT * EXCLUDE (run_id, known_from) FROM {table} ORDER BY ALL"
            assert new.query(sql).equals(desk.warehouse.query(sql)), table
    finally:
        new.close()
