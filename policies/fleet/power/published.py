"""Profiles that others published, shipped as `modeled` with the labels that their publisher gives.

Parameters of the first three: vllm-project/semantic-router `src/fleet-sim`, gpu_profiles (2026-08-22). Their figures
are per board; H100 and A100 stand for one tensor-parallel 8 instance of a 70B model, so an instance draws eight.
"""

from __future__ import annotations

import re

from policies.fleet.errors import HardwareUnknown, ProfileUnknown
from policies.fleet.power.models import Logistic
from policies.fleet.power.profiles import Profile
from warehouse.evidence import EvidenceClass, Quality

_FLEETSIM = "FleetSim gpu_profiles, vllm-project/semantic-router 3d48f8c9"
_IDLE = "idle loaded is the publisher's lower asymptote, not a measured idle state; idle empty is not known"

H100 = Profile(
    name="H100-80GB",
    power=Logistic(
        hardware_count=8, board_idle_loaded_w=300.0, board_idle_w=300.0, board_nominal_w=600.0, k=1.0, x0=4.2
    ),
    logical_model="llama-3-70b",
    hardware_model="H100-80GB",
    evidence_class=EvidenceClass.MODELED,
    quality=Quality.HIGH,
    quality_computed=Quality.FAIR,
    provenance=f"{_FLEETSIM}; fit to arXiv 2602.05116 Fig. 2 and ML.ENERGY v3 (arXiv 2601.22076)",
    version="1",
    W_ms=4.0,
    H_ms_per_seq=0.32,
    calibration_ctx=8192,
    chunk_tokens=1024,
    kv_blocks=65536,
    block_tokens=16,
    max_slots=256,
    usd_per_hour=4.02,
    notes=("two stated points, 300 W at batch 1 and 600 W at 128: the curve gives 304.4 and 582.8 W", _IDLE),
)

A100 = Profile(
    name="A100-80GB",
    power=Logistic(
        hardware_count=8, board_idle_loaded_w=175.0, board_idle_w=175.0, board_nominal_w=385.0, k=1.0, x0=2.5
    ),
    logical_model="llama-3-70b",
    hardware_model="A100-80GB",
    evidence_class=EvidenceClass.MODELED,
    quality=Quality.FAIR,
    quality_computed=Quality.FAIR,
    provenance=f"{_FLEETSIM}; one measured point, 8 boards at batch 32 draw 2983 W (arXiv 2507.00418, Table 1)",
    version="1",
    W_ms=8.0,
    H_ms_per_seq=0.65,
    calibration_ctx=8192,
    chunk_tokens=512,
    kv_blocks=65536,
    block_tokens=16,
    max_slots=128,
    usd_per_hour=2.21,
    notes=("the curve gives 369.1 W per board where 372.9 W were measured", _IDLE),
)

A10G = Profile(
    name="A10G",
    power=Logistic(hardware_count=1, board_idle_loaded_w=75.0, board_idle_w=75.0, board_nominal_w=120.0, k=0.7, x0=3.0),
    logical_model="7b-class",
    hardware_model="A10G",
    evidence_class=EvidenceClass.MODELED,
    quality=Quality.LOW,
    quality_computed=Quality.LOW,
    provenance=f"{_FLEETSIM}; projection, no measured point",
    version="1",
    W_ms=12.0,
    H_ms_per_seq=0.90,
    calibration_ctx=8192,
    chunk_tokens=256,
    kv_blocks=32768,
    block_tokens=16,
    max_slots=64,
    usd_per_hour=1.01,
    notes=("the publisher's own rule gives x0 = -0.8 and was set to 3.0 by hand", _IDLE),
)

PUBLISHED = {p.name: p for p in (H100, A100, A10G)}


def published(name: str) -> Profile:
    """The shipped profile of that name. Raises ProfileUnknown."""
    if name not in PUBLISHED:
        raise ProfileUnknown(f"no profile is called {name!r}.", fix=f"choose one of {', '.join(PUBLISHED)}")
    return PUBLISHED[name]


def for_hardware(gpu: str) -> Profile:
    """The shipped profile of that GPU, by its whole name: `h100` may be short for `H100-80GB`, an A10G is no L40S.

    Raises HardwareUnknown, which lists the known ones.
    """
    asked = re.sub(r"[^a-z0-9]", "", gpu.lower())
    for found in PUBLISHED.values():
        known = found.hardware_model.lower()
        if asked and asked in (known.replace("-", ""), known.partition("-")[0]):
            return found
    raise HardwareUnknown(
        f"no profile is about the GPU {gpu!r}.",
        fix=f"choose one of {', '.join(p.hardware_model for p in PUBLISHED.values())}, or calibrate one",
    )
