"""From configuration to sources: what is fetched, from where, how often, and when it counts as old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import BadRequest, NotFound
from app.secret_store import secret
from app.sections import SourceSettings
from ingest.base import Payload
from ingest.http import NotModified, fetch
from ingest.kinds import Ask, Kind, expand_url, kind
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
    options: Mapping[str, str] = field(default_factory=dict)

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
        declared_options(found, told.options),
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
    """Ask the source, conditionally where its last answer allows it. Raises BadRequest for a missing secret."""
    etag, last_modified = landing.latest_validators(desk.warehouse, source.source_id, source.kind.name)
    now = utcnow()
    ask = Ask(
        url=expand_url(source.url, now),
        source_id=source.source_id,
        kind=source.kind.name,
        secret=_secret_of(desk, source),
        options=source.options,
        etag=etag,
        last_modified=last_modified,
        max_bytes=source.kind.max_bytes,
        offline=desk.settings.offline,
        now=now,
    )
    got = (source.kind.fetch or _one_get)(ask)
    return replace(got, options=source.options) if isinstance(got, Payload) else got


def _secret_of(desk: Desk, source: HttpSource) -> str | None:
    if source.secret_name is None:
        return None
    value = secret(desk.settings, source.secret_name)
    if value is None:
        raise BadRequest(
            f"The source {source.source_id!r} needs the secret {source.secret_name!r}, which is not set.",
            fix=f"set JOULEBOOK_SECRET_{source.secret_name.upper().replace('-', '_')} or "
            "put it under [joulebook] in .streamlit/secrets.toml",
        )
    return value.get_secret_value()


def _one_get(ask: Ask) -> Payload | NotModified:
    found = kind(ask.kind)
    return fetch(
        ask.url,
        source_id=ask.source_id,
        kind=ask.kind,
        headers={found.secret_header: f"{found.secret_prefix}{ask.secret}"} if ask.secret else None,
        etag=ask.etag,
        last_modified=ask.last_modified,
        max_bytes=ask.max_bytes,
        offline=ask.offline,
    )


def declared_options(found: Kind, told: Mapping[str, str]) -> dict[str, str]:
    """The options of a kind with its defaults filled in. Raises BadRequest for unknown, missing or wrong ones."""
    known = {o.name: o for o in found.options}
    unknown = sorted(set(told) - set(known))
    if unknown:
        allowed = f"use one of {', '.join(known)}" if known else f"the kind {found.name!r} has no options"
        raise BadRequest(f"The kind {found.name!r} has no option {unknown[0]!r}.", fix=allowed)
    options = {o.name: told.get(o.name, o.default) for o in found.options}
    for name, value in options.items():
        if value is None and known[name].required:
            raise BadRequest(
                f"The kind {found.name!r} needs the option {name!r}: {known[name].about}.",
                fix=f"add --option {name}=VALUE",
            )
        if value is not None and known[name].allowed and value not in known[name].allowed:
            raise BadRequest(f"The option {name} is {value!r}.", fix=f"use one of {', '.join(known[name].allowed)}")
    return {name: value for name, value in options.items() if value is not None}


def file_age(path: Path, fetched_at: datetime | None) -> datetime:
    """When a file was true: as told, else as the file says. Raises BadRequest where there is no readable file."""
    try:
        modified = path.stat().st_mtime
    except FileNotFoundError:
        raise BadRequest(f"There is no file {path}.", fix="check the path") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.", fix="check its permissions") from error
    if path.is_dir():
        raise BadRequest(f"{path} is a folder.", fix="name one file")
    told = fetched_at or datetime.fromtimestamp(modified, UTC).replace(tzinfo=None)
    return min(told, utcnow())


def file_payload(
    path: Path, found: Kind, source_id: str, fetched_at: datetime | None, options: Mapping[str, str] | None = None
) -> Payload:
    """A file as a payload; without `fetched_at` it is as old as the file says."""
    now = file_age(path, fetched_at)
    payload = read_file(path, source_id=source_id, kind=found.name, max_bytes=found.max_bytes, now=now)
    return replace(payload, options=declared_options(found, options or {}))
