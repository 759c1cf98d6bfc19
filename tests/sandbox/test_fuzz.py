"""Whatever is typed, the answer is rows or one of our errors, and closed tables stay closed."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sandbox.conftest import SECRET, Lab
from warehouse.errors import WarehouseError
from warehouse.sandbox.client import SqlResult
from warehouse.sandbox.validate import ALLOWED_SCHEMAS, DENIED_TABLES, validate

TEXT = (
    "SELECT FROM WHERE WITH RECURSIVE AS UNION ALL EXCEPT JOIN ON LATERAL VALUES TABLE ORDER BY GROUP LIMIT CASE WHEN "
    "THEN END EXISTS IN NOT AND OVER PARTITION DESCRIBE SHOW PIVOT EXPLAIN COPY TO SET ops . api_token core price main "
    "snapshot rec t x y a read_text range unnest max token_sha256 count getenv query_table ( ) ( ) , ; * + 1 2 'x' "
    "'ops.api_token' \"api_token\" :: VARCHAR [ ] { } -> lambda : = $1 ? -- /* */ ( SELECT * FROM ops.api_token )"
)
WORDS = TEXT.split(" ")
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
sql_like = st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join)
almost_sql = st.tuples(
    st.sampled_from(["SELECT ", "SELECT * FROM ", "WITH api_token AS (SELECT * FROM ", "FROM ", ""]),
    sql_like,
    st.sampled_from(
        ["", ")", " FROM core.price", ") SELECT * FROM api_token", " UNION ALL SELECT * FROM ops.api_token"]
    ),
).map("".join)


@SLOW
@given(text=st.text(max_size=200))
def test_random_text_gives_rows_or_our_own_error(lab: Lab, text: str) -> None:
    assert isinstance(lab.outcome(text, timeout_s=5.0), SqlResult | WarehouseError)


@SLOW
@given(text=sql_like | almost_sql)
def test_random_sql_never_shows_a_secret(lab: Lab, text: str) -> None:
    outcome = lab.outcome(text, timeout_s=5.0)
    shown = str(outcome.table.to_pydict()) if isinstance(outcome, SqlResult) else str(outcome)
    assert SECRET not in shown


@SLOW
@given(text=almost_sql)
def test_what_is_accepted_reads_open_tables_only(text: str) -> None:
    try:
        checked = validate(text)
    except WarehouseError:
        return
    closed = {name.partition(".")[2] for name in DENIED_TABLES}
    for table in checked.tables:
        schema, _, name = table.rpartition(".")
        assert schema in ALLOWED_SCHEMAS | {""}
        assert table not in DENIED_TABLES and not (schema == "" and name in closed)
