"""Embeddings of the queries of a run: made from their texts, or read from a file of the local user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from policies.replay.embeddings import DEFAULT, embed_table
from policies.replay.errors import TextMissing
from policies.replay.table import OutcomeTable

GIVEN = "given"
NONE = "none"


@dataclass(frozen=True)
class Embedded:
    """The table with embeddings, or without where there are none; `note` says why."""

    table: OutcomeTable
    embedder: str | None
    s_per_query: float | None  # measured, in batch; None where a file brought them, or there are none
    note: str = ""


def embedded(table: OutcomeTable, embedder: str | None, file: str | None) -> Embedded:
    """`table` with embeddings; without an embedder asked for by name, missing texts are no error but a note.

    Raises EmbedderUnavailable, EmbeddingInvalid, and TextMissing where an embedder was asked for by name.
    """
    name = GIVEN if file is not None else embedder or DEFAULT
    try:
        made, told = embed_table(table, name, file=None if file is None else Path(file))
    except TextMissing as error:
        if embedder is not None:
            raise
        return Embedded(table, None, None, error.message)
    if name == NONE:
        return Embedded(made, None, None, told.note)
    seconds = told.seconds / told.texts if name != GIVEN and told.texts else None
    return Embedded(made, name, seconds, told.note)
