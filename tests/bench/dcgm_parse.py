"""DCGM text of 64 GPUs to typed samples, against what prometheus_client's parser needs for the same text.

The floor parses every metric and yields none of the checks; the subject reads the text of a whole scrape, takes the
metrics that it knows, and ends with frames.
"""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from ingest.base import Payload
from ingest.power import dcgm
from tests.bench.timing import alternate, rounded
from warehouse.clock import utcnow

_GPUS = 64
_REPEATS = 40
# The default counters of dcgm-exporter, of which two carry power and energy.
_GAUGES = (
    "SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "PCIE_REPLAY_COUNTER", "GPU_UTIL",
    "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "XID_ERRORS", "FB_FREE", "FB_USED", "NVLINK_BANDWIDTH_TOTAL",
    "VGPU_LICENSE_STATUS", "UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE",
)  # fmt: skip


def text(gpus: int = _GPUS) -> str:
    """One scrape of a host group with `gpus` boards, in dcgm-exporter's form."""
    labels = [
        f'gpu="{i}",UUID="GPU-{i:08x}-6156-355b-e589-ff2064894f16",pci_bus_id="00000000:{i:02X}:00.0",'
        f'device="nvidia{i}",modelName="NVIDIA H100 80GB HBM3",Hostname="node-{i // 8}",'
        'DCGM_FI_DRIVER_VERSION="570.86.10",container="vllm",namespace="serving",pod="llama-0"'
        for i in range(gpus)
    ]
    lines: list[str] = []
    for name in _GAUGES:
        lines += [f"# HELP DCGM_FI_DEV_{name} A gauge.", f"# TYPE DCGM_FI_DEV_{name} gauge"]
        lines += [f"DCGM_FI_DEV_{name}{{{told}}} {321.5 + i:.3f}" for i, told in enumerate(labels)]
    name = dcgm.ENERGY
    lines += [f"# HELP {name} Total energy consumption since boot (in mJ).", f"# TYPE {name} counter"]
    lines += [f"{name}{{{told}}} {126_272_101_025 + i}" for i, told in enumerate(labels)]
    return "\n".join(lines) + "\n"


def run() -> dict[str, Any]:
    body = text()
    payload = Payload("bench", "dcgm", "http://node/metrics", utcnow(), body.encode())
    parsed = dcgm.parse(payload)
    assert (parsed.rows_in, parsed.rejects) == (_GPUS, ())

    def floor() -> None:
        for family in text_string_to_metric_families(body):
            assert family.samples

    subject_s, floor_s = alternate(lambda: dcgm.parse(payload), floor, _REPEATS)
    return rounded(
        {
            "gpus": _GPUS,
            "lines": body.count("\n"),
            "bytes": len(body),
            "parse_s": subject_s,
            "floor_prometheus_client_parse_s": floor_s,
            "time_ratio_to_floor": subject_s / floor_s,
        },
        6,
    )
