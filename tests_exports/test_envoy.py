"""Envoy itself takes the exported RouteConfiguration, divides by it, and goes back by the rollback."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from tests.exports.changes import change, doc, mapping, one

N = 3000
FILTERS = "type.googleapis.com/envoy.extensions.filters"


def ports(n: int) -> list[int]:
    held = [socket.socket() for _ in range(n)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def listener(name: str, port: int, routes: dict[str, Any]) -> dict[str, Any]:
    hcm = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{FILTERS}.http.router.v3.Router"},
            }
        ],
        **routes,
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": hcm}]
    return {"name": name, "address": address(port), "filter_chains": [{"filters": filters}]}


def bootstrap(names: dict[str, int], front: int, routes: dict[str, Any], admin: int) -> dict[str, Any]:
    """One front listener; each cluster is a listener of the same Envoy that answers with its name."""
    listeners, clusters = [listener("front", front, routes)], []
    for name, port in names.items():
        answer = {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": name}}}
        told = {"name": name, "virtual_hosts": [{"name": name, "domains": ["*"], "routes": [answer]}]}
        listeners.append(listener(name, port, {"route_config": told}))
        endpoint = {"lb_endpoints": [{"endpoint": {"address": address(port)}}]}
        clusters.append(
            {"name": name, "type": "STATIC", "load_assignment": {"cluster_name": name, "endpoints": [endpoint]}}
        )
    return {
        "admin": {"address": address(admin)},
        "static_resources": {"listeners": listeners, "clusters": clusters},
        "node": {"id": "test", "cluster": "test"},
    }


def validated(envoy: Path, folder: Path, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    routes = {"route_config": {k: v for k, v in config.items() if k != "@type"}}
    front, admin, *others = ports(5)
    names = dict(zip(("c_a", "c_b", "c_c"), others, strict=True))
    path = folder / "envoy.json"
    path.write_text(json.dumps(bootstrap(names, front, routes, admin)))
    return subprocess.run(
        [str(envoy), "--mode", "validate", "-c", str(path), "-l", "error"], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("share", [0.001, 0.1, 1.0])
def test_envoy_validates_both_documents(envoy_binary: Path, tmp_path: Path, share: float) -> None:
    made = one(change(share), "envoy", mapping({"a": 70, "b": 30}, {"c": 1}, headers={"x-model": "chat"}))
    for text in (made.apply_text, made.rollback_text):
        done = validated(envoy_binary, tmp_path, doc(text))
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fault", ["weights of zero", "unknown cluster", "unknown field"])
def test_envoy_refuses_what_it_should(envoy_binary: Path, tmp_path: Path, fault: str) -> None:
    config = doc(one(change(0.1), "envoy").apply_text)
    action = config["virtual_hosts"][0]["routes"][0]["route"]
    if fault == "weights of zero":
        for cluster in action["weighted_clusters"]["clusters"]:
            cluster["weight"] = 0
    elif fault == "unknown cluster":
        action["weighted_clusters"]["clusters"][0]["name"] = "c_nowhere"
    else:
        action["wieghted"] = {}
    assert validated(envoy_binary, tmp_path, config).returncode != 0


@contextmanager
def running(envoy: Path, folder: Path, rds: Path) -> Iterator[int]:
    """Envoy on loopback with the routes of a file that it watches; the port of its front."""
    front, admin, *others = ports(5)
    source = {"path_config_source": {"path": str(rds), "watched_directory": {"path": str(rds.parent)}}}
    routes = {"rds": {"route_config_name": "chat", "config_source": {**source, "resource_api_version": "V3"}}}
    names = dict(zip(("c_a", "c_b", "c_c"), others, strict=True))
    path = folder / "envoy.json"
    path.write_text(json.dumps(bootstrap(names, front, routes, admin)))
    command = [str(envoy), "-c", str(path), "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait(lambda: answered(front) is not None)
            yield front
        finally:
            process.terminate()
            process.wait(timeout=20)


def wait(ready: Any, for_s: float = 30.0) -> None:
    deadline = time.monotonic() + for_s
    while not ready():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def answered(port: int) -> str | None:
    try:
        return next(iter(counts(port, 1)))
    except OSError:
        return None


def counts(port: int, n: int) -> Counter[str]:
    """Which cluster answered how many of n requests, over one connection."""
    found: Counter[str] = Counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        for _ in range(n):
            connection.request("GET", "/v1/chat/completions")
            found[connection.getresponse().read().decode()] += 1
    return found


def place(rds: Path, text: str | None, version: str) -> None:
    """The document as a file for file-based RDS, moved into place as Envoy asks for."""
    fresh = rds.with_suffix(".new")
    fresh.write_text(json.dumps({"version_info": version, "resources": [doc(text)]}))
    os.replace(fresh, rds)


def test_real_traffic_divides_by_the_weights_and_goes_back_by_the_rollback(envoy_binary: Path, tmp_path: Path) -> None:
    made = one(change(0.1), "envoy", mapping({"a": 3, "b": 1}, {"c": 1}))
    rds = tmp_path / "watched" / "rds.json"
    rds.parent.mkdir()
    place(rds, made.rollback_text, "before")
    with running(envoy_binary, tmp_path, rds) as port:
        assert set(counts(port, 200)) == {"c_a", "c_b"}
        place(rds, made.apply_text, "canary")
        wait(lambda: "c_c" in counts(port, 100))
        found = counts(port, N)
        for name, share in {"c_a": 0.675, "c_b": 0.225, "c_c": 0.1}.items():
            low, high = binom.ppf(5e-7, N, share), binom.ppf(1 - 5e-7, N, share)
            assert low <= found[name] <= high, (name, found)
        place(rds, made.rollback_text, "after")
        wait(lambda: "c_c" not in counts(port, 200))
        assert set(counts(port, 500)) == {"c_a", "c_b"}
