"""The kinds of power telemetry that other tools write."""

from __future__ import annotations

from ingest.kind import DAY_S, MIB, Kind, Option
from ingest.power import codecarbon_csv, dcgm, scrapes, smi_csv, zeus_csv
from ingest.stream import whole

_TIMEZONE = Option(
    "timezone",
    "the zone of its naive stamps: UTC, an offset such as +02:00 or a name such as Europe/Helsinki",
    required=True,
)
_HOST = Option("host", "the host that wrote it; it names GPUs that the file tells only by index")
_DEVICES = Option("devices", "which GPU an index is: 0=GPU-...,1=GPU-...; or one UUID for the whole file")

KINDS = (
    Kind(
        name="nvidia-smi-csv",
        title="nvidia-smi log",
        parse=whole(smi_csv.stream),
        stream=smi_csv.stream,
        docs="log of `nvidia-smi --query-gpu=timestamp,uuid,power.draw --format=csv -l` (CSV): board power in W",
        transports=("file",),
        max_bytes=1024 * MIB,
        options=(
            _TIMEZONE,
            _HOST,
            _DEVICES,
            Option("columns", "the columns as they were asked for, where the log was written with noheader"),
        ),
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
    ),
    Kind(
        name="dcgm",
        title="DCGM exporter",
        parse=dcgm.parse,
        derive=scrapes.windows_of_source,
        docs="Prometheus text of dcgm-exporter: board power in W and energy counters in mJ",
        transports=("http", "file"),
        max_bytes=64 * MIB,
        options=(_HOST,),
        stale_after_s=300.0,
        expire_after_s=DAY_S,
    ),
    Kind(
        name="zeus-csv",
        title="Zeus measurement log",
        parse=zeus_csv.parse,
        docs="log file of ZeusMonitor (CSV): energy in J per measurement window and GPU",
        transports=("file",),
        max_bytes=256 * MIB,
        options=(_HOST, _DEVICES),
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
    ),
    Kind(
        name="codecarbon-csv",
        title="CodeCarbon emissions",
        parse=codecarbon_csv.parse,
        docs="emissions.csv of CodeCarbon, old and new columns: kWh per run for GPU, CPU and RAM, kg CO2eq",
        transports=("file",),
        max_bytes=256 * MIB,
        options=(
            _TIMEZONE,
            Option("host", "the machine that wrote it; without it, machines are told apart by what they are made of"),
            Option(
                "machines",
                "one: rows of equal machines that overlap in time measured the same machine; many: they did not",
                default="one",
                allowed=("one", "many"),
            ),
        ),
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
    ),
)
