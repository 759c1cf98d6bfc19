"""A small warehouse file for the SQL lab: the real schema, a few rows, and secrets that must not get out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from warehouse.errors import WarehouseError
from warehouse.sandbox.client import SqlResult, run_sql

SECRET = "S3CRET-7f1c"
MIGRATIONS = Path(__file__).resolve().parents[2] / "warehouse" / "migrations"

ROWS = f"""
INSERT INTO core.grid_intensity (zone, source_id, signal, basis, start_at, end_at, is_forecast, is_estimated,
  known_from, intensity_g_per_kwh, method, evidence_class, content_sha256, run_id)
SELECT zone, 'src', 'average', 'direct', TIMESTAMP '2026-11-01' + to_hours(h), TIMESTAMP '2026-11-01' + to_hours(h + 1),
       false, false, TIMESTAMP '2026-11-02', CASE WHEN h = 3 THEN NULL ELSE base + h END, 'made up', 'modeled',
       'x', 'run'
FROM (VALUES ('FI', 37.0), ('GB', 150.0), ('US-MIDA-PJM', 505.0)) z(zone, base), range(24) t(h);
INSERT INTO core.price VALUES
  ('p', 'a', 'prompt', 0, '2026-11-01', NULL, '2026-11-01', 0.000000280000, 'token', 'fixed', 'live', 'x', 's', 'r'),
  ('p', 'b', 'prompt', 0, '2026-11-01', NULL, '2026-11-01', 0.000000420000, 'token', 'fixed', 'live', 'x', 's', 'r'),
  ('p', 'c', 'prompt', 0, '2026-11-01', NULL, '2026-11-01', NULL, 'token', 'dynamic', 'live', 'x', 's', 'r');
INSERT INTO core.score (model, category, component, valid_from, known_from, score, n, content_sha256, source_id, run_id)
VALUES
  ('a', 'code', 'leaderboard', '2026-11-01', '2026-11-01', 0.5, NULL, 'x', 's', 'r'),
  ('b', 'code', 'leaderboard', '2026-11-01', '2026-11-01', 0.75, 12, 'x', 's', 'r');
INSERT INTO ops.source VALUES
  ('s', 'openrouter', 'OpenRouter', 'http', NULL, 60, 120, 240, true, false, '2026-11-01');
INSERT INTO ops.api_token VALUES ('t1', 'ci', '{SECRET}', 'read', '2026-11-01', 'me', NULL, 1);
INSERT INTO landing.payload VALUES
  ('p1', 's', 'k', 'file://x', '2026-11-01', NULL, NULL, NULL, NULL, 'sha', 5, 'zlib', '{SECRET}', 'r');
CREATE VIEW mart.intensity_mean AS
  SELECT zone, avg(intensity_g_per_kwh) AS mean_g_per_kwh FROM core.grid_intensity GROUP BY zone;
CREATE VIEW mart.tokens AS SELECT name, scopes, revoked_at IS NULL AS active FROM ops.api_token;
CREATE VIEW mart.source AS SELECT source_id FROM ops.source;
CREATE SEQUENCE sq;
CREATE TABLE rec(id INTEGER, s VARCHAR);
INSERT INTO rec VALUES (1, '{SECRET}');
CREATE TABLE secret_table(password VARCHAR);
INSERT INTO secret_table VALUES ('{SECRET}');
"""


@dataclass
class Lab:
    """A snapshot in a folder of its own, beside a file with a secret, with a way to try statements."""

    snapshot: Path
    folder: Path

    def fill(self, statement: str) -> str:
        return statement.replace("@TMP@", str(self.folder)).replace("@WAREHOUSE@", str(self.snapshot))

    def state(self) -> dict[str, str]:
        """Every file of the folder with its content's hash."""
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    def run(
        self, statement: str, *, timeout_s: float = 10.0, row_cap: int = 10_000, explain: bool = False
    ) -> SqlResult:
        return run_sql(self.snapshot, statement, timeout_s=timeout_s, row_cap=row_cap, explain=explain)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.run(statement).table.to_pylist()]

    def outcome(self, statement: str, *, timeout_s: float = 10.0) -> SqlResult | WarehouseError:
        """The result or the error of a statement; anything but a WarehouseError fails the test."""
        try:
            return self.run(self.fill(statement), timeout_s=timeout_s)
        except WarehouseError as error:
            return error


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    snapshot = folder / "snapshot.duckdb"
    connection = duckdb.connect(str(snapshot))
    for migration in sorted(MIGRATIONS.glob("*.sql")):
        connection.execute(migration.read_text(encoding="utf-8"))
    connection.execute(ROWS)
    connection.execute("CHECKPOINT")
    connection.close()
    (folder / "secret.csv").write_text(f"a,b\n{SECRET},1\n", encoding="utf-8")
    os.environ["JOULEBOOK_TEST_SECRET"] = SECRET
    yield Lab(snapshot, folder)
    os.environ.pop("JOULEBOOK_TEST_SECRET", None)
