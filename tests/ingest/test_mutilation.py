"""However a payload is damaged, the answer is an IngestError or facts whose counts add up."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing.tariffs import reconstruct
from ingest.errors import IngestError
from ingest.kinds import kind
from tests.ingest.samples import SOUND, counts_add_up, payload

_INTERESTING = [
    b"", b"NaN", b"-1", b"1e999", b"null", b"true", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\ud800",
    b"\xff", b"\x00",
    b"\n", b"data: ", b": energy {}", b"<", b"9" * 30, b"1e-400", b'"\\u0000"', b"{}", b"[[]]", b"0.0000000000000001",
]  # fmt: skip


def facts_or_error(name: str, body: bytes) -> Parsed | IngestError:
    """What a parser says; any other exception is a defect and comes out."""
    try:
        return kind(name).parse(payload(body, name))
    except IngestError as error:
        return error


@st.composite
def mutilated(draw: st.DrawFn, body: bytes) -> bytes:
    """`body` with up to three cuts, insertions, repetitions or flipped bytes."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 12)))
        how = draw(st.sampled_from(["replace", "truncate", "flip", "repeat"]))
        if how == "replace":
            body = body[:start] + draw(st.sampled_from(_INTERESTING)) + body[end:]
        elif how == "truncate":
            body = body[:start]
        elif how == "repeat":
            body = body[:end] + body[start:]
        elif start < len(body):
            body = body[:start] + bytes([draw(st.integers(0, 255))]) + body[start + 1 :]
    return body


@pytest.mark.parametrize("name", SOUND)
@given(data=st.data())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damage_never_escapes(name: str, data: st.DataObject) -> None:
    answer = facts_or_error(name, data.draw(mutilated(SOUND[name].encode())))
    if isinstance(answer, IngestError):
        assert answer.source_id == f"src-{name}"
        assert answer.message
    else:
        assert counts_add_up(answer)
        assert all(reject.reason for reject in answer.rejects)
        if answer.primary == "core.usage":
            reconstruct(answer.tables["core.usage"])


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e400", "1e-400", "1e9991786466250", "-5", "null", "true", '"x"', "[]", "{}", "9" * 40],
)
def test_any_number_may_be_anything(name: str, value: str) -> None:
    """Every number of a sound payload, replaced one at a time."""
    text = SOUND[name]
    places = [m.span() for m in re.finditer(r"(?<=[:,\[ >])-?\d[\d.e+-]*(?=[,}\]\n<])", text)]
    assert places or name in {"zone-map", "shadow-pairs"}  # whose samples tell no number
    for start, end in places:
        answer = facts_or_error(name, (text[:start] + value + text[end:]).encode())
        assert isinstance(answer, IngestError) or counts_add_up(answer)


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"null", b"0", b'""', b"[null]", b"[{}]", b"data: {}", b"data: [DONE]", b":"]
)
def test_the_smallest_payloads(name: str, body: bytes) -> None:
    answer = facts_or_error(name, body)
    assert isinstance(answer, IngestError) or counts_add_up(answer)
