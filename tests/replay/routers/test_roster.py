"""Policies by name, and the driver that takes choices before outcomes."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from policies.errors import ParametersInvalid
from policies.replay.decide import decide
from policies.replay.errors import (
    ArmUnknown,
    CorrectnessInvalid,
    EmbeddingInvalid,
    NothingToLearn,
    PolicyUnknown,
    QueryLeaked,
)
from policies.replay.policy import Choices
from policies.replay.routers.fixed import FixedArm
from policies.replay.routers.greenserv import GreenServ
from policies.replay.routers.registry import DEFAULT, FAMILIES, LEARNED, roster
from policies.replay.routers.smoothie import Outputs
from policies.replay.routers.strong_weak import StrongWeak
from tests.replay.routers.tables import NAN, table, two_kinds


def names(*asked: str, **more: object) -> list[str]:
    return [policy.about.name for policy in roster(two_kinds(), asked or None, **more)]  # type: ignore[arg-type]


class TestNames:
    def test_the_default_roster_has_every_family_but_the_learned_one(self) -> None:
        found = {policy.about.family for policy in roster(two_kinds())}
        assert found == {
            *("fixed", "hull", "random", "oracle", "k-NN", "UniRoute", "benchmark", "regression", "Smoothie"),
            *("strong/weak", "GreenServ", "decision table"),
        }

    def test_every_family_of_the_default_roster_is_described(self) -> None:
        assert all(any(name.startswith(key) for key in FAMILIES) for name in DEFAULT)
        assert all(family.rule and family.names for family in FAMILIES.values())

    def test_predicting_policies_run_for_accuracy_and_within_half_the_best_arms_joules(self) -> None:
        assert names("knn-7") == ["knn-7", "knn-7@75J"]  # b is right always and takes 150 J

    def test_lambdas_are_the_points_that_are_asked_for(self) -> None:
        assert names("uniroute-4", "benchmark:model", lambdas=[0.0, 1e-4]) == [
            *("uniroute-4", "uniroute-4@0.0001", "benchmark:model", "benchmark:model@0.0001"),
        ]

    @pytest.mark.parametrize(
        "name",
        [
            *("knn-40@0.001", "knn-40:model@200J", "uniroute-8@1e-05", "regression@50J", "regression-embedding@0.5"),
            *("hull@120J", "smoothie", "smoothie-20", "greenserv-0.4", "greenserv:task-1", "decision-table-2"),
            *("random", "oracle", "always-b", "strong-weak:b:a@0.3share", "strong-weak:b:a@70J", "benchmark@2"),
        ],
    )
    def test_a_policy_answers_to_its_own_name(self, name: str) -> None:
        assert names(name) == [name]

    def test_roles_stand_for_arms(self) -> None:
        assert names("always-smallest", "always-large") == ["always-a", "always-c"]
        by_size = roster(two_kinds(sizes=[9.0, 2.0, 70.0]), ["fixed"])
        assert [policy.role for policy in by_size if isinstance(policy, FixedArm)] == ["medium", "smallest", "large"]

    def test_no_policy_is_there_twice(self) -> None:
        assert names("always-smallest", "fixed", "random", "random") == ["always-a", "always-b", "always-c", "random"]

    @pytest.mark.parametrize(
        "name",
        [
            *("", "nn", "knn", "knn-x", "knn-3@share", "greenserv", "decision-table-4", "oracle@3", "random@5J"),
            *("greenserv-0.4@0.001", "decision-table-1@5J", "smoothie-3@1", "regression@0.3share", "hull@0.01"),
        ],
    )
    def test_an_unknown_name_lists_what_there_is(self, name: str) -> None:
        with pytest.raises(PolicyUnknown, match=r"knn-K.*uniroute-K.*learned"):
            names(name)

    def test_numbers_out_of_range_and_arms_that_are_not_there_are_named(self) -> None:
        with pytest.raises(ParametersInvalid, match="k is 0"):
            names("knn-0")
        with pytest.raises(ArmUnknown, match="use one of a, b, c"):
            names("always-z")
        with pytest.raises(PolicyUnknown, match="does not name two arms"):
            names("strong-weak:b:z")
        with pytest.raises(ParametersInvalid, match="two different arms"):
            names("strong-weak:b:b")

    def test_arms_may_hold_the_marks_of_the_grammar(self) -> None:
        one = two_kinds(names=["small:v1", "big@128", "x"])
        found = roster(one, ["strong-weak:big@128:small:v1@70J", "always-big@128", "strong-weak:small:v1:big@128"])
        pairs = [(p.strong, p.weak, p.point.budget_j) for p in found if isinstance(p, StrongWeak)]
        assert pairs[0] == ("big@128", "small:v1", 70.0)
        assert {pair[:2] for pair in pairs[1:]} == {("small:v1", "big@128")}

    def test_the_default_pair_are_the_dearest_corners_of_the_training_hull(self) -> None:
        assert names("strong-weak")[0] == "strong-weak:b:a"

    def test_what_a_table_cannot_have_is_left_out_by_default_and_refused_by_name(self) -> None:
        bare = table([[1, 0], [0, 1]], [[NAN, NAN], [NAN, NAN]])
        assert not {"hull", "strong/weak"} & {policy.about.family for policy in roster(bare)}
        for name in ("hull", "strong-weak"):
            with pytest.raises(NothingToLearn):
                roster(bare, [name])

    def test_the_roster_looks_at_the_training_part_only(self) -> None:
        one = two_kinds()
        changed = one.correct.copy()
        changed[one.held_out] = 0.0
        changed[one.held_out, 2] = 1.0
        assert [p.about for p in roster(one)] == [p.about for p in roster(replace(one, correct=changed))]


class TestLearned:
    @pytest.fixture
    def controller(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        module = ModuleType(LEARNED)
        monkeypatch.setitem(sys.modules, LEARNED, module)
        return module

    def test_it_comes_from_the_controller(self, controller: ModuleType) -> None:
        controller.policies = lambda table, *, lambdas, seed: [FixedArm("b")]  # type: ignore[attr-defined]
        assert names("learned") == ["always-b"]

    def test_weights_of_the_energy_rank_are_its_own_and_joules_keep_theirs(self) -> None:
        found = names("learned", "knn-7", lambdas=[0.5], rank_lambdas=[3.0])
        assert [name for name in found if "joules" not in name] == ["sft", "grpo@3", "kl-grpo@3", "knn-7@0.5"]

    @pytest.mark.parametrize("name", ["sft", "grpo@1", "kl-grpo@0.4", "grpo-joules@0.00038", "kl-grpo-joules@0.01"])
    def test_one_training_answers_to_the_name_it_has_in_a_report(self, name: str) -> None:
        (found,) = roster(two_kinds(), [name])
        assert found.about.name == name
        assert found.about.family == "learned controller"

    @pytest.mark.parametrize("name", ["grpo", "sft@1", "grpo@", "grpo@1J", "grpo@1.2.3", "ppo@1", "grpo-joules"])
    def test_half_a_name_of_a_training_is_unknown(self, name: str) -> None:
        with pytest.raises(PolicyUnknown, match="answers to"):
            names(name)

    def test_a_single_training_is_that_of_the_roster(self) -> None:
        roster_of = {p.about.name: p.about for p in roster(two_kinds(), ["learned"])}
        assert roster(two_kinds(), ["grpo@1"])[0].about == roster_of["grpo@1"]

    def test_an_installation_without_it_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def absent(name: str) -> ModuleType:
            raise ModuleNotFoundError(name=name)

        monkeypatch.setattr("policies.replay.routers.registry.importlib.import_module", absent)
        with pytest.raises(PolicyUnknown, match="no learned controller"):
            names("learned")


class TestDecide:
    asked = ("fixed", "oracle", "knn-5@0.001", "benchmark@0.001", "smoothie")

    def test_all_that_can_run_decide_and_the_others_say_why_not(self) -> None:
        one = two_kinds()
        found = decide(roster(one, self.asked), one.train(), one.test(), 0)
        assert [d.about.name for d in found] == [
            *("always-a", "always-b", "always-c", "oracle", "knn-5@0.001", "benchmark@0.001"),
        ]
        assert [(a.about.name, "records none" in a.reason) for a in found.absent] == [("smoothie", True)]
        assert found["oracle"].diagnostic and not found["always-a"].diagnostic
        assert found["oracle"].notes["unanswered_queries"] == 0
        assert found["knn-5@0.001"].curve is not None and found["knn-5@0.001"].notes["k"] == 5

    def test_smoothie_takes_part_where_outputs_are_given(self) -> None:
        one = two_kinds()
        outputs = Outputs(one.queries.ids, np.random.default_rng(0).normal(size=(60, 3, 4)))
        found = decide(roster(one, ["smoothie"], outputs=outputs), one.train(), one.test(), 0)
        assert found["smoothie"].diagnostic and not found.absent

    def test_the_hash_of_the_choices_does_not_depend_on_any_held_out_outcome(self) -> None:
        one = two_kinds()
        flipped = one.correct.copy()
        flipped[one.held_out] = 1.0 - flipped[one.held_out]
        other = replace(one, correct=flipped)
        a, b = (decide(roster(t, self.asked), t.train(), t.test(), 0) for t in (one, other))
        assert a.choices_sha256 == b.choices_sha256
        assert a.diagnostics_sha256 != b.diagnostics_sha256

    def test_the_hash_binds_choices_queries_and_arms(self) -> None:
        one = two_kinds()
        base = decide(roster(one, ["fixed"]), one.train(), one.test(), 0).choices_sha256
        assert base == decide(roster(one, ["fixed"]), one.train(), one.test(), 0).choices_sha256
        renamed = two_kinds(names=["a", "b", "d"])
        others = [
            decide(roster(one, ["always-a"]), one.train(), one.test(), 0),
            decide(roster(renamed, ["fixed"]), renamed.train(), renamed.test(), 0),
            decide(roster(one, ["fixed"]), one.train(), one.test().take(np.arange(19)), 0),
        ]
        assert base not in {other.choices_sha256 for other in others}

    def test_a_policy_sees_queries_and_never_a_table_of_them(self) -> None:
        one = two_kinds()
        seen: list[object] = []

        class Spy(FixedArm):
            def fit(self, train, seed):  # type: ignore[no-untyped-def]
                fitted = super().fit(train, seed)
                seen.append(train)

                class Looking:
                    def route(self, queries):  # type: ignore[no-untyped-def]
                        seen.append(queries)
                        return fitted.route(queries)

                    curve = staticmethod(fitted.curve)

                return Looking()

        decide([Spy("a")], one.train(), one.test(), 0)
        assert [type(thing).__name__ for thing in seen] == ["OutcomeTable", "Queries"]
        assert not set(seen[0].queries.ids) & set(one.test().queries.ids)  # type: ignore[attr-defined]

    def test_times_are_those_of_the_clock(self) -> None:
        ticks = iter([0.0, 3.0, 5.0])
        one = two_kinds()
        (found,) = decide(roster(one, ["always-a"]), one.train(), one.test(), 0, clock=lambda: next(ticks))
        assert (found.fit_s, found.route_s_per_query) == (3.0, 2.0 / 20)

    def test_a_diagnostic_has_no_latency_of_its_own(self) -> None:
        one = two_kinds()
        (found,) = decide(roster(one, ["oracle"]), one.train(), one.test(), 0)
        assert np.isnan(found.route_s_per_query) and np.isnan(found.fit_s)

    def test_progress_names_each_policy(self) -> None:
        heard: list[str] = []
        one = two_kinds()
        decide(roster(one, ["random", "oracle"]), one.train(), one.test(), 0, progress=heard.append)
        assert heard == ["random", "oracle"]

    def test_an_empty_training_part_leaves_the_fixed_arms(self) -> None:
        one = replace(two_kinds(), held_out=np.ones(60, dtype=np.bool_))
        found = decide(roster(one, ["fixed", "knn-3"], lambdas=[0.0]), one.train(), one.test(), 0)
        assert [d.about.name for d in found] == ["always-a", "always-b", "always-c"]
        assert "none of the 0 training queries" in found.absent[0].reason

    def test_no_held_out_queries_give_empty_choices(self) -> None:
        one = replace(two_kinds(), held_out=np.zeros(60, dtype=np.bool_))
        found = decide(roster(one), one.train(), one.test(), 0)
        assert {len(d.choices) for d in found} == {0} and len(found) > 10

    def test_the_whole_default_roster_is_deterministic(self) -> None:
        one = two_kinds()
        a, b = (decide(roster(one), one.train(), one.test(), 5) for _ in range(2))
        assert [d.sha256 for d in a] == [d.sha256 for d in b]
        assert (a.choices_sha256, a.diagnostics_sha256) == (b.choices_sha256, b.diagnostics_sha256)

    def test_bad_input_is_refused_before_any_policy_runs(self) -> None:
        one = two_kinds()
        with pytest.raises(PolicyUnknown, match="twice"):
            decide([FixedArm("a"), FixedArm("a")], one.train(), one.test(), 0)
        with pytest.raises(QueryLeaked, match="1 held-out queries"):
            decide([FixedArm("a")], one.train(), one.take(np.arange(39, 45)), 0)
        wrong = one.test().correct.copy()
        wrong[2, 1] = 1.5
        with pytest.raises(CorrectnessInvalid):
            decide([FixedArm("a")], one.train(), replace(one.test(), correct=wrong), 0)
        bad = one.test()
        assert bad.queries.embeddings is not None
        bad.queries.embeddings[0, 0] = NAN
        with pytest.raises(EmbeddingInvalid):
            decide([FixedArm("a")], one.train(), bad, 0)

    def test_a_decision_that_is_not_there_names_those_that_are(self) -> None:
        one = two_kinds()
        with pytest.raises(PolicyUnknown, match="use one of random"):
            decide(roster(one, ["random"]), one.train(), one.test(), 0)["knn-3"]

    def test_choices_of_equal_content_have_equal_hashes_and_others_not(self) -> None:
        one = two_kinds()
        policy = GreenServ(0.4, "task")
        first, second = (decide([policy], one.train(), one.test(), seed)[policy.about.name].sha256 for seed in (0, 0))
        assert first == second
        assert Choices(arms=np.zeros(3, dtype=np.int32)).sha256 != Choices(arms=np.ones(3, dtype=np.int32)).sha256
