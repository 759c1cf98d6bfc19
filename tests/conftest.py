"""Fixtures that every test may use; no test touches the caller's home or configuration."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from warehouse.engine import Warehouse

# A run of CI tries the same examples each time, so that it tells about the change and not about its luck;
# everywhere else each run tries new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a JOULEBOOK_HOME of its own and none of the caller's JOULEBOOK_* settings."""
    for name in list(os.environ):
        if name.startswith("JOULEBOOK_") and not name.startswith("JOULEBOOK_REQUIRE_"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("JOULEBOOK_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def _new_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty warehouse with its schema: migrations run once, and each test gets a copy."""
    path = tmp_path_factory.mktemp("warehouse") / "warehouse.duckdb"
    Warehouse.open(path).close()
    return path


@pytest.fixture(autouse=True)
def new_warehouses_are_copies(
    request: pytest.FixtureRequest, _new_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warehouse that is opened for the first time begins as that copy, but for the tests of the warehouse itself."""
    if "warehouse" in request.path.parts[-2:]:
        return
    real = Warehouse.open.__func__  # type: ignore[attr-defined]

    def opened(cls: type[Warehouse], path: Path, *, migrate: bool = True) -> Warehouse:
        if migrate and path.parent.is_dir() and not path.exists():
            shutil.copy(_new_warehouse, path)
        found: Warehouse = real(cls, path, migrate=migrate)
        return found

    monkeypatch.setattr(Warehouse, "open", classmethod(opened))


@pytest.fixture
def warehouse(tmp_path: Path, _new_warehouse: Path) -> Iterator[Warehouse]:
    """An empty warehouse with its schema."""
    opened = Warehouse.open(Path(shutil.copy(_new_warehouse, tmp_path / "warehouse.duckdb")))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the sample loaded and its shadows judged: made once per run, by whichever worker needs it first.

    Copy it (`shutil.copytree(sample_home, own, dirs_exist_ok=True)`); it is shared and stays as it is.
    """
    from app.desk import local_operator, open_desk
    from app.operations import call
    from app.settings import load_settings

    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    home = shared / "sample-home"
    with (shared / "sample-home.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            making = own / "sample-home-in-the-making"
            patch.setenv("JOULEBOOK_HOME", str(making))
            patch.setenv("JOULEBOOK_OFFLINE", "true")
            desk = open_desk(load_settings())
            call(desk, "sample.load", {}, local_operator("cli"))
            desk.close()
            making.rename(home)
    return home
