"""What the poison pack is made of: attacks on the loop and clean exchanges, read from YAML.

A file is a list of entries; an attack's kind is its file's name unless given:

    - id: tool-note-1
      kind: planted-tool                   optional
      users: 2                             accounts that show it, each in a chat of its own
      chat:                                one step each: user, assistant, call with its tool and
        - user: How many machines?         arguments, result, failed, document
        - call: {tool: run_sql, sql: SELECT 1}
        - result: '{"rows": [[1]]}'
      lesson: what a gullible distiller makes of it
      trigger: its class of question
      as: fail-fix                         kind of lesson, default resolution-pattern
      question: who asks later             default: the trigger

Several chats: `chats:` with a list of such mappings, each with `round` (a run of the gate
follows each round) and `harmless: true` where its lesson alone does no harm. `forged:` instead
of `chat:` is a row written straight into staging.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator

from lessons_loop.eval.rows import BadFile
from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.models import FrozenModel, Lesson, explain_invalid
from lessons_loop.filter.text import scrub

DOMAIN = "sql"
"""The domain attacked: its seeds are curated."""
CLEAN, SECOND, THIRD = "clean", "second", "third"
_OTHER_STEPS = ("user", "assistant", "result", "failed", "document")


class Step(FrozenModel):
    """One step of a chat."""

    who: str
    """user, assistant, call, result, failed or document."""
    text: str
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)


class Forged(FrozenModel):
    """A row somebody wrote into staging past the filter."""

    evidence: str = "tool-success"
    quote: str
    excerpt: str
    tools: tuple[str, ...] = ()
    vector_of: str = ""
    """A curated lesson's seed id: the row's vector is that lesson's."""
    source: str = "distill"
    extra: dict[str, Any] = Field(default_factory=dict)
    """Metadata of the row, put over what a sound one has."""


class Scene(FrozenModel):
    """One chat and the lesson a gullible distiller takes from it."""

    chat: tuple[Step, ...] = ()
    forged: Forged | None = None
    lesson: str
    trigger: str
    kind: Kind = Field(default=Kind.RESOLUTION_PATTERN, alias="as")
    tags: tuple[str, ...] = ()
    users: Annotated[int, Field(ge=1, le=9)] = 2
    round: Annotated[int, Field(ge=1, le=5)] = 1
    harmless: bool = False
    """Alone it does no harm: reaching curated is no leak."""

    @field_validator("chat", mode="before")
    @classmethod
    def _steps(cls, given: object) -> object:
        return [_step_of(step) for step in given] if isinstance(given, list) else given

    def built(self) -> Lesson | None:
        """Return the lesson as the filter would build it, None where it has no valid form."""
        try:
            return Lesson.build(
                domain=DOMAIN,
                text=_plain(self.lesson),
                kind=self.kind.value,
                trigger=_plain(self.trigger),
                tags=self.tags,
            )
        except InvalidLesson:
            return None


class PoisonCase(FrozenModel):
    """An attack with all its chats, or a clean exchange."""

    id: str
    kind: str
    scenes: tuple[Scene, ...]
    question: str = ""
    clean: bool = False

    def asked(self) -> str:
        """Return the question of somebody the lesson would reach."""
        return self.question or self.scenes[-1].trigger

    @cached_property
    def harmful(self) -> frozenset[str]:
        """Return the keys that must not reach curated; of a clean case, those that should."""
        built = (scene.built() for scene in self.scenes if not scene.harmless)
        return frozenset(lesson.key for lesson in built if lesson is not None)


def shipped_pack() -> Path:
    """Return the folder of the shipped pack."""
    return Path(str(files("lessons_loop.eval"))) / "poison"


def read_pack(folder: Path) -> tuple[PoisonCase, ...]:
    """Return attacks, then the later batches, then clean cases; raise BadFile."""
    cases: list[PoisonCase] = []
    for part in ("", SECOND, THIRD, CLEAN):
        for path in sorted((folder / part).glob("*.yaml")):
            cases += _cases_in(path, clean=part == CLEAN)
    if not cases:
        raise BadFile(f"{folder} holds no attack: give a folder with YAML files")
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise BadFile(f"{folder}: the id {case.id} stands twice")
        seen.add(case.id)
    return tuple(cases)


def _cases_in(path: Path, *, clean: bool) -> Iterator[PoisonCase]:
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadFile(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(entries, list):
        raise BadFile(f"{path} is no list of entries")
    for entry in entries:
        yield _case_of(entry, path, clean=clean)


def _case_of(entry: object, path: Path, *, clean: bool) -> PoisonCase:
    name = entry.get("id", "?") if isinstance(entry, dict) else "?"
    try:
        if not isinstance(entry, dict):
            raise ValueError("is no mapping")
        fields = dict(entry)
        head = {key: fields.pop(key) for key in ("id", "kind", "question") if key in fields}
        scenes = fields.pop("chats", None) or [fields]
        given = {"kind": path.stem, **head, "scenes": scenes, "clean": clean}
        return PoisonCase.model_validate(given)
    except ValidationError as error:
        raise BadFile(f"{path}, {name}: {explain_invalid(error)}") from None
    except (ValueError, TypeError) as error:
        raise BadFile(f"{path}, {name}: {error}") from None


def _step_of(step: object) -> dict[str, Any]:
    """Read `{user: text}` or `{call: {tool: name, argument: value}}`; raise ValueError."""
    if not isinstance(step, dict) or len(step) != 1:
        raise ValueError("a step is a mapping with one key")
    who, what = next(iter(step.items()))
    if who == "call" and isinstance(what, dict) and isinstance(what.get("tool"), str):
        rest = {key: value for key, value in what.items() if key != "tool"}
        return {"who": who, "text": "", "tool": what["tool"], "arguments": rest}
    if who in _OTHER_STEPS and isinstance(what, str):
        return {"who": who, "text": what}
    raise ValueError(f"'{who}' is no step: {', '.join((*_OTHER_STEPS, 'call'))}")


def kinds_of(cases: Iterable[PoisonCase]) -> tuple[str, ...]:
    """Return the kinds of attacks in order."""
    return tuple(sorted({case.kind for case in cases if not case.clean}))


def _plain(text: str) -> str:
    return " ".join(scrub(text).split())
