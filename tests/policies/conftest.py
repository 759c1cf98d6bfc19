"""Fixtures of the policy tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.policies.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()
