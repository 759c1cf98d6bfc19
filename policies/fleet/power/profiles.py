"""A serving profile: power and throughput of one (model, hardware, runtime, configuration), and where it comes from.

Throughput, after the FleetSim profiles (`iteration_ms`): one iteration of continuous batching lasts
`W_ms + H_ms_per_seq * (context / calibration_ctx) * concurrency` and gives every running request one token.
Every figure of a profile stands for one **instance** of `hardware_count` boards; `usd_per_hour` alone is per board,
because boards are what is bought.

`quality` is the label that the profile ships with, `quality_computed` what this desk works out from the points that
the profile can be checked against. A LOW one of either kind may be simulated and is never shown as production fact:
`presentable` is False, and `words` says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from policies.fleet.errors import CapacityZero, ProfileIncomplete, ProfileInvalid
from policies.fleet.power.models import PowerModel, power_model
from warehouse.evidence import EvidenceClass, Quality, lowest_quality
from warehouse.ids import content_hash


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Parameters that are None are not known: what needs one raises ProfileIncomplete and names it."""

    name: str
    power: PowerModel
    logical_model: str
    hardware_model: str
    evidence_class: EvidenceClass
    quality: Quality
    provenance: str  # citation: who measured or published it, and where
    version: str  # of the profile
    quality_computed: Quality | None = None
    runtime: str | None = None
    runtime_version: str | None = None
    config_version: str | None = None
    calibration_id: str | None = None  # where power is calibrated
    relative_uncertainty: float | None = None  # of power, one standard deviation / value
    W_ms: float | None = None  # of an iteration, without any request
    H_ms_per_seq: float | None = None  # that each request of calibration_ctx tokens adds
    calibration_ctx: int | None = None  # tokens
    chunk_tokens: int | None = None  # prompt tokens per iteration of prefill
    kv_blocks: int | None = None  # of the instance
    block_tokens: int | None = None
    max_slots: int | None = None  # requests at once with calibration_ctx tokens each
    usd_per_hour: float | None = None  # per board
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("name", "logical_model", "hardware_model", "provenance", "version"):
            if not str(getattr(self, name)).strip():
                raise ProfileInvalid(f"{name} of a profile is empty.", fix=f"say {name}: no figure goes without it")
        object.__setattr__(self, "evidence_class", EvidenceClass(self.evidence_class))
        object.__setattr__(self, "quality", Quality(self.quality))
        if self.quality_computed is not None:
            object.__setattr__(self, "quality_computed", Quality(self.quality_computed))
        object.__setattr__(self, "notes", tuple(self.notes))
        for name in _COUNTS + _AMOUNTS:
            value, least = getattr(self, name), 1 if name in _COUNTS else 0
            if value is not None and not (math.isfinite(value) and value >= least):
                raise ProfileInvalid(f"{name} of {self.name} is {value}.", fix=f"give {least} or more, or leave it out")

    @property
    def hardware_count(self) -> int:
        """Boards of one instance."""
        return self.power.hardware_count

    @property
    def profile_id(self) -> str:
        """Content hash of everything that the profile says."""
        return content_hash(self.to_dict())

    @property
    def quality_effective(self) -> Quality:
        """The lower of the label and of what this desk works out."""
        found = lowest_quality(q for q in (self.quality, self.quality_computed) if q is not None)
        assert found is not None  # quality is never None
        return found

    @property
    def presentable(self) -> bool:
        """Whether its figures may stand as a fact about production, with their class beside them."""
        return self.quality_effective is not Quality.LOW

    @property
    def words(self) -> str:
        """One sentence that every report on this profile carries."""
        label = f"{self.evidence_class}, label {self.quality}"
        if self.quality_computed is not None and self.quality_computed is not self.quality:
            label += f", computed {self.quality_computed}"
        use = "a model, not a measurement" if self.presentable else "for simulation only, no fact about production"
        return f"{self.name} ({self.provenance}): {label}; {use}."

    def need(self, *names: str) -> tuple[float, ...]:
        """Values of these parameters. Raises ProfileIncomplete for the first that is not known."""
        for name in names:
            if getattr(self, name) is None:
                raise ProfileIncomplete(
                    f"profile {self.name} does not know {name}.", fix=f"declare {name}, or calibrate the profile"
                )
        return tuple(getattr(self, name) for name in names)

    def n_slots(self, context_tokens: int) -> int:
        """Requests that run at once when each may grow to `context_tokens`.

        The smaller of the slot budget and of the KV blocks. Raises CapacityZero where not one fits.
        """
        if context_tokens < 1:
            raise ProfileInvalid(f"a context of {context_tokens} tokens.", fix="give 1 or more")
        slots, ctx, blocks, block = self.need("max_slots", "calibration_ctx", "kv_blocks", "block_tokens")
        found = int(min(slots * ctx // context_tokens, blocks // math.ceil(context_tokens / block)))
        if found < 1:
            raise CapacityZero(
                f"an instance of {self.name} holds no request of {context_tokens} tokens.",
                fix=f"choose a context up to {int(blocks * block)} tokens or another profile",
            )
        return found

    def iteration_ms(self, concurrency: float, context_tokens: float) -> float:
        """One iteration of the instance. Raises ProfileIncomplete."""
        w, h, ctx = self.need("W_ms", "H_ms_per_seq", "calibration_ctx")
        return w + h * (context_tokens / ctx) * concurrency

    @property
    def usd_per_instance_hour(self) -> float:
        (price,) = self.need("usd_per_hour")
        return price * self.hardware_count

    def scaled(self, factor: float) -> Profile:
        """The same profile with every watt x `factor`, for studies of the error of the power model."""
        if not (math.isfinite(factor) and factor > 0):
            raise ProfileInvalid(f"a factor of {factor} on power.", fix="give one above 0")
        data = self.power.to_dict()
        watts = {
            k: tuple(w * factor for w in v) if isinstance(v, tuple) else v * factor
            for k, v in data.items()
            if k.startswith("board_") and v is not None
        }
        return replace(
            self, power=power_model({**data, **watts}), notes=(*self.notes, f"every watt x {factor:g}, assumed")
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `profile` reads them."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "power"}
        return {
            **data,
            "power": self.power.to_dict(),
            "evidence_class": self.evidence_class.value,
            "quality": self.quality.value,
            "quality_computed": self.quality_computed and self.quality_computed.value,
            "notes": list(self.notes),
        }

    def described(self) -> dict[str, Any]:
        """What an answer says about the profile beside its figures."""
        return {
            "name": self.name,
            "profile_id": self.profile_id,
            "version": self.version,
            "logical_model": self.logical_model,
            "hardware_model": self.hardware_model,
            "hardware_count": self.hardware_count,
            "runtime": self.runtime,
            "runtime_version": self.runtime_version,
            "config_version": self.config_version,
            "form": self.power.form,
            "parameters": asdict(self.power),
            "evidence_class": self.evidence_class.value,
            "quality": self.quality.value,
            "quality_computed": self.quality_computed and self.quality_computed.value,
            "presentable": self.presentable,
            "words": self.words,
            "provenance": self.provenance,
            "calibration_id": self.calibration_id,
            "relative_uncertainty": self.relative_uncertainty,
            "notes": list(self.notes),
        }


_COUNTS = ("calibration_ctx", "chunk_tokens", "kv_blocks", "block_tokens", "max_slots")
_AMOUNTS = ("W_ms", "H_ms_per_seq", "relative_uncertainty", "usd_per_hour")


def profile(data: Mapping[str, Any]) -> Profile:
    """The profile that `to_dict` wrote, or that an operator declares. Raises ProfileInvalid, ProfileIncomplete."""
    names = {f.name: f for f in fields(Profile)}
    if unknown := sorted(set(data) - set(names)):
        raise ProfileInvalid(f"{unknown[0]!r} is no field of a profile.", fix=f"give {', '.join(names)}")
    for name in _NEEDED:
        if data.get(name) is None:
            raise ProfileIncomplete(f"{name} is missing from the profile.", fix=f"declare {name}")
    for name, allowed in (("evidence_class", EvidenceClass), ("quality", Quality), ("quality_computed", Quality)):
        if data.get(name) is not None and data[name] not in list(allowed):
            raise ProfileInvalid(f"{name} is {data[name]!r}.", fix=f"give one of {', '.join(allowed)}")
    return Profile(**{**data, "power": power_model(data["power"])})


_NEEDED = (
    "name",
    "power",
    "logical_model",
    "hardware_model",
    "evidence_class",
    "quality",
    "provenance",
    "version",
)
