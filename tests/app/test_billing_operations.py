"""`tariffs check` and `charges totals`: the same answers through operations and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.desk import Desk, open_desk
from app.errors import BadRequest
from app.operations import SYSTEM, call
from app.settings import load_settings
from tests.e2e.console import call_cli, json_of
from tests.ingest.billing_samples import FX, focus, focus_line
from tests.ingest.samples import usage_export


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("JOULEBOOK_POWER__ENABLED", "false")
    opened = open_desk(load_settings())
    yield opened
    opened.close()


def load(desk: Desk, folder: Path, kind: str, text: str, **options: str) -> dict[str, Any]:
    path = folder / f"{kind}.txt"
    path.write_text(text)
    told = call(desk, "import", {"kind": kind, "path": str(path), "options": options}, SYSTEM)
    assert told["state"] in ("OK", "PARTIAL"), told
    return told


TARIFF = "provider,account,valid_from,usd_per_kwh\nneuralwatt,default,2026-07-01T00:00:00Z,{}\n"


class TestTariffs:
    def test_nothing_to_check_is_said_to_be_nothing(self, desk: Desk) -> None:
        assert call(desk, "tariffs.check", {}, SYSTEM) == {"holds": None, "tariffs": [], "without_tariff": []}

    def test_what_was_reconstructed_from_a_bill_explains_it(self, desk: Desk, tmp_path: Path) -> None:
        load(desk, tmp_path, "neuralwatt-usage", json.dumps(usage_export()))
        told = call(desk, "tariffs.check", {}, SYSTEM)
        assert told["holds"] is True
        assert [(t["basis"], t["usd_per_kwh"], t["rows"], t["explained"]) for t in told["tariffs"]] == [
            ("reconstructed", "5", 2, 2), ("reconstructed", "10", 1, 1),
        ]  # fmt: skip
        assert told["without_tariff"] == []

    @pytest.mark.parametrize(("rate", "holds", "unexplained"), [("5", False, 1), ("7", False, 3)])
    def test_a_declared_tariff_is_held_against_the_bill(
        self, desk: Desk, tmp_path: Path, rate: str, holds: bool, unexplained: int
    ) -> None:
        load(desk, tmp_path, "neuralwatt-usage", json.dumps(usage_export()))
        load(desk, tmp_path, "tariffs", TARIFF.format(rate))
        told = call(desk, "tariffs.check", {"account": "default"}, SYSTEM)
        (declared,) = [t for t in told["tariffs"] if t["basis"] == "declared"]
        assert (told["holds"], declared["holds"], declared["unexplained"]) == (holds, holds, unexplained)
        assert len(declared["worst"]) == unexplained

    def test_rows_without_a_rule_are_named(self, desk: Desk, tmp_path: Path) -> None:
        load(desk, tmp_path, "neuralwatt-usage", json.dumps(usage_export()))
        with desk.warehouse.transaction() as tx:
            tx.execute("DELETE FROM core.tariff")
        told = call(desk, "tariffs.check", {}, SYSTEM)
        assert told["without_tariff"] == [{"provider": "neuralwatt", "account": "default", "rows": 3}]


class TestCharges:
    BILL = focus(
        focus_line(BilledCost="1.00"),
        focus_line(BilledCost="1.03", BillingCurrency="CNY"),
        focus_line(BilledCost="-0.5", ChargeCategory="Credit"),
    )

    def test_t13_subtotals_per_currency_and_no_sum_without_a_rate(self, desk: Desk, tmp_path: Path) -> None:
        load(desk, tmp_path, "focus", self.BILL)
        told = call(desk, "charges.totals", {"into": "USD"}, SYSTEM)
        assert [(s["currency"], s["charge_category"], s["billed_cost"]) for s in told["subtotals"]] == [
            ("CNY", "Usage", "1.03"), ("USD", "Credit", "-0.5"), ("USD", "Usage", "1"),
        ]  # fmt: skip
        assert (told["total"]["total"], told["total"]["missing"]) == (None, ["CNY"])

    def test_t13_with_a_dated_rate_there_is_a_sum_that_shows_it(self, desk: Desk, tmp_path: Path) -> None:
        load(desk, tmp_path, "focus", self.BILL)
        load(desk, tmp_path, "fx-rates", FX)
        told = call(desk, "charges.totals", {"into": "USD", "on": "2026-05-15"}, SYSTEM)["total"]
        assert float(told["total"]) == pytest.approx(1.143055 - 0.5, abs=1e-6)
        assert told["note"] == "1 USD = 7.2 CNY on 2026-04-30 (ECB)"
        before = call(desk, "charges.totals", {"into": "USD", "on": "2026-04-29"}, SYSTEM)["total"]
        assert before["total"] is None

    def test_the_bill_as_it_was_known(self, desk: Desk, tmp_path: Path) -> None:
        load(desk, tmp_path, "focus", self.BILL)
        assert call(desk, "charges.totals", {"as_of": "2026-01-01T00:00:00Z"}, SYSTEM)["subtotals"] == []
        with pytest.raises(BadRequest, match="zone"):
            call(desk, "charges.totals", {"as_of": "2026-01-01T00:00:00"}, SYSTEM)

    def test_one_billing_period(self, desk: Desk, tmp_path: Path) -> None:
        load(desk, tmp_path, "focus", self.BILL)
        assert len(call(desk, "charges.totals", {"period": "2026-04-30"}, SYSTEM)["subtotals"]) == 3
        assert call(desk, "charges.totals", {"period": "2026-05-01"}, SYSTEM)["subtotals"] == []


class TestCommands:
    def test_both_speak_json_and_words(self, tmp_path: Path) -> None:
        (tmp_path / "home").mkdir(exist_ok=True)
        environment = {"JOULEBOOK_HOME": str(tmp_path / "home"), "JOULEBOOK_POWER__ENABLED": "false"}
        (tmp_path / "export.json").write_text(json.dumps(usage_export()))
        (tmp_path / "bill.csv").write_text(TestCharges.BILL)
        (tmp_path / "tariffs.csv").write_text(TARIFF.format("7"))
        json_of(call_cli(environment, "import", "neuralwatt-usage", str(tmp_path / "export.json"), "--json"), 0)
        assert json_of(call_cli(environment, "tariffs", "check", "--json"), 0)["holds"] is True
        json_of(call_cli(environment, "import", "tariffs", str(tmp_path / "tariffs.csv"), "--json"), 0)
        assert json_of(call_cli(environment, "tariffs", "check", "--json"), 1)["holds"] is False
        assert "declared" in call_cli(environment, "tariffs", "check").stdout
        json_of(call_cli(environment, "import", "focus", str(tmp_path / "bill.csv"), "--json"), 0)
        assert len(json_of(call_cli(environment, "charges", "totals", "--json"), 0)["subtotals"]) == 3
        assert "no sum: no rate to USD" in call_cli(environment, "charges", "totals", "--into", "USD").stdout
