"""What an operator may ask, and the rows that come back."""

from __future__ import annotations

import threading
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.sandbox.conftest import Lab
from warehouse.engine import Warehouse
from warehouse.errors import SqlFailed, SqlRefused
from warehouse.sandbox.client import SqlResult, run_sql
from warehouse.sandbox.validate import ALLOWED_SCHEMAS, DENIED_TABLES

QUERIES: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "a constant": ("SELECT 1 AS one", [(1,)]),
    "values": ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
    "trailing semicolons and comments": ("-- first\nSELECT 1 /* ; */ ; ; -- done ;", [(1,)]),
    "text with every quote": ("""SELECT 'it''s; "x" -- no' AS "a ""b\"""", [("""it's; "x" -- no""",)]),
    "unicode": ("SELECT 'μJ · 日本' AS \"größe\"", [("μJ · 日本",)]),
    "FROM first": ("FROM core.price SELECT count(*)", [(3,)]),
    "a name without a schema": ("SELECT count(*) FROM price", [(3,)]),
    "a name in upper case": ("SELECT count(*) FROM CORE.Price", [(3,)]),
    "a quoted name": ('SELECT count(*) FROM "core"."price"', [(3,)]),
    "aggregates": (
        "SELECT zone, count(*), count(intensity_g_per_kwh), min(intensity_g_per_kwh) FROM core.grid_intensity "
        "GROUP BY ALL HAVING count(*) > 1 ORDER BY 1",
        [("FI", 24, 23, 37.0), ("GB", 24, 23, 150.0), ("US-MIDA-PJM", 24, 23, 505.0)],
    ),
    "order and limit": (
        "SELECT intensity_g_per_kwh FROM core.grid_intensity ORDER BY 1 DESC NULLS LAST LIMIT 2 OFFSET 1",
        [(527.0,), (526.0,)],
    ),
    "a join": (
        "SELECT offer_id, score FROM core.price p JOIN core.score s ON s.model = p.offer_id ORDER BY 1",
        [("a", 0.5), ("b", 0.75)],
    ),
    "an outer join with NULL": (
        "SELECT offer_id, score FROM core.price p LEFT JOIN core.score s ON s.model = p.offer_id "
        "ORDER BY 1 DESC LIMIT 1",
        [("c", None)],
    ),
    "an as-of join": (
        "SELECT q.at, g.intensity_g_per_kwh FROM (SELECT TIMESTAMP '2026-11-01 05:30:00' AS at) q "
        "ASOF JOIN (SELECT * FROM core.grid_intensity WHERE zone = 'FI') g ON q.at >= g.start_at",
        [(datetime(2026, 11, 1, 5, 30), 42.0)],
    ),
    "a window and QUALIFY": (
        "SELECT zone, intensity_g_per_kwh FROM core.grid_intensity "
        "QUALIFY row_number() OVER (PARTITION BY zone ORDER BY intensity_g_per_kwh DESC NULLS LAST) = 1 ORDER BY zone",
        [("FI", 60.0), ("GB", 173.0), ("US-MIDA-PJM", 528.0)],
    ),
    "a named window": (
        "SELECT range, sum(range) OVER w FROM range(3) WINDOW w AS (ORDER BY range) ORDER BY 1",
        [(0, Decimal(0)), (1, Decimal(1)), (2, Decimal(3))],
    ),
    "lag and lead": (
        "SELECT lag(range) OVER o, lead(range) OVER o FROM range(2) WINDOW o AS (ORDER BY range)",
        [(None, 1), (0, None)],
    ),
    "a CTE": ("WITH t AS (SELECT 1 AS i), u AS (SELECT i + 1 AS i FROM t) SELECT t.i, u.i AS j FROM t, u", [(1, 2)]),
    "a CTE named like a closed table": ("WITH api_token AS (SELECT 7 AS i) SELECT i FROM api_token", [(7,)]),
    "a CTE with another case": ('WITH "Foo" AS (SELECT 7 AS i) SELECT i FROM fOO', [(7,)]),
    "a recursive CTE": (
        "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 100) SELECT sum(i) FROM t",
        [(Decimal(5050),)],
    ),
    "a recursive CTE cut by LIMIT": (
        "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT i FROM t LIMIT 3",
        [(1,), (2,), (3,)],
    ),
    "a scalar subquery": ("SELECT (SELECT max(score) FROM core.score) AS best", [(0.75,)]),
    "a correlated subquery": (
        "SELECT offer_id FROM core.price p WHERE NOT EXISTS (SELECT 1 FROM core.score WHERE model = p.offer_id)",
        [("c",)],
    ),
    "IN a subquery": ("SELECT 'a' IN (SELECT model FROM core.score)", [(True,)]),
    "lateral": ("SELECT r, s FROM range(2) t(r), LATERAL (SELECT r + 10 AS s) ORDER BY 1", [(0, 10), (1, 11)]),
    "unions": ("SELECT 1 UNION ALL SELECT 1 UNION ALL (SELECT 2 EXCEPT SELECT 3) ORDER BY 1", [(1,), (1,), (2,)]),
    "union by name": ("SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS b ORDER BY a", [(1, None), (None, 2)]),
    "decimals stay exact": (
        "SELECT price_usd_per_unit FROM core.price WHERE offer_id = 'a'",
        [(Decimal("0.000000280000"),)],
    ),
    "NULL stays NULL": ("SELECT price_usd_per_unit FROM core.price WHERE offer_id = 'c'", [(None,)]),
    "quantiles": (
        "SELECT median(range), quantile_cont(range, 0.25), quantile_disc(range, 0.9) FROM range(101)",
        [(50.0, 25.0, 90)],
    ),
    "FILTER": ("SELECT count(*) FILTER (WHERE range % 2 = 0) FROM range(9)", [(5,)]),
    "rollup": (
        "SELECT zone, count(*) FROM core.grid_intensity GROUP BY ROLLUP (zone) ORDER BY zone NULLS LAST LIMIT 4",
        [("FI", 24), ("GB", 24), ("US-MIDA-PJM", 24), (None, 72)],
    ),
    "lists": (
        "SELECT list_transform([1, 2], lambda x: x * 2), [x FOR x IN [1, 2, 3] IF x > 1], list_sum([1, 2])",
        [([2, 4], [2, 3], Decimal(3))],
    ),
    "structs and maps": ("SELECT {'a': 1, 'b': 'x'} AS s, {'a': 1}.a AS a", [({"a": 1, "b": "x"}, 1)]),
    "unnest": ("SELECT unnest([3, 4]) AS u", [(3,), (4,)]),
    "dates": (
        "SELECT date_trunc('day', TIMESTAMP '2026-11-01 13:00:00'), DATE '2026-11-01' + 1, year(DATE '2026-11-01'), "
        "date_diff('hour', TIMESTAMP '2026-11-01', TIMESTAMP '2026-11-02'), strftime(DATE '2026-11-01', '%d.%m.%Y')",
        [(datetime(2026, 11, 1), date(2026, 11, 2), 2026, 24, "01.11.2026")],
    ),
    "an interval is text": (
        "SELECT TIMESTAMP '2026-11-03 01:00' - TIMESTAMP '2026-11-01' AS d",
        [("2 days 01:00:00",)],
    ),
    "JSON text": ("""SELECT json_extract_string('{"a": {"b": 5}}', '$.a.b')""", [("5",)]),
    "CASE, casts and TRY": (
        "SELECT CASE WHEN 1 > 0 THEN 'y' END, '7'::INTEGER, TRY_CAST('x' AS INTEGER), TRY(ln(0)), 7 // 2, 7 % 2",
        [("y", 7, None, None, 3, 1)],
    ),
    "text functions": (
        "SELECT upper('a') || lower('B'), ('x').upper(), regexp_extract('ab12', '[0-9]+'), 'a' LIKE 'A', 'a' ILIKE 'A'",
        [("Ab", "X", "12", False, True)],
    ),
    "star with EXCLUDE and REPLACE": (
        "SELECT * EXCLUDE (b) REPLACE (a + 1 AS a) FROM (SELECT 1 AS a, 2 AS b, 3 AS c)",
        [(2, 3)],
    ),
    "a sample of all rows": ("SELECT count(*) FROM core.price TABLESAMPLE 100%", [(3,)]),
    "a view": (
        "SELECT zone, mean_g_per_kwh FROM mart.intensity_mean WHERE zone = 'FI'",
        [("FI", pytest.approx(48.86956))],
    ),
    "a view over a closed table": ("SELECT * FROM mart.tokens", [("ci", "read", True)]),
    "operations tables": ("SELECT source_id, title FROM ops.source", [("s", "OpenRouter")]),
    "the ledger": ("SELECT count(*) FROM ledger.event", [(0,)]),
    "two columns of one name": ("SELECT 1 AS a, 2 AS a", [(1, 2)]),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_legitimate_query_returns_its_rows(lab: Lab, name: str) -> None:
    sql, rows = QUERIES[name]
    assert lab.rows(sql) == rows


def test_every_open_table_and_view_of_a_real_warehouse_can_be_read(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "joulebook.duckdb")
    try:
        warehouse.snapshot_copy(tmp_path / "sql-snapshot.duckdb")
        listed = warehouse.query(
            "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables ORDER BY ALL"
        )["name"].to_list()
    finally:
        warehouse.close()
    names = [name for name in listed if name.partition(".")[0] in ALLOWED_SCHEMAS and name not in DENIED_TABLES]
    assert any(name.startswith("mart.") for name in names) and len(names) > 15
    for name in names:
        assert run_sql(tmp_path / "sql-snapshot.duckdb", f"SELECT * FROM {name}").table.num_columns > 0, name


def test_describe_lists_the_columns_of_an_open_table(lab: Lab) -> None:
    described = lab.run("DESCRIBE core.score").table.to_pylist()
    assert [row["column_name"] for row in described][:2] == ["model", "category"]


def test_types_and_unique_names_come_with_the_result(lab: Lab) -> None:
    result = lab.run("SELECT 1 AS a, 'x' AS a, DATE '2026-11-01' AS d")
    assert result.columns == (("a", "INTEGER"), ("a_1", "VARCHAR"), ("d", "DATE"))
    assert result.table.schema.names == ["a", "a_1", "d"]
    assert result.table.to_pylist() == [{"a": 1, "a_1": "x", "d": date(2026, 11, 1)}]
    assert 0 <= result.elapsed_s < 10


def test_timestamps_with_a_zone_are_utc(lab: Lab) -> None:
    table = lab.run("SELECT TIMESTAMPTZ '2026-11-01 12:00:00+02:00' AS t").table
    assert table.schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert table.column("t").cast(pa.timestamp("us")).to_pylist() == [datetime(2026, 11, 1, 10, 0)]


def test_no_rows_still_have_columns(lab: Lab) -> None:
    result = lab.run("SELECT offer_id FROM core.price WHERE false")
    assert (result.table.num_rows, result.table.column_names, result.truncated) == (0, ["offer_id"], False)


@pytest.mark.parametrize(
    ("n_rows", "row_cap", "kept", "truncated"), [(10, 10, 10, False), (11, 10, 10, True), (5000, 3000, 3000, True)]
)
def test_rows_beyond_the_cap_are_cut_and_said_to_be_cut(
    lab: Lab, n_rows: int, row_cap: int, kept: int, truncated: bool
) -> None:
    result = lab.run(f"SELECT range AS i FROM range({n_rows})", row_cap=row_cap)
    assert result.table.column("i").to_pylist() == list(range(kept))
    assert result.truncated is truncated


def test_a_capped_query_stops_early_instead_of_reading_everything(lab: Lab) -> None:
    result = lab.run("SELECT range FROM range(100000000000)", row_cap=5, timeout_s=5.0)
    assert (result.table.num_rows, result.truncated) == (5, True)


def test_the_order_of_rows_is_the_order_of_the_statement(lab: Lab) -> None:
    values = lab.run("SELECT range AS i FROM range(9000) ORDER BY i DESC").table.column("i").to_pylist()
    assert values == list(range(8999, -1, -1))


def test_the_plan_is_shown_on_request_and_nothing_is_read(lab: Lab) -> None:
    result = lab.run("SELECT count(*) FROM core.price WHERE unit = 'token'", explain=True)
    assert "core.price" in str(result.table.to_pydict())
    assert result.table.column_names == ["explain_key", "explain_value"]


def test_a_plan_is_refused_for_what_may_not_run(lab: Lab) -> None:
    with pytest.raises(SqlRefused, match=r"ops\.api_token"):
        lab.run("SELECT * FROM ops.api_token", explain=True)
    with pytest.raises(SqlRefused):
        lab.run("ANALYZE SELECT 1", explain=True)


def test_a_mistake_is_explained_in_words(lab: Lab) -> None:
    with pytest.raises(SqlFailed, match="score_x") as caught:
        lab.run("SELECT score_x FROM core.score")
    assert caught.value.fix == "check the names in the schema browser"


def test_an_ambiguous_name_asks_for_its_schema(lab: Lab) -> None:
    with pytest.raises(SqlRefused, match=r"mart\.source, ops\.source"):
        lab.run("SELECT * FROM source")


def test_a_type_without_a_table_form_asks_for_a_cast(lab: Lab) -> None:
    with pytest.raises(SqlRefused, match=r"bits has the type BIT.*cast it to VARCHAR"):
        lab.run("SELECT '101'::BIT AS bits")
    assert lab.rows("SELECT '101'::BIT::VARCHAR AS bits") == [("101",)]


def test_four_queries_run_at_once_and_more_wait_for_their_turn(lab: Lab) -> None:
    results: list[SqlResult | BaseException] = []

    def ask(number: int) -> None:
        try:
            results.append(lab.run(f"SELECT {number} AS n, count(*) AS c FROM range(3000000)", timeout_s=60.0))
        except BaseException as error:  # shown by the assertion below
            results.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = sorted(tuple(r.table.to_pylist()[0].values()) if isinstance(r, SqlResult) else (str(r),) for r in results)
    assert rows == [(number, 3_000_000) for number in range(6)]
