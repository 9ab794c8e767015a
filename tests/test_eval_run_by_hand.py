"""`lessons eval run --judge manual`: a person at a real pseudo terminal, arms hidden, resumable."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.trials import Grade
from support.evaluating_runs import practice_model, question_folder

TALK = """\
- {id: hello, topic: talk, question: Say hello., rubric: It is polite.}
- {id: thanks, topic: talk, question: Thank you!, rubric: It is polite.}
"""
PROMPT = "[q]uit "


def graded_at_terminal(words: list[str], keys: list[str]) -> tuple[int, str]:
    """Run a command at a pseudo terminal; each key answers one prompt."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", *words]
    env = os.environ | {"NO_COLOR": "1", "COLUMNS": "80"}
    child = subprocess.Popen(command, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen, waiting, deadline = "", list(keys), time.monotonic() + 180
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 65536).decode("utf-8", "replace")
            except OSError:  # the other end is closed
                break
            if waiting and seen.count(PROMPT) > len(keys) - len(waiting):
                os.write(master, f"{waiting.pop(0)}\n".encode())
    code = child.wait(timeout=30)
    os.close(master)
    return code, seen


def test_person_grades_what_no_check_can(tmp_path: Path) -> None:
    questions, out = question_folder(tmp_path, TALK), tmp_path / "run"
    with practice_model() as server:
        words = ["eval", "run", "--questions", str(questions), "--agent-url", server.url]
        words += ["--agent-model", "practice-model", "--arms", "aa", "--runs", "1"]
        words += ["--judge", "manual", "--out", str(out)]
        code, seen = graded_at_terminal(words, ["p", "q"])
    assert code == 1 and "answers are unjudged" in seen  # one question is still open
    grading = seen[seen.index("graded 0 of 4") : seen.index("grades given are kept")]
    assert "off" not in grading and "again" not in grading
    assert [t.grade for t in RunFolder(out).trials()].count(Grade.PASS) == 2
    code, seen = graded_at_terminal(["eval", "run", "--resume", str(out)], ["f"])
    assert code == 0, seen
    grades = {t.question: (t.grade, t.graded_by[:6]) for t in RunFolder(out).trials()}
    assert sorted(grades.values()) == [(Grade.FAIL, "manual"), (Grade.PASS, "manual")]
