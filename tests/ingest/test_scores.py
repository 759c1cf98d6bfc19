"""Quality scores: a unit in the column's name, the router's categories, and a sample size where one is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from ingest.pipeline import refresh
from ingest.quality.scores import CATEGORIES, UNITS, parse
from ingest.sample import sample_payloads
from policies import router
from policies.router import Parameters, Request, rank
from policies.router.ranking import Ranking
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.ingest.serving_samples import SCORES_CSV
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.runs import SourceRow, register_source
from warehouse.snapshots import snapshot


def parsed(body: Any, **options: str) -> Parsed:
    result = parse(replace(payload(body, "scores"), options=options))
    assert counts_add_up(result)
    return result


def score(**changes: Any) -> dict[str, Any]:
    row = {
        "model": "glm-5.2", "category": "debugging", "component": "self_eval", "source": "our 40 tickets",
        "date": "2026-05-10", "n": 40, "score_percent": 82.5, **changes,
    }  # fmt: skip
    return {k: v for k, v in row.items() if v is not ...}


def test_categories_are_those_of_the_router() -> None:
    assert CATEGORIES == router.CATEGORIES


def test_a_score_is_a_share_with_its_source_and_date() -> None:
    board, _, own = rows(parsed(SCORES_CSV))
    assert (board["model"], board["category"], board["component"]) == ("gemma-4-31b", "coding_general", "leaderboard")
    assert (board["score"], board["n"], board["source_name"]) == (0.615, None, "LiveBench")
    assert (own["score"], own["n"], own["valid_from"]) == (0.825, 40, datetime(2026, 5, 10))


def test_csv_and_json_say_the_same() -> None:
    as_json = [score(component="leaderboard", source="x", n=None), score()]
    as_csv = (
        "model,category,component,source,date,n,score_percent\n"
        "glm-5.2,debugging,leaderboard,x,2026-05-10,,82.5\n"
        "glm-5.2,debugging,self_eval,our 40 tickets,2026-05-10,40,82.5\n"
    )
    assert parsed(as_json).tables["core.score"].equals(parsed(as_csv).tables["core.score"])
    head = {"source": "our 40 tickets", "date": "2026-05-10", "scores": [score(source=..., date=...)]}
    assert rows(parsed(head)) == rows(parsed([score()]))


@pytest.mark.parametrize(
    ("column", "value"), [("score_fraction", 0.825), ("score_0_1", 0.825), ("score_percent", 82.5), ("score_pct", 82.5)]
)
def test_the_unit_stands_in_the_columns_name(column: str, value: float) -> None:
    assert rows(parsed([score(**{"score_percent": ..., column: value})]))[0]["score"] == 0.825


def test_right_answers_out_of_n_are_a_score() -> None:
    (row,) = rows(parsed([score(score_percent=..., correct=33)]))
    assert (row["score"], row["n"]) == (33 / 40, 40)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"score_percent": ..., "score": 82.5}, "does not tell its unit"),
        ({"score_percent": ..., "accuracy": 0.8}, "does not tell its unit"),
        ({"score_percent": ...}, "no column tells a score"),
        ({"score_fraction": 0.8}, "tell it twice"),
        ({"source": ...}, "'source' is missing"),
        ({"date": ...}, "'date' is missing"),
        ({"component": ...}, "--option component"),
    ],
)
def test_columns_that_leave_something_open_refuse_the_file(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        parsed([score(**changes)])


def test_the_component_of_a_whole_file_may_be_declared() -> None:
    assert rows(parsed([score(component=...)], component="self_eval"))[0]["component"] == "self_eval"


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"category": "coding"}, "category", "coding_general"),
        ({"category": None}, "category", "missing"),
        ({"component": "elo"}, "component", "leaderboard, self_eval"),
        ({"score_percent": 100.5}, "score_percent", "outside 0 to 100"),
        ({"score_percent": -1}, "score_percent", "outside"),
        ({"score_percent": None}, "score_percent", "missing"),
        ({"score_percent": "NaN"}, "score_percent", "decimal point"),
        ({"score_percent": "82,5"}, "score_percent", "decimal point"),
        ({"n": None}, "n", "sample size"),
        ({"n": 0}, "n", "below 1"),
        ({"n": 9.5}, "n", "whole"),
        ({"date": "10.05.2026"}, "date", "no date"),
        ({"date": "2026-05-10T12:00:00"}, "date", "with a zone"),
        ({"date": "2026-05-17"}, "date", "after the file"),
        ({"date": "1999-01-01"}, "date", "before 2000"),
        ({"model": " "}, "model", "missing"),
        ({"model": 5}, "model", "not text"),
        ({"source": None}, "source", "missing"),
    ],
)
def test_a_bad_row_goes_alone_and_names_its_field(changes: dict[str, Any], field: str, said: str) -> None:
    result = parsed([score(model="other"), score(**changes)])
    assert [r["model"] for r in rows(result)] == ["other"]
    assert [(r.row_no, r.field, r.whole_row) for r in result.rejects] == [(1, field, True)]
    assert said in result.rejects[0].reason


def test_a_percentage_in_a_column_of_shares_is_recognised() -> None:
    result = parsed([score(score_percent=..., score_fraction=82.5)])
    assert "a percentage belongs into score_percent" in result.rejects[0].reason


def test_a_repeated_score_keeps_the_first_and_says_whether_it_differs() -> None:
    result = parsed([score(), score(), score(score_percent=50)])
    assert [r["score"] for r in rows(result)] == [0.825]
    assert ["as before" in r.reason for r in result.rejects] == [True, False]


def test_other_columns_are_left_out_by_name() -> None:
    assert parsed([score(rank=3, votes=812)]).notes == ("columns that were left out: rank, votes",)


@given(st.sampled_from(sorted(UNITS)), st.integers(-10, 1010))
def test_every_unit_is_a_share_or_refused(column: str, tenths: int) -> None:
    value = tenths / 10
    result = parsed([score(**{"score_percent": ..., column: value})])
    whole = float(UNITS[column])
    assert [r["score"] for r in rows(result)] == ([pytest.approx(value / whole)] if 0 <= value <= whole else [])


class TestInfluence:
    """A loaded score moves a decision of the router on the sample, in its own category and no other."""

    def load(self, warehouse: Warehouse, found: Any, source: str, name: str) -> None:
        with warehouse.transaction() as tx:
            register_source(tx, SourceRow(source, name, "t", "file", None, None, 1e6, 1e7))
        outcome = refresh(warehouse, kind(name), source, lambda: found, trigger="import")
        assert outcome.state == "OK", outcome.error

    def ranking(self, warehouse: Warehouse, category: str) -> Ranking:
        with snapshot(warehouse) as seen:
            return rank(seen, Request(category, tier=1, required_context_tokens=8192), Parameters())

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Any:
        opened = Warehouse.open(tmp_path / "sample.duckdb")
        for found in sample_payloads(utcnow()):
            self.load(opened, found, found.source_id, found.kind)
        yield opened
        opened.close()

    def test_it_moves_the_decision_of_its_category(self, sample: Warehouse) -> None:
        before = self.ranking(sample, "debugging")
        assert before.chosen is not None and before.chosen.figures.proficiency is None
        first, second = before.eligible[:2]
        today = utcnow()

        def scores(n: int) -> Any:
            told = [
                score(model=offer.figures.base_model, n=n, score_percent=value, date=f"{today:%Y-%m-%d}")
                for offer, value in ((first, 5), (second, 95))
            ]
            return replace(payload(json.dumps(told), "scores", now=today), source_id=f"evals-{n}")

        assert first.figures.base_model != second.figures.base_model
        self.load(sample, scores(9), "evals-9", "scores")
        assert self.ranking(sample, "debugging").chosen_offer_id == first.offer_id  # nine say too little
        self.load(sample, scores(40), "evals-40", "scores")
        after = self.ranking(sample, "debugging")
        assert after.chosen_offer_id == second.offer_id
        assert after.chosen is not None and after.chosen.figures.proficiency == 0.95
        assert after.snapshot_digest != before.snapshot_digest
        assert self.ranking(sample, "translation").chosen_offer_id == first.offer_id


def test_scores_load_once_and_a_later_one_restates(warehouse: Warehouse) -> None:
    with warehouse.transaction() as tx:
        register_source(tx, SourceRow("evals", "scores", "t", "file", None, None, 1e6, 1e7))

    def load(*listed: dict[str, Any]) -> tuple[int | None, int | None]:
        found = replace(payload(list(listed), "scores"), source_id="evals")
        outcome = refresh(warehouse, kind("scores"), "evals", lambda: found, trigger="import")
        return outcome.rows_loaded, outcome.rows_unchanged

    assert load(score()) == (1, 0)
    assert load(score()) == (0, 1)
    assert load(score(score_percent=90), score(date="2026-05-14")) == (2, 0)
    assert warehouse.scalar("SELECT count(*) FROM core.score") == 3
    assert parsed([score()]).data_at == datetime(2026, 5, 10) < NOW
