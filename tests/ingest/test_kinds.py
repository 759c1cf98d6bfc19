"""The registry: every kind is whole, and an unknown one is told what there is."""

from __future__ import annotations

from datetime import datetime

import pytest

from ingest.errors import UnknownKind
from ingest.kinds import KINDS, Kind, expand_url, kind
from tests.ingest.samples import SOUND, payload
from warehouse.loads import SPECS


@pytest.mark.parametrize("found", KINDS.values(), ids=KINDS)
def test_a_kind_is_whole(found: Kind) -> None:
    assert kind(found.name) is found
    assert found.title
    assert found.docs
    assert set(found.transports) <= {"http", "file", "generated"}
    assert found.importable == ("file" in found.transports)
    assert found.max_bytes >= 2**20
    assert 0 < found.stale_after_s < found.expire_after_s
    assert found.default_url is None or found.cadence_s is not None
    assert found.cadence_s is None or found.cadence_s < found.stale_after_s


def test_the_importable_kinds_are_those_of_the_samples() -> None:
    assert {name for name, k in KINDS.items() if k.importable} == set(SOUND)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_payload_loads_without_rejects_into_known_tables(name: str) -> None:
    parsed = kind(name).parse(payload(SOUND[name], name))
    assert parsed.rejects == ()
    assert parsed.rows_in == parsed.tables[parsed.primary].height >= kind(name).min_rows
    assert set(parsed.tables) <= set(SPECS)
    assert parsed.complete == (parsed.primary == "core.offer")


@pytest.mark.parametrize("name", SOUND)
def test_a_parser_is_a_pure_function(name: str) -> None:
    once, again = (kind(name).parse(payload(SOUND[name], name)) for _ in range(2))
    assert all(once.tables[t].equals(again.tables[t]) for t in once.tables)


def test_an_unknown_kind_is_told_what_there_is() -> None:
    with pytest.raises(UnknownKind) as caught:
        kind("openroutr")
    assert "did you mean openrouter?" in str(caught.value)
    assert all(name in str(caught.value) for name in KINDS)


def test_now_in_an_address_is_the_half_hour_that_runs() -> None:
    at = datetime(2026, 11, 29, 12, 44, 59, 5)
    assert expand_url("https://x/intensity/{now}/fw48h", at) == "https://x/intensity/2026-11-29T12:30Z/fw48h"
    assert expand_url("https://x/models", at) == "https://x/models"
