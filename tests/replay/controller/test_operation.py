"""Training on the desk: outcomes in, stored weights out, with what the training itself cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.desk import Desk, local_operator, open_desk
from app.errors import BadRequest, Conflict, Forbidden, NotFound
from app.operations import Actor, call
from app.replay import progress, trained_store
from app.settings import load_settings

ME = local_operator("cli")
QUICK = {"dataset": "ours", "embedder": "none", "steps": 100}


def outcomes(path: Path, dataset: str = "ours", n: int = 120) -> Path:
    """Long queries need the large arm, short ones do not; of eight two are held out."""
    lines = ["dataset,query_id,arm,correct,split,energy_j,evidence_class,text"]
    for i in range(n):
        split, hard = ("test" if i % 8 > 5 else "train"), i % 2
        text = f"prove lemma {i} " * 20 if hard else f"say hello to number {i}"
        lines.append(f"{dataset},q{i},small,{1 - hard},{split},10,measured,{text}")
        lines.append(f"{dataset},q{i},large,{int(i % 10 != 5)},{split},100,measured,{text}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def desk(own_home: Path, tmp_path: Path) -> Iterator[Desk]:
    (own_home / "joulebook.toml").write_text("offline = true\n")
    opened = open_desk(load_settings())
    call(opened, "import", {"kind": "outcomes", "path": str(outcomes(tmp_path / "ours.csv"))}, ME)
    yield opened
    opened.close()


def test_a_trained_controller_is_kept_and_routes_as_it_was_told(desk: Desk) -> None:
    told: dict[str, Any] = call(desk, "replay.train", QUICK, ME)
    assert (told["name"], told["n_train"], told["n_test"], told["stored"]) == ("grpo@0.4", 90, 30, True)
    assert told["held_out"]["mix"] == {"small": 0.5, "large": 0.5}
    assert told["held_out"]["energy_j_per_query"] == pytest.approx(55.0)
    kept = trained_store.restored(desk.warehouse, told["id"][:12])
    assert kept.trained_policy_id == told["id"]
    assert kept.arms == tuple(told["arms"]) and len(kept.history) == len(told["history"])
    (listed,) = call(desk, "replay.trained", {"dataset": "ours"}, ME)["trained"]
    assert (listed["id"], listed["seed"], listed["actor"]) == (told["id"], 0, ME.name)
    assert listed["trained_at"].endswith("Z")
    events = desk.warehouse.query("SELECT subject FROM ledger.event WHERE kind = 'replay.trained'")
    assert events["subject"].to_list() == [told["id"]]


def test_its_gain_over_the_best_fixed_arm_is_told_with_intervals(desk: Desk) -> None:
    against = call(desk, "replay.train", QUICK, ME)["against"]
    assert against["arm"] == "large"
    assert against["saved_j_per_query"] == pytest.approx(45.0)
    low, high = against["paired"]["energy_ratio"][1:]
    assert low < 0.55 < high


def test_the_same_training_is_kept_once(desk: Desk) -> None:
    first, second = (call(desk, "replay.train", QUICK, ME) for _ in range(2))
    assert first["id"] == second["id"]
    assert (first["stored"], second["stored"]) == (True, False)
    assert len(call(desk, "replay.trained", {}, ME)["trained"]) == 1


def test_without_declared_power_the_training_energy_is_unknown_and_says_why(desk: Desk) -> None:
    told = call(desk, "replay.train", QUICK, ME)
    assert told["training_energy_j"] is None and told["training_energy_evidence_class"] is None
    assert "no meter" in told["training_energy_method"]
    assert told["against"]["break_even_queries"] is None


def test_declared_power_makes_modeled_joules_and_a_count_to_break_even(desk: Desk) -> None:
    told = call(desk, "replay.train", {**QUICK, "machine_power_w": 200}, ME)
    assert told["training_energy_j"] == pytest.approx(200 * told["training_s"])
    assert told["training_energy_evidence_class"] == "modeled"
    assert told["against"]["break_even_queries"] == pytest.approx(told["training_energy_j"] / 45.0)
    row = desk.warehouse.query("SELECT * FROM core.trained_policy").to_dicts()[0]
    assert row["training_energy_evidence_class"] == "modeled" and row["training_energy_j"] > 0


def test_a_replay_counts_the_joules_that_the_training_took_not_those_of_the_machine_that_routes(desk: Desk) -> None:
    told = call(desk, "replay.train", {**QUICK, "machine_power_w": 200}, ME)
    run = {"dataset": "ours", "embedder": "none", "policies": [f"trained:{told['id']}"], "router_power_w": 5}
    training = call(desk, "replay.run", run, ME)["blocks"][0]["policies"][-1]["router"]["training"]
    assert training["energy_j"] == pytest.approx(told["training_energy_j"])
    assert (training["evidence_class"], training["seconds"]) == ("modeled", pytest.approx(told["training_s"]))


def test_a_training_of_unknown_joules_stays_unknown_in_a_replay(desk: Desk) -> None:
    told = call(desk, "replay.train", QUICK, ME)
    run = {"dataset": "ours", "embedder": "none", "policies": [f"trained:{told['id']}"], "router_power_w": 5}
    router = call(desk, "replay.run", run, ME)["blocks"][0]["policies"][-1]["router"]
    assert router["training"]["energy_j"] is router["training"]["evidence_class"] is None
    assert router["break_even_queries"] is None


def test_on_joules_lambda_is_the_slope_between_the_fixed_arms(desk: Desk) -> None:
    told = call(desk, "replay.train", {**QUICK, "reward": "joules"}, ME)
    assert told["name"].startswith("grpo-joules@")
    correct = [(1 - i % 2, int(i % 10 != 5)) for i in range(120) if i % 8 <= 5]
    small, large = np.mean(correct, axis=0)
    assert told["parameters"]["lam"] == pytest.approx((large - small) / 90, rel=0.05)


def test_a_cancelled_training_keeps_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(self: progress.Progress, stage: str, done: int | None = None, total: int | None = None) -> None:
        if stage == "training grpo":
            assert progress.of(desk, "t1") is self
            call(desk, "replay.cancel", {"task": "t1"}, ME)
        self.check()

    monkeypatch.setattr(progress.Progress, "step", cancel)
    with pytest.raises(Conflict, match="cancelled"):
        call(desk, "replay.train", {**QUICK, "task": "t1"}, ME)
    assert call(desk, "replay.trained", {}, ME)["trained"] == []
    assert progress.of(desk, "t1") is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dataset": "theirs"}, "theirs"),
        ({"lam": -1}, "lam"),
        ({"stage": "ppo"}, "stage"),
        ({"machine_power_w": 0}, "machine_power_w"),
        ({"arms": ["small", "huge"]}, "huge"),
        ({"embedder": "word2vec"}, "word2vec"),
    ],
)
def test_what_is_wrong_is_named(desk: Desk, given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        call(desk, "replay.train", {**QUICK, **given}, ME)


def test_an_unknown_id_is_not_found(desk: Desk) -> None:
    for wrong in ("0123456789", "", "ab"):
        with pytest.raises(NotFound):
            trained_store.restored(desk.warehouse, wrong)


def test_a_reader_may_look_and_not_train(desk: Desk) -> None:
    reader = Actor("r", "reader", "api", frozenset({"read"}))
    assert call(desk, "replay.trained", {}, reader) == {"trained": []}
    with pytest.raises(Forbidden):
        call(desk, "replay.train", QUICK, reader)
    remote = replace(ME, channel="api", scopes=frozenset({"read", "operator"}))
    with pytest.raises(Forbidden, match="embeddings"):
        call(desk, "replay.train", {**QUICK, "embeddings": "/etc/passwd"}, remote)
