"""Read seed files and hand them to the gate: running it twice changes nothing.

A domain is a folder of YAML or JSON files, each a list of lessons (or of directives, where
the name ends in .guide.yaml: seeds/guide.py):

    - id: serial-by-key           unique in the domain; a changed lesson supersedes by it
      text: Look a machine up by …
      kind: schema-map
      trigger: finding a machine by its serial number
      tags: [serial, machine]     optional, as are note and origin (kept in the file only)

Covered: wrong shapes, repeated keys and ids, unquoted colons, hidden characters,
secrets; every problem of all files is told at once, with file, line, lesson and field.
Not covered: whether a lesson is good advice; a seed is trusted as the code it ships with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import Lesson
from lessons_loop.filter.redact import find_sensitive
from lessons_loop.promote.exchange.intake import IntakeReport, take_in
from lessons_loop.promote.lint.hidden import find_hidden, find_lookalikes
from lessons_loop.promote.records import Actor
from lessons_loop.promote.session import GateSession
from lessons_loop.seeds.guide import as_seed_entries, is_guide
from lessons_loop.seeds.parse import FIELDS, GUIDE_FIELDS, Entry, Problem, read_entries

SUFFIXES = (".yaml", ".yml", ".json")
QUESTIONS = ".questions"
"""NAME.questions.yaml beside NAME.yaml holds questions for an evaluation, no seeds."""
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


@dataclass(frozen=True)
class Seed:
    """One lesson of a seed file."""

    id: str
    lesson: Lesson
    file: str
    line: int
    note: str = ""
    origin: str = ""
    """Text, or a mapping as JSON."""


class SeedSet(NamedTuple):
    """What a domain's files hold."""

    domain: str
    seeds: tuple[Seed, ...]
    empty: tuple[str, ...]
    """Files without a lesson."""


class SeedProblems(InvalidLesson):
    """Seed files with mistakes: nothing of any of them is loaded."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def shipped_domains() -> dict[str, Path]:
    """Return the domains this installation ships: folder name to folder."""
    root = Path(str(files("lessons_loop.seeds")))
    return {folder.name: folder for folder in sorted(root.iterdir()) if seed_files(folder)}


def seed_files(folder: Path) -> list[Path]:
    """Return a folder's seed files in order."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if path.suffix in SUFFIXES)
    return sorted(path for path in found if not path.stem.endswith(QUESTIONS))


def read_seeds(folder: Path, domain: str = "") -> SeedSet:
    """Return a domain's seeds; the domain is the folder's name unless given.

    Raises SeedProblems with every mistake of all files.
    """
    domain = domain or folder.name
    if not folder.is_dir():
        raise SeedProblems([Problem(str(folder), 0, "", "", "is no folder of seed files")])
    problems: list[Problem] = []
    seeds: list[Seed] = []
    empty: list[str] = []
    for path in seed_files(folder):
        name = f"{folder.name}/{path.name}"
        entries, found = _entries_for(path, name, domain)
        problems += found
        if not entries and not found:
            empty.append(name)
        for entry in entries:
            problems += (wrong := list(check_entry(entry, domain)))
            if not wrong:
                seeds.append(to_seed(entry, domain))
    problems += find_repeats(seeds)
    if problems:
        raise SeedProblems(sorted(problems))
    return SeedSet(domain, tuple(seeds), tuple(empty))


def _entries_for(path: Path, name: str, domain: str) -> tuple[list[Entry], list[Problem]]:
    """Return a file's entries for a domain; those of a guide become entries of a seed file."""
    if not is_guide(path):
        return read_entries(path, name)
    entries, problems = read_entries(path, name, GUIDE_FIELDS)
    return list(as_seed_entries(entries, domain)), problems


def load_domain(session: GateSession, folder: Path, force: bool = False) -> IntakeReport:
    """Read a folder's seeds into the session's domain; raise SeedProblems, EmbedError."""
    return load_seeds(session, read_seeds(folder, session.domain), force)


def load_seeds(session: GateSession, found: SeedSet, force: bool = False) -> IntakeReport:
    """Offer seeds to the gate, each under its id; raise EmbedError before anything is written."""
    actor = Actor(kind="seed", name=f"seed:{found.domain}")
    return take_in(session, [(seed.lesson, seed.id) for seed in found.seeds], actor, force)


def check_entry(entry: Entry, domain: str) -> Iterator[Problem]:
    """Yield what is wrong with one entry's fields."""
    yield from entry.problems
    ident = entry.fields.get("id", "")
    if not isinstance(ident, str) or not _ID.fullmatch(ident):
        rule = entry.id_rule or "must be lower-case letters, digits, '.', '_', '-', at most 80"
        yield entry.problem("id", rule if entry.label else "is missing")
    bad = {problem.field for problem in entry.problems}
    try:
        Lesson(**_lesson_fields(entry, domain))
    except ValidationError as error:
        for detail in error.errors(include_input=False, include_url=False):
            field = str(detail["loc"][0])
            if entry.names.get(field, field) not in bad:
                yield entry.problem(field, _in_words(detail))
    yield from _check_characters(entry)


def _in_words(detail: Mapping[str, Any]) -> str:
    if detail["type"] == "missing":
        return "is missing"
    if detail["type"] in ("too_long", "string_too_long"):
        limit = detail["ctx"]["max_length"]
        return f"is longer than {limit} {'tags' if detail['loc'] == ('tags',) else 'characters'}"
    return str(detail["msg"]).removeprefix("Value error, ")


def _check_characters(entry: Entry) -> Iterator[Problem]:
    for field, text in entry.texts():
        for hidden in find_hidden(text):
            yield entry.problem(field, f"contains hidden character {hidden.code} {hidden.name}")
        for word in find_lookalikes(text):
            codes = " ".join(f"U+{ord(c):04X}" for c in word if ord(c) > 127)
            yield entry.problem(field, f"contains look-alike letters {codes}")
        for finding in find_sensitive(text):
            yield entry.problem(field, f"contains {finding.kind}: seeds are public")


def _lesson_fields(entry: Entry, domain: str) -> dict[str, Any]:
    own = {name: entry.fields[name] for name in FIELDS.lesson if name in entry.fields}
    return own | {"domain": domain, "source": f"seed:{domain}"}


def to_seed(entry: Entry, domain: str) -> Seed:
    """Return a checked entry as a seed."""
    return Seed(
        id=str(entry.fields["id"]),
        lesson=Lesson.build(**_lesson_fields(entry, domain)),
        file=entry.file,
        line=entry.line,
        note=str(entry.fields.get("note", "")),
        origin=str(entry.fields.get("origin", "")),
    )


def find_repeats(seeds: Sequence[Seed]) -> Iterator[Problem]:
    """Yield ids and lessons that occur a second time, in whatever file."""
    by_id: dict[str, Seed] = {}
    by_key: dict[str, Seed] = {}
    for seed in seeds:
        if (first := by_id.setdefault(seed.id, seed)) is not seed:
            message = f"was used before, in {first.file}:{first.line}"
            yield Problem(seed.file, seed.line, seed.id, "id", message)
        if (same := by_key.setdefault(seed.lesson.key, seed)) is not seed:
            message = f"says the same as lesson {same.id}"
            yield Problem(seed.file, seed.line, seed.id, "text", message)
