"""What the language model is asked and how its answer is read: the question, a fixed legend, one label back.

The paper's controller prompt holds the question and a legend that maps labels to candidates; its cheap
("choice-only") format answers with the label alone. Labels are capital letters: one token in the usual
vocabularies, so that a decision costs one decoding step and arms compare without a bias for short names.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from policies.replay.errors import ArmUnknown

Messages = list[dict[str, str]]

PROMPT_VERSION = 1  # part of every hash: a router only works with the prompt that it was trained with
MAX_CHARS = 6000  # of a query, some 1,500 tokens of English; the paper names no limit
_CUT = "\n[...]\n"
_LETTERS = string.ascii_uppercase


def labels(arms: int) -> tuple[str, ...]:
    """One label per arm, none the beginning of another: A to Z, or AA to ZZ beyond 26. Raises ArmUnknown over 676."""
    if arms <= len(_LETTERS):
        return tuple(_LETTERS[:arms])
    if arms > len(_LETTERS) ** 2:
        raise ArmUnknown(f"There are {arms} arms, and labels for 676.", fix="leave arms out of the data set")
    return tuple(_LETTERS[i // 26] + _LETTERS[i % 26] for i in range(arms))


def shortened(text: str, max_chars: int = MAX_CHARS) -> str:
    """`text`, its middle cut out where it is longer than `max_chars`: tasks state what they ask at either end."""
    if len(text) <= max_chars:
        return text
    kept = max(max_chars - len(_CUT), 2)
    return text[: kept - kept // 2] + _CUT + text[len(text) - kept // 2 :]


def messages(text: str, arms: Sequence[str], max_chars: int = MAX_CHARS) -> Messages:
    """The conversation that asks which of `arms` is to answer `text`. Recorded outcomes are no part of it."""
    legend = "\n".join(f"{label}: {arm}" for label, arm in zip(labels(len(arms)), arms, strict=True))
    system = (
        "Choose the model that answers the question correctly with the least energy. "
        "Reply with the label of one model and nothing else."
    )
    user = f"Models:\n{legend}\n\nQuestion:\n{shortened(text, max_chars)}"
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def parse(completion: str | Sequence[Mapping[str, str]], arms: Sequence[str]) -> int | None:
    """The arm that a completion names by label or by name, None where it is neither.

    A completion is text, or the messages of a conversation, of which the last counts. Blanks around it and one
    of `.:)` behind it are allowed; anything more is not read, since "A model like B" names no arm.
    """
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    word = text.strip()
    word = word[:-1].rstrip() if word[-1:] in {".", ":", ")"} and word not in arms else word
    for names in (labels(len(arms)), arms):
        if word in names:
            return tuple(names).index(word)
    return None
