"""What the language model is asked, and how its answer is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.replay.errors import ArmUnknown
from policies.replay.trl.prompts import labels, messages, parse, shortened

ARMS = ("qwen-0.5b", "llama-8b", "r1-32b")


def test_up_to_26_arms_have_one_letter_and_more_have_two() -> None:
    assert labels(3) == ("A", "B", "C")
    assert labels(26)[-1] == "Z"
    assert labels(27)[:2] == ("AA", "AB")
    assert labels(27)[26] == "BA"
    assert labels(676)[-1] == "ZZ"


def test_more_arms_than_labels_are_refused() -> None:
    with pytest.raises(ArmUnknown, match="677 arms, and labels for 676"):
        labels(677)


@given(st.integers(1, 676))
def test_no_label_begins_another(arms: int) -> None:
    told = labels(arms)
    assert len(set(told)) == arms
    assert len({len(label) for label in told}) == 1


def test_the_prompt_holds_the_legend_and_the_question_and_no_outcome() -> None:
    system, user = messages("What is 2 + 2?", ARMS)
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"] == "Models:\nA: qwen-0.5b\nB: llama-8b\nC: r1-32b\n\nQuestion:\nWhat is 2 + 2?"


def test_a_long_question_keeps_its_two_ends() -> None:
    text = "begin " + "x" * 500 + " end?"
    assert shortened(text, 1000) == text
    cut = shortened(text, 100)
    assert len(cut) == 100
    assert cut.startswith("begin x")
    assert cut.endswith("x end?")
    assert "[...]" in cut
    assert cut in messages(text, ARMS, 100)[1]["content"]


@given(st.text(), st.integers(1, 50))
def test_a_shortened_text_is_never_longer_than_asked_beyond_the_mark(text: str, limit: int) -> None:
    assert len(shortened(text, limit)) <= max(limit, len("\n[...]\n") + 2)


@pytest.mark.parametrize(
    ("completion", "arm"),
    [
        ("B", 1),
        (" C\n", 2),
        ("A.", 0),
        ("A )", 0),
        ("B:", 1),
        ("llama-8b", 1),
        ("qwen-0.5b.", 0),
        ([{"role": "assistant", "content": "C"}], 2),
        ("D", None),
        ("b", None),
        ("", None),
        ("A B", None),
        ("A model like B", None),
        ("A: qwen-0.5b", None),
        ("<|im_end|>", None),
    ],
)
def test_a_completion_names_an_arm_by_label_or_name_or_names_none(completion: str, arm: int | None) -> None:
    assert parse(completion, ARMS) == arm


def test_an_arm_whose_name_ends_in_a_mark_is_read_by_its_name() -> None:
    assert parse("model (new)", ("model (new)", "model (new")) == 0
