"""A result as a file: nothing is lost that the format can hold."""

from __future__ import annotations

import io
from typing import Any, cast

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.sandbox.conftest import Lab
from warehouse.errors import SqlFailed
from warehouse.sandbox.client import export

MIXED = """
SELECT 'a,"b"' AS text, NULL::VARCHAR AS missing, '' AS empty, 1.50::DECIMAL(10, 2) AS price, true AS yes,
       TIMESTAMP '2026-11-01 12:00:00' AS at, [1, NULL] AS list, {'k': 'v'} AS struct, 'xy'::BLOB AS bytes,
       INTERVAL '90' MINUTE AS took, 'a' || chr(10) || 'b' AS lines
"""


def test_csv_keeps_null_and_the_empty_text_apart(lab: Lab) -> None:
    text = export(lab.run(MIXED), "csv").decode("utf-8")
    assert text == (
        "text,missing,empty,price,yes,at,list,struct,bytes,took,lines\r\n"
        '"a,""b""",,"",1.50,true,2026-11-01T12:00:00,"[1, null]","{""k"": ""v""}",eHk=,01:30:00,"a\nb"\r\n'
    )


def test_csv_is_read_back_by_another_reader(lab: Lab) -> None:
    result = lab.run("SELECT zone, start_at, intensity_g_per_kwh FROM core.grid_intensity ORDER BY ALL")
    frame = pl.read_csv(io.BytesIO(export(result, "csv")), try_parse_dates=True)
    assert frame.height == 72
    assert frame["intensity_g_per_kwh"].null_count() == 3
    assert frame.filter(pl.col("zone") == "FI")["intensity_g_per_kwh"].max() == 60.0


def test_parquet_is_the_same_table(lab: Lab) -> None:
    result = lab.run(MIXED)
    assert pq.read_table(io.BytesIO(export(result, "parquet"))).equals(result.table)
    assert export(result.table, "parquet") == export(result, "parquet")


def test_an_empty_result_has_its_header(lab: Lab) -> None:
    result = lab.run("SELECT offer_id, unit FROM core.price WHERE false")
    assert export(result, "csv") == b"offer_id,unit\r\n"
    assert pq.read_table(io.BytesIO(export(result, "parquet"))).num_rows == 0


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("INTERVAL '14' MONTH", "1 year 2 months"),
        ("INTERVAL '-3' DAY", "-3 days"),
        ("INTERVAL '1' DAY + INTERVAL '1500' MILLISECOND", "1 day 00:00:01.5"),
        ("INTERVAL '-1' HOUR", "-01:00:00"),
        ("INTERVAL '0' DAY", "00:00:00"),
        ("INTERVAL '-25' MONTH", "-2 years -1 month"),
    ],
)
def test_an_interval_reads_as_duckdb_prints_it(lab: Lab, sql: str, text: str) -> None:
    assert lab.rows(f"SELECT {sql} AS i, ({sql})::VARCHAR AS printed") == [(text, text)]


def test_another_format_is_refused_with_the_two_that_exist(lab: Lab) -> None:
    with pytest.raises(SqlFailed, match="use csv or parquet"):
        export(lab.run("SELECT 1"), cast(Any, "xlsx"))
