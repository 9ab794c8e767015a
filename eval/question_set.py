"""Question sets: held-out questions with the checks that decide whether an answer passes.

A folder of YAML files, `eval/questions/<domain>/*.yaml`, each a list of questions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from lessons_loop.eval.question_entries import Entry, load_yaml, read_entries
from lessons_loop.eval.rows import BadFile
from lessons_loop.filter.models import FrozenModel
from lessons_loop.promote.counting import many

FILE_LIMIT = 5_000_000
"""Bytes of one question file."""
MISTAKES_SHOWN = 20
SHIPPED = Path(__file__).parent / "questions"


class EvalQuestion(FrozenModel):
    """One held-out question."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    messages: tuple[dict[str, Any], ...]
    """In the OpenAI chat format; the last one is the user's."""
    topic: str
    """Questions of one topic are not independent of each other."""
    checks: tuple[dict[str, Any], ...] = ()
    """Each a mapping as in the file; see `checks`."""
    rubric: str = ""
    """What a judge decides by, where no check can."""
    covers: tuple[str, ...] = ()
    """Ids of the seeds that should help; empty: none does."""
    control: bool = False
    """Unrelated, or about refusing: lessons must change nothing here."""


class QuestionSet(FrozenModel):
    """A folder of questions."""

    domain: str
    questions: tuple[EvalQuestion, ...]
    digest: str
    """sha256 over the questions: another digest is another set."""


def questions_folder(given: str) -> Path:
    """Return the folder a user names: a shipped one by its bare name, else a path.

    Raises BadFile. A folder of one's own that is called like a shipped one is `./sql`.
    """
    if given in shipped_sets():
        return SHIPPED / given
    folder = Path(given).expanduser()
    if not folder.is_dir():
        shipped = ", ".join(shipped_sets()) or "none"
        raise BadFile(f"{given} is no folder of question files; shipped sets: {shipped}")
    return folder


def shipped_sets() -> tuple[str, ...]:
    """Return the names of the question sets that come with the project."""
    folders = sorted(path.name for path in SHIPPED.iterdir() if path.is_dir())
    return tuple(name for name in folders if name != "everyday")


def read_question_set(folder: Path) -> QuestionSet:
    """Return the questions of a folder's YAML files, sorted by id.

    Raises BadFile with the whole list of mistakes, each with its file and entry.
    """
    files = sorted(path for path in folder.glob("*.y*ml") if path.suffix in (".yaml", ".yml"))
    if not files:
        raise BadFile(f"{folder} holds no question file (*.yaml)")
    read = [(path.name, entry) for path in files for entry in _entries(path)]
    mistakes = [*_named_mistakes(read), *_repeated(read)]
    if mistakes:
        raise BadFile(_all_of(folder, mistakes))
    questions = [EvalQuestion(**entry.fields) for _, entry in read]
    questions.sort(key=lambda question: question.id)
    name = folder.resolve().name
    return QuestionSet(domain=name, questions=tuple(questions), digest=digest_of(questions))


def digest_of(questions: Sequence[EvalQuestion]) -> str:
    """Return the sha256 (hex) over what questions say, in whatever order and spelling of YAML."""
    told = sorted((question.model_dump(mode="json") for question in questions), key=_id)
    line = json.dumps(told, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(line.encode()).hexdigest()


def _id(question: dict[str, Any]) -> str:
    return str(question["id"])


def _entries(path: Path) -> Iterator[Entry]:
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise BadFile(f"{path} has more than {FILE_LIMIT:,} bytes")
        found = load_yaml(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {getattr(error, 'strerror', 'not UTF-8')}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadFile(f"{path}{_where(error)}") from None
    yield from read_entries(found)


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f" line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or "nested too deep or not readable"
    return f"{line} is no YAML: {problem}"


def _named_mistakes(read: Sequence[tuple[str, Entry]]) -> Iterator[str]:
    for file, entry in read:
        for mistake in entry.mistakes:
            yield f"{file}: {entry.name + ': ' if entry.name else ''}{mistake}"


def _repeated(read: Sequence[tuple[str, Entry]]) -> Iterator[str]:
    first: dict[str, str] = {}
    for file, entry in read:
        name = entry.fields.get("id", "")
        if name and name in first:
            yield f"{file}: {name}: this id stands in {first[name]} too"
        first.setdefault(name, file)


def _all_of(folder: Path, mistakes: Sequence[str]) -> str:
    shown = "; ".join(mistakes[:MISTAKES_SHOWN])
    more = len(mistakes) - MISTAKES_SHOWN
    count = many(len(mistakes), "mistake")
    return f"{folder}: {count}: {shown}" + (f"; and {more} more" if more > 0 else "")
