"""What the gate writes: archived lessons, changes, verdicts, and who decided."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import Candidate, Curated, Lesson, Record, Status
from lessons_loop.promote.decay.uses import Use

_WORD = re.compile(r"[a-z][a-z-]{0,30}\Z")


class Action(StrEnum):
    """What a ledger line records."""

    PROMOTE = "promote"
    HOLD = "hold"
    REJECT = "reject"
    DUPLICATE = "duplicate"
    SUPERSEDE = "supersede"
    RETIRE = "retire"
    SEED = "seed"
    FOLD = "fold"
    RE_EMBED = "re-embed"
    INIT = "init"
    RESTORE = "restore"
    DEMOTE = "demote"
    REVIVE = "revive"
    PURGE = "purge"
    FORGET = "forget"
    IMPORT = "import"
    PROVE = "prove"

    @classmethod
    def _missing_(cls, value: object) -> Action | None:
        """Read a later release's action: its line is part of the chain, and decides nothing here.

        Only where that release took the store back to this one's schema: else nothing is read.
        """
        if not isinstance(value, str) or not _WORD.match(value):
            return None
        found = str.__new__(cls, value)
        found._name_, found._value_ = value.upper().replace("-", "_"), value
        return found


class Actor(BaseModel):
    """Who decided: a person, a reviewing model, a rule, or the seed loader."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Annotated[str, Field(pattern=r"^(human|llm|rule|seed)$")]
    name: str = ""
    """Login name, or the rule."""
    model: str = ""
    prompt: str = ""
    """Version of the review prompt, where a model decided."""


class Archived(BaseModel):
    """A lesson out of use, or never let in: text, why, and what it came with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lesson: Lesson
    reason: str
    at: str
    ledger_ref: int = 0
    candidate: Candidate | None = None
    """What staging held, so that a held lesson can be judged again."""
    sightings: tuple[Candidate, ...] = ()
    """Further sightings of a held lesson, so that users can be counted later."""
    curated: Curated | None = None
    """What curated held, counters included."""

    @property
    def all_sightings(self) -> tuple[Candidate, ...]:
        """Return every sighting the row came with."""
        return ((self.candidate,) if self.candidate else ()) + self.sightings

    @property
    def id(self) -> str:
        """One row per lesson and status: a later decision of the same sort replaces it."""
        return f"{self.lesson.key}-{self.lesson.status.value}"

    def to_record(self) -> Record:
        """Return the Chroma row: plain fields to filter by, the whole as JSON."""
        whole = self.model_dump_json()
        meta = {"key": self.lesson.key, "status": self.lesson.status.value, "archived": whole}
        return Record(self.id, self.lesson.text, dict(meta))

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of ours."""
        try:
            return cls.model_validate_json(str(record.metadata.get("archived")))
        except ValueError:
            raise InvalidLesson(f"archive row {record.id} is unreadable") from None

    @property
    def status(self) -> Status:
        """Why it is here: held, rejected, stale or superseded."""
        return self.lesson.status


class Decision(StrEnum):
    """What the gate does with one candidate."""

    PROMOTE = "promote"
    HOLD = "hold"
    REJECT = "reject"
    DUPLICATE = "duplicate"
    SKIP = "skip"
    """Stays as it is: nobody decided, or it stands so already."""
    DEMOTE = "demote"
    """Out of curated; a person only, or decay."""
    REVIVE = "revive"
    """Back into curated; a person only."""


@dataclass(frozen=True)
class Neighbour:
    """The curated lesson nearest to a candidate."""

    curated: Curated
    similarity: float
    """Cosine, -1 to 1: of trigger and text or of text alone, whichever is greater."""
    relation: str
    """duplicate, conflict, related or unrelated."""
    differences: tuple[str, ...] = ()
    """Words, numbers or identifiers only one of the two has."""


@dataclass(frozen=True)
class Verdict:
    """The gate's answer on one group of candidates, with reasons."""

    decision: Decision
    rule: str
    """Short name of the deciding rule, such as `quote-not-found` or `min-users`."""
    reason: str
    """One sentence for people."""
    actor: Actor
    neighbour: Neighbour | None = None


@dataclass(frozen=True)
class Change:
    """One decision with its effects, as absolute new values: applying it twice changes nothing.

    `GateSession.apply` is the only way to carry one out.
    """

    action: Action
    key: str
    reason: str
    actor: Actor
    payload: dict[str, object]
    """What the decision was about; stored by its sha256 beside the ledger."""
    put: tuple[Curated, ...] = ()
    """Curated rows as they shall be; ledger_ref, verdict_ref and rev are filled in by `apply`."""
    vectors: Vectors | None = None
    """Unit rows for `put`, same order; None: keep the stored ones."""
    remove: tuple[str, ...] = ()
    """Keys that leave curated; each must stand in `archive` or already in the archive."""
    archive: tuple[Archived, ...] = ()
    staged: tuple[str, ...] = ()
    """Candidate ids to delete from staging."""
    events: tuple[str, ...] = field(default=())
    """Event ids to delete from staging."""
    unarchive: tuple[str, ...] = ()
    """Archive ids (`Archived.id`) that leave the archive: restore, purge and forget only."""
    stage: tuple[Record, ...] = ()
    """Candidate rows to put back into staging; an id that is there stays as it is."""
    stage_events: tuple[Record, ...] = ()
    """Event rows to put back."""
    uses: tuple[Use, ...] = ()
    """Rows of the use register as they shall be."""
    drop_uses: tuple[str, ...] = ()
    """Ids that leave the use register."""
    same_vectors: frozenset[str] = frozenset()
    """Keys of `put` whose stored vectors are those of `vectors`: Chroma needs 5 ms to write one
    again, 0.3 ms for the fields alone (measured)."""
