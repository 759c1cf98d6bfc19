"""The runtime file: how a command finds the running console of its JOULEBOOK_HOME.

DuckDB admits one process, so a command must know whether a console holds the warehouse. The file
carries port and a secret made new at every start; mode 0600 makes it the same user's alone.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from app.settings import Settings


@dataclass(frozen=True)
class Runtime:
    pid: int
    address: str
    port: int
    secret: str
    started_at: str
    version: str

    @property
    def base_url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


def runtime_path(settings: Settings) -> Path:
    return settings.state_dir / "runtime.json"


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def publish(settings: Settings, runtime: Runtime) -> None:
    """Write the file so that nobody else can ever read it, and never half."""
    path = runtime_path(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{runtime.pid}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(runtime), file)
    os.replace(temporary, path)


def withdraw(settings: Settings) -> None:
    """Remove the file at a clean stop, if it is still ours."""
    found = read(settings)
    if found is not None and found.pid == os.getpid():
        runtime_path(settings).unlink(missing_ok=True)


def read(settings: Settings) -> Runtime | None:
    """What the file says, or None where there is none or it is damaged."""
    try:
        return Runtime(**json.loads(runtime_path(settings).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_alive(runtime: Runtime) -> bool:
    """Whether the process of the file still exists; a file without its process is stale."""
    try:
        os.kill(runtime.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
