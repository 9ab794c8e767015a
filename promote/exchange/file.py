"""Lessons as JSON Lines: one a line, sorted, without anything of anybody's chat.

    {"domain":…,"id":…,"kind":…,"source":…,"status":…,"tags":[…],"text":…,"trigger":…, counters}

Covered when read: damage of any kind told with file, line and field, all of it at once; bad
UTF-8, huge files and lines, names twice in an object, lessons twice, ids that do not belong
to their text, hidden and look-alike characters, secrets.
Not covered: whether a lesson is good advice; the gate's checks say what they see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import Curated, Lesson, Status
from lessons_loop.filter.redact import find_sensitive
from lessons_loop.filter.schema import refuse_newer
from lessons_loop.promote.decide.plan import OUT_OF_USE
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.lint.hidden import find_hidden, find_lookalikes
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.records import Archived

LINE_LIMIT = 16_384
"""Bytes; the longest lesson, escaped, takes about 8,000."""
FILE_LIMIT = 256 * 2**20
TOLD = 20
"""Mistakes told one by one."""
LESSON_FIELDS = ("text", "kind", "trigger", "tags", "status", "source", "domain")
COUNTERS = ("hits", "successes", "failures", "occurrences", "distinct_users", "last_used")
OTHER_FIELDS = ("id", "seed_id", "since", "reason", *COUNTERS)
IMPORTED = (Status.CURATED, *OUT_OF_USE)


class Offered(NamedTuple):
    """One lesson of a file."""

    line: int
    lesson: Lesson
    seed_id: str = ""
    reason: str = ""
    """Of an archived one: why it is out of use."""


class BadFile(InvalidLesson):
    """A file with mistakes: nothing of it is taken in."""


def exported(row: Curated | Archived) -> dict[str, Any]:
    """Return a lesson as a line holds it: no candidate, no sighting, no reference."""
    lesson = row.lesson
    curated = row if isinstance(row, Curated) else row.curated
    found: dict[str, Any] = {"id": lesson.key, **lesson.model_dump(mode="json")}
    if curated is not None:
        found |= {name: getattr(curated, name) for name in COUNTERS}
        found |= {"since": curated.since, "seed_id": curated.seed_id}
    if isinstance(row, Archived):
        found["reason"] = mask_through(row.reason)
    return found


def as_lines(rows: Iterable[Curated | Archived]) -> str:
    """Return the file's content: the same rows give the same bytes."""
    found = sorted(map(exported, rows), key=lambda one: (one["status"], one["id"]))
    return "".join(map(_line, found))


def _line(fields: dict[str, Any]) -> str:
    line = json.dumps(fields, ensure_ascii=False, sort_keys=True)
    if find_hidden(line):  # it may be shown on a terminal
        line = json.dumps(fields, sort_keys=True)
    return line + "\n"


def read_lessons(path: Path, domain: str) -> list[Offered]:
    """Return a file's lessons; raise BadFile with every mistake, StoreError."""
    with file_errors(path):
        if path.stat().st_size > FILE_LIMIT:
            raise BadFile(f"{path}: is larger than {FILE_LIMIT // 2**20} MB")
        lines = path.read_bytes().split(b"\n")
    found: list[Offered] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            offered = _parsed(number, line, domain)
        except InvalidLesson as error:
            problems += [f"{path}:{number}: {part}" for part in str(error).split("\n")]
            continue
        if (first := seen.setdefault(_identity(offered), number)) != number:
            problems.append(f"{path}:{number}: is the lesson of line {first}")
            continue
        found.append(offered)
    if problems:
        raise BadFile("\n".join(_few(problems)))
    return found


def _identity(offered: Offered) -> str:
    return f"{offered.lesson.key}-{offered.lesson.status.value}"


def _few(problems: Sequence[str]) -> list[str]:
    rest = len(problems) - TOLD
    return [*problems[:TOLD], *([f"and {rest} more"] if rest > 0 else [])]


def _parsed(number: int, line: bytes, domain: str) -> Offered:
    if len(line) > LINE_LIMIT:
        raise InvalidLesson(f"is longer than {LINE_LIMIT} bytes")
    fields = _fields(line)
    try:
        lesson = Lesson(**{"domain": domain} | {n: fields[n] for n in LESSON_FIELDS if n in fields})
    except ValidationError as error:
        raise InvalidLesson("\n".join(_in_words(error))) from None
    problems = [*_wrong_characters(lesson), *_wrong_place(lesson, fields, domain)]
    if problems:
        raise InvalidLesson("\n".join(problems))
    return Offered(number, lesson, str(fields.get("seed_id", "")), str(fields.get("reason", "")))


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line.decode("utf-8"), object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise InvalidLesson("is no UTF-8") from None
    except (ValueError, RecursionError):
        raise InvalidLesson("is no JSON") from None
    if not isinstance(fields, dict):
        raise InvalidLesson("is no JSON object")
    refuse_newer(fields, "the lesson")
    if strange := sorted(set(fields) - {*LESSON_FIELDS, *OTHER_FIELDS}):
        raise InvalidLesson(f"{strange[0][:40]!r}: is no field of a lesson")
    for name in ("seed_id", "reason"):
        if not isinstance(fields.get(name, ""), str) or len(fields.get(name, "")) > 200:
            raise InvalidLesson(f"{name}: must be a text of at most 200 characters")
    tags = fields.get("tags", [])
    return fields | {"tags": tuple(tags) if isinstance(tags, list) else tags}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidLesson("names a field twice")
    return found


def _in_words(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_input=False, include_url=False):
        where = ".".join(str(step) for step in detail["loc"]) or "lesson"
        yield f"{where}: {str(detail['msg']).removeprefix('Value error, ')}"


def _wrong_place(lesson: Lesson, fields: Mapping[str, Any], domain: str) -> Iterator[str]:
    if lesson.domain != domain:
        yield f"domain: is {lesson.domain}, not {domain}: see --domain"
    if lesson.status not in IMPORTED:
        yield f"status: {lesson.status.value} cannot be imported"
    if fields.get("id", lesson.key) != lesson.key:
        yield "id: does not belong to this domain, kind and text"


def _wrong_characters(lesson: Lesson) -> Iterator[str]:
    texts = {"text": lesson.text, "trigger": lesson.trigger, "source": lesson.source}
    for field, text in (*texts.items(), *(("tags", tag) for tag in lesson.tags)):
        for hidden in find_hidden(text):
            yield f"{field}: contains hidden character {hidden.code} {hidden.name}"
        for word in find_lookalikes(text):
            codes = " ".join(f"U+{ord(c):04X}" for c in word if ord(c) > 127)
            yield f"{field}: contains look-alike letters {codes}"
        for finding in find_sensitive(text):
            yield f"{field}: contains {finding.kind}"
