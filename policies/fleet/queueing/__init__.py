"""Queueing of serving pools in closed form: waits, sizing, joules at the load really carried, caps on power."""

from policies.fleet.queueing.convention import CONVENTIONS, Convention, Slo, convention
from policies.fleet.queueing.erlang import erlang_c, log_erlang_c
from policies.fleet.queueing.flex import LEVELS, FlexRow, flex
from policies.fleet.queueing.lengths import Lengths, lengths_of, pairs
from policies.fleet.queueing.pools import FleetResult, Pool, PoolResult, fleet
from policies.fleet.queueing.size import (
    FullInstance,
    at_utilization,
    evaluate,
    full_instance,
    size,
    split_by_length,
    two_pools,
)
from policies.fleet.queueing.wait import Wait, mgc

__all__ = [
    "CONVENTIONS",
    "LEVELS",
    "Convention",
    "FleetResult",
    "FlexRow",
    "FullInstance",
    "Lengths",
    "Pool",
    "PoolResult",
    "Slo",
    "Wait",
    "at_utilization",
    "convention",
    "erlang_c",
    "evaluate",
    "fleet",
    "flex",
    "full_instance",
    "lengths_of",
    "log_erlang_c",
    "mgc",
    "pairs",
    "size",
    "split_by_length",
    "two_pools",
]
