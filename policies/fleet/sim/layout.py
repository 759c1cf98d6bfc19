"""Memory of the simulator: records that its compiled loop reads and writes, and the codes in them.

One row per instance, deployment, pool, class of requests and request in the fleet. Rows are structures, not columns,
because one event touches many fields of one instance. Units: seconds, watts, joules, tokens, iterations.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.kernels import rows
from warehouse.ids import sha256

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Records = NDArray[Any]


class Status(IntEnum):
    """What became of a request. Every code above COMPLETED is a rejection or a failure with its reason."""

    IN_FLIGHT = 0  # waiting or running when the run ended
    COMPLETED = 1
    NO_ELIGIBLE_BACKEND = 2  # the router's set for its class is empty
    CONTEXT_TOO_LONG = 3  # no eligible pool holds so many tokens
    NO_HEALTHY_BACKEND = 4  # no instance of the eligible pools takes requests
    QUEUE_FULL = 5
    WAIT_TOO_LONG = 6
    SLO_UNREACHABLE = 7  # refused on arrival: no eligible instance is predicted to meet the SLO
    FAILED = 8  # lost with an instance or answered with an error, and no attempt left


class Mode(IntEnum):
    """States of an instance that draw different power, and the columns of its account."""

    ACTIVE = 0  # one request running, or more
    IDLE = 1  # loaded, none running
    WARMING = 2  # loading, at idle loaded power
    EMPTY = 3  # on, no model
    DOWN = 4  # failed


class Stage(IntEnum):
    """Where an instance stands in its life."""

    UP = 0
    DRAINING = 1  # serves what it holds, takes nothing new
    WARMING = 2
    EMPTY = 3
    DOWN = 4


class Change(IntEnum):
    """Scheduled events."""

    FAIL = 0
    START = 1
    PARK = 2  # drain, then stay empty
    REDEPLOY = 3  # drain, then warm up with another deployment
    UNHEALTHY = 4
    HEALTHY = 5
    INTENSITY = 6  # of a zone


class Balance(IntEnum):
    """Load-balancing policies."""

    RANDOM = 0
    ROUND_ROBIN = 1
    LEAST_LOADED = 2
    SPILLOVER = 3
    POWER_OF_TWO = 4
    PACK = 5
    STATIC = 6
    ENERGY_AWARE = 7
    CARBON_AWARE = 8


class Ended(IntEnum):
    """Why the loop returned."""

    MORE = 0  # the next portion of arrivals, please
    DRAINED = 1
    HORIZON = 2
    EVENT_BUDGET = 3


INSTANCE = np.dtype(
    [
        ("at_s", "f8"),  # its account is settled until here
        ("done", "f8"),  # iterations done since it was last idle (seconds, at analytic speed)
        ("iteration_s", "f8"),
        ("rate", "f8"),  # 1 / iteration_s
        ("power_w", "f8"),
        ("share_w", "f8"),  # power of one running request
        ("share_j", "f8"),  # joules that a request would have got since the instance was last idle
        ("context", "f8"),  # tokens of the running requests
        ("first_due", "f8"),  # least `done` at which a pending first token appears
        ("running", "i8"),
        ("waiting", "i8"),
        ("blocks", "i8"),  # KV blocks held
        ("pending", "i8"),  # requests whose first token has not appeared
        ("state", "i8"),
        ("healthy", "i8"),
        ("mode", "i8"),
        ("deployment", "i8"),
        ("pool", "i8"),
        ("zone", "i8"),
        ("queue_head", "i8"),
        ("queue_tail", "i8"),
        ("listed", "i8"),  # among those that the balancer may choose
        ("seen", "i8"),  # requests there, as the balancer knows it
        ("seen_blocks", "i8"),
        ("seen_context", "f8"),
        ("seen_at_s", "f8"),
        ("dark", "i8"),  # telemetry older than its time to live
        ("before", "i8"),  # neighbours in the list of equally loaded instances
        ("after", "i8"),
        ("position", "i8"),  # in the pool's list of instances that take requests
        ("member", "i8"),  # entry k of that list, which begins at the pool's first instance
        ("next_deployment", "i8"),  # after draining; -1: park
        ("warm_at_s", "f8"),
        ("running_s", "f8"),  # integral of running requests
        ("wasted_j", "f8"),  # on attempts that failed
        ("started", "i8"),
        ("completed", "i8"),
        ("lost", "i8"),  # attempts that failed
        ("slo_met", "i8"),
        ("output_tokens", "i8"),
    ],
    align=True,
)

DEPLOYMENT = np.dtype(
    [
        ("w_s", "f8"),
        ("h_s", "f8"),  # per token of running context
        ("alone_s", "f8"),  # iteration with one request of calibration length
        ("chunk", "i8"),
        ("block_tokens", "i8"),
        ("kv_blocks", "i8"),
        ("slots", "i8"),
        ("power_at", "i8"),  # where its row begins in the table of power
        ("empty_w", "f8"),
        ("down_w", "f8"),
        ("warmup_s", "f8"),
        ("error_rate", "f8"),
        ("failure_rate", "f8"),  # expected losses per second of service, for the energy-aware choice
        ("each_s", "f8"),  # that a running request of mean length adds to an iteration
    ],
    align=True,
)

POOL = np.dtype(
    [
        ("first", "i8"),
        ("count", "i8"),
        ("up", "i8"),  # instances that take requests
        ("dark", "i8"),
        ("load", "i8"),  # requests on them, as the balancer knows it
        ("slots", "i8"),
        ("least", "i8"),  # lowest bucket that holds an instance
        ("most", "i8"),  # no higher bucket holds one
        ("bucket_at", "i8"),
        ("buckets", "i8"),
        ("context", "i8"),  # longest request, prompt and output
        ("queue_limit", "i8"),
        ("zone", "i8"),
        ("max_wait_s", "f8"),
        ("preferred", "i8"),  # entry k: the pool that comes k-th in the balancer's order
        ("allowed", "i8"),  # scratch: entry k: the k-th pool that the request at hand may use
    ],
    align=True,
)

CLASS = np.dtype(
    [
        ("output_tokens", "f8"),  # expected by the balancer
        ("incumbent", "i8"),  # pool that the energy-aware choice stays with
        ("since_s", "f8"),
        ("turn", "i8"),
        ("flips", "i8"),
    ],
    align=True,
)

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),
        ("start_s", "f8"),  # of service; of waiting, while it waits
        ("first_s", "f8"),
        ("prior_j", "f8"),  # of earlier attempts
        ("base_j", "f8"),  # the instance's share_j when it started
        ("id", "i4"),
        ("l_in", "i4"),
        ("l_out", "i4"),
        ("blocks", "i4"),
        ("next", "i8"),
        ("free", "i8"),  # entry k of the stack of free rows
        ("session", "i4"),
        ("kind", "i2"),  # class of requests
        ("attempt", "i2"),
        ("status", "i2"),
        ("reused", "i2"),  # its prompt is in the cache of the instance that it goes to
    ],
    align=True,
)

SLOT = np.dtype(
    [("due", "f8"), ("row", "i8")], align=True
)  # `done` at which a request ends, or its first token appears
NODE = np.dtype([("winner", "i8"), ("next_s", "f8")], align=True)  # of a tournament; next_s of its leaves by instance
BUCKET = np.dtype([("head", "i8"), ("tail", "i8")], align=True)  # list of equally loaded instances
ZONE = np.dtype([("g_per_j", "f8"), ("told_s", "f8")], align=True)
ACCOUNT = np.dtype([("energy_j", "f8"), ("carbon_g", "f8"), ("time_s", "f8")], align=True)
LOG = np.dtype(
    [
        ("start_s", "f8"),
        ("first_s", "f8"),
        ("end_s", "f8"),
        ("energy_j", "f8"),
        ("instance", "i4"),
        ("status", "i2"),
        ("attempts", "i2"),
    ],
    align=True,
)

CHANGE = np.dtype([("at_s", "f8"), ("kind", "i8"), ("target", "i8"), ("value", "f8")], align=True)
FLAG = np.dtype([("yes", "i1")])
NUMBER = np.dtype([("value", "f8")])
COUNT = np.dtype([("value", "i8")])

_SETTINGS = [
    ("policy", "i8"),
    ("fallback", "i8"),
    ("analytic", "i8"),  # speed of the analytic model: full batch, prefill as if alone
    ("keep", "i8"),  # per-request arrays
    ("affinity", "i8"),
    ("reject_on_slo", "i8"),
    ("max_attempts", "i8"),
    ("telemetry", "i8"),  # 0: the balancer sees the truth
    ("threshold", "f8"),
    ("pack_share", "f8"),
    ("hysteresis", "f8"),
    ("dwell_s", "f8"),
    ("dark_share", "f8"),
    ("ttft_s", "f8"),
    ("tpot_s", "f8"),
    ("e2e_s", "f8"),
    ("interval_s", "f8"),
    ("ttl_s", "f8"),
    ("dropout", "f8"),
    ("reuse", "f8"),  # share of a prompt that its session's instance need not prefill again
    ("carbon_ttl_s", "f8"),
    ("settle_s", "f8"),  # requests that arrive earlier are left out of the histograms
    ("horizon_s", "f8"),
    ("seed", "i8"),
    ("event_budget", "i8"),  # budget
]
_COUNTERS = [
    ("now_s", "f8"),
    ("offered", "i8"),
    ("in_flight", "i8"),
    ("happened", "i8"),
    ("change", "i8"),  # next scheduled event
    ("tick", "i8"),
    ("free", "i8"),  # rows of the request table that are free
    ("turn", "i8"),
    ("fallback_telemetry", "i8"),
    ("fallback_carbon", "i8"),
    ("fallback_slo", "i8"),
    ("redirected", "i8"),
    ("decisions", "i8"),
    ("retries", "i8"),
    ("affine", "i8"),
    ("completed_j", "f8"),
    ("rejected_j", "f8"),
    ("measured", "i8"),  # completed after settling
]
_SIZES = ["instance_count", "pool_count", "change_count", "status_count", "width", "leaves"]  # width: most slots
TABLES = {
    "instances": INSTANCE,
    "deployments": DEPLOYMENT,
    "pools": POOL,
    "classes": CLASS,
    "requests": REQUEST,  # every request in the fleet
    "changes": CHANGE,  # scheduled, in order of time
    "slots": SLOT,  # (instances, width)
    "pending": SLOT,  # (instances, width)
    "nodes": NODE,  # (2 leaves)
    "buckets": BUCKET,
    "zones": ZONE,
    "accounts": ACCOUNT,  # (instances, modes)
    "log": LOG,  # per request, or empty
    "eligible": FLAG,  # (classes, pools)
    "watts": NUMBER,  # power tables of all deployments
    "homes": COUNT,  # per session: the instance that served it last, or -1
    "tally": COUNT,  # (classes, statuses)
    "histogram": COUNT,  # (pools, metrics, bins), or empty
}
# The compiled loop is cached by the types it is called with and by its own file, so the text of all its files is in
# the name of a field: a change in any of them is a new type.
_FILES = ("layout", "structures", "leaving", "serving", "choosing", "placing", "changing", "loop")
_TEXT = [Path(__file__).with_name(f"{name}.py") for name in _FILES]
_EDITION = "edition_" + sha256(b"".join(path.read_bytes() for path in _TEXT))[:16]
RUN = np.dtype(
    [*((name, "i8") for name in (*TABLES, *_SIZES, _EDITION)), *_SETTINGS, *_COUNTERS],
    align=True,
)

# Rows of the tables, for the loop: `instance(s, i)` where s is the record of the run.
instance = rows("instances", INSTANCE)
deployment_of = rows("deployments", DEPLOYMENT)
pool_of = rows("pools", POOL)
class_of = rows("classes", CLASS)
request = rows("requests", REQUEST)
change_of = rows("changes", CHANGE)
slot = rows("slots", SLOT)
pending = rows("pending", SLOT)
node_of = rows("nodes", NODE)
bucket_of = rows("buckets", BUCKET)
zone_of = rows("zones", ZONE)
account_of = rows("accounts", ACCOUNT)
log_of = rows("log", LOG)
eligible = rows("eligible", FLAG)
watts = rows("watts", NUMBER)
home = rows("homes", COUNT)
tally = rows("tally", COUNT)
histogram = rows("histogram", COUNT)

# Histograms are log-linear: 128 bins per doubling (0.8 % wide) from 2^-20 s to 2^28 s.
SUB_BITS, LOW_EXPONENT, OCTAVES = 7, -20, 48
BINS = OCTAVES << SUB_BITS
METRICS = ("ttft_s", "tpot_s", "e2e_s", "wait_s")


class Memory:
    """The tables of a run, by name, and the record that holds their addresses, its settings and its counters."""

    def __init__(self, tables: dict[str, Records]) -> None:
        self.run = np.zeros(1, RUN)
        self.tables: dict[str, Records] = {}
        for name in TABLES:
            self.put(name, tables[name])

    def put(self, name: str, rows: Records) -> None:
        """Put a table in its place; the loop finds it there."""
        assert rows.dtype == TABLES[name] and rows.flags.c_contiguous
        self.tables[name] = rows
        self.run[name] = rows.ctypes.data

    def __getitem__(self, name: str) -> Records:
        return self.tables[name]

    @property
    def record(self) -> Any:
        """What the loop takes; reading and writing its fields is reading and writing the run."""
        return self.run[0]
