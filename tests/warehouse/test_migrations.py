"""Migrations that are out in the world never change: a warehouse made by them would refuse to open."""

from __future__ import annotations

from importlib import resources

from warehouse.ids import sha256

# Write a new migration instead of changing one of these; then add its hash here.
FROZEN = {
    "v0001_base.sql": "2a288841ac6366b010b8e99222f6ca1f720f8db88326b5953bc48a23ce49af5d",
    "v0002_sources.sql": "e8d5b28b16120f55f9f8c55123547a7f478fe8b5c636268dbad705a21f5e07d2",
    "v0003_billing.sql": "00f2abffe86c504bf53a1435d8fa03476ffb4c73e283379081d78d2d437741d2",
    "v0003_serving.sql": "4342846f9c2a87d3b137567fe1110390938bdb4f7b87d7b9f295b236f7a2d986",
    "v0004_zones.sql": "69c2567d2f0ee4343b308f0fc75faae674983671b8ae2b91bbde8876d378dbfe",
    "v0005_replay.sql": "3ef0aacb63b580136bea08bb1dcca6b314224482ad843179554664d24b5341ac",
    "v0006_fleet.sql": "fa5bcfb76c29dda5b4e09122890ec5fe1e291e0fc6d036ce4460af6614befd3c",
    "v0007_proof.sql": "896ffdfa3d16d5aab5fc3595209bccf0bf59285d0236113c7fbf03d5c6ecc3df",
    "v0008_published.sql": "ecc50317ca302a34271e277834e5554e50d55262c49c0af03ff01fa3a3b73a9a",
    "v0009_tokens.sql": "e17a014a02e0f84d3e80828713e83fd1e759690a88a862e65ffec6f77c98fc6b",
    "v0009_requests.sql": "fbcfb142dbe3433384bb18d6e065f96acb206cb9822b8b63e7ee5f49569357ff",
}


def test_no_migration_that_was_released_has_changed_and_none_is_missing() -> None:
    found = {
        file.name: sha256(file.read_bytes())
        for file in resources.files("warehouse.migrations").iterdir()
        if file.name.endswith(".sql")
    }
    assert found == FROZEN
