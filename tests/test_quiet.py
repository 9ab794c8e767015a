from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from lessons_loop.promote.quiet import busy, working
from support.judging import at_terminal


def test_quick_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with busy("opening the store …"):
        pass
    assert capsys.readouterr() == ("", "")


def test_long_work_says_once_what_it_is_at(capsys: pytest.CaptureFixture[str]) -> None:
    with working("opening …", 0.2) as at_work:
        at_work("embedding …")
        time.sleep(0.8)
    assert capsys.readouterr() == ("", "lessons: embedding …\n")


def test_failing_work_prints_nothing_later(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), working("opening …", 0.3):
        raise ValueError
    time.sleep(0.5)
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
