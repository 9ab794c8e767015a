"""One evaluation run on disk: its settings, its graded trials, its requests and replies.

    run.json         what was asked of whom, with which lessons; no secret
    questions.json   the questions by id
    lessons.json     the lessons some question recalls, and which question recalls which
    trials.jsonl     one graded trial a line, on disk before the next one counts
    exchanges.jsonl  every request and reply (see `agent_http`)
    report.json, report.html

Covered: kill -9 at any moment (a torn last line is dropped), two programs in one folder.
Not covered: a folder somebody edits meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lessons_loop.eval.question_set import EvalQuestion, QuestionSet, digest_of
from lessons_loop.eval.trials import Arm, Trial
from lessons_loop.filter.errors import LessonsError, StoreLocked
from lessons_loop.filter.models import Curated
from lessons_loop.filter.store import file_lock
from lessons_loop.promote.files import file_errors, private_folder, write_atomic

Identity = tuple[str, Arm, int]
"""Question, arm, run: what is one trial, however often it had to be asked."""
_DIGEST = re.compile(r"[0-9a-f]{40,}")
SAME = ("questions", "arms", "runs", "seed", "agent", "lessons", "embedding", "judge")
"""Parts of run.json that may not change while a run goes on."""
FREE = frozenset({"url", "folder", "title", "rev"})
"""Within them: where things are, which may move."""


class OtherRun(LessonsError):
    """The folder holds a run with other settings, or none at all."""


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings_file = path / "run.json"
        self.questions_file = path / "questions.json"
        self.lessons_file = path / "lessons.json"
        self.trials_file = path / "trials.jsonl"
        self.exchanges_file = path / "exchanges.jsonl"
        self.report_json, self.report_html = path / "report.json", path / "report.html"
        self._writing = threading.Lock()

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.settings_file.is_file()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other programs out; raise OtherRun where one is at work, StoreError."""
        private_folder(self.path)
        try:
            with file_lock(self.path / ".lock", 0.0):
                yield
        except StoreLocked:
            raise OtherRun(f"{self.path} is being worked on by another program") from None

    def begin(self, settings: Mapping[str, Any]) -> bool:
        """Note the settings; return False where the same run was begun before.

        Raises OtherRun where another one was, or the folder holds something else.
        """
        if self.exists:
            self._refuse_other(settings)
            return False
        if any(one.name != ".lock" for one in self.path.iterdir()):
            raise OtherRun(f"{self.path} holds files and no run: give another --out")
        self.write_settings(settings)
        return True

    def _refuse_other(self, settings: Mapping[str, Any]) -> None:
        before = self.settings()
        for part in SAME:
            for name, one, other in _differing(part, before.get(part), settings.get(part)):
                raise OtherRun(
                    f"{self.path} was begun with {name} {_told(one)}, not {_told(other)}: "
                    "give the same again, or another --out"
                )

    def settings(self) -> dict[str, Any]:
        """Return run.json; raise OtherRun where there is none that can be read."""
        try:
            found = json.loads(self.settings_file.read_text("utf-8"))
        except FileNotFoundError:
            raise OtherRun(f"{self.path} holds no run: it has no run.json") from None
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise OtherRun(f"{self.settings_file} cannot be read")
        return found

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write run.json in one step; raise StoreError."""
        write_atomic(self.settings_file, json.dumps(settings, indent=2).encode())

    def keep_questions(self, questions: QuestionSet) -> None:
        """Note the questions, for a report that shows what was asked; raise StoreError."""
        rows = {one.id: one.model_dump(mode="json") for one in questions.questions}
        write_atomic(self.questions_file, json.dumps(rows).encode())

    def kept_questions(self) -> QuestionSet:
        """Return the questions the run asked; raise OtherRun where they cannot be read."""
        try:
            rows = json.loads(self.questions_file.read_text("utf-8"))
            found = [EvalQuestion.model_validate(rows[name]) for name in sorted(rows)]
            domain = str(self.settings()["questions"]["name"])
        except (OSError, ValueError, KeyError, TypeError):
            raise OtherRun(f"{self.questions_file} cannot be read: give --questions") from None
        return QuestionSet(domain=domain, questions=tuple(found), digest=digest_of(found))

    def keep_lessons(
        self, lessons: Iterable[Curated], recalled: Mapping[str, Sequence[str]]
    ) -> None:
        """Note the lessons questions recall, and each question's keys; raise StoreError."""
        rows = [one.model_dump(mode="json", exclude={"proof"}) for one in lessons]
        content = {"lessons": rows, "recalled": {name: list(k) for name, k in recalled.items()}}
        write_atomic(self.lessons_file, json.dumps(content).encode())

    def kept_lessons(self) -> tuple[dict[str, Curated], dict[str, tuple[str, ...]]]:
        """Return the lessons by key and the keys by question; empty where none were kept."""
        try:
            found = json.loads(self.lessons_file.read_text("utf-8"))
            rows = [Curated.model_validate(one) for one in found["lessons"]]
            recalled = {name: tuple(keys) for name, keys in found["recalled"].items()}
        except FileNotFoundError:
            return {}, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise OtherRun(f"{self.lessons_file} cannot be read") from None
        return {one.key: one for one in rows}, recalled

    def trials(self) -> list[Trial]:
        """Return the graded trials, the last word on each, in the order they came; raise OtherRun.

        A torn last line is no trial.
        """
        found: dict[Identity, Trial] = {}
        for number, line in enumerate(self._whole_lines(), 1):
            try:
                trial = Trial.model_validate_json(line)
            except ValidationError:
                raise OtherRun(f"{self.trials_file} line {number} is no trial") from None
            found[identity(trial)] = trial
        return list(found.values())

    def append(self, trial: Trial) -> None:
        """Add a trial; it is on disk when this returns. Raises StoreError."""
        line = trial.model_dump_json().encode() + b"\n"
        with self._writing, file_errors(self.trials_file):
            handle = os.open(self.trials_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)

    def drop_torn_line(self) -> None:
        """Cut a last line that a crash left unfinished; raise StoreError."""
        with file_errors(self.trials_file):
            if not self.trials_file.exists():
                return
            content = self.trials_file.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self.trials_file, whole)

    def _whole_lines(self) -> list[bytes]:
        try:
            content = self.trials_file.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise OtherRun(f"{self.trials_file} cannot be read: {error.strerror}") from None
        return content[: content.rfind(b"\n") + 1].splitlines()


def identity(trial: Trial) -> Identity:
    """Return which trial it is."""
    return trial.question, trial.arm, trial.run


def _differing(name: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names and values that differ, places of things left out."""
    if isinstance(one, dict) and isinstance(other, dict):
        for part in sorted({*one, *other} - FREE):
            yield from _differing(f"{name}.{part}", one.get(part), other.get(part))
    elif one != other:
        yield name, one, other


def _told(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[: 12 if _DIGEST.fullmatch(text) else 60] or "none"
