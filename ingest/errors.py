"""What can go wrong between the world and the warehouse.

    IngestError
    ├── FetchError
    │   ├── SourceUnreachable   transient  no connection, time-out, TLS
    │   ├── SourceRefused       transient on 429 and 5xx, terminal on other 4xx
    │   ├── PayloadTooLarge     terminal   more bytes than the source may send
    │   └── OfflineMode         terminal   configuration forbids outgoing calls
    ├── PayloadError            terminal   the payload as a whole cannot be read (truncated, HTML, not JSON)
    ├── CatalogShrank           terminal   the whole payload is refused: empty, or cut by half
    ├── Cancelled               terminal   a person stopped the load; nothing of it was kept
    ├── UnknownKind             terminal   `import KIND` with a kind that is not there
    └── DeviceError
        ├── NoDriver            terminal   no NVIDIA driver on this machine
        ├── DeviceLost          transient  a GPU fell off the bus; the others go on
        ├── SampledElsewhere    transient  another process samples the GPUs of this host
        └── DeviceBusy          terminal   an idle baseline was asked for while something computes

A single bad row is no error: it goes to quarantine as a `Reject` and its siblings load.
"""

from __future__ import annotations


class IngestError(Exception):
    """Base: names the source and the field where there is one; `transient` decides about retry."""

    transient = False

    def __init__(self, message: str, *, fix: str = "", source_id: str = "", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.source_id = source_id
        self.field = field

    def __str__(self) -> str:
        where = f"{self.source_id}: " if self.source_id else ""
        what = f"{self.field}: " if self.field else ""
        fix = f" Fix: {self.fix}" if self.fix else ""
        return f"{where}{what}{self.message}{fix}"


class FetchError(IngestError):
    pass


class SourceUnreachable(FetchError):
    transient = True


class SourceRefused(FetchError):
    def __init__(
        self, message: str, *, status: int, retry_after_s: float | None = None, fix: str = "", source_id: str = ""
    ) -> None:
        super().__init__(message, fix=fix, source_id=source_id)
        self.status = status
        self.retry_after_s = retry_after_s
        self.transient = status == 429 or status >= 500


class PayloadTooLarge(FetchError):
    pass


class OfflineMode(FetchError):
    pass


class PayloadError(IngestError):
    pass


class CatalogShrank(IngestError):
    pass


class Cancelled(IngestError):
    pass


class UnknownKind(IngestError):
    pass


class DeviceError(IngestError):
    pass


class NoDriver(DeviceError):
    pass


class DeviceLost(DeviceError):
    transient = True


class SampledElsewhere(DeviceError):
    transient = True


class DeviceBusy(DeviceError):
    pass
