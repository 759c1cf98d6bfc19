"""One sampler per host; the second says who holds it, and takes over when that one ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.errors import NoDriver, SampledElsewhere
from ingest.power.hostlock import HostLock, OnePerHost
from ingest.power.nvml import Nvml
from tests.power.standin import StandIn
from tests.support import ROOT

HOLD = (
    "import sys; from pathlib import Path; from ingest.power.hostlock import HostLock;"
    "HostLock(Path(sys.argv[1])).take(); print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "power.lock"


def test_the_second_process_names_the_first_and_takes_over_when_it_ends(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SampledElsewhere, match=f"process {other.pid} already samples the GPUs"):
            HostLock(path).take()
        other.kill()  # however it ends
        other.wait(10)
    mine = HostLock(path)
    mine.take()
    assert f'"pid": {os.getpid()}' in path.read_text()
    mine.release()


def test_taking_twice_and_releasing_twice_is_no_error(path: Path) -> None:
    lock = HostLock(path)
    lock.take()
    lock.take()
    lock.release()
    lock.release()
    HostLock(path).take()


def test_a_link_in_the_shared_folder_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)
    lock = HostLock(path)
    lock.take()  # sampling goes on without a lock
    lock.release()
    assert victim.read_text() == "precious"


def test_a_lock_of_unreadable_content_is_still_a_lock(path: Path) -> None:
    holder = HostLock(path)
    holder.take()
    path.write_text("not json")
    with pytest.raises(SampledElsewhere, match="another process already samples"):
        HostLock(path).take()
    holder.release()


def test_the_backend_holds_the_lock_while_its_session_is_open(gpus: StandIn, path: Path) -> None:
    first, second = OnePerHost(Nvml(), HostLock(path)), OnePerHost(Nvml(), HostLock(path))
    (device,) = first.open()
    with pytest.raises(SampledElsewhere):
        second.open()
    assert first.read(device.uuid).power_w == 300.0  # the refused one did not end our session
    first.close()
    second.open()
    second.close()


def test_a_host_without_driver_locks_nothing(gpus: StandIn, path: Path) -> None:
    gpus.set(rc_init=9)
    with pytest.raises(NoDriver):
        OnePerHost(Nvml(), HostLock(path)).open()
    assert not path.exists()
