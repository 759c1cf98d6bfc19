"""What a router would have known of the organic sample requests: category, tier and session.

Drawn by the hash of each request, so that they do not depend on anything else. The big code model serves two tiers,
as the list-price table routes them; every other model serves the one it is declared for.
"""

from __future__ import annotations

import zlib
from datetime import datetime

from ingest.sample.completions import ACCOUNT
from ingest.sample.organic import organic_runs

PROVIDER = "neuralwatt"
CATEGORIES = ("coding_general", "general_chat", "summarization", "debugging")
_SHARES = (40, 70, 90, 100)  # cumulative, in percent
_TIERS = {"glm-5.2-fast": (2,), "kimi-k2.7-code": (2, 3), "kimi-k3-fast": (3,)}
_SESSIONS = 60


def labels_csv(now: datetime) -> str:
    """The labels of every organic request, a kind of file that a router could write."""
    lines = ["request_id,category,tier,latency,session"]
    for run in organic_runs(now):
        drawn = zlib.crc32(run.run_id.removesuffix("-retry").encode())
        category = next(c for c, share in zip(CATEGORIES, _SHARES, strict=True) if drawn % 100 < share)
        tiers = _TIERS.get(run.offer_id, (1,))
        tier, session = tiers[drawn // 100 % len(tiers)], drawn // 1000 % _SESSIONS
        request_id = f"{PROVIDER}/{ACCOUNT}/chatcmpl-{run.run_id}"
        lines.append(f"{request_id},{category},{tier},interactive,session-{session:02d}")
    return "\n".join(lines) + "\n"
