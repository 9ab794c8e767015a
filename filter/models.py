"""What the loop stores: lessons, candidates with their evidence, events.

Every model is frozen and refuses unknown fields; recall, which only reads, leaves them out before.
`to_record` and `from_record` turn one into a Chroma row and back without loss; what Chroma or
UTF-8 would refuse later (lone surrogates, NUL) is refused here, with the field's name.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.text import digest, normalise

TEXT_LIMIT = 400
TRIGGER_LIMIT = 160
TAG_LIMIT = 8
TAG_LENGTH = 40
QUOTE_MIN = 12
QUOTE_LIMIT = 400
EXCERPT_LIMIT = 1200
_LONE = re.compile("[\ud800-\udfff]")

Scalar = str | int | float | bool
Metadata = dict[str, Scalar | list[str]]


class Status(StrEnum):
    """Where a lesson stands in its life."""

    CANDIDATE = "candidate"
    CURATED = "curated"
    HELD = "held"
    REJECTED = "rejected"
    STALE = "stale"
    SUPERSEDED = "superseded"


class EvidenceKind(StrEnum):
    """What in the exchange proved the lesson; derived by code from the cited lines."""

    TOOL_SUCCESS = "tool-success"
    CHANGED_CALL = "changed-call"
    CONFIRMED_CORRECTION = "confirmed-correction"


class Record(NamedTuple):
    """One Chroma row without its vector."""

    id: str
    document: str
    metadata: Metadata


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("contains a NUL character")
    if _LONE.search(text):
        raise ValueError("contains half of a surrogate pair")
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return _storable(text)


def _single_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("has more than one line")
    return _filled(text)


STORABLE = AfterValidator(_storable)
FILLED = AfterValidator(_filled)
LINE = AfterValidator(_single_line)
"""These stand behind a length bound, so that the bound's message counts characters."""
DomainName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Tag = Annotated[str, Field(max_length=TAG_LENGTH), LINE]
Reference = Annotated[str, Field(max_length=128), LINE]
Note = Annotated[str, Field(max_length=200), STORABLE]
Moment = Annotated[str, Field(max_length=32), LINE]
"""ISO 8601, UTC."""
Count = Annotated[int, Field(ge=0, lt=2**53)]


class FrozenModel(BaseModel):
    """Base: frozen, no unknown fields, errors as one line of ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """Validate `fields`; raise InvalidLesson with one line naming each bad field."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InvalidLesson(explain_invalid(error)) from None


def explain_invalid(error: ValidationError) -> str:
    """Say in one line which fields are wrong and why; values are not repeated."""
    parts = []
    for item in error.errors(include_input=False, include_url=False):
        where = ".".join(str(step) for step in item["loc"]) or "record"
        parts.append(f"{where}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)


class Lesson(FrozenModel):
    """One short instruction a reader without context can follow."""

    domain: DomainName
    text: Annotated[str, Field(max_length=TEXT_LIMIT), LINE]
    kind: Kind
    trigger: Annotated[str, Field(max_length=TRIGGER_LIMIT), LINE]
    """The class of question it applies to."""
    tags: Annotated[tuple[Tag, ...], Field(max_length=TAG_LIMIT)] = ()
    status: Status = Status.CANDIDATE
    source: Annotated[str, Field(max_length=80), LINE] = "distill"
    """Producer label, such as `seed:sql`, `distill`, `taught`."""

    @property
    def key(self) -> str:
        """Identity outside staging: sha256 of normalised domain, kind and text."""
        return digest(normalise(self.domain), self.kind.value, normalise(self.text))

    @property
    def embedded_text(self) -> str:
        """What is embedded for recall: the trigger, then the text."""
        return f"{self.trigger}\n{self.text}"

    @property
    def searched_text(self) -> str:
        """The words it is found by: trigger, text and tags."""
        return "\n".join([self.trigger, self.text, *self.tags])


class Evidence(FrozenModel):
    """Why a candidate deserves belief, checkable again by the gate."""

    kind: EvidenceKind
    quote: Annotated[str, Field(min_length=QUOTE_MIN, max_length=QUOTE_LIMIT), FILLED]
    """Verbatim from the excerpt."""
    excerpt: Annotated[str, Field(max_length=EXCERPT_LIMIT), FILLED]
    """The cited transcript lines, masked."""
    tools: Annotated[tuple[Tag, ...], Field(max_length=16)] = ()


class Candidate(FrozenModel):
    """A proposed lesson: never shown to a chat model."""

    lesson: Lesson
    evidence: Evidence
    message_ref: Reference
    """Hash of the answer's message id; with the key it makes the id."""
    chat_ref: Note = ""
    user_ref: Note = ""
    """HMAC of the user id under the installation's salt."""
    model: Note = ""
    prompt: Note = ""
    """Version of the distill prompt."""
    seal: Note = ""
    """HMAC under the installation's salt: see `seal_of`."""
    at: Moment
    """When it was staged, ISO 8601, UTC."""

    @model_serializer(mode="wrap")
    def _as_schema_1_where_it_can(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_empty(whole(self), "seal")

    @property
    def id(self) -> str:
        """Key plus hash of the message: seeing a lesson again is another row."""
        return f"{self.lesson.key}-{digest(self.message_ref)[:16]}"

    def to_record(self) -> Record:
        """Return the Chroma row."""
        lesson, evidence = self.lesson, self.evidence
        own = self.model_dump(mode="json", exclude={"lesson", "evidence"})
        proof = {"quote": evidence.quote, "excerpt": evidence.excerpt}
        metadata = lesson_metadata(lesson) | own | proof | {"evidence_kind": evidence.kind.value}
        return Record(self.id, lesson.text, with_lists(metadata, tools=evidence.tools))

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of ours."""
        meta = dict(record.metadata)
        evidence = {
            "kind": meta.pop("evidence_kind", None),
            "quote": meta.pop("quote", None),
            "excerpt": meta.pop("excerpt", None),
            "tools": tuple(meta.pop("tools", ())),  # type: ignore[arg-type]
        }
        lesson = take_lesson(record.document, meta)
        found = cls.build(lesson=lesson, evidence=evidence, **meta)
        if found.id != record.id:
            raise InvalidLesson("id: does not belong to this content")
        return found


class Curated(FrozenModel):
    """A lesson the gate accepted, with its counters; public to everybody who can chat."""

    lesson: Lesson
    hits: Count = 0
    successes: Count = 0
    failures: Count = 0
    occurrences: Count = 0
    distinct_users: Count = 0
    last_used: Note = ""
    since: Moment
    """When it was promoted, ISO 8601, UTC."""
    supersedes: Note = ""
    seed_id: Note = ""
    ledger_ref: Count = 0
    """Number of the ledger line that took the lesson in."""
    verdict_ref: Count = 0
    """Number of the ledger line that decided on it."""
    rev: Count = 0
    proof: Annotated[str, Field(max_length=2000), STORABLE] = ""
    """What an evaluation measured about it, as JSON; written by the gate alone."""

    @model_serializer(mode="wrap")
    def _as_schema_1_where_it_can(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_empty(whole(self), "proof")

    @property
    def key(self) -> str:
        """The lesson's key, the row's id."""
        return self.lesson.key

    def to_record(self) -> Record:
        """Return the Chroma row."""
        own = self.model_dump(mode="json", exclude={"lesson"})
        return Record(self.key, self.lesson.text, lesson_metadata(self.lesson) | own)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of ours."""
        meta = dict(record.metadata)
        found = cls.build(lesson=take_lesson(record.document, meta), **meta)
        if found.key != record.id:
            raise InvalidLesson("id: does not belong to this content")
        return found


def without_empty(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave a field out that a later schema brought, where it says nothing: see `schema.py`."""
    if fields.get(name) == "":
        del fields[name]
    return fields


CURATED_FIELDS = frozenset((*Lesson.model_fields, *Curated.model_fields)) - {"lesson", "text"}
"""Names of a curated row's metadata."""


def lesson_metadata(lesson: Lesson) -> Metadata:
    """Return a lesson's payload as Chroma metadata; its text is the document."""
    plain = lesson.model_dump(mode="json", exclude={"text", "tags"})
    return with_lists(plain, tags=lesson.tags)


def take_lesson(document: str, meta: dict[str, Any]) -> Lesson:
    """Build the lesson from a row, removing its fields from `meta`."""
    fields = {
        name: meta.pop(name)
        for name in ("domain", "kind", "trigger", "status", "source")
        if name in meta
    }
    return Lesson.build(text=document, tags=tuple(meta.pop("tags", ())), **fields)


def with_lists(metadata: Metadata, **lists: tuple[str, ...]) -> Metadata:
    """Add list values, leaving out empty ones: Chroma refuses `[]`."""
    return metadata | {name: list(values) for name, values in lists.items() if values}
