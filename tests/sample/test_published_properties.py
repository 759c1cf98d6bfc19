"""The sample has exactly the published properties of the first live run.

Source of every number: the account of a kWh-billed router of 2026-08-11 ("Measured cost, and the two axes
stay separate"): 19 rows of 6 base models, 13 routable models x 5 samples, $8.00/kWh under a ceiling of
3 x list price.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import pytest

from ingest.base import Payload
from policies.router import Basis, Figures, Parameters, Request, rank, routing_table
from tests.policies.world import World
from tests.sample.loading import catalog, documents, load

BATCH = Request("general_chat", 1, 8192, latency="batch")


@pytest.fixture(scope="module")
def reference(payloads: list[Payload]) -> list[dict[str, Any]]:
    return [d for d in documents(payloads) if d["joulebook"]["workload"] == "seed_reference"]


@pytest.fixture(scope="module")
def organic(payloads: list[Payload]) -> list[dict[str, Any]]:
    return [d for d in documents(payloads) if d["joulebook"]["workload"] == "organic"]


@pytest.fixture(scope="module")
def means(world: World) -> dict[str, Figures]:
    """What the router reads of the 13 routable models; batch, so that flex rows are among them."""
    return {s.offer_id: s.figures for s in rank(world.snapshot(), BATCH, Parameters()).eligible}


def list_usd(payloads: list[Payload], document: dict[str, Any]) -> Decimal:
    pricing = next(row for row in catalog(payloads) if row["id"] == document["model"])["metadata"]["pricing"]
    usage = document["usage"]
    tokens = [(usage["prompt_tokens"], "input_per_million"), (usage["completion_tokens"], "output_per_million")]
    return sum((n * Decimal(pricing[price]) for n, price in tokens), Decimal(0)) / 1_000_000


# --- catalog ---------------------------------------------------------------------------------------------


def test_19_rows_of_6_base_models(world: World) -> None:
    rows = world.db.execute("SELECT count(*), count(DISTINCT offer_id), count(DISTINCT base_model) FROM core.offer")
    assert rows.fetchone() == (19, 19, 6)


def test_6_rows_are_gated_and_only_prose_says_so(world: World, payloads: list[Payload]) -> None:
    levels = Counter(world.db.execute("SELECT access_level FROM core.offer").pl()["access_level"])
    assert levels == {"open": 13, "gated": 4, "canary": 2}
    rows = catalog(payloads)
    said = [r["id"] for r in rows if "grant-gated" in str(r["metadata"]["description"]) or "(Canary)" in str(r)]
    assert len(said) == 6
    fields = {frozenset(r) | frozenset(r["metadata"]) for r in rows}
    assert len(fields) == 1, "no row has a field that the others lack"
    assert not [name for name in next(iter(fields)) if "access" in name or "gate" in name]


def test_rows_of_a_base_model_list_the_same_prices(world: World) -> None:
    rows = world.db.execute(
        "SELECT base_model, component, count(DISTINCT price_usd_per_unit) AS n "
        "FROM core.price JOIN core.offer USING (provider, offer_id) GROUP BY ALL"
    ).pl()
    assert rows["n"].to_list() == [1] * rows.height


def test_list_prices_of_the_inverted_pair(payloads: list[Payload]) -> None:
    listed = {r["id"]: r["metadata"]["pricing"]["output_per_million"] for r in catalog(payloads)}
    assert listed["deepseek-v4-flash"] == Decimal("0.28")
    assert listed["gemma-4-31b"] == Decimal("0.42")


# --- the reference sweep --------------------------------------------------------------------------------------


def test_13_routable_models_have_5_samples_each(world: World, reference: list[dict[str, Any]]) -> None:
    routable = set(world.db.execute("SELECT offer_id FROM core.offer WHERE access_level = 'open'").pl()["offer_id"])
    assert Counter(d["model"] for d in reference) == dict.fromkeys(routable, 5)
    assert len(reference) == 65


def test_every_bill_is_8_dollars_per_kwh_or_three_times_the_list_price(
    payloads: list[Payload], reference: list[dict[str, Any]]
) -> None:
    for document in reference:
        metered = Decimal("8.00") * document["energy"]["energy_kwh"]
        ceiling = 3 * list_usd(payloads, document)
        assert document["cost"]["request_cost_usd"] == min(metered, ceiling), document["id"]


def test_the_ceiling_binds_twice_on_the_energy_spikes_of_one_model(
    payloads: list[Payload], reference: list[dict[str, Any]]
) -> None:
    bound = [d for d in reference if 3 * list_usd(payloads, d) < Decimal("8.00") * d["energy"]["energy_kwh"]]
    assert [d["model"] for d in bound] == ["deepseek-v4-flash"] * 2
    energies = sorted(d["energy"]["energy_kwh"] for d in reference if d["model"] == "deepseek-v4-flash")
    assert sorted(d["energy"]["energy_kwh"] for d in bound) == energies[-2:]


def test_list_price_is_inverted(means: dict[str, Figures]) -> None:
    deepseek, gemma = means["deepseek-v4-flash"], means["gemma-4-31b"]
    assert (deepseek.cost_usd, gemma.cost_usd) == (Decimal("0.000098"), Decimal("0.0000502"))
    assert deepseek.list_cost_usd is not None
    assert gemma.list_cost_usd is not None
    assert deepseek.list_cost_usd < gemma.list_cost_usd


def test_the_dearer_run_emits_284_percent_more_carbon(means: dict[str, Figures]) -> None:
    deepseek, gemma = means["deepseek-v4-flash"].carbon_g, means["gemma-4-31b"].carbon_g
    assert deepseek is not None
    assert gemma is not None
    assert round((deepseek / gemma - 1) * 100) == 284


def test_intensities_span_37_to_505(world: World, reference: list[dict[str, Any]]) -> None:
    seen = {(d["energy"]["grid_id"], d["energy"]["grid_carbon_intensity_gco2perkwhr"]) for d in reference}
    by_value = sorted(seen, key=lambda pair: pair[1])
    assert (by_value[0], by_value[-1]) == (("FI", 37), ("US-MIDA-PJM", 505))
    factors = set(world.db.execute("SELECT zone, intensity_g_per_kwh FROM core.grid_intensity").fetchall())
    assert seen == factors


def test_glm_fast_is_second_cheapest_and_sixth_cleanest(means: dict[str, Figures]) -> None:
    assert len(means) == 13
    assert sorted(means, key=lambda m: means[m].cost_usd or 0).index("glm-5.2-fast") + 1 == 2
    assert sorted(means, key=lambda m: means[m].carbon_g or 0).index("glm-5.2-fast") + 1 == 6


def test_less_energy_can_mean_more_carbon(means: dict[str, Figures]) -> None:
    flex, code = means["kimi-k3-flex"], means["kimi-k2.7-code"]
    assert flex.energy_j is not None and code.energy_j is not None
    assert flex.carbon_g is not None and code.carbon_g is not None
    assert round(code.energy_j / flex.energy_j, 1) == 3.7
    assert round(flex.carbon_g / code.carbon_g, 1) == 3.6


def test_identical_requests_spread_up_to_fourfold(reference: list[dict[str, Any]]) -> None:
    energies: dict[str, list[Decimal]] = defaultdict(list)
    for d in reference:
        energies[d["model"]].append(d["energy"]["energy_kwh"])
        assert (d["usage"]["prompt_tokens"], d["usage"]["completion_tokens"]) == (18, 192)
    spreads = [max(e) / min(e) for e in energies.values()]
    assert max(spreads) < 4.05
    assert min(spreads) > 2


def test_a_quarter_of_the_list_price_can_cost_ten_times_as_much(reference: list[dict[str, Any]]) -> None:
    # Published on the same prompt: kimi-k2.7-code-fast (lists 4.00) 2.25e-03, kimi-k3-fast (lists 15.00) 2.17e-04.
    first = {d["model"]: d["cost"]["request_cost_usd"] for d in reversed(reference)}
    assert first["kimi-k2.7-code-fast"] == Decimal("0.00225")
    assert first["kimi-k3-fast"] == Decimal("0.000217")


# --- organic traffic ---------------------------------------------------------------------------------------------


def test_organic_energy_on_one_model_spans_19x(organic: list[dict[str, Any]]) -> None:
    energies = [d["energy"]["energy_kwh"] for d in organic if d["model"] == "deepseek-v4-flash" and "energy" in d]
    assert max(energies) / min(energies) == 19
    assert len(energies) > 100


def test_organic_traffic_never_steers_a_decision(world: World, payloads: list[Payload]) -> None:
    bare = World()
    try:
        load(bare, payloads, known_from=world.snapshot().as_of)
        bare.db.execute("DELETE FROM core.usage WHERE workload = 'organic'")
        assert bare.db.execute("SELECT count(*) FROM core.usage").fetchone() == (65,)
        with_organic = routing_table(world.snapshot(), Parameters())
        without = routing_table(bare.snapshot(), Parameters())
        assert with_organic == without
    finally:
        bare.close()


# --- decisions -------------------------------------------------------------------------------------------------------


def test_list_price_gives_2_distinct_models_and_measured_cost_3(world: World) -> None:
    by_list = routing_table(world.snapshot(), Parameters(basis=Basis.LIST_PRICE)).cells
    measured = routing_table(world.snapshot(), Parameters()).cells
    assert len(by_list) == len(measured) == 27
    assert len(set(by_list.values())) == 2
    assert len(set(measured.values())) == 3


def test_tier_1_flips_from_deepseek_to_gemma(world: World) -> None:
    by_list = routing_table(world.snapshot(), Parameters(basis=Basis.LIST_PRICE)).cells
    measured = routing_table(world.snapshot(), Parameters()).cells
    assert {chosen for (_, tier), chosen in by_list.items() if tier == 1} == {"deepseek-v4-flash"}
    assert {chosen for (_, tier), chosen in measured.items() if tier == 1} == {"gemma-4-31b"}


def test_category_has_no_influence_while_no_proficiency_is_known(world: World) -> None:
    cells = routing_table(world.snapshot(), Parameters()).cells
    for tier in (1, 2, 3):
        assert len({chosen for (_, t), chosen in cells.items() if t == tier}) == 1


def test_no_decision_falls_back(world: World) -> None:
    decisions = routing_table(world.snapshot(), Parameters()).decisions.values()
    assert {(d.basis, d.fallback) for d in decisions} == {("measured", False)}
    shown = {(s.figures.evidence_class, s.figures.carbon_evidence_class) for d in decisions for s in d.eligible}
    assert shown == {("allocated", "calibrated")}
    assert {s.figures.n for d in decisions for s in d.eligible} == {5}
