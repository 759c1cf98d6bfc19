"""One sampler per host: several would each count the whole machine.

The lock is an advisory lock on a file in the folder for temporary files, which all users of a host share; the
kernel lets go of it when its process ends, however it ends. The file tells who holds it. A container has a folder
of its own: samplers in two containers on one host do not see each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ingest.errors import SampledElsewhere
from ingest.power.sensors import DeviceInfo, Occupancy, PowerBackend, Reading

NAME = "joulebook-power.lock"


def default_path() -> Path:
    return Path(tempfile.gettempdir()) / NAME


class HostLock:
    """Held from `take` to `release`, or to the end of the process."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._file: int | None = None

    def take(self) -> None:
        """Take the lock; does nothing where it is held by this object. Raises SampledElsewhere, naming the process.

        Where the folder does not let a file be locked, sampling goes on without: measuring twice is told apart
        later, not measuring is not.
        """
        if self._file is not None:
            return
        file = self._opened()
        if file is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise SampledElsewhere(
                f"{holder} already samples the GPUs of this host",
                fix=f"use that console, or stop it; the lock is {self.path}",
            ) from None
        except OSError:
            os.close(file)
            return
        self._file = file
        with contextlib.suppress(OSError):  # a lock that another user's process left is read-only for us
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps({"pid": os.getpid()}).encode(), 0)

    def _opened(self) -> int | None:
        """The file, made where it is not there. Never through a link, and never another user's for writing."""
        safe = os.O_CLOEXEC | os.O_NOFOLLOW
        for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_EXCL):
            with contextlib.suppress(OSError):
                return os.open(self.path, flags | safe, 0o644)
        return None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _holder(file: int) -> str:
    try:
        return f"process {int(json.loads(os.pread(file, 200, 0))['pid'])}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


class OnePerHost:
    """A backend that holds the host's lock while its session is open. A host without driver locks nothing."""

    def __init__(self, backend: PowerBackend, lock: HostLock) -> None:
        self._backend, self._lock = backend, lock

    @property
    def unreachable(self) -> tuple[str, ...]:
        return tuple(getattr(self._backend, "unreachable", ()))

    def open(self) -> Sequence[DeviceInfo]:
        """As the backend's. Raises SampledElsewhere as well."""
        infos = self._backend.open()
        try:
            self._lock.take()
        except SampledElsewhere:
            self._backend.close()
            raise
        return infos

    def read(self, device_uuid: str) -> Reading:
        return self._backend.read(device_uuid)

    def occupancy(self, device_uuid: str) -> Occupancy:
        return self._backend.occupancy(device_uuid)

    def close(self) -> None:
        self._backend.close()
        self._lock.release()
