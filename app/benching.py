"""`joulebook bench`: runs the benchmarks of the source tree and keeps their figures with machine and date."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from app.errors import AppError, BadRequest
from warehouse.clock import utcnow

_ROOT = Path(__file__).resolve().parents[1]
NAMES = (
    "startup", "catalog_import", "pages", "sampler", "power_import", "dcgm_parse", "spendlogs", "replay", "fleet",
    "proof",
)  # fmt: skip


def run_benchmarks(name: str, output: Path | None, *, quiet: bool) -> dict[str, Any]:
    """Run one benchmark or all; {'machine': ..., 'benchmarks': {name: {figure: value}}}.

    Every ratio is against a floor measured in the same run, because these machines are noisy.
    Raises BadRequest for an unknown name and AppError where the source tree is absent.
    """
    if name != "all" and name not in NAMES:
        raise BadRequest(f"There is no benchmark {name!r}.", fix=f"use one of all, {', '.join(NAMES)}")
    if not (_ROOT / "tests" / "bench").is_dir():
        raise AppError("The benchmarks are not installed here.", fix="run `make bench` in a checkout of the source")
    if str(_ROOT) not in sys.path:
        sys.path.insert(0, str(_ROOT))
    figures: dict[str, Any] = {}
    for wanted in NAMES if name == "all" else (name,):
        if not quiet:
            sys.stderr.write(f"bench {wanted} ...\n")
        figures[wanted] = importlib.import_module(f"tests.bench.{wanted}").run()
    told = {"at": utcnow().isoformat(timespec="seconds") + "Z", "machine": machine(), "benchmarks": figures}
    if output is not None:
        output.write_text(json.dumps(told, indent=2) + "\n")
    return told


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("duckdb", "polars", "streamlit")},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
