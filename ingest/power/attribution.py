"""The energy of a metered window, shared out to the requests that were in the system: every microjoule once.

Each window of a device or replica is divided on its own. What falls to time without any request stays as the
remainder: idle power x that time where an idle baseline is known, else the same part of the energy as of the
time (an upper bound, because an idle board draws less). The rest goes to the requests by one named rule:

    output_tokens    output tokens x the part of the request's time that lies in the window
    time_in_system   seconds in the window

A request that spans windows has a share in each. In whole microjoules, shares + remainder = energy of the window,
exactly. A share is an allocation, never a measurement: its uncertainty holds that of the meter and half the
distance between what the two rules give. Where a window's energy is unknown, or a request's weight, the shares
are unknown too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import polars as pl

from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, Quality
from warehouse.ids import content_hash
from warehouse.tables import frame_schema

TABLE = "core.energy_observation"
REQUEST_COLUMNS: dict[str, pl.DataType] = {
    "usage_key": pl.String(),
    "offer_id": pl.String(),
    "start_at": pl.Datetime("us"),
    "end_at": pl.Datetime("us"),
    "prompt_tokens": pl.Int64(),
    "output_tokens": pl.Int64(),
    "attempts": pl.Int64(),
    "successes": pl.Int64(),
}
MIG_PARTS = 7  # compute slices of a board that is split
_PROFILE = re.compile(r"(\d)g\.\d+gb(\+\w+)*", re.IGNORECASE)
_OF_WINDOW = (
    "provider", "backend_id", "pool", "hardware_model", "hardware_count", "gpu_arch", "driver_version",
    "device_uuid", "meter_scope", "window_start_at", "window_end_at",
)  # fmt: skip
_UJ = 1e6
_DUE = ["share_output_tokens_uj", "share_time_in_system_uj"]


class Method(StrEnum):
    """By what a window's energy is shared out."""

    OUTPUT_TOKENS = "output_tokens"
    TIME_IN_SYSTEM = "time_in_system"


def attribute(
    windows: pl.DataFrame, requests: pl.DataFrame, method: Method, *, idle_w: float | None = None
) -> pl.DataFrame:
    """Rows of core.energy_observation with evidence `allocated`: one per request and window, and one remainder each.

    `windows`: rows of core.energy_observation of one meter that do not overlap (J, naive UTC). `requests`: the
    columns of REQUEST_COLUMNS, half-open [start_at, end_at). `idle_w`: power of the idle meter in W.
    Attempts and successes of a request count in the window where it ends; `coverage` is the part of its time
    that metered windows cover. Raises IncomparableObservations for windows of several meters or that overlap.
    """
    _require_one_meter(windows)
    metered = windows.sort("window_start_at").with_row_index("window")
    told = requests.select(pl.col(name).cast(dtype) for name, dtype in REQUEST_COLUMNS.items())
    shares = _shares(metered, told, method, idle_w)
    return pl.concat([_request_rows(metered, shares, method), _remainder_rows(metered, shares, method)])


def _require_one_meter(windows: pl.DataFrame) -> None:
    for column in ("device_uuid", "backend_id", "meter_scope"):
        if windows[column].n_unique() > 1:
            raise IncomparableObservations(
                f"These windows are of several meters: they differ in {column}.", fix="attribute one meter at a time"
            )
    ordered = windows.sort("window_start_at")
    if (ordered["window_start_at"].shift(-1) < ordered["window_end_at"]).any():
        raise IncomparableObservations(
            "These windows overlap, so an energy would be shared out twice.", fix="take windows of one workload"
        )


def _shares(metered: pl.DataFrame, requests: pl.DataFrame, method: Method, idle_w: float | None) -> pl.DataFrame:
    """One row per request and window, in order, with its share in uJ by either rule, and the window's figures."""
    spans = metered.select(
        "window",
        "window_start_at",
        "window_end_at",
        total_uj=(pl.col("energy_gross_j") * _UJ).round().cast(pl.Int64),
        window_uncertainty="relative_uncertainty",
    )
    start, end = pl.col("start_at"), pl.col("end_at")
    within = spans.join_where(requests, start < pl.col("window_end_at"), end >= pl.col("window_start_at")).filter(
        (end > pl.col("window_start_at")) | (start == end)
    )
    begin = pl.max_horizontal("start_at", "window_start_at")
    overlap_us = (pl.min_horizontal("end_at", "window_end_at") - begin).dt.total_microseconds()
    length_us = (end - start).dt.total_microseconds()
    table = within.with_columns(
        begin=begin,
        overlap_us=overlap_us,
        tokens=pl.when(length_us > 0)
        .then(pl.col("output_tokens") * (overlap_us / length_us))
        .otherwise(pl.col("output_tokens").cast(pl.Float64)),
        coverage=_covered(overlap_us, length_us),
        ends_here=end <= pl.col("window_end_at"),
    ).sort("window", "begin", "usage_key")
    reach = (pl.col("begin") + pl.duration(microseconds=pl.col("overlap_us"))).cum_max().shift(1)
    fresh_us = pl.col("overlap_us") - (reach - pl.col("begin")).dt.total_microseconds().fill_null(0).clip(lower_bound=0)
    duration_us = (pl.col("window_end_at") - pl.col("window_start_at")).dt.total_microseconds()
    table = table.with_columns(
        busy_us=fresh_us.over("window").clip(lower_bound=0).sum().over("window"), duration_us=duration_us
    )
    idle_us = pl.col("duration_us") - pl.col("busy_us")
    by_time = pl.col("total_uj") * (idle_us / pl.col("duration_us"))
    idle_uj = by_time if idle_w is None else pl.min_horizontal(pl.col("total_uj"), idle_us * idle_w)
    table = table.with_columns(idle_uj=idle_uj.round().cast(pl.Int64))
    return table.with_columns(
        _share(pl.col("tokens")).alias("share_output_tokens_uj"),
        _share(pl.col("overlap_us").cast(pl.Float64)).alias("share_time_in_system_uj"),
    ).with_columns(share_uj=pl.col(f"share_{method}_uj"))


def _covered(overlap_us: pl.Expr, length_us: pl.Expr) -> pl.Expr:
    known_us = pl.when(pl.col("total_uj").is_not_null()).then(overlap_us).otherwise(0).sum().over("usage_key")
    known = pl.col("total_uj").is_not_null().any().over("usage_key")
    return pl.when(length_us > 0).then(known_us / length_us).otherwise(known.cast(pl.Float64))


def _share(weight: pl.Expr) -> pl.Expr:
    """uJ by `weight`; differences of rounded running sums, so that they add up to the whole to the last uJ.

    None where the window's energy, or the weight of any request in it, is unknown, or all weights are 0.
    """
    busy_uj = pl.col("total_uj") - pl.col("idle_uj")
    running, whole = weight.cum_sum().over("window"), weight.sum().over("window")
    is_last = pl.int_range(pl.len()).over("window") == pl.len().over("window") - 1
    part = pl.when(whole > 0).then((running / whole).clip(0, 1))
    due = pl.when(is_last).then(busy_uj).otherwise((busy_uj * part).round().cast(pl.Int64))
    before = due.shift(1).over("window").fill_null(0)
    known = weight.is_not_null().all().over("window") & (whole > 0) & pl.col("total_uj").is_not_null()
    return pl.when(known).then(due - before)


def _request_rows(metered: pl.DataFrame, shares: pl.DataFrame, method: Method) -> pl.DataFrame:
    tokens_uj, time_uj = (pl.col(name) for name in _DUE)
    spread = (tokens_uj - time_uj).abs() / (tokens_uj + time_uj)
    uncertainty = (pl.col("window_uncertainty") ** 2 + pl.when(tokens_uj + time_uj > 0).then(spread) ** 2).sqrt()
    unknown = pl.col("share_uj").is_null()
    table = shares.join(metered.select("window", "gap_reason", "observation_id", *_OTHERS), on="window").select(
        *_OF_WINDOW,
        "offer_id",
        "usage_key",
        "coverage",
        energy_gross_j=pl.col("share_uj") / _UJ,
        attribution_share=pl.when(pl.col("total_uj") > 0).then(pl.col("share_uj") / pl.col("total_uj")),
        relative_uncertainty=pl.when(~unknown).then(pl.min_horizontal(uncertainty, pl.lit(1.0))),
        gap_reason=pl.when(unknown).then(pl.coalesce("gap_reason", pl.lit("unsupported"))),
        quality=_quality(unknown),
        prompt_tokens=pl.when("ends_here").then("prompt_tokens"),
        output_tokens=pl.when("ends_here").then("output_tokens"),
        attempts=pl.when("ends_here").then("attempts").otherwise(0),
        successes=pl.when("ends_here").then("successes").otherwise(0),
        parent="observation_id",
        workload=pl.lit("organic"),
    )
    return _finished(table, method)


_OTHERS = [name for name in _OF_WINDOW if not name.startswith("window_")] + ["quality"]


def _remainder_rows(metered: pl.DataFrame, shares: pl.DataFrame, method: Method) -> pl.DataFrame:
    """What no request gets; all of the energy where none was there or none could be weighed."""
    given = shares.group_by("window").agg(given_uj=pl.col("share_uj").sum())
    total_uj = (pl.col("energy_gross_j") * _UJ).round().cast(pl.Int64)
    left_uj = total_uj - pl.col("given_uj").fill_null(0)
    unknown = pl.col("energy_gross_j").is_null()
    table = metered.join(given, on="window", how="left", maintain_order="left").select(
        *_OF_WINDOW,
        energy_gross_j=left_uj / _UJ,
        attribution_share=pl.when(total_uj > 0).then(left_uj / total_uj),
        relative_uncertainty="relative_uncertainty",
        gap_reason="gap_reason",
        quality=_quality(unknown),
        parent="observation_id",
        workload=pl.lit("remainder"),
    )
    return _finished(table, method)


def _quality(unknown: pl.Expr) -> pl.Expr:
    """That of the window, at most FAIR."""
    low = unknown | (pl.col("quality") == Quality.LOW.value)
    return pl.when(low).then(pl.lit(Quality.LOW.value)).otherwise(pl.lit(Quality.FAIR.value))


def _finished(table: pl.DataFrame, method: Method) -> pl.DataFrame:
    name = f"allocated_{method}"
    keys = table["usage_key"].to_list() if "usage_key" in table.columns else [None] * table.height
    ids = [content_hash([parent, key, name]) for parent, key in zip(table["parent"], keys, strict=True)]
    told = table.drop("parent").with_columns(
        observation_id=pl.Series(ids, dtype=pl.String),
        evidence_class=pl.lit(EvidenceClass.ALLOCATED.value),
        method=pl.lit(name),
        attribution_capped=pl.lit(False),
    )
    schema = frame_schema(TABLE)
    rest = [pl.lit(None, dtype).alias(column) for column, dtype in schema.items() if column not in told.columns]
    return told.with_columns(rest).select([pl.col(column).cast(dtype) for column, dtype in schema.items()])


def slice_shares(energy_j: float, profiles: Mapping[str, str]) -> tuple[dict[str, float], float]:
    """(J per slice, J of the part of the board that no slice has) of a board split by MIG, to the microjoule.

    `profiles`: slice -> profile such as `1g.10gb`, of which the first digit counts sevenths of the board. A board
    has one meter, so these are allocations by size, whatever each slice did. Raises IncomparableObservations for
    a profile that is none, or for more sevenths than a board has.
    """
    parts: dict[str, int] = {}
    for name, profile in profiles.items():
        found = _PROFILE.fullmatch(profile)
        if found is None:
            raise IncomparableObservations(f"{name} has the profile {profile!r}, which is none of MIG.", fix="see MIG")
        parts[name] = int(found[1])
    if sum(parts.values()) > MIG_PARTS:
        raise IncomparableObservations(
            f"These slices have {sum(parts.values())} sevenths of one board.", fix="name the slices of one board"
        )
    total_uj = round(energy_j * _UJ)
    given: dict[str, float] = {}
    running = before_uj = 0
    for name, count in parts.items():
        running += count
        due_uj = total_uj * running // MIG_PARTS
        given[name] = (due_uj - before_uj) / _UJ
        before_uj = due_uj
    return given, (total_uj - before_uj) / _UJ
