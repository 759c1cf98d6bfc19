"""Which architecture a board has, told by its product name: logs and exporters name the product, not the silicon.

Where NVML answers itself (`nvmlDeviceGetArchitecture`) its word counts, not this table.
"""

from __future__ import annotations

import re
from functools import lru_cache

# First match wins, so the longer names come first: "RTX 6000 Ada" before "RTX 6000", "GB200" before "B200".
_NAMES: tuple[tuple[str, str], ...] = (
    (r"Rubin|\bVR\d{3}\b|\bR100\b", "Rubin"),
    (r"Blackwell|\bGB[23]00\b|\bB[123]00\b|\bGB10\b|\bRTX 50\d0\b", "Blackwell"),
    (r"\bGH200\b|\bH(20|100|200|800)\b", "Hopper"),
    (r"\bAda\b|\bL(2|4|20|40S?|40G)\b|\bRTX 40\d0\b", "Ada"),
    (r"\bA(2|10G?|10M|16|30X?|40|100X?|800)\b|\bRTX A\d{4}\b|\bRTX 30\d0\b|\bPG506\w*\b|\bOrin\b", "Ampere"),
    (
        r"\bT4G?\b|\bT([456]00|1000|1200|2000)\b|\bRTX 20\d0\b|\bRTX [3-8]000\b|\bGTX 16\d0\b|\bTITAN RTX\b",
        "Turing",
    ),
    (r"\bV100S?\b|\bPG50[03]\w*\b|\bTITAN V\b|\bGV100\b", "Volta"),
    (r"\bP(4|6|40|100)\b|\bGTX 10\d0\b|\bTITAN Xp?\b|\bP\d{4}\b", "Pascal"),
    (r"\bM(4|6|10|40|60)\b|\bGTX 9\d0M?\b|\bGTX TITAN X\b", "Maxwell"),
    (r"\bK(10|20[cmX]*|40[cmst]*|80|520)\b|\bGTX 7[678]0\b", "Kepler"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), arch) for pattern, arch in _NAMES)


@lru_cache(maxsize=256)
def arch_of_name(name: str | None) -> str | None:
    """The architecture of a product name such as "NVIDIA A100-SXM4-80GB"; None where the name does not tell."""
    if not name:
        return None
    if re.search(r"GTX TITAN X\b", name, re.IGNORECASE):  # Maxwell; plain "TITAN X" is Pascal
        return "Maxwell"
    return next((arch for pattern, arch in _PATTERNS if pattern.search(name)), None)
