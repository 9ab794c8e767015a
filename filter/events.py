"""What is appended about an answer that was given lessons: that it was, and what users thought."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

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


class EventRecord(FrozenModel):
    """What both events hold."""

    keys: Annotated[tuple[Annotated[str, Field(max_length=80), LINE], ...], Field(max_length=64)]
    message_ref: Reference
    user_ref: Note = ""
    at: Moment


class Usage(EventRecord):
    """Which lessons a chat model was shown, and how the answer ended."""

    outcome: Note = ""

    @property
    def id(self) -> str:
        """One per answer and user, so that a repeat changes nothing."""
        return digest("used", self.message_ref, self.user_ref)

    def to_record(self) -> Record:
        """Return the Chroma row; the document only names the type."""
        own = self.model_dump(mode="json", exclude={"keys"}) | {"type": "used"}
        return Record(self.id, "used", with_lists(own, keys=self.keys))

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of ours."""
        meta = dict(record.metadata)
        if meta.pop("type", None) != "used":
            raise InvalidLesson("type: is not 'used'")
        return cls.build(keys=tuple(meta.pop("keys", ())), **meta)  # type: ignore[arg-type]


class Rating(EventRecord):
    """A user's thumb on an answer that was given lessons."""

    outcome: Annotated[str, Field(pattern=r"^(up|down)$")]

    @property
    def id(self) -> str:
        """One per answer and user: a changed mind replaces the first rating."""
        return digest("rating", self.message_ref, self.user_ref)
