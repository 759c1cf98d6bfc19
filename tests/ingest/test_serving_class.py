"""A serving class stands in the suffixes of an id, in any combination and order."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.catalog.serving_class import ServingClass, split

_FOUND = {"flex": ("latency_class", "flex"), "fast": ("reasoning_mode", "fast"), "short": ("context_variant", "short")}


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_every_combination_in_every_order(n: int) -> None:
    for suffixes in permutations(_FOUND, n):
        offer_id = "-".join(["glm-5.2", *suffixes])
        assert split(offer_id) == ServingClass("glm-5.2", **dict(_FOUND[s] for s in suffixes)), offer_id


@pytest.mark.parametrize(
    "offer_id",
    ["deepseek-v4-flash", "deepseek-v4-flash-0731-canary", "Qwen/Qwen3.8-27B-FP8", "flex", "-flex", "acme/-fast",
     "shortstack", "glm-fast-5"],
)  # fmt: skip
def test_other_words_and_places_are_part_of_the_model(offer_id: str) -> None:
    assert split(offer_id) == ServingClass(offer_id)


def test_a_vendor_path_is_kept() -> None:
    assert split("zai-org/GLM-5.2-Fast").base_model == "zai-org/GLM-5.2"


@given(st.text(st.characters(codec="ascii"), min_size=1, max_size=30))
def test_the_base_model_is_a_nonempty_beginning_of_the_id(offer_id: str) -> None:
    found = split(offer_id)
    assert found.base_model
    assert offer_id.startswith(found.base_model)
    assert split(found.base_model) == ServingClass(found.base_model)
