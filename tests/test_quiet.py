from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from lessons_loop.promote.quiet import busy, working
from support.judging import at_terminal
from support.processes import soon


def test_quick_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with busy("opening the store …"):
        pass
    assert capsys.readouterr() == ("", "")


def test_long_work_says_once_what_it_is_at(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []

    def told() -> list[str]:
        shown.extend(capsys.readouterr().err.splitlines())
        return shown

    with working("opening …", 1.0) as at_work:
        at_work("embedding …")
        assert soon(told)
        time.sleep(1.5)
    assert told() == ["lessons: embedding …"]


def test_failing_work_prints_nothing_later(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ValueError), working("opening …", 60.0):
        raise ValueError
    assert soon(lambda: not set(threading.enumerate()) - before, 30)  # nobody is left to print
    assert capsys.readouterr() == ("", "")


def test_terminal_sees_a_spinner_that_goes_away() -> None:
    code, seen = at_terminal("doctor", env={**os.environ, "TERM": "xterm"}, keys=[])
    assert code == 0
    assert "checking" in seen and "\x1b[?25h" in seen  # the cursor is back


def test_interrupted_work_leaves_no_traceback() -> None:
    script = (
        "import time; from lessons_loop.promote.quiet import busy\n"
        "with busy('waiting'): time.sleep(0.1); raise KeyboardInterrupt"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "lessons: waiting" not in done.stderr
