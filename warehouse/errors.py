"""What can go wrong in the warehouse.

    WarehouseError
    ├── WarehouseLocked        transient  another process holds the file
    ├── WarehouseCorrupt       terminal   the file cannot be read as a warehouse
    ├── WarehouseFull          transient  the disk or a size limit refused a write
    ├── WarehouseClosed        terminal   used after close
    ├── MigrationFailed        terminal   a migration did not apply; nothing of it remains
    ├── SchemaMismatch         terminal   a frame does not fit its table
    ├── IncomparableObservations terminal a query mixes evidence that may not be mixed
    ├── StaleRevision          terminal   a command was based on an older state; nothing was written
    ├── LedgerBroken           terminal   the hash chain does not hold
    └── SqlRefused / SqlFailed / SqlTimeout   terminal   the SQL lab said no (warehouse/sandbox)

`transient` errors may succeed when tried again; `terminal` ones need a person or other input.
Every message names the thing, the value and the fix.
"""

from __future__ import annotations


class WarehouseError(Exception):
    """Base of all warehouse errors: a message, a fix in words, and whether a retry can help."""

    transient = False

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message} Fix: {self.fix}" if self.fix else self.message


class WarehouseLocked(WarehouseError):
    transient = True


class WarehouseCorrupt(WarehouseError):
    pass


class WarehouseFull(WarehouseError):
    transient = True


class WarehouseClosed(WarehouseError):
    pass


class MigrationFailed(WarehouseError):
    pass


class SchemaMismatch(WarehouseError):
    pass


class IncomparableObservations(WarehouseError):
    pass


class StaleRevision(WarehouseError):
    pass


class LedgerBroken(WarehouseError):
    pass


class SqlRefused(WarehouseError):
    """The validator refused a statement before it ran."""


class SqlFailed(WarehouseError):
    """The statement ran in the worker and ended in an error."""


class SqlTimeout(WarehouseError):
    """The worker was stopped at its deadline."""
