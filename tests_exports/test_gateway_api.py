"""HTTPRoutes against the published schema of Gateway API v1 (as packaged in @kubernetes-models/gateway-api)."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.exports.changes import change, doc, mapping, one

SCRIPT = Path(__file__).with_name("httproute.mjs")


def verdicts(schemas: Path, routes: list[dict[str, Any]]) -> list[str | None]:
    done = subprocess.run(
        # As text, so that its imports are looked up from the folder it runs in.
        ["node", "--input-type=module", "-e", SCRIPT.read_text()],
        cwd=schemas,
        input=json.dumps(routes),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told: list[str | None] = json.loads(done.stdout)
    return told


def test_every_route_is_valid_whatever_the_weights(gateway_schemas: Path) -> None:
    dice = random.Random(7)
    routes = []
    for _ in range(60):
        old = {n: dice.randint(1, 1_000_000) for n in dice.sample(["a", "b", "c"], dice.randint(1, 3))}
        new = {n: dice.randint(1, 1_000_000) for n in dice.sample(["x", "y"], dice.randint(1, 2))}
        said = mapping(old, new, namespace="serving", hostnames=["chat.example.com"], headers={"x-model": "chat"})
        made = one(change(dice.randint(1, 1000) / 1000), "gateway-api", said)
        routes += [doc(made.apply_text), doc(made.rollback_text)]
    assert verdicts(gateway_schemas, routes) == [None] * 120


def test_the_schema_refuses_what_it_should(gateway_schemas: Path) -> None:
    good = doc(one(change(0.1), "gateway-api").apply_text)
    bad = []
    for weight in (-1, 1_000_001, 0.5, "10"):
        route = json.loads(json.dumps(good))
        route["spec"]["rules"][0]["backendRefs"][0]["weight"] = weight
        bad.append(route)
    nameless = json.loads(json.dumps(good))
    del nameless["spec"]["rules"][0]["backendRefs"][0]["name"]
    said = verdicts(gateway_schemas, [good, *bad, nameless])
    assert said[0] is None and all(said[1:]), said
