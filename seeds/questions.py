"""Questions about seeds, `NAME.questions.yaml`: what people ask, and which seeds answer it.

    - id: q-serial-by-key
      question: how long did SN 4711 run last month?
      relevant: [serial-by-key]       ids of seeds; an empty list: no seed answers it
      style: plain                    optional, as is suggested (what an import proposed)

`lessons seed import` writes them as stubs, without a question: those are refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from lessons_loop.seeds.load import SeedProblems
from lessons_loop.seeds.parse import Entry, Problem, SeedFields, read_entries

QUESTION_FIELDS = SeedFields(
    text=("id", "question", "suggested", "style"),
    lists=("relevant",),
    all=("id", "question", "relevant", "style", "suggested"),
    what="question",
    article="a question",
)


class SeedQuestion(NamedTuple):
    """One question and the ids of the seeds that answer it."""

    id: str
    question: str
    relevant: tuple[str, ...]
    style: str


def read_seed_questions(path: Path, known: Collection[str]) -> tuple[SeedQuestion, ...]:
    """Return a file's questions; raise SeedProblems with every mistake, stubs included."""
    entries, problems = read_entries(path, path.name, QUESTION_FIELDS)
    seen: set[str] = set()
    for entry in entries:
        problems += [*entry.problems, *_mistakes(entry, known)]
        if entry.label in seen:
            problems.append(entry.problem("id", "was used before"))
        seen.add(entry.label)
    if problems:
        raise SeedProblems(sorted(problems))
    return tuple(_question(entry) for entry in entries)


def _mistakes(entry: Entry, known: Collection[str]) -> Iterator[Problem]:
    if not entry.label:
        yield entry.problem("id", "is missing")
    if not str(entry.fields.get("question", "")).strip():
        yield entry.problem("question", "is empty: still a stub, write what somebody would ask")
    if "relevant" not in entry.fields:
        yield entry.problem("relevant", "is missing: [] says that no seed answers it")
    for ident in _question(entry).relevant:
        if ident not in known:
            yield entry.problem("relevant", f"names {ident[:80]}, which is no seed")


def _question(entry: Entry) -> SeedQuestion:
    relevant = entry.fields.get("relevant", ())
    return SeedQuestion(
        entry.label,
        str(entry.fields.get("question", "")),
        relevant if isinstance(relevant, tuple) else (),
        str(entry.fields.get("style", "plain")),
    )
