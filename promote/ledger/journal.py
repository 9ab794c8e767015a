"""The journal: the change under way, one decision or a batch, as absolute new values.

    journal.draft   written before the ledger's lines; without the first of them it is void
    journal.json    the draft, renamed once the lines are in the ledger: to be carried out

So every decision line has its values on disk, and every set of values its lines,
wherever a crash falls: lines of a batch that did not all reach the ledger are added to it
from the draft (`ledger_mend`). Replaying twice changes nothing: rows are stored as they
shall be, deletions name ids.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.errors import JournalBroken
from lessons_loop.promote.files import file_errors, sync_folder, write_atomic
from lessons_loop.promote.ledger.chain import LedgerEntry
from lessons_loop.promote.store.curated import Header
from lessons_loop.promote.store.rows import Row


class Plan(BaseModel):
    """A change as it will be carried out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entries: Annotated[tuple[LedgerEntry, ...], Field(min_length=1)]
    """Its ledger lines, in order."""
    header: Header
    """Curated's collection metadata as it shall be."""
    put: tuple[Row, ...] = ()
    remove: tuple[str, ...] = ()
    archive: tuple[Row, ...] = ()
    staged: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    unarchive: tuple[str, ...] = ()
    stage: tuple[Row, ...] = ()
    stage_events: tuple[Row, ...] = ()
    uses: tuple[Use, ...] = ()
    drop_uses: tuple[str, ...] = ()
    swap: bool = False
    """True: the finished rebuild of curated takes the place of the present collection."""

    @model_validator(mode="before")
    @classmethod
    def _one_entry(cls, found: Any) -> Any:
        """Read what an earlier release left: one line a plan, under `entry`."""
        if isinstance(found, dict) and "entry" in found:
            rest = {name: value for name, value in found.items() if name != "entry"}
            return {"entries": [found["entry"]], **rest}
        return found

    @property
    def entry(self) -> LedgerEntry:
        """The last of its ledger lines: the ledger's head once it is recorded."""
        return self.entries[-1]

    @property
    def domain(self) -> str:
        """The domain the change belongs to."""
        return self.header.domain


class Journal:
    """The journal files of one state directory."""

    def __init__(self, state: Path) -> None:
        self.path = state / "journal.json"
        self.draft_path = state / "journal.draft"

    def draft(self, plan: Plan) -> None:
        """Keep the plan on disk, void until `confirm`."""
        write_atomic(self.draft_path, plan.model_dump_json().encode())

    def confirm(self) -> None:
        """Make the draft binding: its line is in the ledger."""
        with file_errors(self.path):
            self.draft_path.replace(self.path)
            sync_folder(self.path.parent)

    def recover(self, tail: LedgerEntry | None) -> Plan | None:
        """Return the plan to carry out, None without one; `tail` is the ledger's last line.

        Lines of a batch that a crash kept out of the ledger are there again, see `mend`.
        """
        if not self.path.exists() and self.draft_path.exists():
            draft = _read(self.draft_path)
            if tail is not None and draft is not None and draft.entry == tail:
                self.confirm()
        self._drop(self.draft_path)
        if not self.path.exists():
            return None
        plan = _read(self.path)
        if plan is None:
            raise JournalBroken(f"{self.path} cannot be read: restore it from a backup")
        return plan

    def clear(self) -> None:
        """Forget the change: it is carried out."""
        self._drop(self.path)

    def _drop(self, path: Path) -> None:
        with file_errors(path):
            path.unlink(missing_ok=True)


def pending_domain(state: Path) -> str:
    """Return the domain an unfinished change belongs to, "" without one; changes nothing."""
    journal = Journal(state)
    for path in (journal.path, journal.draft_path):
        if path.exists():
            plan = _read(path)
            return plan.domain if plan else ""
    return ""


def _read(path: Path) -> Plan | None:
    with file_errors(path):
        content = path.read_bytes()
    try:
        return Plan.model_validate_json(content)
    except ValidationError:
        return None
