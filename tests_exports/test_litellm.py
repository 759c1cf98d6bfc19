"""LiteLLM's own Router reads the exported config and picks by its weights."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy.stats import binom

from tests.exports.changes import change, doc, mapping, one

SCRIPT = Path(__file__).with_name("litellm_picks.py")
N = 10_000


def picks(python: Path, config: dict[str, Any], seed: int = 1, model: str = "chat") -> dict[str, int]:
    """How often each deployment is picked; the Router has no network and needs none."""
    told = {"config": config, "model": model, "n": N, "seed": seed}
    done = subprocess.run(
        [str(python), str(SCRIPT)],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "none"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, int] = json.loads(done.stdout.strip().splitlines()[-1])
    assert sum(found.values()) == N
    return found


def within(found: dict[str, int], shares: dict[str, float]) -> bool:
    """Each count inside the two-sided binomial bounds that a fair pick leaves once in a million."""
    bounds = {n: (binom.ppf(5e-7, N, p), binom.ppf(1 - 5e-7, N, p)) for n, p in shares.items()}
    return set(found) == {n for n, p in shares.items() if p > 0} and all(
        low <= found.get(n, 0) <= high for n, (low, high) in bounds.items()
    )


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_router_picks_by_the_exported_weights(litellm_python: Path, share: float) -> None:
    made = one(change(share), "litellm", mapping({"a": 70, "b": 30}, {"c": 1}))
    found = picks(litellm_python, doc(made.apply_text))
    shares = {"openai/a": 0.7 * (1 - share), "openai/b": 0.3 * (1 - share), "openai/c": share}
    assert within(found, shares), (found, shares)
    assert not within(found, {**shares, "openai/a": shares["openai/a"] - 0.03, "openai/c": share + 0.03})


def test_the_last_stage_and_the_rollback_pick_one_side_only(litellm_python: Path) -> None:
    made = one(change(0.1, 1.0), "litellm")
    assert picks(litellm_python, doc(made.apply_text)) == {"openai/b": N}
    assert picks(litellm_python, doc(made.rollback_text)) == {"openai/a": N}


def test_a_whole_config_of_the_operators_own_is_still_one_that_the_router_takes(litellm_python: Path) -> None:
    own = {
        "model_list": [
            {"model_name": "embed", "litellm_params": {"model": "openai/e", "api_base": "http://e:8000/v1"}},
            {"model_name": "chat", "litellm_params": {"model": "openai/a", "api_base": "http://a:8000/v1", "rpm": 60}},
        ],
        "router_settings": {"num_retries": 2},
    }
    made = one(change(0.25), "litellm", mapping(object=yaml.safe_dump(own)))
    assert within(picks(litellm_python, doc(made.apply_text)), {"openai/a": 0.75, "openai/b": 0.25})
    assert picks(litellm_python, doc(made.apply_text), model="embed") == {"openai/e": N}
    assert picks(litellm_python, doc(made.rollback_text)) == {"openai/a": N}


def test_why_a_deployment_without_share_is_left_out_and_another_strategy_refused(litellm_python: Path) -> None:
    config = doc(one(change(0.1), "litellm").apply_text)
    alone = json.loads(json.dumps(config))
    alone["model_list"] = [alone["model_list"][0]]
    alone["model_list"][0]["litellm_params"]["weight"] = 0
    assert picks(litellm_python, alone) == {"openai/a": N}, "a weight of 0 is picked once the others are out"
    config["router_settings"]["routing_strategy"] = "least-busy"
    assert not within(picks(litellm_python, config), {"openai/a": 0.9, "openai/b": 0.1}), "it ignores the weights"
