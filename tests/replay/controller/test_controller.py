"""The learned controller on a world whose topics it can see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from policies.errors import ParametersInvalid
from policies.replay.controller import LAMBDAS, Controller, Settings, Trained, from_bytes, policies, train
from policies.replay.controller.lessons import lessons
from policies.replay.errors import ArmUnknown, EmbeddingInvalid, NothingToLearn, RouterInvalid
from policies.replay.metrics import evaluate
from policies.replay.policy import Fitted, Policy
from policies.replay.reward import Weights, rewards_of
from policies.replay.table import OutcomeTable
from tests.replay.controller.tables import JOULES, QUICK, SKILL, topics, with_gaps


@pytest.fixture(scope="module")
def world() -> OutcomeTable:
    return topics()


def reward_of(trained: Trained, table: OutcomeTable, lam: float) -> float:
    found = evaluate(table, [trained.route(table.queries)], weights=Weights(lam))[0].reward
    assert found is not None
    return found


def kept(trained: Trained, name: str) -> float:
    return float([step for step in trained.history if step["kept"]][-1][name])


@pytest.mark.parametrize("stage", ["sft", "grpo", "kl-grpo"])
@pytest.mark.parametrize("estimator", ["exact", "sampled"])
def test_it_beats_every_fixed_arm_and_comes_near_the_oracle(world: OutcomeTable, stage: str, estimator: str) -> None:
    settings = replace(QUICK, stage=stage, estimator=estimator, lam=0.5)
    test = world.test()
    rewards = rewards_of(test, Weights(0.5))
    fixed, oracle = rewards.mean(axis=0).max(), rewards.max(axis=1).mean()
    got = reward_of(train(world.train(), settings, 0), test, 0.5)
    assert fixed + 0.1 < got <= oracle + 1e-9
    assert (got - fixed) / (oracle - fixed) > 0.6  # the rest is luck: 5 % of the answers are not in the topic


@pytest.mark.parametrize("stage", ["grpo", "kl-grpo"])
def test_grpo_earns_more_than_sft_where_lambda_is_another(stage: str) -> None:
    """One topic, arms right with 50 % and 95 %: the label is the cheap arm half of the time, the reward says dear."""
    world = topics(skill=np.array([[0.55, 0.95]]))
    sft = train(world.train(), replace(QUICK, stage="sft"), 0)
    grpo = train(world.train(), replace(QUICK, stage=stage, lam=0.1), 0)
    assert reward_of(grpo, world.test(), 0.1) > reward_of(sft, world.test(), 0.1) + 0.3


def test_every_stage_says_how_it_went_and_keeps_its_best_step(world: OutcomeTable) -> None:
    trained = train(world.train(), QUICK, 0)
    assert [s["stage"] for s in trained.history if s["kept"]] == ["sft", "grpo"]
    grpo = [s for s in trained.history if s["stage"] == "grpo"]
    assert grpo[0]["step"] == 0 and grpo[0]["kl"] == pytest.approx(0)
    assert max(s["validation"] for s in grpo) == next(s["validation"] for s in grpo if s["kept"])
    assert all(0 <= s["selection_entropy"] <= np.log(3) + 1e-9 and s["energy_j"] > 8 for s in grpo)


def test_more_weight_on_the_distance_keeps_it_nearer_to_the_supervised_policy(world: OutcomeTable) -> None:
    apart = [
        kept(train(world.train(), replace(QUICK, stage="kl-grpo", lam=2.0, beta=beta, validation=0.0), 0), "kl")
        for beta in (0.0, 0.3, 10.0)
    ]
    assert apart[0] > apart[1] > apart[2] >= 0
    assert apart[2] < 0.01


def test_a_large_lambda_makes_it_spend_less_and_a_small_one_answer_more(world: OutcomeTable) -> None:
    test = world.test()
    found = [
        evaluate(test, [train(world.train(), replace(QUICK, reward=reward, lam=lam), 0).route(test.queries)])[0]
        for reward, lam in (("joules", 0.005), ("joules", 0.035), ("joules", 0.2))
    ]
    accuracy, joules = [[getattr(f, n) for f in found] for n in ("accuracy", "energy_j_per_query")]
    assert accuracy[0] > accuracy[1] > accuracy[2]
    assert joules[0] > joules[1] > joules[2]
    assert found[2].mix[0] == 1.0  # no answer is worth another 10 J then


def test_among_right_arms_a_large_weight_of_energy_picks_the_cheapest() -> None:
    """All arms right: the gated reward differs by the rank alone."""
    world = topics(skill=np.array([[1.0, 1.0, 0.9]]))
    arms = train(world.train(), replace(QUICK, lam=2.9), 0).route(world.test().queries).arms
    assert arms is not None and not arms.any()


def test_labels_are_the_cheapest_right_arm_and_queries_nobody_answers_are_counted_and_left_out() -> None:
    world = topics(300)
    found = lessons(world, QUICK)
    nobody = (world.correct == 0).all(axis=1)
    assert nobody.any()
    assert found.counts["unanswered_queries"] == nobody.sum()
    assert not found.labels[nobody].any()
    answered = np.flatnonzero(~nobody)
    assert (found.labels[answered].argmax(axis=1) == world.correct[answered].argmax(axis=1)).all()
    cheapest = lessons(world, replace(QUICK, unanswered="cheapest"))
    assert (cheapest.labels[nobody].argmax(axis=1) == 0).all()
    assert cheapest.counts["labels"] == found.counts["labels"] + nobody.sum()


@pytest.mark.parametrize("estimator", ["exact", "sampled"])
def test_one_seed_gives_the_same_bits(world: OutcomeTable, estimator: str) -> None:
    settings = replace(QUICK, estimator=estimator, hidden=4, steps=40)
    one, two, other = (train(world.train(), settings, seed) for seed in (3, 3, 4))
    assert one.to_bytes() == two.to_bytes() and one.history == two.history
    assert one.trained_policy_id == two.trained_policy_id != other.trained_policy_id


def test_collapse_is_flagged_where_one_arm_is_always_best() -> None:
    world = topics(skill=np.array([[0.9, 0.2, 0.2], [0.9, 0.3, 0.1]]))
    trained = train(world.train(), QUICK, 0)
    assert trained.collapsed and trained.collapsed_at is not None
    assert kept(trained, "selection_entropy") < 0.05
    assert not train(topics().train(), QUICK, 0).collapsed


def test_a_missing_cell_is_never_sampled_and_never_counts_as_wrong() -> None:
    """The large arm alone can do topic 2, but only a fifth of its cells are recorded."""
    world = topics(900)
    gaps = np.zeros(world.correct.shape, dtype=np.bool_)
    gaps[:, 2] = np.random.default_rng(1).random(len(world)) < 0.8
    part = with_gaps(world, gaps).train()
    for estimator in ("exact", "sampled"):
        trained = train(part, replace(QUICK, estimator=estimator), 0)
        assert trained.counts["missing_cells"] == gaps[~world.held_out].sum()
        figures = evaluate(world.test(), [trained.route(world.test().queries)])[0].by_benchmark["b2"]
        assert figures.mix[2] > 0.9
        assert np.isfinite([s["reward"] for s in trained.history]).all()


def test_an_arm_without_any_outcome_is_never_chosen_and_a_lone_cell_is_left_out() -> None:
    world = topics(300)
    gaps = np.zeros(world.correct.shape, dtype=np.bool_)
    gaps[:, 2] = True
    gaps[:20, 1] = True
    trained = train(with_gaps(world, gaps), QUICK, 0)
    assert trained.counts["queries_left_out"] == 20
    assert trained.probabilities(world.queries)[:, 2].max() == 0.0


@pytest.mark.parametrize(
    "world",
    [
        topics(60, skill=np.zeros((1, 3))),
        topics(60, skill=np.ones((1, 3))),
        topics(60).take(np.zeros(0, dtype=int)),
        replace(topics(60), energy_j=np.full((60, 3), np.nan)),
    ],
    ids=["all wrong", "all tied", "empty", "no joules"],
)
def test_where_nothing_can_be_learnt_it_says_so(world: OutcomeTable) -> None:
    with pytest.raises(NothingToLearn):
        train(world, QUICK, 0)


def test_without_text_or_embedding_there_is_nothing_to_see() -> None:
    world = topics(60)
    blind = replace(world, queries=replace(world.queries, texts=None, embeddings=None))
    with pytest.raises(EmbeddingInvalid):
        train(blind, QUICK, 0)
    with pytest.raises(NothingToLearn):
        train(blind, replace(QUICK, components=0), 0)


def test_the_benchmark_is_seen_only_where_declared() -> None:
    world = topics()
    blind = replace(world, queries=replace(world.queries, texts=None, embeddings=world.queries.embeddings * 0))
    hidden = train(blind.train(), QUICK, 0)
    told = train(blind.train(), replace(QUICK, benchmarks=True), 0)
    assert hidden.encoder.benchmarks == () and told.encoder.benchmarks == ("b0", "b1", "b2")
    assert reward_of(told, blind.test(), 0.4) > reward_of(hidden, blind.test(), 0.4) + 0.1


def test_it_sees_no_outcome_of_what_it_routes(world: OutcomeTable) -> None:
    trained = train(world.train(), QUICK, 0)
    arms = trained.route(world.test().queries).arms
    assert arms is not None
    each = [trained.route(world.test().queries.take([i])).arms for i in range(20)]
    assert [int(a[0]) for a in each if a is not None] == arms[:20].tolist()


def test_mixing_tells_probabilities(world: OutcomeTable) -> None:
    policy: Policy = Controller(QUICK, mixing=True)
    fitted: Fitted = policy.fit(world.train(), 0)
    choices = fitted.route(world.test().queries)
    assert choices.arms is None and choices.probability is not None
    np.testing.assert_allclose(choices.probability.sum(axis=1), 1.0)
    assert fitted.curve(world.test().queries) is None
    assert policy.about.name == "grpo@0.4-mixing"


def test_it_travels_as_bytes_and_routes_as_before(world: OutcomeTable) -> None:
    trained = train(world.train(), replace(QUICK, hidden=3, rich=True, benchmarks=True), 0)
    again = from_bytes(trained.to_bytes(), history=trained.history)
    assert again.trained_policy_id == trained.trained_policy_id
    assert again.collapsed == trained.collapsed
    np.testing.assert_array_equal(again.probabilities(world.queries), trained.probabilities(world.queries))


def test_what_is_no_controller_is_refused_by_name(world: OutcomeTable) -> None:
    data = train(world.train(), replace(QUICK, steps=10), 0).to_bytes()
    for bad in (b"", b"PK", data[:200], data[:-30]):
        with pytest.raises(RouterInvalid):
            from_bytes(bad)


def test_arms_in_another_order_are_the_same_arms(world: OutcomeTable) -> None:
    trained = train(world.train(), replace(QUICK, steps=60), 0)
    turned = trained.for_arms(["large", "new", "small", "middle"])
    p, q = trained.probabilities(world.queries), turned.probabilities(world.queries)
    np.testing.assert_allclose(q[:, [2, 3, 0]], p, atol=1e-12)
    assert not q[:, 1].any()
    with pytest.raises(ArmUnknown):
        trained.for_arms(["small", "middle"])


def test_queries_embedded_by_another_embedder_are_refused(world: OutcomeTable) -> None:
    trained = train(world.train(), replace(QUICK, steps=10), 0)
    queries = replace(world.queries, embeddings=np.ones((len(world), 5)))
    with pytest.raises(EmbeddingInvalid, match="trained on 8"):
        trained.route(queries)


def test_progress_is_told_at_each_step_and_what_it_raises_ends_the_training(world: OutcomeTable) -> None:
    seen: list[tuple[str, int]] = []

    def progress(stage: str, step: int, of: int) -> None:
        seen.append((stage, step))
        if stage == "grpo" and step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(world.train(), replace(QUICK, steps=20), 0, progress)
    assert seen == [*(("sft", i + 1) for i in range(20)), ("grpo", 1), ("grpo", 2), ("grpo", 3)]


def test_the_roster_has_each_stage_at_each_lambda_and_joules_at_the_slopes_of_the_hull(world: OutcomeTable) -> None:
    names = [p.about.name for p in policies(world)]
    assert names[0] == "sft"
    assert [n for n in names if n.startswith("kl-grpo@")] == [f"kl-grpo@{lam:g}" for lam in LAMBDAS]
    accuracy = SKILL.mean(axis=0)
    slopes = np.diff(accuracy) / np.diff(JOULES)
    told = [float(n.split("@")[1]) for n in names if n.startswith("grpo-joules")]
    np.testing.assert_allclose(told, [*slopes, slopes[-1] / 2], rtol=0.25)
    assert [p.about.name for p in policies(world, lambdas=[0.7])][1:3] == ["grpo@0.7", "kl-grpo@0.7"]
    assert len(set(names)) == len(names)


def test_without_embeddings_the_roster_needs_none() -> None:
    world = topics(120)
    bare = replace(world, queries=replace(world.queries, embeddings=None))
    policy = policies(bare, settings=QUICK)[0]
    assert not policy.about.needs_embeddings
    assert len(policy.fit(bare.train(), 0).route(bare.test().queries)) == len(bare.test())


@pytest.mark.parametrize(
    "wrong", [{"stage": "ppo"}, {"lam": -0.1}, {"lam": float("nan")}, {"clip": 0}, {"validation": 0.9}, {"group": 1}]
)
def test_parameters_that_make_no_sense_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ParametersInvalid, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]
