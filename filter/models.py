"""What the loop stores: lessons, candidates with their evidence, events.

Every model is frozen and refuses unknown fields. `to_record` and `from_record`
turn one into a Chroma row and back without loss; what Chroma or UTF-8 would
refuse later (lone surrogates, NUL) is refused here, with the field's name.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lessons_loop.filter.errors import InvalidLesson
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


class Kind(StrEnum):
    """What a lesson is about; the one definition every producer and check reads."""

    SCHEMA_MAP = "schema-map"
    PERF_GUARD = "perf-guard"
    RESOLUTION_PATTERN = "resolution-pattern"
    FAIL_FIX = "fail-fix"


KIND_MEANINGS: dict[Kind, str] = {
    Kind.SCHEMA_MAP: "where data lives, what a column, field, unit or parameter means",
    Kind.PERF_GUARD: "protects from cost, slowness or running out of something",
    Kind.RESOLUTION_PATTERN: "a way of doing it that works for a class of questions",
    Kind.FAIL_FIX: "a failure and what cures it",
}


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
    return text


def _single_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("has more than one line")
    return text


Text = Annotated[str, AfterValidator(_storable)]
Filled = Annotated[Text, AfterValidator(_filled)]
Line = Annotated[Filled, AfterValidator(_single_line)]
DomainName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Tag = Annotated[Line, Field(max_length=TAG_LENGTH)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


class _Frozen(BaseModel):
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


class Lesson(_Frozen):
    """One short instruction a reader without context can follow."""

    domain: DomainName
    text: Annotated[Line, Field(max_length=TEXT_LIMIT)]
    kind: Kind
    trigger: Annotated[Line, Field(max_length=TRIGGER_LIMIT)]
    """The class of question it applies to."""
    tags: Annotated[tuple[Tag, ...], Field(max_length=TAG_LIMIT)] = ()
    status: Status = Status.CANDIDATE
    source: Annotated[Line, Field(max_length=80)] = "distill"
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


class Evidence(_Frozen):
    """Why a candidate deserves belief, checkable again by the gate."""

    kind: EvidenceKind
    quote: Annotated[Filled, Field(min_length=QUOTE_MIN, max_length=QUOTE_LIMIT)]
    """Verbatim from the excerpt."""
    excerpt: Annotated[Filled, Field(max_length=EXCERPT_LIMIT)]
    """The cited transcript lines, masked."""
    tools: Annotated[tuple[Tag, ...], Field(max_length=16)] = ()


class Candidate(_Frozen):
    """A proposed lesson: never shown to a chat model."""

    lesson: Lesson
    evidence: Evidence
    message_ref: Annotated[Line, Field(max_length=128)]
    """Hash of the answer's message id; with the key it makes the id."""
    chat_ref: Annotated[Text, Field(max_length=128)] = ""
    user_ref: Annotated[Text, Field(max_length=128)] = ""
    """HMAC of the user id under the installation's salt."""
    model: Annotated[Text, Field(max_length=200)] = ""
    prompt: Annotated[Text, Field(max_length=80)] = ""
    """Version of the distill prompt."""
    at: Annotated[Line, Field(max_length=32)]
    """When it was staged, ISO 8601, UTC."""

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


class Curated(_Frozen):
    """A lesson the gate accepted, with its counters; public to everybody who can chat."""

    lesson: Lesson
    hits: Count = 0
    successes: Count = 0
    failures: Count = 0
    occurrences: Count = 0
    distinct_users: Count = 0
    last_used: Annotated[Text, Field(max_length=32)] = ""
    since: Annotated[Line, Field(max_length=32)]
    """When it was promoted, ISO 8601, UTC."""
    supersedes: Annotated[Text, Field(max_length=128)] = ""
    seed_id: Annotated[Text, Field(max_length=120)] = ""
    ledger_ref: Count = 0
    """Number of the ledger line that took the lesson in."""
    verdict_ref: Count = 0
    """Number of the ledger line that decided on it."""
    rev: Count = 0

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


class _Event(_Frozen):
    keys: Annotated[tuple[Annotated[Line, Field(max_length=80)], ...], Field(max_length=64)]
    message_ref: Annotated[Line, Field(max_length=128)]
    user_ref: Annotated[Text, Field(max_length=128)] = ""
    at: Annotated[Line, Field(max_length=32)]


class Usage(_Event):
    """Which lessons a chat model was shown, and how the answer ended."""

    outcome: Annotated[Text, Field(max_length=40)] = ""

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


class Rating(_Event):
    """A user's thumb on an answer that was given lessons."""

    outcome: Annotated[str, Field(pattern=r"^(up|down)$")]

    @property
    def id(self) -> str:
        """One per answer and user: a changed mind replaces the first rating."""
        return digest("rating", self.message_ref, self.user_ref)


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
