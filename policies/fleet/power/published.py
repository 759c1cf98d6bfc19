"""Profiles that others published, shipped as `modeled` with the labels that their publisher gives.

Parameters of the first three: vllm-project/semantic-router `src/fleet-sim`, gpu_profiles (2026-08-22). Their figures
are per board; H100 and A100 stand for one tensor-parallel 8 instance of a 70B model, so an instance draws eight.
B200: context-length study of the same repository, pull request 2664 (2026-04-29), one node, no repeats.

`quality_computed` of a published curve: FAIR where at least one stated measured point lies behind it and the curve
meets every one of them within 5 %, else LOW. HIGH takes windows that this desk can read, so it takes a calibration.
"""

from __future__ import annotations

import re
from functools import partial

from policies.fleet.errors import HardwareUnknown, ProfileUnknown
from policies.fleet.power.context import ContextPoint, ContextStudy
from policies.fleet.power.models import Logistic
from policies.fleet.power.profiles import Profile
from warehouse.evidence import EvidenceClass, Quality

_FLEETSIM = "FleetSim gpu_profiles, vllm-project/semantic-router 3d48f8c9"
_IDLE = "idle loaded is the publisher's lower asymptote, not a measured idle state; idle empty is not known"

_fleetsim = partial(Profile, evidence_class=EvidenceClass.MODELED, version="1", calibration_ctx=8192, block_tokens=16)
_llama_70b = partial(_fleetsim, logical_model="llama-3-70b", quality_computed=Quality.FAIR, kv_blocks=65536)


def _boards(count: int, idle_w: float, nominal_w: float, *, k: float, x0: float) -> Logistic:
    """Watts of one board; the publisher knows one idle state."""
    return Logistic(
        hardware_count=count, board_idle_loaded_w=idle_w, board_idle_w=idle_w, board_nominal_w=nominal_w, k=k, x0=x0
    )


H100 = _llama_70b(
    name="H100-80GB",
    power=_boards(8, 300.0, 600.0, k=1.0, x0=4.2),
    hardware_model="H100-80GB",
    quality=Quality.HIGH,
    provenance=f"{_FLEETSIM}; fit to arXiv 2602.05116 Fig. 2 and ML.ENERGY v3 (arXiv 2601.22076)",
    W_ms=4.0,
    H_ms_per_seq=0.32,
    chunk_tokens=1024,
    max_slots=256,
    usd_per_hour=4.02,
    notes=("two stated points, 300 W at batch 1 and 600 W at 128: the curve gives 304.4 and 582.8 W", _IDLE),
)

A100 = _llama_70b(
    name="A100-80GB",
    power=_boards(8, 175.0, 385.0, k=1.0, x0=2.5),
    hardware_model="A100-80GB",
    quality=Quality.FAIR,
    provenance=f"{_FLEETSIM}; one measured point, 8 boards at batch 32 draw 2983 W (arXiv 2507.00418, Table 1)",
    W_ms=8.0,
    H_ms_per_seq=0.65,
    chunk_tokens=512,
    max_slots=128,
    usd_per_hour=2.21,
    notes=("the curve gives 369.1 W per board where 372.9 W were measured", _IDLE),
)

A10G = _fleetsim(
    name="A10G",
    power=_boards(1, 75.0, 120.0, k=0.7, x0=3.0),
    logical_model="7b-class",
    hardware_model="A10G",
    quality=Quality.LOW,
    quality_computed=Quality.LOW,
    provenance=f"{_FLEETSIM}; projection, no measured point",
    W_ms=12.0,
    H_ms_per_seq=0.90,
    chunk_tokens=256,
    kv_blocks=32768,
    max_slots=64,
    usd_per_hour=1.01,
    notes=("the publisher's own rule gives x0 = -0.8 and was set to 3.0 by hand", _IDLE),
)

_STUDY = "context-length study, vllm-project/semantic-router pull request 2664, 8xB200, 2026-04-29"
_OTHER_RUNTIME = "idle figures are of vLLM 0.19.1 on the same boards: 191.2 W empty, 251.3 W loaded"

B200_CONTEXT = ContextStudy(
    name="B200x8-context-study",
    points=(
        ContextPoint(2048, 1725, 29486.22, 794.99),
        ContextPoint(4096, 872, 21620.98, 712.54),
        ContextPoint(8192, 439, 13451.24, 654.55),
        ContextPoint(16384, 220, 7757.27, 596.00),
        ContextPoint(32768, 110, 4654.67, 590.21),
        ContextPoint(65536, 55, 2734.58, 636.53),
        ContextPoint(131072, 28, 822.49, 723.43),
    ),
    hardware_count=8,
    hardware_model="B200",
    logical_model="llama-3.1-70b",
    runtime="vllm",
    runtime_version="0.20.0",
    config_version="tp8, fp16, decode at full KV cache",
    board_idle_empty_w=191.2,
    board_idle_loaded_w=251.3,
    evidence_class=EvidenceClass.MODELED,
    quality=Quality.FAIR,
    provenance=_STUDY,
    version="1",
    notes=("one node, no repeats, no raw traces; only full instances were measured", _OTHER_RUNTIME),
)

B200_8K = Profile(
    name="B200x8-8K",
    power=Logistic(
        hardware_count=8,
        board_idle_empty_w=191.2,
        board_idle_loaded_w=251.3,
        board_idle_w=251.33,
        board_nominal_w=606.33,
        k=1.0,
        x0=-1.03,
    ),
    logical_model="llama-3.1-70b",
    hardware_model="B200",
    evidence_class=EvidenceClass.MODELED,
    quality=Quality.LOW,
    quality_computed=Quality.LOW,
    provenance=f"{_STUDY}, README; logistic through one request at 8K tokens",
    version="1",
    runtime="vllm",
    runtime_version="0.19.1",
    config_version="tp8, fp16",
    notes=("the study itself measured 654.55 W per board with 439 requests, where the curve gives 606.3",),
)

PUBLISHED = {p.name: p for p in (H100, A100, A10G, B200_8K)}
STUDIES = {B200_CONTEXT.name: B200_CONTEXT}

# What the same board is called: by its profile, by its maker's driver, and in short. Nothing else is taken for it.
_CALLED = {
    H100.name: ("H100-80GB", "H100", "NVIDIA H100 80GB HBM3"),
    A100.name: ("A100-80GB", "A100", "NVIDIA A100-SXM4-80GB"),
    A10G.name: ("A10G", "NVIDIA A10G"),
    B200_8K.name: ("B200", "NVIDIA B200"),
}


def published(name: str) -> Profile:
    """The shipped profile of that name; `STUDY@CONTEXT` is a context study at so many tokens.

    Raises ProfileUnknown, and ExtrapolationRefused for a context outside the study.
    """
    study, at, context = name.partition("@")
    if at and study in STUDIES and context.isdecimal():
        return STUDIES[study].profile_at(int(context))
    if name not in PUBLISHED:
        known = [*PUBLISHED, *(f"{s}@8192" for s in STUDIES)]
        raise ProfileUnknown(f"no profile is called {name!r}.", fix=f"choose one of {', '.join(known)}")
    return PUBLISHED[name]


def for_hardware(gpu: str) -> Profile:
    """The shipped profile of that GPU, by its whole name: an A10G is no L40S, and an H100-94GB no H100-80GB.

    Raises HardwareUnknown, which lists the known ones.
    """
    asked = _plain(gpu)
    for name, called in _CALLED.items():
        if asked in map(_plain, called):
            return PUBLISHED[name]
    raise HardwareUnknown(
        f"no profile is about the GPU {gpu!r}.",
        fix=f"choose one of {', '.join(p.hardware_model for p in PUBLISHED.values())}, or calibrate one",
    )


def _plain(gpu: str) -> str:
    return re.sub(r"[^a-z0-9]", "", gpu.lower())
