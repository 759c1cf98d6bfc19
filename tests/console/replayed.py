"""A desk with a replayed data set `ours` (120 queries, three arms, two zones), made once and copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from app import desk as desks
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.settings import load_settings
from tests.app.replaying import outcomes

OPERATOR = local_operator("cli")
POLICIES = ["random", "oracle", "benchmark", "hull"]
_FACTORS = """zone,year,basis,signal,intensity_g_per_kwh,source
FI,2026,lifecycle,average,37,ours
PL,2026,lifecycle,average,650,ours
"""


@pytest.fixture(scope="session")
def replayed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("replayed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        patch.setenv("JOULEBOOK_OFFLINE", "true")
        desk = open_desk(load_settings())
        for name, holes in (("ours", False), ("untouched", True)):
            path = outcomes(home / f"{name}.csv", holes=holes)
            if name == "untouched":  # without texts nothing is embedded: quick to replay
                pl.read_csv(path).drop("prompt").write_csv(path)
            params = {"kind": "outcomes", "path": str(path), "source": f"file:{name}", "options": {"dataset": name}}
            assert call(desk, "import", params, OPERATOR)["state"] == "OK"
        (home / "factors.csv").write_text(_FACTORS)
        call(desk, "import", {"kind": "grid-factors", "path": str(home / "factors.csv")}, OPERATOR)
        asked = {"dataset": "ours", "policies": POLICIES, "embedder": "none", "incumbent": "medium"}
        zones = {"zone": ["FI", "PL"], "at": ["2026-11-29T12:00Z"]}
        call(desk, "replay.run", {**asked, **zones, "router_power_w": 20.0}, OPERATOR)
        desk.close()
    return home / "joulebook.duckdb"


@pytest.fixture
def replayed(own_home: Path, replayed_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The desk that pages find as the current one."""
    monkeypatch.setenv("JOULEBOOK_OFFLINE", "true")
    shutil.copy(replayed_file, own_home / "joulebook.duckdb")
    opened = open_desk(load_settings())
    desks.set_current(opened)
    yield opened
    desks.set_current(None)
    opened.close()
