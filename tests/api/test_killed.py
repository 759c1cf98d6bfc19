"""SIGKILL at every step between command and acknowledgement: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.downstream_table import write_table
from tests.api.conftest import Api
from tests.recommend.desks import make_desk
from tests.support import ROOT
from warehouse import ledger

# A process that forks one downstream per line of its input; each dies before or after one call of its own.
DOWNSTREAM = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import httpx
from pathlib import Path
from app import downstream, downstream_table
from app.logs import log_to_stderr

log_to_stderr()

url, token, path = sys.argv[2:5]
post = downstream.HttpDoor
PLACES = {
    "collect": (post, "_post", 1), "acknowledge": (post, "_post", 2), "report": (post, "_post", 3),
    "write": (downstream, "write_table", 1), "fsync": (os, "fsync", 1), "replace": (os, "replace", 1),
}

def live(where, when):
    if where in PLACES:
        owner, name, nth = PLACES[where]
        real, calls = getattr(owner, name), [0]
        def deadly(*args, **kwargs):
            calls[0] += 1
            if (calls[0], when) == (nth, "before"):
                os.kill(os.getpid(), signal.SIGKILL)
            told = real(*args, **kwargs)
            if (calls[0], when) == (nth, "after"):
                os.kill(os.getpid(), signal.SIGKILL)
            return told
        setattr(owner, name, deadly)
    with httpx.Client(base_url=url, trust_env=False) as http:
        downstream.follow(post(http, token, "router", threading.Event()), Path(path), once=True)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            live(*line.split())
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
KEY = "debugging/1/interactive"
STEPS = [
    ("collect", "before"), ("collect", "after"), ("acknowledge", "before"), ("acknowledge", "after"),
    ("write", "before"), ("fsync", "before"), ("replace", "before"), ("replace", "after"), ("write", "after"),
    ("report", "before"), ("report", "after"),
]  # fmt: skip


class Downstreams:
    """Reference downstreams, one after another, each told where to die."""

    def __init__(self, url: str, token: str, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DOWNSTREAM, str(ROOT), url, token, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def run(self, where: str = "nowhere", when: str = "-") -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{where} {when}\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in (0, -9)
        return code

    def __enter__(self) -> Downstreams:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_downstream_killed_at_any_step_applies_once_and_rolls_back_once(
    api: Api,
    url: str,
    tmp_path: Path,
    first: int,
) -> None:
    """Every step is died at once per round; each death finds what the one before left."""
    path, token = tmp_path / "routes.json", api.tokens["downstream"]
    with Downstreams(url, token, path) as downstreams:
        api.driver.send("approve")
        for where, when in STEPS[first::3]:
            downstreams.run(where, when)
            routes = json.loads(path.read_text())["routes"][KEY] if path.exists() else "old"
            assert routes == "new" or api.driver.show()["targets"][0]["actuated_at"] is None, "told before it was done"
        assert downstreams.run() == 0
        assert api.driver.show()["state"] == "OBSERVING"
        assert json.loads(path.read_text())["routes"][KEY] == "new"
        api.driver.send("rollback")
        killed = [downstreams.run(where, when) for where, when in STEPS[2 - first :: 3]]
        assert -9 in killed
        assert downstreams.run() == 0
    assert api.driver.show()["state"] == "ROLLED_BACK"
    assert json.loads(path.read_text())["routes"][KEY] == "old"
    kinds = api.driver.kinds()
    for step in ("sent", "acknowledged", "actuated", "rollback_sent", "rollback_acknowledged", "rolled_back"):
        assert kinds.count(step) == 1, step
    assert ledger.verify(api.desk.warehouse).ok


def test_what_a_killed_downstream_left_beside_the_file_is_swept_and_what_a_living_one_has_is_not(
    tmp_path: Path,
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(20)
    left, living = tmp_path / f".routes.json.{dead.pid}.tmp", tmp_path / f".routes.json.{os.getppid()}.tmp"
    left.write_text("half")
    living.write_text("half")
    write_table(tmp_path / "routes.json", {"routes": {}})
    assert not left.exists() and living.exists()


# the desk itself ------------------------------------------------------------------------------------------

DESK = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from app.desk import local_operator, open_desk
from app.operations import recommending  # only this one: `call` would load them all
from app.settings import load_settings
from warehouse import ledger

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def live(where, key, command):
    desk = open_desk(load_settings())
    revision = max(e.revision for e in ledger.events(desk.warehouse))
    append, write = ledger.append, ledger._write_anchor
    if where == "before the commit":
        ledger.append = lambda *args, **kwargs: (append(*args, **kwargs), die())
    elif where == "after the commit, before the anchor":
        ledger.anchor = die
    elif where == "after the anchor, before the answer":
        ledger._write_anchor = lambda *args: (write(*args), die())
    params = recommending.DecisionParams(id="R-0001", revision=revision, idempotency_key=key)
    getattr(recommending, command)(desk, local_operator("cli"), params)

for told in sys.argv[2:]:
    child = os.fork()  # nothing is open yet: each life opens the warehouse itself
    if child == 0:
        live(*told.split("|"))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture
def home(own_home: Path) -> Path:
    make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n", proposed=True).close()
    return own_home


def test_a_desk_killed_in_a_command_has_carried_it_out_whole_or_not_at_all(home: Path) -> None:
    from app.desk import local_operator, open_desk
    from app.operations import call
    from app.settings import load_settings

    lives = [
        "before the commit|k1|approve",
        "after the commit, before the anchor|k1|approve",  # the same command again, and its first trace
        "after the anchor, before the answer|k2|rollback",
    ]
    done = subprocess.run(
        [sys.executable, "-c", DESK, str(ROOT), *lives], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["-9", "-9", "-9"], done.stderr[-2000:]
    desk = open_desk(load_settings())
    try:
        kinds = [e.kind.rpartition(".")[2] for e in ledger.events(desk.warehouse)]
        assert kinds == ["proposed", "approved", "dismissed"]
        # The very same commands again are answered as they would have been, and write nothing.
        for revision, key, command, state in ((1, "k1", "approve", "APPROVED"), (2, "k2", "rollback", "DISMISSED")):
            params = {"id": "R-0001", "revision": revision, "idempotency_key": key}
            assert call(desk, f"recommend.{command}", params, local_operator("cli"))["state"] == state
        told = ledger.verify(desk.warehouse)
        assert (told.ok, told.events, told.problems) == (True, 3, [])
        assert ledger.behind(desk.warehouse) is None
    finally:
        desk.close()


def test_two_clients_that_approve_at_once_make_one_approval(api: Api, url: str) -> None:
    import httpx

    headers = {"Authorization": f"Bearer {api.tokens['operator']}", "If-Match": '"1"'}
    gate, answers = threading.Barrier(4), [0] * 4

    def approve(i: int) -> None:
        with httpx.Client(base_url=url, trust_env=False) as http:
            gate.wait()
            sent = {**headers, "Idempotency-Key": f"client-{i}"}
            answers[i] = http.post("/api/v1/recommendations/R-0001/approve", headers=sent).status_code

    threads = [threading.Thread(target=approve, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [200, 409, 409, 409]
    assert api.driver.kinds().count("approved") == 1
