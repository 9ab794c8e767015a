"""Errors only the gate raises.

LessonsError
├── Paused
├── NoSuchSchema
└── StoreError
    ├── WrongState
    ├── StoreOlder
    ├── LockLost
    ├── StoreLocked
    │   └── LockHeld
    └── StoreDamaged
        ├── LedgerBroken
        └── JournalBroken
"""

from __future__ import annotations

from lessons_loop.filter.errors import LessonsError, StoreDamaged, StoreError, StoreLocked


class Paused(LessonsError):
    """An administrator has stopped the gate; nothing was read or written."""


class NoSuchSchema(LessonsError):
    """A schema no release of ours, or only a later one, knows."""


class WrongState(StoreError):
    """The state directory does not belong to this store; nothing was written."""


class StoreOlder(StoreError):
    """The store is of an earlier release and is to be migrated first; nothing was written."""


class LockHeld(StoreLocked):
    """Another gate is at work on this store; nothing was read or written."""


class LockLost(StoreError):
    """The lock went to another gate, or ran out; nothing was written after that."""


class LedgerBroken(StoreDamaged):
    """The ledger does not verify; nothing was written."""


class JournalBroken(StoreDamaged):
    """An unfinished change is on record but cannot be read; nothing was written."""
