"""Each format: the weights of a stage, the exact way back, and what it must never say.

Constraints of the published references, checked here by hand where no registry carries the schema:
HTTPRoute backendRefs weight 0..1,000,000 (Gateway API reference, HTTPBackendRef); InferenceModelRewrite targets
weight 1..1,000,000, all or none (CRD llm-d.ai/v1alpha2); weighted clusters in proportion to their sum (Envoy,
config.route.v3.WeightedCluster); weights are read by simple-shuffle alone (LiteLLM, routing strategies).
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.recommend.exports import Asked, export
from policies.recommend.exports.errors import MappingInvalid, MappingMissing, NotExpressible, ObjectMismatch
from tests.exports.changes import CELLS, TABLE, WEIGHTED, change, doc, mapping, named, one, told, weights

SIDE = st.dictionaries(st.sampled_from(("a", "b", "c")), st.integers(1, 1_000_000), min_size=1, max_size=3)


def mapped(
    fmt: str, old: dict[str, int] | None = None, new: dict[str, int] | None = None, **entry: Any
) -> dict[str, Any]:
    return mapping(old, new, **({"pool": "chat-pool"} if fmt == "llm-d" else {}), **entry)


# all weighted formats -----------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_a_canary_of_ten_percent_stands_as_90_to_10(fmt: Any) -> None:
    made = one(change(0.1), fmt)
    assert weights(fmt, doc(made.apply_text)) == {named(fmt, "a"): 90, named(fmt, "b"): 10}


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_the_last_stage_leaves_the_candidate_alone_and_no_zero_behind(fmt: Any) -> None:
    made = one(change(0.1, 1.0), fmt)
    assert weights(fmt, doc(made.apply_text)) == {named(fmt, "b"): 100}


@pytest.mark.parametrize("fmt", WEIGHTED)
@settings(max_examples=15, deadline=None)
@given(old=SIDE, new=SIDE, permille=st.lists(st.integers(1, 1000), min_size=1, max_size=3, unique=True))
def test_applying_and_rolling_back_is_the_document_as_it_was_for_any_weights(
    fmt: Any, old: dict[str, int], new: dict[str, int], permille: list[int]
) -> None:
    candidates = {f"n{name}": weight for name, weight in new.items()}
    plain = mapped(fmt, old, candidates)
    was = one(change(1.0), fmt, plain).rollback_text  # the object as made from the mapping
    assert weights(fmt, doc(was)) == {named(fmt, n): w for n, w in old.items()}
    given_ = {**plain, "entries": {"chat": {**plain["entries"]["chat"], "object": was}}}
    shares = [p / 1000 for p in sorted(permille)]
    in_force = doc(was)
    for k in range(1, len(shares) + 1):
        made = one(change(*shares[:k]), fmt, given_)
        in_force = doc(made.apply_text)
        assert in_force != doc(was)
        assert made.rollback_text == was, "byte for byte"
    in_force = doc(made.rollback_text)
    assert in_force == doc(was)


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_hashes_say_what_may_be_replaced_stage_by_stage(fmt: Any) -> None:
    stages = [one(change(*shares), fmt) for shares in ((0.1,), (0.1, 0.5), (0.1, 0.5, 1.0))]
    for before, after in pairwise(stages):
        assert after.apply_expects == (before.apply_content_sha256,)
    assert stages[0].apply_expects == (stages[0].rollback_content_sha256,)
    assert stages[-1].rollback_expects == tuple(s.apply_content_sha256 for s in reversed(stages))
    assert len({s.apply_content_sha256 for s in stages}) == 3
    assert {s.rollback_content_sha256 for s in stages} == {stages[0].rollback_content_sha256}


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_marks_of_origin_do_not_change_the_hash_of_what_steers(fmt: Any) -> None:
    one_way = one(change(0.1), fmt)
    other = one(change(0.1, told=told(0.1, gate={"verdict": None, "why": "none asked"}, draft=True)), fmt)
    assert one_way.apply_content_sha256 == other.apply_content_sha256
    assert one_way.apply_text != other.apply_text
    assert "DRAFT, not approved" in str(other.apply_text) and "DRAFT" not in str(one_way.apply_text)


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_the_same_export_is_the_same_text(fmt: Any) -> None:
    assert one(change(0.3), fmt) == one(change(0.3), fmt)


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_every_document_names_its_origin_expiry_step_gate_and_evidence(fmt: Any) -> None:
    text = str(one(change(0.1), fmt).apply_text)
    for fact in ("R-0001", "2026-09-01T00:00:00Z", "c" * 64, "s" * 64, "p" * 64, "PASS", "allocated", "n 5 against 5"):
        assert fact in text


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_an_offer_that_the_mapping_does_not_name_is_an_error_that_says_what_to_write(fmt: Any) -> None:
    bare = mapped(fmt)
    del bare["offers"]["new"]
    with pytest.raises(MappingMissing, match="where new is served") as caught:
        export(change(0.1), fmt, bare)
    assert '[[offers."new".backends]]' in caught.value.fix


@pytest.mark.parametrize(
    ("fmt", "field"), [("gateway-api", "pool"), ("llm-d", "model"), ("litellm", "litellm"), ("envoy", "cluster")]
)
def test_a_backend_without_the_field_of_the_format_is_an_error_that_says_what_to_write(fmt: Any, field: str) -> None:
    bare = mapped(fmt)
    for each in bare["offers"]["old"]["backends"]:
        del each[field]
    with pytest.raises(MappingMissing, match=f"A backend of old has no {field}") as caught:
        export(change(0.1), fmt, bare)
    assert f"write {field} = " in caught.value.fix


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_an_object_that_also_carries_other_cells_is_refused_because_they_would_move_too(fmt: Any) -> None:
    with pytest.raises(NotExpressible, match="also carries debugging/2/interactive"):
        export(change(0.1), fmt, mapped(fmt, cells=["debugging/*", "coding_general/1/*"]))


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_a_cell_that_no_object_carries_is_an_error_that_names_it(fmt: Any) -> None:
    with pytest.raises(MappingMissing, match="coding_general/1/interactive") as caught:
        export(change(0.1), fmt, mapped(fmt, cells=["debugging/1/*"]))
    assert "entries.NAME" in caught.value.fix


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_two_objects_get_a_pair_each(fmt: Any) -> None:
    two = mapped(fmt)
    base = two["entries"].pop("chat")
    two["entries"] = {"debug": {**base, "cells": ["debugging/1/*"]}, "code": {**base, "cells": ["coding_general/1/*"]}}
    assert [e.name for e in export(change(0.1), fmt, two)] == ["code", "debug"]


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_a_backend_that_serves_both_offers_cannot_be_divided(fmt: Any) -> None:
    with pytest.raises(NotExpressible, match="serves old and new"):
        export(change(0.1), fmt, mapped(fmt, {"a": 1}, {"a": 1}))


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_cells_without_a_route_before_have_no_exact_rollback_here(fmt: Any) -> None:
    with pytest.raises(NotExpressible, match="no route") as caught:
        export(change(1.0, old=None), fmt, mapped(fmt))
    assert "routing-table" in caught.value.fix


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_an_object_that_routes_elsewhere_is_not_the_one_the_change_was_made_for(fmt: Any) -> None:
    plain = mapped(fmt)
    elsewhere = one(change(1.0), fmt, mapped(fmt, {"z": 1})).rollback_text
    half = one(change(1.0), fmt, mapped(fmt, {"a": 1, "z": 1})).rollback_text
    for text, words in ((elsewhere, "routes to"), (half, "routes to")):
        with pytest.raises(ObjectMismatch, match=words):
            export(change(0.1), fmt, {**plain, "entries": {"chat": {**plain["entries"]["chat"], "object": text}}})


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "a: 1\n---\nb: 2\n"])
def test_an_object_that_is_not_one_document_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ObjectMismatch, match="object of chat"):
        export(change(0.1), "gateway-api", mapping(object=text))


@pytest.mark.parametrize("fmt", WEIGHTED)
def test_only_the_rollback_has_no_apply(fmt: Any) -> None:
    made = one(change(0.1, asked=Asked(only="rollback")), fmt)
    assert made.apply_text is None and made.rollback_text == one(change(0.1), fmt).rollback_text


# one by one -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["gateway-api", "envoy"])
def test_what_divides_one_model_refuses_another_and_points_to_what_can(fmt: Any) -> None:
    with pytest.raises(NotExpressible, match="from gemma to qwen") as caught:
        export(change(0.1, logical_models={"old": "gemma", "new": "qwen"}), fmt, mapping())
    assert "llm-d" in caught.value.fix and "litellm" in caught.value.fix
    for other in ("llm-d", "litellm"):
        assert one(change(0.1, logical_models={"old": "gemma", "new": "qwen"}), other)  # type: ignore[arg-type]


def test_the_mapping_may_say_which_logical_model_an_offer_is() -> None:
    said = mapping()
    said["offers"]["new"]["logical_model"] = "gemma"
    assert one(change(0.1, logical_models={"old": "gemma"}), "gateway-api", said)
    with pytest.raises(MappingMissing, match="which model new is"):
        one(change(0.1, logical_models={"old": "gemma"}), "gateway-api", mapping())


def test_a_gateway_route_refers_to_inference_pools_by_group_and_kind() -> None:
    route = doc(one(change(0.1), "gateway-api", mapping(namespace="serving", headers={"x-model": "chat"})).apply_text)
    assert (route["apiVersion"], route["kind"]) == ("gateway.networking.k8s.io/v1", "HTTPRoute")
    assert route["metadata"]["name"] == "chat" and route["metadata"]["namespace"] == "serving"
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"][1] == {
        "group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool-b", "weight": 10
    }  # fmt: skip
    assert rule["matches"][0]["headers"] == [{"type": "Exact", "name": "x-model", "value": "chat"}]
    assert route["spec"]["parentRefs"] == [{"name": "inference"}]
    notes = route["metadata"]["annotations"]
    assert all(name.startswith("joulebook/") and isinstance(value, str) for name, value in notes.items())
    assert notes["joulebook/stage"] == "canary 0 -> 0.1" and notes["joulebook/max-step"] == "1"


@pytest.mark.parametrize("weight", [1, 10, 1_000_000])
def test_a_single_backend_gets_everything_whatever_its_weight(weight: int) -> None:
    text = yaml.safe_dump(_route([{**_pool("pool-a"), "weight": weight}]))
    made = one(change(0.1), "gateway-api", mapping(object=text))
    refs = doc(made.apply_text)["spec"]["rules"][1]["backendRefs"]
    assert [(r["name"], r["weight"]) for r in refs] == [("pool-a", 90), ("pool-b", 10)]
    assert made.rollback_text == text


def test_a_pool_of_weight_zero_has_no_traffic_to_move() -> None:
    text = yaml.safe_dump(_route([{**_pool("pool-a"), "weight": 0}]))
    with pytest.raises(ObjectMismatch, match="Nothing in the object of chat routes to pool-a"):
        export(change(0.1), "gateway-api", mapping(object=text))


def test_a_candidate_that_waits_with_weight_zero_gets_its_share() -> None:
    text = yaml.safe_dump(_route([{**_pool("pool-a"), "weight": 1}, {**_pool("pool-b"), "weight": 0, "filters": []}]))
    made = one(change(0.1), "gateway-api", mapping(object=text))
    refs = doc(made.apply_text)["spec"]["rules"][1]["backendRefs"]
    assert [(r["name"], r["weight"]) for r in refs] == [("pool-a", 90), ("pool-b", 10)] and refs[1]["filters"] == []


def _pool(name: str) -> dict[str, Any]:
    return {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name}


def _route(refs: list[dict[str, Any]], **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "chat", "namespace": "default", **meta},
        "spec": {
            "parentRefs": [{"name": "inference"}],
            "hostnames": ["chat.example.com"],
            "rules": [
                {"matches": [{"path": {"value": "/health"}}], "backendRefs": [{"name": "health", "port": 80}]},
                {"matches": [{"path": {"value": "/"}}], "timeouts": {"request": "30s"}, "backendRefs": refs},
            ],
        },
    }


def test_only_the_weights_of_the_matching_rule_change_in_an_object_of_the_operators_own() -> None:
    text = "# kept by hand\n" + yaml.safe_dump(_route([_pool("pool-a")], annotations={"team": "x"}))
    made = one(change(0.25), "gateway-api", mapping(object=text))
    after = doc(made.apply_text)
    health, chat = after["spec"]["rules"]
    assert health == {"matches": [{"path": {"value": "/health"}}], "backendRefs": [{"name": "health", "port": 80}]}
    assert [(r["name"], r["weight"]) for r in chat["backendRefs"]] == [("pool-a", 75), ("pool-b", 25)]
    assert chat["timeouts"] == {"request": "30s"} and after["spec"]["hostnames"] == ["chat.example.com"]
    assert after["metadata"]["annotations"]["team"] == "x"
    assert made.rollback_text == text


def test_what_the_server_sets_is_not_applied_back_and_its_version_is_expected_on_the_first_stage_only() -> None:
    got = _route([_pool("pool-a")], resourceVersion="4711", uid="u", creationTimestamp="2026-08-11T12:00:00Z")
    text = yaml.safe_dump({**got, "status": {"parents": []}})
    first = one(change(0.1), "gateway-api", mapping(object=text))
    assert doc(first.apply_text)["metadata"]["resourceVersion"] == "4711" == first.resource_version
    assert doc(first.rollback_text) == _route([_pool("pool-a")])
    second = one(change(0.1, 1.0), "gateway-api", mapping(object=text))
    assert "resourceVersion" not in doc(second.apply_text)["metadata"] and second.resource_version is None
    pinned = one(change(0.1, 1.0), "gateway-api", mapping(object=text, resource_version="4712"))
    assert doc(pinned.apply_text)["metadata"]["resourceVersion"] == "4712"


def test_a_pool_of_another_namespace_is_named_with_it() -> None:
    said = mapping(namespace="web")
    said["offers"]["new"]["backends"][0]["namespace"] = "gpu"
    refs = doc(one(change(0.1), "gateway-api", said).apply_text)["spec"]["rules"][0]["backendRefs"]
    assert refs[1]["namespace"] == "gpu" and "namespace" not in refs[0]


def test_a_gateway_must_be_named_where_a_route_is_made() -> None:
    with pytest.raises(MappingMissing, match="which Gateway") as caught:
        export(change(0.1), "gateway-api", mapping(gateway=None))
    assert 'gateway = "NAME"' in caught.value.fix


@settings(max_examples=30, deadline=None)
@given(old=SIDE, new=SIDE, permille=st.integers(1, 1000))
def test_a_rewrite_never_holds_a_weight_outside_1_to_a_million_and_weights_all_targets(
    old: dict[str, int], new: dict[str, int], permille: int
) -> None:
    told_ = mapping(old, {f"n{n}": w for n, w in new.items()}, pool="chat-pool")
    made = one(change(permille / 1000), "llm-d", told_)
    for text in (made.apply_text, made.rollback_text):
        targets = doc(text)["spec"]["rules"][0]["targets"]
        assert targets and all(set(t) == {"modelRewrite", "weight"} for t in targets)
        assert all(isinstance(t["weight"], int) and 1 <= t["weight"] <= 1_000_000 for t in targets)


def test_a_rewrite_names_its_pool_with_the_group_that_pools_have() -> None:
    rewrite = doc(one(change(0.1), "llm-d").apply_text)
    assert (rewrite["apiVersion"], rewrite["kind"]) == ("llm-d.ai/v1alpha2", "InferenceModelRewrite")
    assert rewrite["spec"]["poolRef"] == _pool("chat-pool")
    assert rewrite["spec"]["rules"][0]["matches"] == [{"model": {"type": "Exact", "value": "chat"}}]


def test_a_rewrite_without_weights_is_read_as_even_and_rules_of_other_models_stay() -> None:
    own = {
        "apiVersion": "llm-d.ai/v1alpha2", "kind": "InferenceModelRewrite", "metadata": {"name": "chat"},
        "spec": {"poolRef": {"name": "chat-pool"}, "rules": [
            {"matches": [{"model": {"value": "vision"}}], "targets": [{"modelRewrite": "org/a"}]},
            {"matches": [{"model": {"value": "chat"}}],
             "targets": [{"modelRewrite": "org/a"}, {"modelRewrite": "org/b"}]},
        ]},
    }  # fmt: skip
    said = mapping({"a": 1, "b": 1}, {"c": 1}, pool="chat-pool", object=yaml.safe_dump(own))
    rules = doc(one(change(0.5), "llm-d", said).apply_text)["spec"]["rules"]
    assert rules[0] == own["spec"]["rules"][0]  # type: ignore[index]
    assert {t["modelRewrite"]: t["weight"] for t in rules[1]["targets"]} == {"org/a": 25, "org/b": 25, "org/c": 50}


def test_a_rewrite_stays_inside_one_pool() -> None:
    said = mapping(pool="chat-pool")
    said["offers"]["new"]["backends"][0]["pool"] = "other-pool"
    with pytest.raises(NotExpressible, match="other-pool"):
        export(change(0.1), "llm-d", said)
    with pytest.raises(MappingMissing, match="which InferencePool"):
        export(change(0.1), "llm-d", mapping())


def test_a_proxy_gets_weights_under_one_model_name_and_the_only_strategy_that_reads_them() -> None:
    config = doc(one(change(0.1), "litellm", mapping(model_name="chat-model")).apply_text)
    assert {d["model_name"] for d in config["model_list"]} == {"chat-model"}
    assert config["router_settings"] == {"routing_strategy": "simple-shuffle"}
    assert config["model_list"][0]["litellm_params"]["api_base"] == "http://a:8000/v1"


def _proxy(*deployments: dict[str, Any], **settings: Any) -> str:
    return yaml.safe_dump({"model_list": list(deployments), "router_settings": settings, "litellm_settings": {"x": 1}})


def _deployment(name: str, model_name: str = "chat", **params: Any) -> dict[str, Any]:
    base = {"model": f"openai/{name}", "api_base": f"http://{name}:8000/v1", "api_key": "os.environ/KEY"}
    return {"model_name": model_name, "litellm_params": {**base, **params}, "model_info": {"id": name}}


def test_a_proxys_other_models_settings_and_order_stay() -> None:
    text = _proxy(_deployment("x", "embed"), _deployment("a", rpm=10), _deployment("y", "vision"), num_retries=3)
    made = one(change(0.1), "litellm", mapping(object=text))
    config = doc(made.apply_text)
    assert [d["model_name"] for d in config["model_list"]] == ["embed", "chat", "chat", "vision"]
    assert config["model_list"][1]["litellm_params"] == {
        "model": "openai/a", "api_base": "http://a:8000/v1", "api_key": "os.environ/KEY", "rpm": 10, "weight": 90
    }  # fmt: skip
    assert config["model_list"][1]["model_info"]["id"] == "a"
    assert config["router_settings"] == {"num_retries": 3, "routing_strategy": "simple-shuffle"}
    assert config["litellm_settings"] == {"x": 1}
    assert made.rollback_text == text


def test_a_proxy_that_ignores_weights_is_refused() -> None:
    text = _proxy(_deployment("a"), routing_strategy="latency-based-routing")
    with pytest.raises(NotExpressible, match="latency-based-routing, which ignores weights"):
        export(change(0.1), "litellm", mapping(object=text))


def test_beside_a_weight_a_deployment_without_one_has_no_traffic() -> None:
    text = _proxy(_deployment("a", weight=3), _deployment("b"))
    assert one(change(0.1), "litellm", mapping(object=text)).weights_before == {"openai/a at http://a:8000/v1": 3}


@pytest.mark.parametrize("name", ["api_key", "aws_secret_access_key", "azure_ad_token"])
def test_a_secret_in_the_mapping_is_refused_and_not_repeated(name: str) -> None:
    said = mapping()
    said["offers"]["new"]["backends"][0]["litellm"][name] = "sk-very-secret"
    with pytest.raises(MappingInvalid, match=name) as caught:
        export(change(0.1), "litellm", said)
    assert "sk-very-secret" not in str(caught.value)
    said["offers"]["new"]["backends"][0]["litellm"][name] = "os.environ/NAME"
    assert export(change(0.1), "litellm", said)


def test_an_envoy_route_is_a_v3_route_configuration_that_tells_the_sum() -> None:
    config = doc(one(change(0.1), "envoy", mapping(route_config="main", domains=["chat.example.com"])).apply_text)
    assert config["@type"] == "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
    assert config["name"] == "main" and config["virtual_hosts"][0]["domains"] == ["chat.example.com"]
    route = config["virtual_hosts"][0]["routes"][0]
    assert route["metadata"]["filter_metadata"]["joulebook"]["weight-sum"] == "100"
    assert "total_weight" not in route["route"]["weighted_clusters"], "deprecated"


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_route_of_a_single_cluster_is_divided_and_other_routes_stay(wrapped: bool) -> None:
    config: dict[str, Any] = {
        "name": "main",
        "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
            {"name": "other", "match": {"prefix": "/o"}, "route": {"cluster": "c_x"}},
            {"name": "chat", "match": {"prefix": "/"}, "route": {"cluster": "c_a", "timeout": "30s"}},
            {"match": {"prefix": "/gone"}, "direct_response": {"status": 410}},
        ]}],
    }  # fmt: skip
    text = yaml.safe_dump({"resources": [config]} if wrapped else config)
    made = one(change(0.1), "envoy", mapping(object=text))
    after = doc(made.apply_text)
    routes = (after["resources"][0] if wrapped else after)["virtual_hosts"][0]["routes"]
    assert routes[0] == config["virtual_hosts"][0]["routes"][0] and routes[2] == config["virtual_hosts"][0]["routes"][2]
    assert routes[1]["route"] == {
        "weighted_clusters": {"clusters": [{"name": "c_a", "weight": 90}, {"name": "c_b", "weight": 10}]},
        "timeout": "30s",
    }
    assert made.rollback_text == text


@pytest.mark.parametrize(
    "wrong",
    [
        {"offers": {"old": {"backends": []}}},
        {"offers": {"old": {"backends": [{"weight": 0}]}}},
        {"entries": {"chat": {"gatway": "x"}}},
        {"entries": {"../chat": {}}},
        {"entries": {"chat": {"namespace": "Not_Valid"}}},
        {"offers": {"old": {"backends": [{"litellm": {"model": "m", "weight": 3}}]}}},
    ],
)
def test_a_malformed_mapping_is_refused_by_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(MappingInvalid, match="The mapping is wrong"):
        export(change(0.1), "gateway-api", wrong)


# joulebook's own table ------------------------------------------------------------------------------


def test_the_routing_table_is_whole_and_its_rollback_is_the_table_before() -> None:
    made = one(change(1.0), "routing-table")
    after = json.loads(str(made.apply_text))
    assert after["routes"] == {**TABLE, **dict.fromkeys(CELLS, "new")}
    assert json.loads(made.rollback_text) == {"routes": TABLE, "fallbacks": {"old": "big"}}
    assert after["joulebook"]["recommendation"] == "R-0001"


def test_a_share_of_the_traffic_leaves_the_routes_and_tells_the_division() -> None:
    after = json.loads(str(one(change(0.1), "routing-table").apply_text))
    assert after["routes"] == TABLE
    assert after["shares"][CELLS[0]] == {"candidate": "new", "share": 0.1, "recommendation": "R-0001"}


def test_the_change_alone_laid_over_a_table_and_its_rollback_over_that_is_the_table_as_it_was() -> None:
    made = one(change(1.0, asked=Asked(change_only=True)), "routing-table")
    table = {**TABLE, "testing/3/batch": "x"}
    over = {**table, **json.loads(str(made.apply_text))["routes"]}
    assert over != table and set(json.loads(str(made.apply_text))["routes"]) == set(CELLS)
    assert {**over, **json.loads(made.rollback_text)["routes"]} == table


def test_a_format_that_names_backends_needs_a_mapping_and_says_where_to_write_it() -> None:
    with pytest.raises(MappingMissing) as caught:
        export(change(0.1), "envoy", None)
    assert "exports.toml" in caught.value.fix


def test_a_whole_table_of_assumed_cells_warns_and_the_change_alone_does_not() -> None:
    basis = "list-price baseline (assumed)"
    assumed = {"told": told(1.0, table_basis=basis)}
    assert any("list-price" in w for w in one(change(1.0, **assumed), "routing-table").warnings)
    assert not one(change(1.0, asked=Asked(change_only=True), **assumed), "routing-table").warnings
