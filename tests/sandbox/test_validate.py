"""What the validator says about one statement, without a database."""

from __future__ import annotations

import pytest

from warehouse.errors import SqlRefused
from warehouse.sandbox.functions import known_functions, why_denied
from warehouse.sandbox.validate import Validated, validate


def test_it_names_the_tables_that_are_read_and_not_the_ctes() -> None:
    sql = 'WITH t AS (FROM core.offer) SELECT * FROM t, MART."Best", price, range(3) WHERE 1 IN (FROM ops.run)'
    assert validate(sql + " ;") == Validated(
        sql=sql, tables=frozenset({"core.offer", "mart.best", "price", "ops.run"}), is_explain=False
    )


def test_explain_is_a_flag_and_not_part_of_the_text() -> None:
    assert validate("SELECT 1", explain=True) == Validated("SELECT 1", frozenset(), is_explain=True)


def test_a_cte_does_not_hide_a_table_outside_its_scope() -> None:
    inside = "SELECT * FROM (WITH offer AS (SELECT 1) SELECT * FROM offer)"
    assert validate(inside).tables == frozenset()
    assert validate(inside + ", offer").tables == {"offer"}


def test_schemas_and_closed_tables_can_be_set() -> None:
    only_core = frozenset({"core"})
    assert validate("FROM core.offer", allowed_schemas=only_core, denied_tables=frozenset()).tables == {"core.offer"}
    with pytest.raises(SqlRefused, match=r"mart is not open.*use core"):
        validate("FROM mart.x", allowed_schemas=only_core)
    with pytest.raises(SqlRefused, match=r"core\.offer is not open"):
        validate("FROM core.offer", denied_tables=frozenset({"core.offer"}))


@pytest.mark.parametrize(
    ("sql", "says", "fix"),
    [
        ("", "empty", "write a SELECT"),
        ("-- nothing", "no statement", "write a SELECT"),
        ("SELECT 1; SELECT 2", r"2 statements \(SELECT, SELECT\)", "exactly one"),
        ("DELETE FROM core.offer", "this is DELETE", "write a SELECT"),
        ("SET threads = 1", "this is SET", "through the pages"),
        ("EXPLAIN SELECT 1", "EXPLAIN", "ask for its plan"),
        ("PIVOT core.price ON unit USING sum(price_usd_per_unit)", "PIVOT", "FILTER"),
        ("FROM (PIVOT core.price ON unit IN ('a') USING sum(n))", "PIVOT", "FILTER"),
        ("SHOW TABLES", "SHOW", "schema browser"),
        ("SELECT ?", "parameter", "write the value"),
        ("SELECT * FROM read_csv('x.csv')", "read_csv", "joulebook import"),
        ("SELECT * FROM 'x.csv'", "x.csv", "joulebook import"),
        ("SELECT * FROM duckdb_tables()", "duckdb_tables", "schema browser"),
        ("SELECT * FROM repeat_row(1)", "repeat_row", "generate_series, range, unnest"),
        ("SELECT current_setting('threads')", "current_setting", "remove it"),
        ("SELECT medain(1)", "no function medain", "median"),
        ("SELECT * FROM wh.core.offer", r"names a database \(\"wh\"\)", "schema.table"),
        ("SELECT * FROM main.offer", "main is not open", "core"),
        ("SELECT * FROM ops.api_token", r"ops\.api_token is not open", "another table"),
        ("SELECT * FROM core.offer AT (VERSION => 3)", "AT ", "as it is"),
        ("SELCT 1", 'near "SELCT"', "correct the SQL"),
        ("SELECT 'x" + "y" * 50_000 + "'", "50010 bytes", "shorten"),
        ("SELECT 1\x00", "NUL character at position 8", "remove"),
        ("SELECT '\ud800'", "broken character at position 8", "type that part again"),
        ("SELECT 1" + " + 1" * 700, "nested", "split it"),
    ],
)
def test_a_refusal_names_the_thing_and_a_fix(sql: str, says: str, fix: str) -> None:
    with pytest.raises(SqlRefused, match=says) as caught:
        validate(sql)
    assert fix in caught.value.fix


def test_every_function_that_reaches_outside_the_rows_is_denied() -> None:
    # What DuckDB 1.5.5 marks as not consistent, without clocks, random numbers, error() and the catalog's name.
    harmless = "now random uuid today error gen_random_uuid uuidv4 uuidv7 setseed current_date get_current_time"
    for name in ("current_setting", "getvariable", "nextval", "currval", "write_log", "sleep_ms", "stats", "pg_sleep"):
        assert why_denied(name), name
    for name in harmless.replace("setseed ", "").split():
        assert why_denied(name) is None, name
        assert name in known_functions(), name


@pytest.mark.parametrize("name", ["read_csv", "glob", "duckdb_settings", "query", "enable_logging", "checkpoint"])
def test_a_table_function_is_no_scalar_function_either(name: str) -> None:
    with pytest.raises(SqlRefused, match=name):
        validate(f"SELECT {name}('x')")
