"""The sample, generated once and loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from ingest.base import Payload
from ingest.sample import sample_payloads
from tests.policies.world import NOW, World
from tests.sample.loading import load


@pytest.fixture(scope="package")
def payloads() -> list[Payload]:
    return sample_payloads(NOW - timedelta(seconds=1))


@pytest.fixture(scope="package")
def world(payloads: list[Payload]) -> Iterator[World]:
    made = World()
    load(made, payloads, known_from=NOW)
    yield made
    made.close()
