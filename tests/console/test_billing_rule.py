"""The billing rule of two offers as the warehouse knows it: where the ceiling rules, and where nothing tells."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from app.reads.billing_rule import Rule, ruled
from app.reads.sensitivity import Assumed
from app.reads.sureness import sureness
from warehouse.engine import Warehouse

CONTROL, CANDIDATE = "deepseek-v4-flash", "gemma-4-31b"


@pytest.fixture(scope="module")
def sample(sample_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    own = shutil.copytree(sample_home, tmp_path_factory.mktemp("rule"), dirs_exist_ok=True)
    opened = Warehouse.open(own / "joulebook.duckdb")
    yield opened
    opened.close()


def _bill_usd(warehouse: Warehouse, offer: str, usd_per_kwh: float) -> float:
    """USD per joule of the reference runs by the rule, run by run: at most 3 x the list price of their tokens."""
    prices = dict(
        warehouse.query(
            "SELECT component, CAST(price_usd_per_unit AS DOUBLE) FROM core.price WHERE offer_id = $o", {"o": offer}
        ).iter_rows()
    )
    runs = warehouse.query(
        "SELECT energy_j, prompt_tokens, completion_tokens FROM core.usage "
        "WHERE workload = 'seed_reference' AND requested_offer = $o AND billed_cost_usd > 0",
        {"o": offer},
    ).to_numpy()
    listed = runs[:, 1] * prices["prompt"] + runs[:, 2] * prices["completion"]
    return float(np.minimum(usd_per_kwh * runs[:, 0] / 3.6e6, 3 * listed).sum() / runs[:, 0].sum())


def test_the_sample_turns_where_the_ceilings_say_and_not_at_a_rounding_of_the_bill(sample: Warehouse) -> None:
    found = sureness(sample, "R-0001", Assumed())
    facts = found.facts
    assert facts is not None and facts.energy is not None
    (turn,) = [t for a in found.answers for t in a.turns if t.name == "tariff"]
    ratio = facts.energy.ratio

    def margin(usd_per_kwh: float) -> float:
        return _bill_usd(sample, CONTROL, usd_per_kwh) - ratio * _bill_usd(sample, CANDIDATE, usd_per_kwh)

    assert turn.now == 8.0
    assert margin(0.1) > 0 and margin(8.0) > 0 and margin(100.0) < 0
    assert turn.at == pytest.approx(brentq(margin, 8.0, 100.0), rel=1e-4)


def test_the_rule_of_the_sample_is_not_that_of_real_data(sample: Warehouse) -> None:
    assert isinstance(ruled(sample, CONTROL, CANDIDATE, sample=True), Rule)
    told = ruled(sample, CONTROL, CANDIDATE)
    assert isinstance(told, str) and told.startswith("no tariff in $/kWh of both offers is known")
    other = ruled(sample, CONTROL, "another-offer", sample=True)
    assert isinstance(other, str) and other.startswith("no tariff in $/kWh of both offers is known")


def test_a_ceiling_that_no_run_tells_is_not_guessed(sample: Warehouse) -> None:
    with sample.transaction() as tx:
        tx.execute("DELETE FROM core.price WHERE offer_id = $o", {"o": CANDIDATE})
    told = ruled(sample, CONTROL, CANDIDATE, sample=True)
    assert isinstance(told, str)
    assert told.startswith(
        "the bill has a ceiling of 3 x list price, and the reference runs of gemma-4-31b do not tell"
    )
