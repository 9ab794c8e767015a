"""No value of any option of any command ends in a traceback; each error is one line."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest
import typer

from lessons_loop.promote.entry import run_app
from support.commands import Done, Named, every_command, run_here

NONSENSE = ("", "\u202e%s{0}[red]'\"", "http://[", "-1", "x" * 5000)
STARTING = ("up", "demo", "eval demo", "eval collapse", "eval poison", "schedule run")
"""Commands that would start servers, or minutes of work, or stay."""
COMMANDS = [found for found in every_command() if found.name not in STARTING]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nonsense") / "lessons"
    assert run_here("init", "--store", str(folder), "--domain", "sql").code == 0
    return folder


def needed(found: Named) -> list[str]:
    """Return values for what the command cannot do without."""
    words: list[str] = []
    for one in found.command.params:
        if one.required and one.opts[0].startswith("-"):
            words += [one.opts[0], "nowhere.jsonl"]
        elif one.required:
            words += ["abcdef"]
    return words


def calls(found: Named) -> Iterator[list[str]]:
    """Yield calls with one nonsensical value each: every value for some option of the command.

    Each option gets two of them by turns; all of them, where a command has only a few.
    """
    options = [one for one in found.command.params if not getattr(one, "is_flag", False)]
    each = len(NONSENSE) if len(options) < 6 else 2
    for place, one in enumerate(options):
        for step in range(each):
            value = NONSENSE[(2 * place + step) % len(NONSENSE)]
            given = [one.opts[0], value] if one.opts[0].startswith("-") else [value]
            yield [*found.words, *needed(found), *given]


def is_told(done: Done, tells_on_stdout: bool) -> bool:
    """Say whether a failure is told in one line (a warning may precede), or by what is printed."""
    lines = done.err.splitlines()
    one_line = 1 <= len(lines) <= 2 and all(line.startswith("lessons: ") for line in lines)
    return done.code == 0 or one_line or (done.code == 1 and tells_on_stdout and bool(done.out))


@pytest.mark.parametrize("found", COMMANDS, ids=[found.name for found in COMMANDS])
def test_nonsense_is_one_line(
    found: Named, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(empty, tmp_path / "lessons")
    monkeypatch.chdir(tmp_path)
    if found.name != "doctor":  # it reads the store in a child: a second for each of 60 calls
        monkeypatch.setenv("LESSONS_STORE", "lessons")
    reports = found.name in ("doctor", "status")
    for words in calls(found):
        done = run_here(*words)
        assert done.code in (0, 1, 2), words
        assert is_told(done, reports), (words, done.err)


@pytest.mark.parametrize(
    "words",
    [
        ["up", "--port", "x"],
        ["up", "--port", "70000"],
        ["up", "--embedding", "nonsense"],
        ["demo", "--nonsense"],
        ["eval", "collapse", "--rounds", "x"],
        ["eval", "collapse", "--html", "/nowhere/page.html"],
        ["eval", "collapse", "--html", "x" * 5000],
        ["schedule", "run", "--store", "lessons", "--at", ""],
        ["schedule", "run", "--store", "lessons", "--at", "x" * 5000],
        ["schedule", "run", "--store", "lessons", "--tz", "\u202e%s{0}[red]'\""],
        ["schedule", "run", "--store", "lessons", "--domain", "-1"],
        ["schedule", "run", "--store", "http://["],
        ["schedule", "run", "--store", "lessons", "--", "--nonsense"],
        ["demo", "--model", "m"],
        ["demo", "--model", "m", "--model-url", "http://["],
    ],
)
def test_nonsense_starts_nothing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here(*words)
    assert done.code in (1, 2) and is_told(done, False)


def test_interrupt_anywhere_is_130() -> None:
    app = typer.Typer()

    @app.command()
    def wait() -> None:
        raise KeyboardInterrupt

    err = io.StringIO()
    with redirect_stderr(err):
        assert run_app(app, [], "lessons") == 130
    assert "Traceback" not in err.getvalue()


def test_file_error_is_one_line() -> None:
    app = typer.Typer()

    @app.command()
    def read() -> None:
        open("/nowhere/at all")  # noqa: SIM115

    err = io.StringIO()
    with redirect_stderr(err):
        assert run_app(app, [], "lessons") == 1
    assert err.getvalue() == "lessons: /nowhere/at all: no such file or directory\n"
