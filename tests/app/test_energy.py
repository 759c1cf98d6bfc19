"""Joules per success as an answer: comparable observations only, with class, age and coverage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.desk import Desk, local_operator, open_desk
from app.errors import Conflict, NotFound
from app.operations import call
from app.settings import load_settings

ME = local_operator("cli")


@pytest.fixture
def desk(own_home: Path) -> Iterator[Desk]:
    (own_home / "joulebook.toml").write_text("offline = true\n")
    opened = open_desk(load_settings())
    call(opened, "sample.load", {}, ME)
    yield opened
    opened.close()


def test_the_figure_carries_class_quality_coverage_and_age(desk: Desk) -> None:
    told = call(desk, "energy.per_success", {"offer_id": "gemma-4-31b", "workload": "seed_reference"}, ME)
    assert told["energy_j_per_success"] == pytest.approx(22.59)
    assert (told["evidence_class"], told["n"], told["coverage"]) == ("allocated", 5, 1.0)
    assert told["age_s"] > 0
    assert told["newest_at"].endswith("Z")


def test_mixed_evidence_is_refused_by_name(desk: Desk) -> None:
    with desk.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.energy_observation SET evidence_class = 'modeled' WHERE observation_id = "
            "(SELECT min(observation_id) FROM core.energy_observation WHERE offer_id = 'gemma-4-31b' "
            "AND workload = 'seed_reference' AND energy_gross_j IS NOT NULL)"
        )
    with pytest.raises(Conflict, match=r"IncomparableObservations.*allocated, modeled"):
        call(desk, "energy.per_success", {"offer_id": "gemma-4-31b", "workload": "seed_reference"}, ME)
    assert call(desk, "energy.per_success", {"offer_id": "gemma-4-31b"}, ME)["evidence_class"] == "allocated"


def test_an_offer_without_observations_is_named(desk: Desk) -> None:
    with pytest.raises(NotFound, match="no-such-offer"):
        call(desk, "energy.per_success", {"offer_id": "no-such-offer"}, ME)


def test_a_real_catalog_rules_over_the_sample_however_old_it_is(desk: Desk, tmp_path: Path) -> None:
    import json
    import os

    file = tmp_path / "models.json"
    model = {"id": "gemma-4-31b", "object": "model", "created": 0, "owned_by": "x", "max_model_len": 4242}
    pricing = {"input_per_million": 9, "output_per_million": 9, "currency": "USD", "pricing_tbd": False}
    file.write_text(json.dumps({"object": "list", "data": [{**model, "metadata": {"pricing": pricing}}]}))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    told = call(desk, "import", {"kind": "neuralwatt-models", "path": str(file)}, ME)
    assert told["state"] == "OK", told
    row = desk.warehouse.query("SELECT context_tokens, source_id FROM mart.offer WHERE offer_id = 'gemma-4-31b'").row(0)
    assert row == (4242, "file:neuralwatt-models")
    ask = {"category": "coding_general", "tier": 1, "required_context_tokens": 8000}
    ranked = call(desk, "rank", ask, ME)
    excluded = next(c for c in ranked["excluded"] if c["offer_id"] == "gemma-4-31b")
    assert any("4242" in r["text"] or "context" in r["code"] for r in excluded["reasons"])
