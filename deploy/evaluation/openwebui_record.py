"""What was asked of an Open WebUI and what its page was told: recorded, and read again later."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons_loop.deploy.evaluation.openwebui_checks import Chosen
from lessons_loop.deploy.evaluation.openwebui_read import read_answer
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, Arm
from lessons_loop.filter.errors import LessonsError

RECORD = "openwebui.jsonl"
NOT_RECORDED = "not recorded: this question was never asked in this arm with this seed"


def exchange_key(question: EvalQuestion, arm: Arm, seed: int) -> str:
    """Return what one exchange is found by: sha256 of question, arm and seed."""
    told = json.dumps([question.id, list(question.messages), arm.value, seed], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


class Record:
    """The file of one run; each exchange is one line, readable by its owner only."""

    def __init__(self, folder: Path, chosen: Chosen) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self.chosen = folder / RECORD, chosen
        self._writing, self._looked = threading.Lock(), False

    def add(
        self,
        question: EvalQuestion,
        arm: Arm,
        seed: int,
        told: Sequence[Mapping[str, Any]],
        answer: Answer,
    ) -> None:
        """Append one exchange; raise LessonsError where the disk does not take it."""
        line = {
            "key": exchange_key(question, arm, seed),
            "question": question.id,
            "arm": arm.value,
            "seed": seed,
            "request": {
                "model": self.chosen.model,
                "tool_ids": list(self.chosen.tools),
                "system": self.chosen.system,
                "messages": list(question.messages),
            },
            "told": list(told),
            "seconds": answer.seconds,
            "outage": answer.outage,
        }
        text = json.dumps(line, ensure_ascii=False) + "\n"
        try:
            with self._writing, os.fdopen(os.open(self.file, FLAGS, 0o600), "ab") as out:
                out.write(self._after_torn() + text.encode("utf-8", "replace"))
        except OSError as error:
            raise LessonsError(f"{self.file} cannot be written: {error.strerror}") from None

    def _after_torn(self) -> bytes:
        """Return what ends a line that a kill left unfinished."""
        if self._looked:
            return b""
        self._looked = True
        content = self.file.read_bytes()
        return b"" if not content or content.endswith(b"\n") else b"\n"


FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def read_record(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the recorded exchanges by key, of one asked twice the last; raise LessonsError.

    A torn last line of a killed run counts as not recorded.
    """
    file = folder / RECORD
    try:
        lines = file.read_bytes().split(b"\n")  # a text may hold other line ends
    except OSError as error:
        raise LessonsError(f"{file} cannot be read: {error.strerror}") from None
    found = [exchange for line in lines if (exchange := exchange_of(line))]
    return {str(exchange["key"]): exchange for exchange in found}


def exchange_of(line: bytes) -> dict[str, Any]:
    """Return one line's exchange, empty where it is none."""
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    whole = isinstance(content, dict) and {"key", "told", "seconds", "request"} <= set(content)
    return content if whole else {}


class ReplayedAgent:
    """Answers from a record; no Open WebUI is asked."""

    def __init__(self, folder: Path) -> None:
        self.exchanges = read_record(folder)
        models = sorted({str(one["request"].get("model")) for one in self.exchanges.values()})
        self.name = f"{', '.join(models) or 'nothing'}, recorded in {folder.name}"

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        """Return what was recorded; what was not is an outage."""
        found = self.exchanges.get(exchange_key(question, arm, seed))
        if found is None:
            return Answer(outage=NOT_RECORDED)
        model = str(found["request"].get("model"))
        if outage := str(found.get("outage") or ""):
            return Answer(outage=outage, seconds=float(found["seconds"]), model=model)
        return read_answer(found["told"], float(found["seconds"]), model)
