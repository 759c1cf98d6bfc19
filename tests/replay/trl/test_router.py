"""The trained router as a policy of the lab, over a scorer of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from policies.replay.errors import ArmUnknown, QueryLeaked
from policies.replay.policy import HAND_BACK, About, Fitted, Policy
from policies.replay.table import Floats, Queries, strings
from policies.replay.trl.data import query_keys
from policies.replay.trl.prompts import Messages
from policies.replay.trl.router import TrainedRouter
from tests.replay.trl.test_data import table

OUTCOMES = table([[1, 1, 1]] * 3, [[1, 2, 3]] * 3, ["easy one", "hard one", None])


def prefers_the_second_when_hard(prompts: Sequence[Messages]) -> Floats:
    return np.array([[-1.0, -0.5 if "hard" in prompt[1]["content"] else -2.0] for prompt in prompts])


ROUTER = TrainedRouter(About("trl:x", "language model"), ("large", "small"), prefers_the_second_when_hard)


def test_the_most_likely_label_is_taken_under_the_tables_own_order_of_arms() -> None:
    policy: Policy = ROUTER
    fitted = policy.fit(OUTCOMES, seed=0)
    assert isinstance(fitted, Fitted)
    arms = fitted.route(OUTCOMES.queries).arms
    assert arms is not None
    assert arms.tolist() == [2, 0, HAND_BACK]
    assert fitted.curve(OUTCOMES.queries) is None


def test_queries_without_any_text_are_all_handed_back() -> None:
    queries = Queries(strings(["a", "b"]), strings(["", ""]))
    arms = ROUTER.fit(OUTCOMES, 0).route(queries).arms
    assert arms is not None
    assert arms.tolist() == [HAND_BACK, HAND_BACK]


def test_an_arm_that_the_table_has_not_is_refused() -> None:
    with pytest.raises(ArmUnknown, match="trl:x routes to huge, which the data set toy has not"):
        replace(ROUTER, arms=("large", "huge")).fit(OUTCOMES, 0)


def test_queries_that_it_was_trained_on_are_refused() -> None:
    router = replace(ROUTER, trained_on=frozenset(query_keys(OUTCOMES.queries)[:1]))
    fitted = router.fit(OUTCOMES, 0)
    with pytest.raises(QueryLeaked, match="trained on 1 of these queries; the first is q0"):
        fitted.route(OUTCOMES.queries)
    assert len(fitted.route(OUTCOMES.queries.take([1, 2]))) == 2
