"""GreenServ: context, bandit arithmetic, warm-up, frozen rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from policies.errors import ParametersInvalid
from policies.replay.errors import NothingToLearn
from policies.replay.routers.greenserv import ALPHA, REGULARISATION, GreenServ, _Bandit, online_clusters
from policies.replay.routers.means import unit_rows
from tests.replay.routers.tables import NAN, replayed, table, two_kinds


def test_it_learns_which_arm_each_context_needs() -> None:
    one = two_kinds(600)
    arms = GreenServ(0.4).fit(one.train(), 0).route(one.test().queries).arms
    assert replayed(one.test(), arms) == (1.0, pytest.approx((10 + 200) / 2))


def test_the_task_alone_needs_no_embeddings_and_no_texts() -> None:
    one = two_kinds(600, embeddings=None, texts=None)
    policy = GreenServ(0.1, "task")
    assert not policy.about.needs_embeddings
    assert replayed(one.test(), policy.fit(one.train(), 0).route(one.test().queries).arms)[0] == 1.0


def test_all_weight_on_energy_takes_the_cheapest_and_none_ignores_it() -> None:
    one = two_kinds(600)
    cheap = GreenServ(1.0).fit(one.train(), 0).route(one.test().queries).arms
    assert set(cheap.tolist()) == {0}
    accurate = GreenServ(0.0).fit(one.train(), 0).route(one.test().queries).arms
    assert replayed(one.test(), accurate)[0] == 1.0


def test_the_same_seed_gives_the_same_warm_up_and_another_another() -> None:
    train = two_kinds(200).train()
    a, b, c = (GreenServ(0.4).fit(train, seed).notes["pulls"] for seed in (1, 1, 2))
    assert a == b != c


def test_only_the_cell_of_the_chosen_arm_teaches() -> None:
    notes = GreenServ(0.4).fit(two_kinds(90).train(), 0).notes
    assert sum(notes["pulls"].values()) == notes["warm_up"] == 60


def test_a_missing_cell_is_never_pulled() -> None:
    one = two_kinds(90)
    correct = one.correct.copy()
    correct[:, 1] = NAN
    fitted = GreenServ(0.4).fit(replace(one, correct=correct).train(), 0)
    assert fitted.notes["pulls"]["b"] == 0
    assert 1 not in fitted.route(one.test().queries).arms


def test_one_step_is_the_textbook_update() -> None:
    """theta = A^-1 b with A = 0.05 I + x x', b = r x, for the arm of the highest bound (ties: the first)."""
    bandit = _Bandit(2, 2, 0.25)
    x = np.array([1.0, 2.0])
    bandit.step(x, np.array([1.0, 0.0]), np.array([0.4, 0.0]), np.array([True, True]))
    reward = 0.75 * 1.0 - 0.25 * 0.4
    a = REGULARISATION * np.eye(2) + np.outer(x, x)
    assert bandit.pulls.tolist() == [1, 0]
    assert bandit.theta[0] == pytest.approx(np.linalg.solve(a, reward * x))
    bound = bandit.theta[0] @ x + ALPHA * np.sqrt(x @ np.linalg.solve(a, x))
    other = ALPHA * np.sqrt(x @ x / REGULARISATION)
    bandit.step(x, np.array([1.0, 1.0]), np.zeros(2), np.array([True, True]))
    assert bandit.pulls.tolist() == ([2, 0] if bound >= other else [1, 1])


def test_online_clusters_move_by_the_running_mean() -> None:
    rows = unit_rows(np.array([[1, 0], [0, 1], [-1, 0], [1, 0.2]], dtype=float))
    found = online_clusters(rows)
    assert found[0] == pytest.approx((rows[0] + rows[3]) / 2)
    assert found[1:] == pytest.approx(rows[1:3])


def test_copies_of_a_text_do_not_start_clusters_of_their_own() -> None:
    assert len(online_clusters(np.ones((5, 2)))) == 1


def test_without_joules_there_is_no_reward() -> None:
    one = table([[1, 0], [0, 1]], [[NAN, NAN], [NAN, NAN]], embeddings=np.eye(2))
    with pytest.raises(NothingToLearn, match="rewarded in joules"):
        GreenServ().fit(one, 0)


@pytest.mark.parametrize("wrong", [{"weight": 1.2}, {"weight": float("nan")}, {"context": "none"}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParametersInvalid):
        GreenServ(**wrong)
