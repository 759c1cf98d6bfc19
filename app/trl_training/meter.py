"""Energy of a training run, by the counter of the GPU that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from ingest.errors import IngestError
from ingest.power.nvml import Nvml
from ingest.power.sensors import SCOPE_GPU
from warehouse.evidence import EvidenceClass


@dataclass(frozen=True)
class TrainingEnergy:
    """Joules of the whole board over the run; None with the reason in `method`."""

    energy_j: float | None
    evidence_class: EvidenceClass | None
    method: str


class Meter:
    """Reads the counter on entry and exit. What cannot be read leaves no energy and stops nothing."""

    def __init__(self, device_uuid: str | None, open_nvml: Callable[[], Nvml] = Nvml) -> None:
        """`device_uuid`: as CUDA tells it; None: the run uses no GPU."""
        self._uuid, self._open_nvml = device_uuid, open_nvml
        self._nvml: Nvml | None = None
        self._before: float | None = None
        self._scope = SCOPE_GPU
        self.energy = TrainingEnergy(None, None, "no GPU, so no counter")

    def __enter__(self) -> Meter:
        if self._uuid is None:
            return self
        self._nvml = self._open_nvml()
        try:
            boards = {board.uuid.removeprefix("GPU-"): board for board in self._nvml.open()}
            board = boards.get(self._uuid.removeprefix("GPU-"))
            if board is None:
                self._fail(f"NVML does not list the GPU {self._uuid}")
                return self
            self._uuid, self._scope = board.uuid, board.scope
            self._before = self._nvml.read(board.uuid).energy_counter_j
            if self._before is None:
                self._fail("the GPU has no energy counter")
        except IngestError as error:
            self._fail(error.message)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._nvml is None or self._uuid is None or self._before is None:
            return
        try:
            after = self._nvml.read(self._uuid).energy_counter_j
        except IngestError as lost:
            self._fail(lost.message)
            return
        finally:
            self._nvml.close()
        if after is None or after < self._before:
            self._fail("the energy counter was reset during the run")
            return
        method = f"NVML energy counter of the whole {self._scope}, other work on it included"
        self.energy = TrainingEnergy(after - self._before, EvidenceClass.MEASURED, method)

    def _fail(self, why: str) -> None:
        self.energy = TrainingEnergy(None, None, why)
        self._before = None
        if self._nvml is not None:
            self._nvml.close()
