"""A trained controller: routes queries, and travels as bytes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from policies.replay.controller.encoder import Encoder
from policies.replay.controller.model import Parameters, forward, softmax
from policies.replay.controller.settings import Settings
from policies.replay.errors import ArmUnknown, RouterInvalid
from policies.replay.policy import Choices
from policies.replay.routers.features import Scale
from policies.replay.table import Bools, Floats, Queries
from warehouse.ids import canonical_json, content_hash, sha256

FORMAT = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a zip without the time of writing: equal weights are equal bytes


@dataclass(frozen=True)
class Trained:
    """`seen` (K,) arms of which training knew at least one outcome: no other is ever chosen.

    `counts` and `history` tell how the training went. `account`: joules of a training before the
    run, with their evidence. `mixing` routes by probabilities, not by the most probable arm.
    """

    settings: Settings
    seed: int
    dataset: str
    dataset_sha256: str
    n_train: int
    arms: tuple[str, ...]
    seen: Bools
    encoder: Encoder
    parameters: Parameters
    counts: Mapping[str, int] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    training_s: float = 0.0
    account: Mapping[str, Any] = field(default_factory=dict)
    mixing: bool = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def collapsed(self) -> bool:
        """The collapse alarm of the weights that were kept: on the fitted queries one arm took (nearly) all."""
        kept = [step for step in self.history if step["kept"]]
        return bool(kept and kept[-1]["collapsed"])

    @property
    def collapsed_at(self) -> tuple[str, int] | None:
        """Stage and step from which the alarm stood until the end of the history; None where it does not stand."""
        found = None
        for step in self.history:
            if not step["collapsed"]:
                found = None
            elif found is None:
                found = (str(step["stage"]), int(step["step"]))
        return found

    @property
    def notes(self) -> dict[str, Any]:
        """For the report of a replay."""
        told = {**self.counts, "collapsed": self.collapsed, "training_s": self.training_s, "steps": self.kept_steps}
        return {**told, **self.account}

    @property
    def kept_steps(self) -> dict[str, int]:
        """Per stage the step whose weights were kept."""
        return {str(step["stage"]): int(step["step"]) for step in self.history if step["kept"]}

    def probabilities(self, queries: Queries) -> Floats:
        """(N, K) probabilities of the arms. Raises EmbeddingInvalid."""
        logits = forward(self.parameters, self.encoder.encode(queries))[0]
        return softmax(logits, np.broadcast_to(self.seen, logits.shape))

    def route(self, queries: Queries) -> Choices:
        """The most probable arm of each query, or with `mixing` the probabilities themselves."""
        p = self.probabilities(queries)
        return Choices(probability=p) if self.mixing else Choices(arms=p.argmax(axis=1).astype(np.int32))

    def curve(self, queries: Queries) -> None:
        """None: each lambda is a training of its own, so there is nothing to sweep after it."""
        return None

    def with_mixing(self) -> Trained:
        return replace(self, mixing=True)

    def for_arms(self, names: Sequence[str]) -> Trained:
        """The same controller with its arms in the order of `names`. Raises ArmUnknown where one is not among them."""
        missing = [arm for arm, seen in zip(self.arms, self.seen, strict=True) if seen and arm not in names]
        if missing:
            raise ArmUnknown(
                f"{self.name} may route to {missing[0]!r}, which is not among the arms.",
                fix=f"name arms that hold {', '.join(self.arms)}, or train again",
            )
        where = [self.arms.index(name) if name in self.arms else -1 for name in names]
        at, new = np.maximum(where, 0), np.asarray(where) < 0
        weights, constant = self.parameters[-2][:, at], self.parameters[-1][at]
        return replace(
            self,
            arms=tuple(names),
            seen=np.where(new, False, self.seen[at]),
            parameters=(*self.parameters[:-2], np.where(new, 0.0, weights), np.where(new, 0.0, constant)),
        )

    @cached_property
    def trained_policy_id(self) -> str:
        """Content hash of name, parameters, data and weights."""
        return content_hash([self.name, self.settings.plain(), self.seed, self.dataset_sha256, sha256(self.to_bytes())])

    def to_bytes(self) -> bytes:
        """A numpy .npz: the weights, what the encoder learnt, and one line of JSON. Equal controllers, equal bytes."""
        told = {
            "format": FORMAT,
            "settings": self.settings.plain(),
            "seed": self.seed,
            "dataset": self.dataset,
            "dataset_sha256": self.dataset_sha256,
            "n_train": self.n_train,
            "arms": self.arms,
            "benchmarks": self.encoder.benchmarks,
            "rich": self.encoder.rich,
            "counts": dict(self.counts),
            "layers": len(self.parameters),
        }
        arrays: dict[str, Any] = {
            "about": np.frombuffer(canonical_json(told).encode(), dtype=np.uint8),
            "seen": self.seen,
            "centre": self.encoder.centre,
            "axes": self.encoder.axes,
            "count_mean": self.encoder.counts.mean,
            "count_deviation": self.encoder.counts.deviation,
            **{f"parameter_{at}": array for at, array in enumerate(self.parameters)},
        }
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                part = io.BytesIO()
                np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), part.getvalue())
        return held.getvalue()


def from_bytes(
    data: bytes, *, history: Sequence[Mapping[str, Any]] = (), training_s: float = 0.0, what: str = "the weights"
) -> Trained:
    """The controller that `to_bytes` wrote. Raises RouterInvalid for anything else; nothing in it is executed."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        told = json.loads(arrays["about"].tobytes())
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']}")
        trained = Trained(
            settings=Settings.restored(told["settings"]),
            seed=told["seed"],
            dataset=told["dataset"],
            dataset_sha256=told["dataset_sha256"],
            n_train=told["n_train"],
            arms=tuple(told["arms"]),
            seen=arrays["seen"],
            encoder=Encoder(
                arrays["centre"],
                arrays["axes"],
                Scale(arrays["count_mean"], arrays["count_deviation"]),
                tuple(told["benchmarks"]),
                told["rich"],
            ),
            parameters=tuple(arrays[f"parameter_{at}"] for at in range(told["layers"])),
            counts=told["counts"],
            history=tuple(history),
            training_s=training_s,
        )
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise RouterInvalid(
            f"{what[:1].upper()}{what[1:]} are no trained controller of this version.",
            fix="train it again with `joulebook replay train`",
        ) from error
    if not all(np.isfinite(p).all() for p in trained.parameters):
        raise RouterInvalid(f"{what[:1].upper()}{what[1:]} hold numbers that are not finite.", fix="train it again")
    return trained
