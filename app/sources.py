"""From configuration to sources: what is fetched, from where, how often, and when it counts as old."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import BadRequest, NotFound
from app.settings import SourceSettings, secret
from ingest.base import Payload
from ingest.http import NotModified, fetch
from ingest.kinds import Kind, expand_url, kind
from ingest.read import read_file
from warehouse import landing
from warehouse.clock import utcnow
from warehouse.runs import SourceRow, register_source

if TYPE_CHECKING:
    from app.desk import Desk

POWER_SOURCE = "power:nvml"


@dataclass(frozen=True)
class HttpSource:
    """A configured source with its defaults filled in."""

    source_id: str
    kind: Kind
    url: str
    title: str
    cadence_s: float
    stale_after_s: float
    expire_after_s: float
    enabled: bool
    secret_name: str | None

    def row(self, *, offline: bool) -> SourceRow:
        return SourceRow(
            self.source_id,
            self.kind.name,
            self.title,
            "http",
            self.url,
            self.cadence_s,
            self.stale_after_s,
            self.expire_after_s,
            enabled=self.enabled and not offline,
        )


def http_source_of(source_id: str, told: SourceSettings) -> HttpSource:
    """A source of the configuration with the defaults of its kind. Raises BadRequest or UnknownKind."""
    found = kind(told.kind)
    url = told.url or found.default_url
    if url is None:
        raise BadRequest(
            f"The source {source_id!r} has no URL, and the kind {found.name!r} has no default.",
            fix=f"set [sources.{source_id}] url in joulebook.toml",
        )
    cadence = told.cadence or found.cadence_s
    if cadence is None:
        raise BadRequest(
            f"The source {source_id!r} has no cadence, and the kind {found.name!r} has no default.",
            fix=f"set [sources.{source_id}] cadence, such as '1 h'",
        )
    return HttpSource(
        source_id,
        found,
        url,
        told.title or found.title,
        cadence,
        told.stale_after or found.stale_after_s,
        told.expire_after or max(found.expire_after_s, told.stale_after or 0.0),
        told.enabled,
        told.secret,
    )


def http_sources(desk: Desk) -> list[HttpSource]:
    """Every HTTP source of the configuration, switched on or off."""
    return [http_source_of(name, told) for name, told in sorted(desk.settings.sources.items())]


def http_source(desk: Desk, source_id: str) -> HttpSource:
    for source in http_sources(desk):
        if source.source_id == source_id:
            return source
    known = ", ".join(s.source_id for s in http_sources(desk))
    raise NotFound(f"There is no source {source_id!r} to fetch.", fix=f"use one of {known}")


def power_row(desk: Desk) -> SourceRow:
    power = desk.settings.power
    return SourceRow(
        POWER_SOURCE,
        "nvml",
        "NVIDIA GPU power of this host",
        "device",
        None,
        power.period,
        power.stale_after,
        10 * power.stale_after,
        enabled=power.enabled,
    )


def register_configured(desk: Desk) -> None:
    """Write the configured sources into ops.source, so that freshness speaks of all of them."""
    with desk.warehouse.transaction() as tx:
        for source in http_sources(desk):
            register_source(tx, source.row(offline=desk.settings.offline))
        register_source(tx, power_row(desk))


def fetch_source(desk: Desk, source: HttpSource) -> Payload | NotModified:
    """Ask the source, conditionally where its last answer allows it."""
    etag, last_modified = landing.latest_validators(desk.warehouse, source.source_id, source.kind.name)
    headers = {}
    if source.secret_name:
        value = secret(desk.settings, source.secret_name)
        if value is None:
            raise BadRequest(
                f"The source {source.source_id!r} needs the secret {source.secret_name!r}, which is not set.",
                fix=f"set JOULEBOOK_SECRET_{source.secret_name.upper().replace('-', '_')} or "
                "put it under [joulebook] in .streamlit/secrets.toml",
            )
        headers["Authorization"] = f"Bearer {value.get_secret_value()}"
    return fetch(
        expand_url(source.url, utcnow()),
        source_id=source.source_id,
        kind=source.kind.name,
        headers=headers,
        etag=etag,
        last_modified=last_modified,
        max_bytes=source.kind.max_bytes,
        offline=desk.settings.offline,
    )


def file_payload(path: Path, found: Kind, source_id: str, fetched_at: datetime | None) -> Payload:
    """A file as a payload; without `fetched_at` it is as old as the file says."""
    try:
        modified = path.stat().st_mtime
    except FileNotFoundError:
        raise BadRequest(f"There is no file {path}.", fix="check the path") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.", fix="check its permissions") from error
    if path.is_dir():
        raise BadRequest(f"{path} is a folder.", fix="name one file")
    told = fetched_at or datetime.fromtimestamp(modified, UTC).replace(tzinfo=None)
    return read_file(path, source_id=source_id, kind=found.name, max_bytes=found.max_bytes, now=min(told, utcnow()))
