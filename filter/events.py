"""What is appended about an answer that was given lessons: that it was, and what users thought.

Older rows lack the fields that came later and read as before.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from lessons_loop.filter.alerts import lessons_log
from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import (
    LINE,
    FrozenModel,
    Moment,
    Note,
    Record,
    Reference,
    with_lists,
)
from lessons_loop.filter.text import digest

RATING_REASONS = frozenset(
    (
        *("accurate_information", "followed_instructions_perfectly", "showcased_creativity"),
        *("positive_attitude", "attention_to_detail", "thorough_explanation"),
        *("dont_like_the_style", "too_verbose", "not_helpful", "not_factually_correct"),
        *("didnt_fully_follow_instructions", "refused_when_it_shouldnt_have", "being_lazy"),
        "other",
    )
)
"""The words Open WebUI's reason form sends; any other is a text of somebody's and is not kept."""
COUNTS_LIMIT = 200
USAGE_SHARE = "LESSONS_USAGE_SHARE"
"""Percent of the answers whose use and thumbs are noted; unset: all."""
EventKeys = Annotated[tuple[Annotated[str, Field(max_length=80), LINE], ...], Field(max_length=64)]
_COUNT_LINE = re.compile(r"^[a-z0-9][a-z0-9:_. -]{0,59}=[0-9]{1,15}\Z")
CountLine = Annotated[str, Field(pattern=_COUNT_LINE)]


class EventRecord(FrozenModel):
    """What all events hold; `kind` is the row's type and its document."""

    kind: ClassVar[str]
    lists: ClassVar[tuple[str, ...]] = ("keys",)

    message_ref: Reference
    """Hash of the answer's message id."""
    user_ref: Note = ""
    """HMAC of the user's id: who asked, of a rating who rated."""
    chat_ref: Note = ""
    at: Moment

    @property
    def id(self) -> str:
        """One per answer and user, so that a repeat changes nothing."""
        return digest(self.kind, self.message_ref, self.user_ref)

    def to_record(self) -> Record:
        """Return the Chroma row; the document only names the type."""
        own = self.model_dump(mode="json", exclude=set(self.lists)) | {"type": self.kind}
        return Record(
            self.id, self.kind, with_lists(own, **{n: getattr(self, n) for n in self.lists})
        )

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of this type."""
        meta: dict[str, Any] = dict(record.metadata)
        if meta.pop("type", None) != cls.kind:
            raise InvalidLesson(f"type: is not {cls.kind!r}")
        for name in cls.lists:
            found = meta.get(name, ())
            meta[name] = tuple(found) if isinstance(found, list | tuple) else found
        return cls.build(**meta)


class Usage(EventRecord):
    """Which lessons a chat model was shown, and how the answer ended."""

    kind: ClassVar[str] = "used"

    keys: EventKeys
    model: Note = ""
    """Id of the chat model."""
    outcome: Note = ""
    """The answer's finish reason."""
    tools: Literal["", "ok", "failed"] = ""
    """How the answer's tool calls ended; empty where none ran."""


class Rating(EventRecord):
    """A user's thumb on an answer; each change of mind is a row, the newest `at` counts."""

    kind: ClassVar[str] = "rating"

    keys: EventKeys = ()
    """References, as the block shows them, that the comment named; never the comment itself."""
    outcome: Literal["up", "down", "none"]
    """`none`: the thumb was taken back."""
    reason: Annotated[str, Field(pattern=r"^[a-z_]{0,40}$")] = ""
    """Open WebUI's word for why, one of RATING_REASONS, else empty."""

    @property
    def id(self) -> str:
        """One per change of a rating."""
        return digest(self.kind, self.message_ref, self.user_ref, self.at, self.outcome)


class Tally(EventRecord):
    """What one process counted since its last tally; the gate adds it up and deletes the row."""

    kind: ClassVar[str] = "tally"
    lists: ClassVar[tuple[str, ...]] = ("counts",)

    counts: Annotated[tuple[CountLine, ...], Field(max_length=COUNTS_LIMIT)]
    """`name=number`, sorted."""

    def totals(self) -> dict[str, int]:
        """Return the numbers by name."""
        pairs = (line.rpartition("=") for line in self.counts)
        return {name: int(number) for name, _, number in pairs}


def tally_of(name: str, counts: Mapping[str, int], at: str) -> Tally:
    """Return a tally of a name no other has; counters with an unfit name are left out."""
    pairs = [f"{counter}={number}" for counter, number in sorted(counts.items()) if number > 0]
    lines = [line for line in pairs if _COUNT_LINE.match(line)]
    return Tally(message_ref=digest(name, at), at=at, counts=tuple(lines[:COUNTS_LIMIT]))


def is_counted(message_ref: str, share: str) -> bool:
    """Say whether an answer is one of the share, in percent: the same ones in every process."""
    return zlib.crc32(message_ref.encode()) % 10_000 < 100 * usage_share(share)


@functools.cache
def usage_share(given: str) -> float:
    """Return a share in percent; what is none counts all answers and is told once."""
    try:
        share = float(given.strip().removesuffix("%") or 100)
    except ValueError:
        share = -1.0
    if 0 <= share <= 100:
        return share
    lessons_log.warning("%s: %.40r is no percentage, all answers are counted", USAGE_SHARE, given)
    return 100.0
