"""The routing table file of the reference downstream: what may be changed, how, and writing it in one step.

`routes` says where a cell goes. While a change has a share of the traffic only, `shares` stands beside it:
`{"debugging/1/interactive": {"candidate": "glm-5.2", "share": 0.1, "recommendation": "R-0007"}}`; the rest of the
cell's traffic goes where `routes` says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.errors import AppError
from warehouse.ids import content_hash


class TableRefused(Exception):
    """The file is not in a state that the command expects; the message says what was found."""


class TableNotWritten(AppError):
    """The file could not be replaced (a full disk, permissions). Nothing changed; it is tried again."""


def check_command(command: Mapping[str, Any]) -> None:
    """Refuse a command whose frozen content does not hash to what was approved, or whose cells or share differ."""
    content = command["content"]
    if content_hash(content) != command["content_hash"]:
        raise TableRefused(f"the content of {command['id']} does not match its hash {command['content_hash'][:12]}")
    sides = ("from", "to") if command["kind"] == "apply" else ("to", "from")
    frozen = {f"{c['category']}/{c['tier']}/{c['latency']}": tuple(c[s] for s in sides) for c in content["cells"]}
    if frozen != {c["key"]: (c["old"], c["new"]) for c in command["cells"]}:
        raise TableRefused(f"the cells of {command['id']} differ from its frozen content")
    if command["kind"] == "apply" and _share(command) != _frozen_share(command):
        raise TableRefused(f"the share of {command['id']} differs from its frozen content")


def _share(command: Mapping[str, Any]) -> float:
    return float((command.get("stage") or {}).get("share", 1.0))


def _frozen_share(command: Mapping[str, Any]) -> float:
    stages = (command["content"].get("governance") or {}).get("stages") or [{"share": 1.0}]
    no = int((command.get("stage") or {}).get("no", 0))
    return float(stages[no]["share"]) if 0 <= no < len(stages) else -1.0


def read_table(path: Path) -> dict[str, Any] | None:
    """The routing table file, or None where there is none yet. Raises TableRefused for anything unreadable."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TableRefused(f"{path.name} cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(told, dict) or not isinstance(told.get("routes", {}), dict):
        raise TableRefused(f'{path.name} has no object "routes"')
    shares = told.get("shares", {})
    if not isinstance(shares, dict) or not all(isinstance(s, dict) for s in shares.values()):
        raise TableRefused(f'{path.name} has no object "shares" of objects')
    return told


def changed_table(current: dict[str, Any] | None, command: Mapping[str, Any]) -> dict[str, Any] | None:
    """The file's new content, or None where it is so already.

    Everything else in the file stays. A file without routes starts from the desk's table. A cell that holds the new
    value already is one that a crash left half done, and counts as changed. Raises TableRefused when a cell holds
    neither the old nor the new value, or a share of somebody else: it is changed whole or not at all.
    """
    told = dict(current or {})
    routes = dict(told.get("routes") or command["table_before"])
    shares = dict(told.get("shares") or {})
    part = command["kind"] == "apply" and _share(command) < 1
    _refuse_foreign(routes, shares, command, part=part)
    for cell in command["cells"]:
        key = cell["key"]
        if part:
            shares[key] = {"candidate": cell["new"], "share": _share(command), "recommendation": command["id"]}
        else:
            routes[key] = cell["new"]
            shares.pop(key, None)
    changed = {**told, "routes": routes, "shares": shares}
    if not shares:
        del changed["shares"]
    return None if changed == current else changed


def _refuse_foreign(
    routes: Mapping[str, Any], shares: Mapping[str, Any], command: Mapping[str, Any], *, part: bool
) -> None:
    foreign = []
    for cell in command["cells"]:
        key, old, new = cell["key"], cell["old"], cell["new"]
        candidate = old if command["kind"] == "rollback" else new
        share = shares.get(key)
        if routes.get(key) not in ((old,) if part else (old, new)):
            expected = f"{old}" if part else f"{old} or {new}"
            foreign.append(f"{key} routes to {routes.get(key)}, expected {expected}")
        elif share is not None and (share.get("recommendation"), share.get("candidate")) != (command["id"], candidate):
            foreign.append(f"{key} has a share for {share.get('candidate')} of {share.get('recommendation')}")
    if foreign:
        raise TableRefused("; ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""))


def write_table(path: Path, table: Mapping[str, Any]) -> None:
    """Replace the file in one step: a reader sees the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        # A router of another user reads this file; an existing one keeps the mode it has.
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TableNotWritten(
            f"The routing table {path} could not be written: {error.strerror}.", fix="check free space and permissions"
        ) from error
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _sweep(path: Path) -> None:
    """Remove what a downstream left that was killed while it wrote; one that lives keeps its own."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        pid = left.name.removesuffix(".tmp").rpartition(".")[2]
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            left.unlink(missing_ok=True)
        except OSError:
            continue
