"""What a router can see of a query without a model: counts of its text, its benchmark, its prompt tokens.

Flesch reading ease: R. Flesch, "A new readability yardstick", Journal of Applied Psychology 32(3), 1948.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from policies.replay.routers.means import positions
from policies.replay.table import Floats, Queries, Strings

_NUMBER = re.compile(r"\d+")
_SENTENCE = re.compile(r"[.!?]+")
_WORD = re.compile(r"[A-Za-z]+")
_VOWELS = re.compile(r"[aeiouy]+")
_MARKS = "+-*/=^\\{}()[]$,?:%<>\"'_"
N_COUNTS = 9 + len(_MARKS)


def text_counts(text: str) -> list[float]:
    """Logarithms of counts: characters, words, numbers, longest number, lines, sentences, capitals, marks; and
    the share of distinct words and the mean length of a word."""
    words, numbers = text.split(), _NUMBER.findall(text)
    counts = [
        len(text),
        len(words),
        len(numbers),
        max(map(len, numbers), default=0),
        text.count("\n"),
        len(_SENTENCE.findall(text)),
        sum(map(str.isupper, text)),
        *(text.count(mark) for mark in _MARKS),
    ]
    n = max(len(words), 1)
    return [*np.log1p(counts).tolist(), len(set(words)) / n, sum(map(len, words)) / n]


def flesch_reading_ease(text: str) -> float:
    """206.835 - 1.015 x words per sentence - 84.6 x syllables per word; syllables are groups of vowels.

    A text without words reads as easily as can be, 206.835.
    """
    words = _WORD.findall(text)
    if not words:
        return 206.835
    sentences = max(len(_SENTENCE.findall(text)), 1)
    syllables = sum(max(_count_syllables(word.lower()), 1) for word in words)
    return 206.835 - 1.015 * len(words) / sentences - 84.6 * syllables / len(words)


def _count_syllables(word: str) -> int:
    n = len(_VOWELS.findall(word))
    return n - 1 if word.endswith("e") and not word.endswith("le") and n > 1 else n


def has_texts(queries: Queries) -> bool:
    return queries.texts is not None and any(text is not None for text in queries.texts)


def raw_features(queries: Queries) -> Floats:
    """(N, N_COUNTS + 1): counts of the text and log(1 + prompt tokens); NaN where unknown."""
    found = np.full((len(queries), N_COUNTS + 1), np.nan)
    if queries.texts is not None:
        for row, text in enumerate(queries.texts):
            if text is not None:
                found[row, :-1] = text_counts(text)
    if queries.prompt_tokens is not None:
        found[:, -1] = np.log1p(queries.prompt_tokens)
    return found


@dataclass(frozen=True)
class Scale:
    """Standardisation learned on the training part; unknown and constant features become 0, their mean."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, values: Floats) -> Scale:
        known = np.isfinite(values)
        n = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, values, 0.0).sum(axis=0) / n
        deviation = np.sqrt((np.where(known, values - mean, 0.0) ** 2).sum(axis=0) / n)
        return cls(mean, deviation)

    def apply(self, values: Floats) -> Floats:
        flat = self.deviation <= 1e-12
        return np.where(
            np.isfinite(values) & ~flat, (values - self.mean) / np.where(flat, 1.0, self.deviation), 0.0
        ).astype(np.float64)


def one_hot(values: Strings, known: tuple[str, ...]) -> Floats:
    """(N, len(known)); a value that is not known is a row of zeros."""
    at = positions(values, known)
    found = np.zeros((len(values), len(known)))
    rows = np.flatnonzero(at >= 0)
    found[rows, at[rows]] = 1.0
    return found


def with_constant(parts: list[Floats], n: int) -> Floats:
    """The parts side by side, and a last column of ones."""
    return np.column_stack([*parts, np.ones(n)])
