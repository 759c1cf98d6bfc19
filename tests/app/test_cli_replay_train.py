"""`joulebook replay train`: every setting of a training from the command line, by either method."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.cli import main
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.operations.replay import RunParams
from app.replay.described import Head, entry
from app.settings import load_settings
from app.trl_training import environment
from app.trl_training.files import read_training_set
from policies.replay.policy import About, Choices
from policies.replay.report_policy import Training
from tests.app.replaying import outcomes
from warehouse.clock import utcnow
from warehouse.evidence import EvidenceClass

Cli = Callable[..., Any]
QUICK = ("train", "--dataset", "ours", "--embedder", "none", "--steps", "20")
TRL = ("train", "--dataset", "ours", "--method", "trl")


@pytest.fixture
def home(own_home: Path) -> Path:
    (own_home / "joulebook.toml").write_text("offline = true\n")
    desk: Desk = open_desk(load_settings())
    params = {"kind": "outcomes", "path": str(outcomes(own_home / "ours.csv")), "options": {"dataset": "ours"}}
    assert call(desk, "import", params, local_operator("cli"))["state"] == "OK"
    desk.close()
    return own_home


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["replay", *words, "--json"])
        told = capsys.readouterr()
        assert ended.value.code == code, told.out + told.err
        return json.loads(told.out)

    return run


# the lab's own controller ---------------------------------------------------------------------


def test_every_setting_reaches_the_training(cli: Cli) -> None:
    told = cli(
        *QUICK, "--stage", "kl-grpo", "--lambda", "0.7", "--beta", "0.2", "--estimator", "sampled", "--group", "4",
        "--scale", "group", "--lam-supervised", "0.3", "--per-s", "0.01", "--hidden", "3",
        "--unanswered", "cheapest", "--see-benchmarks",
    )  # fmt: skip
    wanted = {"stage": "kl-grpo", "lam": 0.7, "beta": 0.2, "estimator": "sampled", "group": 4, "scale": "group",
              "lam_supervised": 0.3, "per_s": 0.01, "hidden": 3, "unanswered": "cheapest",
              "benchmarks": True, "steps": 20}  # fmt: skip
    assert {name: told["parameters"][name] for name in wanted} == wanted


def test_what_is_not_said_is_the_default_of_the_operation(cli: Cli) -> None:
    told = cli("train", "--dataset", "ours", "--embedder", "none")["parameters"]
    assert (told["stage"], told["reward"], told["lam"], told["beta"], told["steps"]) == (
        "grpo",
        "gated",
        0.4,
        0.05,
        400,
    )


def test_watts_that_are_not_recorded_cannot_be_weighed(cli: Cli) -> None:
    error = cli(*QUICK, "--per-w", "0.002", code=2)["error"]
    assert "has the outcome and the joules and the watts of two arms" in error["message"]
    assert "give no weight to watts" in error["fix"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--estimator", "guessed"), "estimator"),
        (("--scale", "world"), "scale"),
        (("--unanswered", "dearest"), "unanswered"),
        (("--evidence", "rumoured"), "evidence_class"),
        (("--at", "noon"), "at:"),
        (("--group", "1"), "--group"),
        (("--method", "ppo"), "none of controller, trl"),
        (("--out", "x"), "--out is for --method trl only"),
        (("--set", "a=b", "--resume"), "--set, --resume is for --method trl only"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(cli: Cli, words: tuple[str, ...], told: str) -> None:
    assert told in cli(*QUICK, *words, code=2)["error"]["message"]
    assert cli("trained")["trained"] == []


def test_weights_of_the_energy_rank_without_the_learned_controller_are_refused(cli: Cli) -> None:
    told = cli("run", "--dataset", "ours", "--policy", "oracle", "--rank-lambda", "3", code=2)["error"]
    assert "not among the policies" in told["message"]


def test_an_unknown_incumbent_is_told_before_anything_is_fitted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.replay.runs.decide", lambda *_, **__: pytest.fail("it was fitted"))
    told = cli("run", "--dataset", "ours", "--embedder", "none", "--incumbent", "nobody", code=2)["error"]
    assert "'nobody' is neither an arm" in told["message"]


# a language model -----------------------------------------------------------------------------


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The extra as if it were there; the training itself is that of `make test-trl`."""
    seen: dict[str, Any] = {}

    def train(data: Any, settings: Any, out: Path, *, resume: bool, report: Any) -> dict[str, Any]:
        seen.update(data=data, settings=settings, out=out, resume=resume)
        open_desk(load_settings()).close()  # the warehouse is free while it trains
        report("GRPO step 1")
        return {"dataset": data.dataset, "trained_on": [], "stages": {}, "training_s": 1.0}

    monkeypatch.setattr("app.trl_training.environment.require", lambda: None)
    monkeypatch.setattr("app.trl_training.environment.check_device", lambda device: None)
    monkeypatch.setattr("app.trl_training.train_router", train)
    return seen


def test_without_the_extra_it_is_named_and_no_text_is_written(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(environment, "importlib", SimpleNamespace(import_module=refuse))
    error = cli(*TRL, "--out", str(home / "router"), code=2)["error"]
    assert "needs torch, which is not installed" in error["message"]
    assert error["fix"] == "pip install joulebook[trl]"
    assert list(home.glob("router*")) == []


def test_the_training_set_is_the_training_part_and_goes_to_the_trainer(
    cli: Cli, home: Path, trainer: dict[str, Any]
) -> None:
    told = cli(
        *TRL, "--out", str(home / "router"), "--stage", "kl-grpo", "--lambda", "0.9", "--lam-supervised", "0.2",
        "--beta", "0.1", "--steps", "7", "--seed", "3", "--arms", "small,large", "--set", "rl_group=4",
    )  # fmt: skip
    assert told["policy"] == f"trl:{home / 'router'}"
    assert read_training_set(Path(told["training_set"])) == trainer["data"]
    assert trainer["data"].arms == ("small", "large")
    assert (trainer["data"].reinforced.energy, trainer["data"].supervised.energy) == (0.9, 0.2)
    settings = trainer["settings"]
    assert (settings.beta, settings.rl_steps, settings.seed, settings.rl_group) == (0.1, 7, 3, 4)


@pytest.mark.parametrize(("stage", "beta", "steps"), [("sft", 0.04, 0), ("grpo", 0.0, 1500), ("kl-grpo", 0.04, 1500)])
def test_stages_have_their_own_settings(
    cli: Cli, home: Path, trainer: dict[str, Any], stage: str, beta: float, steps: int
) -> None:
    cli(*TRL, "--out", str(home / "router"), "--stage", stage)
    assert (trainer["settings"].beta, trainer["settings"].rl_steps) == (beta, steps)


def test_a_resumed_run_goes_on_with_the_training_set_that_it_began_with(
    cli: Cli, home: Path, trainer: dict[str, Any]
) -> None:
    first = Path(cli(*TRL, "--out", str(home / "router"))["training_set"])
    (home / "router").mkdir()
    (home / "router" / "router.json").write_text("{}")
    before = first.read_bytes()
    assert "is not empty" in cli(*TRL, "--out", str(home / "router"), "--seed", "5", code=2)["error"]["message"]
    assert first.read_bytes() == before
    cli(*TRL, "--out", str(home / "router"), "--lambda", "0.9", "--resume")
    assert trainer["resume"] and first.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "needs a folder"),
        (("--out", "r", "--hidden", "8", "--reward", "joules"), "--reward, --hidden is for --method controller only"),
        (("--out", "r", "--set", "rl_group=1"), "rl_group"),
        (("--out", "r", "--set", "nonsense=1"), "nonsense"),
        (("--out", "r", "--stage", "ppo"), "none of sft, grpo, kl-grpo"),
        (("--out", "r", "--stage", "grpo", "--beta", "0.1"), "take --stage kl-grpo"),
        (("--out", "r", "--arms", "huge"), "huge"),
        (("--out", "/nowhere/r"), "cannot be written"),
    ],
)
def test_what_is_wrong_with_it_is_named(
    cli: Cli,
    trainer: dict[str, Any],
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told in cli(*TRL, *words, code=2)["error"]["message"]
    assert trainer == {}


# what its training cost, in the report of a replay -----------------------------------------------


def cost(notes: dict[str, Any]) -> Training | None:
    now = utcnow()
    head = Head(RunParams(dataset="ours", router_power_w=50), now, now, "me", None, "", None, [], [])
    about = About("trl:/r", "language model (TRL)")
    return entry(head, about, Choices(arms=[0]), "0", fit_s=2.0, route_s=0.1, notes=notes).training  # type: ignore[arg-type]


def test_a_routers_training_is_what_its_folder_tells() -> None:
    told = {"training_s": 60.0, "training_energy_j": 9e3, "training_energy_class": "measured"}
    assert cost(told) == Training(9e3, EvidenceClass.MEASURED, 60.0)


@pytest.mark.parametrize("seconds", [60.0, None])
def test_a_training_without_a_counter_or_killed_is_not_guessed_from_the_machine_that_routes(
    seconds: float | None,
) -> None:
    told = {"training_s": seconds, "training_energy_j": None, "training_energy_class": None}
    assert cost(told) == Training(None, None, seconds)
