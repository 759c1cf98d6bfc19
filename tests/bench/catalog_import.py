"""Import of a 364-model OpenRouter file: the whole pipeline against json.loads + a raw DuckDB insert of its rows."""

from __future__ import annotations

import json
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import duckdb

from ingest.base import Payload
from ingest.kinds import kind
from ingest.pipeline import refresh
from tests.bench.timing import alternate, rounded
from warehouse.clock import utcnow
from warehouse.engine import Warehouse

_MODELS = 364


def catalog_bytes(models: int = _MODELS, price_step: int = 0) -> bytes:
    """A catalog in OpenRouter's form with `models` rows; `price_step` makes every price news."""
    rows = [
        {
            "id": f"vendor{i % 40}/model-{i}",
            "canonical_slug": f"vendor{i % 40}/model-{i}-2026",
            "name": f"Vendor: Model {i}",
            "created": 1_760_000_000 + i,
            "description": "A model of this benchmark. " * 12,
            "context_length": 131_072,
            "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
            "pricing": {
                "prompt": f"0.{(i + 1 + price_step):09d}",
                "completion": f"0.{(3 * i + 3 + price_step):09d}",
                "input_cache_read": f"0.{(i + 1):010d}",
            },
            "top_provider": {"context_length": 131_072, "max_completion_tokens": 8192, "is_moderated": False},
            "supported_parameters": ["max_tokens", "temperature", "tools"],
        }
        for i in range(models)
    ]
    return json.dumps({"data": rows}).encode()


def run() -> dict[str, Any]:
    found = kind("openrouter")
    steps = count(1)
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse.open(Path(folder) / "w.duckdb")
        raw = duckdb.connect(str(Path(folder) / "raw.duckdb"))
        frames = found.parse(Payload("bench", found.name, "file:///bench", utcnow(), catalog_bytes())).tables
        for name, frame in frames.items():
            arrow = frame.to_arrow()
            raw.register("rows_", arrow)
            raw.execute(f"CREATE TABLE {name.split('.')[1]} AS SELECT * FROM rows_ LIMIT 0")

        def news() -> None:
            body = catalog_bytes(price_step=next(steps))
            told = refresh(
                warehouse,
                found,
                "bench",
                lambda: Payload("bench", found.name, "file:///bench", utcnow(), body),
                trigger="import",
            )
            assert told.state in {"OK", "PARTIAL"}, told.error

        same = catalog_bytes(price_step=10_000)

        def no_news() -> None:
            refresh(
                warehouse,
                found,
                "bench",
                lambda: Payload("bench", found.name, "file:///bench", utcnow(), same),
                trigger="import",
            )

        def floor() -> None:
            json.loads(catalog_bytes(price_step=next(steps)))
            raw.execute("BEGIN")
            for name, frame in frames.items():
                raw.register("rows_", frame.to_arrow())
                raw.execute(f"INSERT INTO {name.split('.')[1]} SELECT * FROM rows_")
            raw.execute("COMMIT")

        changed_s, floor_s = alternate(news, floor, 9)
        unchanged_s, _ = alternate(no_news, floor, 9)
        rows = sum(frame.height for frame in frames.values())
        raw.close()
        warehouse.close()
    return rounded(
        {
            "models": _MODELS,
            "typed_rows": rows,
            "import_all_changed_s": changed_s,
            "import_nothing_changed_s": unchanged_s,
            "floor_json_loads_and_raw_insert_s": floor_s,
            "changed_ratio_to_floor": changed_s / floor_s,
            "unchanged_ratio_to_floor": unchanged_s / floor_s,
        }
    )
