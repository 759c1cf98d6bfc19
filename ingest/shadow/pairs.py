"""`shadow-pairs`: one request, answered by the incumbent (control) and by the candidate; CSV, JSON lines or Parquet.

Needed: `pair_id`, `evidence_kind` (paired_replay or mirrored), `request_id`, `control_offer`, `candidate_offer`,
`observed_at` (ISO 8601 with zone). Figures are over all attempts of the request; an empty one is unknown and stays
NULL. A pair that contradicts itself is refused with the reason, its siblings load.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from ingest.base import Parsed, Payload
from ingest.quality.scores import CATEGORIES
from ingest.shadow.reading import Check, Refusals, boolean, instants, number, text_rows, whole
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame_schema

EVIDENCE_KINDS = ("paired_replay", "mirrored")
ARMS = ("control", "candidate")
BAND_EDGES = (512, 2_048, 8_192, 32_768)  # as policies.proof.bands; a test holds them equal
UNKNOWN = "unknown"
AHEAD = timedelta(minutes=5)  # a clock may be this far ahead of ours
_CLASSES = tuple(cls.value for cls in EvidenceClass)
_RANK = {cls: rank for rank, cls in enumerate(_CLASSES)}
_NEEDED = ("pair_id", "evidence_kind", "request_id", "control_offer", "candidate_offer", "observed_at")
_NAMES = ("cluster", "category", "size_band", "first_arm", "meter_class", "evidence_class", "carbon_evidence_class")
_LIMITS = {"energy_j": 1e12, "latency_s": 1e7, "cost_usd": 1e9, "carbon_g": 1e12}
_FIGURES = {f"{arm}_{name}": high for arm in ARMS for name, high in _LIMITS.items()}
_COUNTS = ("tokens", "repeat_no", *(f"{arm}_attempts" for arm in ARMS))
_FLAGS = ("aborted", *(f"{arm}_success" for arm in ARMS))
COLUMNS = (*_NEEDED, *_NAMES, *_FIGURES, *_COUNTS, *_FLAGS, "violation")
_LONGEST = 200
_MONEY = pl.Decimal(28, 12)


def size_bands() -> tuple[str, ...]:
    """Every size band: prompt and answer in tokens, such as `512-2047`."""
    low = (0, *BAND_EDGES)
    return (*(f"{a}-{b - 1}" for a, b in zip(low, BAND_EDGES, strict=False)), f"{BAND_EDGES[-1]}+")


def parse(payload: Payload) -> Parsed:
    """Pairs -> core.shadow_pair. Raises PayloadError where the payload is no such table."""
    text, rejects, came, notes = text_rows(payload, COLUMNS, "pairs")
    refusals = Refusals(text, "pair_id")
    latest = payload.fetched_at + AHEAD
    sound = refusals.rows(_typed(text), _checks(latest))
    unreadable = dict.fromkeys(_FIGURES, "is not a finite number; unknown is an empty field")
    unreadable |= dict.fromkeys(_COUNTS, "is not a whole number") | dict.fromkeys(_FLAGS, "is not true or false")
    refusals.fields(sound, unreadable)
    frame = _filled(sound)
    return Parsed(
        primary="core.shadow_pair",
        tables={"core.shadow_pair": frame},
        rows_in=came,
        rejects=(*rejects, *refusals.found),
        data_at=frame["observed_at"].max(),  # type: ignore[arg-type]
        notes=tuple(notes),
    )


def _typed(text: pl.DataFrame) -> pl.DataFrame:
    figures = [number(name).alias(name) for name in _FIGURES if "latency" not in name]
    for arm in ARMS:  # inf: it never answered, which is slower than any limit
        name = f"{arm}_latency_s"
        never = pl.col(name).str.to_lowercase().is_in(["inf", "infinity", "+inf"])
        figures.append(pl.when(never).then(float("inf")).otherwise(number(name)).alias(name))
    return text.with_columns(
        *figures,
        *(whole(name).alias(name) for name in _COUNTS),
        *(boolean(name).alias(name) for name in _FLAGS),
        *(pl.col(f"{arm}_energy_j").alias(f"{arm}_told") for arm in ARMS),
        *(pl.col(f"{arm}_cost_usd").cast(_MONEY, strict=False).alias(f"{arm}_exact_usd") for arm in ARMS),
        pl.col("observed_at").alias("told_at"),
        instants(text["observed_at"]),
    )


def _checks(latest: datetime) -> list[Check]:
    """What makes a pair unusable, in the order in which it is looked at."""
    checks: list[Check] = [(n, "is missing", pl.col("told_at" if n == "observed_at" else n).is_null()) for n in _NEEDED]
    checks += [
        (n, f"is longer than {_LONGEST} characters", pl.col(n).str.len_chars() > _LONGEST)
        for n in (*_NEEDED[:5], "cluster", "meter_class")
    ]
    checks += [
        ("observed_at", "is not an ISO 8601 time with a zone", pl.col("observed_at").is_null()),
        ("observed_at", "lies in the future", pl.col("observed_at") > latest),
        ("evidence_kind", f"is none of {', '.join(EVIDENCE_KINDS)}", ~pl.col("evidence_kind").is_in(EVIDENCE_KINDS)),
        ("candidate_offer", "is the control itself", pl.col("candidate_offer") == pl.col("control_offer")),
        ("category", f"is none of {', '.join(CATEGORIES)}", ~pl.col("category").is_in([*CATEGORIES, UNKNOWN])),
        ("size_band", f"is none of {', '.join(size_bands())}", ~pl.col("size_band").is_in([*size_bands(), UNKNOWN])),
        ("first_arm", f"is none of {', '.join(ARMS)}", ~pl.col("first_arm").is_in(ARMS)),
        *((n, f"is none of {', '.join(_CLASSES)}", ~pl.col(n).is_in(_CLASSES)) for n in _NAMES[-2:]),
        ("violation", "is longer than 2000 characters", pl.col("violation").str.len_chars() > 2000),
    ]
    for name, high in _FIGURES.items():
        checks += [
            (name, "is negative", pl.col(name) < 0),
            (name, f"is above {high:g}", (pl.col(name) > high) & pl.col(name).is_finite()),
        ]
    checks += [(name, "is negative", pl.col(name) < 0) for name in _COUNTS]
    for arm, other in (ARMS, ARMS[::-1]):
        won, energy = pl.col(f"{arm}_success"), pl.col(f"{arm}_energy_j")
        checks += [
            (f"{arm}_energy_j", "is 0, but the request succeeded; unknown energy is an empty field",
             won & (energy == 0)),
            (f"{arm}_energy_j", f"is missing, but the request succeeded and the {other} tells its energy",
             won & pl.col(f"{arm}_told").is_null() & pl.col(f"{other}_energy_j").is_not_null()),
            (f"{arm}_attempts", "is 0, but the request succeeded", won & (pl.col(f"{arm}_attempts") == 0)),
            (f"{arm}_latency_s", "is infinite, but the request succeeded",
             won & pl.col(f"{arm}_latency_s").is_infinite()),
        ]  # fmt: skip
    joules, grams = (_any_told(name) for name in ("energy_j", "carbon_g"))
    rank = {n: pl.col(n).replace_strict(_RANK, default=None, return_dtype=pl.Int8) for n in _NAMES[-2:]}
    return [
        *checks,
        ("evidence_class", "is missing: joules without an evidence class are no figure",
         joules & pl.col("evidence_class").is_null()),
        ("carbon_evidence_class", "is missing: grams without an evidence class are no figure",
         grams & pl.col("carbon_evidence_class").is_null()),
        ("carbon_evidence_class", "is stronger than that of the joules that the grams are made of",
         grams & (rank["carbon_evidence_class"] < rank["evidence_class"])),
    ]  # fmt: skip


def _any_told(name: str) -> pl.Expr:
    return pl.any_horizontal(pl.col(f"{arm}_{name}").is_not_null() for arm in ARMS)


def _filled(sound: pl.DataFrame) -> pl.DataFrame:
    """What was not told and has a plain meaning; an evidence class without joules stands for nothing."""
    tokens = pl.col("tokens")
    band = pl.lit(size_bands()[-1])
    for edge, name in reversed(list(zip(BAND_EDGES, size_bands(), strict=False))):
        band = pl.when(tokens < edge).then(pl.lit(name)).otherwise(band)
    by_tokens = pl.when(tokens.is_not_null()).then(band)
    found = sound.with_columns(
        *(
            pl.when(pl.col(f"{arm}_cost_usd").is_not_null())
            .then(pl.coalesce(f"{arm}_exact_usd", pl.col(f"{arm}_cost_usd").cast(_MONEY)))
            .alias(f"{arm}_cost_usd")
            for arm in ARMS
        ),
        pl.coalesce("size_band", by_tokens, pl.lit(UNKNOWN)).alias("size_band"),
        pl.col("category").fill_null(UNKNOWN),
        pl.col("repeat_no").fill_null(0),
        pl.col("aborted").fill_null(False),
        pl.col("evidence_class").fill_null(EvidenceClass.MODELED.value),
        pl.when(_any_told("carbon_g")).then("carbon_evidence_class").alias("carbon_evidence_class"),
    )
    return found.select(pl.col(name).cast(kind) for name, kind in frame_schema("core.shadow_pair").items())
